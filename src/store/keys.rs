//! Keys.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use sqlx::types::Json;
use uuid::Uuid;

use crate::{
    domain::{
        clock::Timestamp,
        ids::{KeyId, ProviderId, TenantId},
        key::{Key, KeyState},
        secret::Sealed,
    },
    store::{
        Change, Page, RemoveOutcome, Store, StoreError, Tx, UpdateOutcome,
        column::{Cell, limit_columns},
    },
};

/// Which keys; none everywhere: all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyFilter {
    /// In this provider's pool.
    pub provider_id: Option<ProviderId>,
    /// Of this tenant.
    pub tenant_id: Option<TenantId>,
}

#[derive(sqlx::FromRow)]
pub(super) struct KeyRow {
    id: Uuid,
    provider_id: Uuid,
    tenant_id: Option<Uuid>,
    label: String,
    secret: Vec<u8>,
    fingerprint: String,
    priority: i64,
    weight: i64,
    rpm: Option<i64>,
    tpm: Option<i64>,
    concurrency: Option<i64>,
    base_url: Option<String>,
    params: Json<BTreeMap<String, String>>,
    state: String,
    version: i64,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
}

impl TryFrom<KeyRow> for Key {
    type Error = StoreError;

    fn try_from(row: KeyRow) -> Result<Self, StoreError> {
        let id = KeyId::from_uuid(row.id);
        let cell = Cell::of("keys", &id);
        Ok(Self {
            id,
            provider_id: ProviderId::from_uuid(row.provider_id),
            tenant_id: row.tenant_id.map(TenantId::from_uuid),
            priority: cell.number("priority", row.priority)?,
            weight: cell.number("weight", row.weight)?,
            limits: cell.limits(row.rpm, row.tpm, row.concurrency)?,
            state: cell.variant("state", &row.state)?,
            label: row.label,
            secret: Sealed::from_bytes(row.secret),
            fingerprint: row.fingerprint,
            base_url: row.base_url,
            params: row.params.0,
            version: row.version,
            created_at: row.created_at.into(),
            updated_at: row.updated_at.into(),
        })
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "select
                id,
                provider_id,
                tenant_id,
                label,
                secret,
                fingerprint,
                priority,
                weight,
                rpm,
                tpm,
                concurrency,
                base_url,
                params,
                state,
                version,
                created_at,
                updated_at
            from keys ",
            $rest
        )
    };
}

/// All of them, for the catalog.
pub(super) const ALL: &str = select!("order by id");

const VERSION: &str = "select version from keys where id = $1";

impl Store {
    /// The key of this id.
    pub async fn lookup_key(&self, id: KeyId) -> Result<Option<Key>, StoreError> {
        let row: Option<KeyRow> = reading!(self, conn =>
            sqlx::query_as(select!("where id = $1")).bind(id.uuid()).fetch_optional(conn))?;
        row.map(Key::try_from).transpose()
    }

    /// The key of this label in a provider's pool.
    pub async fn find_key_by_label(
        &self,
        provider_id: ProviderId,
        label: &str,
    ) -> Result<Option<Key>, StoreError> {
        let row: Option<KeyRow> = reading!(self, conn =>
            sqlx::query_as(select!("where provider_id = $1 and label = $2"))
                .bind(provider_id.uuid())
                .bind(label)
                .fetch_optional(conn))?;
        row.map(Key::try_from).transpose()
    }

    /// Keys.
    pub async fn list_keys(&self, filter: &KeyFilter, page: Page) -> Result<Vec<Key>, StoreError> {
        let rows = listing!(self, KeyRow, select!("where true"), page, {
            "provider_id = ?" => filter.provider_id.map(ProviderId::uuid),
            "tenant_id = ?" => filter.tenant_id.map(TenantId::uuid),
        })?;
        rows.into_iter().map(Key::try_from).collect()
    }
}

