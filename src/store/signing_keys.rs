//! Signing keys of our own issuer.

use chrono::{DateTime, Utc};

use crate::{
    domain::{clock::Timestamp, secret::Sealed, signing_key::SigningKey},
    store::{Change, Store, StoreError, Tx},
};

#[derive(sqlx::FromRow)]
struct SigningKeyRow {
    kid: String,
    algorithm: String,
    public_key: Vec<u8>,
    private_key: Vec<u8>,
    created_at: DateTime<Utc>,
    retires_at: Option<DateTime<Utc>>,
}

impl From<SigningKeyRow> for SigningKey {
    fn from(row: SigningKeyRow) -> Self {
        Self {
            kid: row.kid,
            algorithm: row.algorithm,
            public_key: row.public_key,
            private_key: Sealed::from_bytes(row.private_key),
            created_at: row.created_at.into(),
            retires_at: row.retires_at.map(Timestamp::from),
        }
    }
}

impl Store {
    /// Every signing key, oldest first.
    pub async fn list_signing_keys(&self) -> Result<Vec<SigningKey>, StoreError> {
        let rows: Vec<SigningKeyRow> = reading!(self, conn => sqlx::query_as(
            "select
                kid,
                algorithm,
                public_key,
                private_key,
                created_at,
                retires_at
            from signing_keys
            order by created_at, kid",
        )
        .fetch_all(conn))?;
        Ok(rows.into_iter().map(SigningKey::from).collect())
    }
}

impl Tx {
    /// Adds a signing key. At a first start, call [`lock_first_start`](Self::lock_first_start) and
    /// look again before.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] on `kid`.
    pub async fn add_signing_key(&mut self, key: &SigningKey) -> Result<(), StoreError> {
        self.changes(Change::Access);
        executing!(self, conn => sqlx::query(
            "insert into signing_keys (
                kid,
                algorithm,
                public_key,
                private_key,
                created_at,
                retires_at
            ) values ($1, $2, $3, $4, $5, $6)",
        )
        .bind(&key.kid)
        .bind(&key.algorithm)
        .bind(&key.public_key)
        .bind(key.private_key.as_bytes())
        .bind(key.created_at.to_utc())
        .bind(key.retires_at.map(Timestamp::to_utc))
        .execute(conn))
        .map(|_| ())
    }

    /// Ends a key's signing now and its verifying at `retires_at`. Says whether there is such a key.
    pub async fn retire_signing_key(&mut self, kid: &str, retires_at: Timestamp) -> Result<bool, StoreError> {
        self.changes(Change::Access);
        let touched = executing!(self, conn =>
            sqlx::query("update signing_keys set retires_at = $2 where kid = $1")
                .bind(kid)
                .bind(retires_at.to_utc())
                .execute(conn))?;
        Ok(touched > 0)
    }

    /// Replaces a key's sealed private half if it is still `old`. Says whether it was.
    pub async fn reseal_signing_key(
        &mut self,
        kid: &str,
        old: &Sealed,
        new: &Sealed,
    ) -> Result<bool, StoreError> {
        self.changes(Change::Access);
        let touched = executing!(self, conn =>
            sqlx::query("update signing_keys set private_key = $3 where kid = $1 and private_key = $2")
                .bind(kid)
                .bind(old.as_bytes())
                .bind(new.as_bytes())
                .execute(conn))?;
        Ok(touched > 0)
    }

    /// Removes the keys that retired before `now`. Says how many.
    pub async fn remove_retired_signing_keys(&mut self, now: Timestamp) -> Result<u64, StoreError> {
        self.changes(Change::Access);
        executing!(self, conn =>
            sqlx::query("delete from signing_keys where retires_at is not null and retires_at < $1")
                .bind(now.to_utc())
                .execute(conn))
    }
}
