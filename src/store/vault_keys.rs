//! The vault's data keys, sealed by a master key that never comes here.

use chrono::{DateTime, Utc};

use crate::{
    domain::{clock::Timestamp, secret::Sealed},
    store::{Store, StoreError, Tx, column::Cell},
};

/// A data key as the vault made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VaultKey {
    /// Its number, from 1; what was sealed under it says so.
    pub id: u32,
    /// Its bytes, sealed.
    pub sealed: Sealed,
    /// Whether new secrets are sealed under it: one at a time.
    pub active: bool,
    /// When it was made.
    pub created_at: Timestamp,
}

impl Store {
    /// Every data key, oldest number first.
    pub async fn list_vault_keys(&self) -> Result<Vec<VaultKey>, StoreError> {
        type Row = (i64, Vec<u8>, bool, DateTime<Utc>);
        let rows: Vec<Row> = reading!(self, conn => sqlx::query_as(
            "select
                id,
                sealed,
                active,
                created_at
            from vault_keys
            order by id",
        )
        .fetch_all(conn))?;
        let key = |(id, sealed, active, created_at): Row| {
            Ok(VaultKey {
                id: Cell::of("vault_keys", &id).number("id", id)?,
                sealed: Sealed::from_bytes(sealed),
                active,
                created_at: created_at.into(),
            })
        };
        rows.into_iter().map(key).collect()
    }
}

impl Tx {
    /// Adds a data key.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] on `id`: another replica made that number first.
    pub async fn add_vault_key(&mut self, key: &VaultKey) -> Result<(), StoreError> {
        executing!(self, conn => sqlx::query(
            "insert into vault_keys (id, sealed, active, created_at) values ($1, $2, $3, $4)",
        )
        .bind(i64::from(key.id))
        .bind(key.sealed.as_bytes())
        .bind(key.active)
        .bind(key.created_at.to_utc())
        .execute(conn))
        .map(|_| ())
    }

    /// Makes this data key the one that seals. Says whether there is such a key; if not, drop the
    /// transaction, for none seals in it.
    pub async fn activate_vault_key(&mut self, id: u32) -> Result<bool, StoreError> {
        executing!(self, conn => sqlx::query("update vault_keys set active = false where active").execute(conn))?;
        let touched = executing!(self, conn =>
            sqlx::query("update vault_keys set active = true where id = $1").bind(i64::from(id)).execute(conn))?;
        Ok(touched > 0)
    }

    /// Replaces the sealed bytes of a data key, for a new master key. Says whether there is such a
    /// key.
    pub async fn reseal_vault_key(&mut self, id: u32, sealed: &Sealed) -> Result<bool, StoreError> {
        let touched = executing!(self, conn => sqlx::query("update vault_keys set sealed = $2 where id = $1")
            .bind(i64::from(id))
            .bind(sealed.as_bytes())
            .execute(conn))?;
        Ok(touched > 0)
    }

    /// Removes a data key that seals nothing any more; never the active one. Says whether it went.
    pub async fn remove_vault_key(&mut self, id: u32) -> Result<bool, StoreError> {
        let touched = executing!(self, conn =>
            sqlx::query("delete from vault_keys where id = $1 and not active").bind(i64::from(id)).execute(conn))?;
        Ok(touched > 0)
    }
}