impl Tx {
    /// Adds a key.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] on `label` or `fingerprint`, [`StoreError::Reference`] without its provider or
    /// tenant.
    pub async fn add_key(&mut self, key: &Key) -> Result<(), StoreError> {
        self.changes(Change::Catalog);
        let [rpm, tpm, concurrency] = limit_columns(&key.limits);
        executing!(self, conn => sqlx::query(
            "insert into keys (
                id,
                provider_id,
                tenant_id,
                label,
                secret,
                fingerprint,
                priority,
                weight,
                rpm,
                tpm,
                concurrency,
                base_url,
                params,
                state,
                version,
                created_at,
                updated_at
            ) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)",
        )
        .bind(key.id.uuid())
        .bind(key.provider_id.uuid())
        .bind(key.tenant_id.map(TenantId::uuid))
        .bind(&key.label)
        .bind(key.secret.as_bytes())
        .bind(&key.fingerprint)
        .bind(i64::from(key.priority))
        .bind(i64::from(key.weight))
        .bind(rpm)
        .bind(tpm)
        .bind(concurrency)
        .bind(key.base_url.as_deref())
        .bind(Json(&key.params))
        .bind(key.state.as_str())
        .bind(key.version)
        .bind(key.created_at.to_utc())
        .bind(key.updated_at.to_utc())
        .execute(conn))
        .map(|_| ())
    }

    /// Replaces everything of a key but its id and birth, if it still has `expected_version`.
    ///
    /// # Errors
    /// As [`add_key`](Self::add_key).
    pub async fn update_key(
        &mut self,
        key: &Key,
        expected_version: i64,
    ) -> Result<UpdateOutcome, StoreError> {
        self.changes(Change::Catalog);
        let [rpm, tpm, concurrency] = limit_columns(&key.limits);
        let updated = writing!(self, conn => sqlx::query_scalar(
            "update keys set
                provider_id = $3,
                tenant_id = $4,
                label = $5,
                secret = $6,
                fingerprint = $7,
                priority = $8,
                weight = $9,
                rpm = $10,
                tpm = $11,
                concurrency = $12,
                base_url = $13,
                params = $14,
                state = $15,
                updated_at = $16,
                version = version + 1
            where id = $1 and version = $2
            returning version",
        )
        .bind(key.id.uuid())
        .bind(expected_version)
        .bind(key.provider_id.uuid())
        .bind(key.tenant_id.map(TenantId::uuid))
        .bind(&key.label)
        .bind(key.secret.as_bytes())
        .bind(&key.fingerprint)
        .bind(i64::from(key.priority))
        .bind(i64::from(key.weight))
        .bind(rpm)
        .bind(tpm)
        .bind(concurrency)
        .bind(key.base_url.as_deref())
        .bind(Json(&key.params))
        .bind(key.state.as_str())
        .bind(key.updated_at.to_utc())
        .fetch_optional(conn))?;
        self.update_outcome(updated, VERSION, key.id.uuid()).await
    }

    /// Removes a key, if it still has `expected_version` where one is given.
    pub async fn remove_key(
        &mut self,
        id: KeyId,
        expected_version: Option<i64>,
    ) -> Result<RemoveOutcome, StoreError> {
        self.changes(Change::Catalog);
        let removed = writing!(self, conn => sqlx::query_scalar(
            "delete from keys where id = $1 and version = coalesce($2, version) returning version",
        )
        .bind(id.uuid())
        .bind(expected_version)
        .fetch_optional(conn))?;
        self.remove_outcome(removed, VERSION, id.uuid()).await
    }

    /// Puts a key in another state, whatever its version: for what the system finds out by itself.
    /// Says whether that changed anything.
    pub async fn set_key_state(
        &mut self,
        id: KeyId,
        state: KeyState,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.changes(Change::Catalog);
        let touched = executing!(self, conn => sqlx::query(
            "update keys set
                state = $2,
                updated_at = $3,
                version = version + 1
            where id = $1 and state <> $2",
        )
        .bind(id.uuid())
        .bind(state.as_str())
        .bind(now.to_utc())
        .execute(conn))?;
        Ok(touched > 0)
    }

    /// Replaces a key's sealed secret if it is still `old`, for sealing under a new data key; the
    /// version stays, the credential being the same. Says whether it was.
    pub async fn reseal_key(&mut self, id: KeyId, old: &Sealed, new: &Sealed) -> Result<bool, StoreError> {
        self.changes(Change::Catalog);
        let touched = executing!(self, conn =>
            sqlx::query("update keys set secret = $3 where id = $1 and secret = $2")
                .bind(id.uuid())
                .bind(old.as_bytes())
                .bind(new.as_bytes())
                .execute(conn))?;
        Ok(touched > 0)
    }
}
