//! JWTs of trusted issuers that are no longer taken. Our own stand in `access_tokens`.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::{
    domain::{clock::Timestamp, ids::TenantId},
    store::{Change, Store, StoreError, Tx},
};

/// A JWT of another issuer that is no longer taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revocation {
    /// Its `iss`.
    pub issuer: String,
    /// Its `jti`.
    pub jti: String,
    /// Whose token, where that is known.
    pub tenant_id: Option<TenantId>,
    /// Since when.
    pub revoked_at: Timestamp,
    /// Its `exp`; the revocation may be forgotten after it, leeway included.
    pub expires_at: Timestamp,
}

impl Store {
    /// Revocations made at or after `since` (none: ever) whose JWT has not lapsed at `now`. For
    /// `since`, see [`list_revoked_tokens`](Self::list_revoked_tokens).
    pub async fn list_revocations(
        &self,
        since: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<Vec<Revocation>, StoreError> {
        type Row = (String, String, Option<Uuid>, DateTime<Utc>, DateTime<Utc>);
        let rows: Vec<Row> = reading!(self, conn => sqlx::query_as(
            "select
                issuer,
                jti,
                tenant_id,
                revoked_at,
                expires_at
            from revocations
            where revoked_at >= $1
                and expires_at > $2
            order by revoked_at",
        )
        .bind(since.unwrap_or_default().to_utc())
        .bind(now.to_utc())
        .fetch_all(conn))?;
        let revocation = |(issuer, jti, tenant_id, revoked_at, expires_at): Row| Revocation {
            issuer,
            jti,
            tenant_id: tenant_id.map(TenantId::from_uuid),
            revoked_at: revoked_at.into(),
            expires_at: expires_at.into(),
        };
        Ok(rows.into_iter().map(revocation).collect())
    }
}

impl Tx {
    /// Adds a revocation; one that stands already is left as it is.
    pub async fn add_revocation(&mut self, revocation: &Revocation) -> Result<(), StoreError> {
        self.changes(Change::Access);
        executing!(self, conn => sqlx::query(
            "insert into revocations (
                issuer,
                jti,
                tenant_id,
                revoked_at,
                expires_at
            ) values ($1, $2, $3, $4, $5)
            on conflict (issuer, jti) do nothing",
        )
        .bind(&revocation.issuer)
        .bind(&revocation.jti)
        .bind(revocation.tenant_id.map(TenantId::uuid))
        .bind(revocation.revoked_at.to_utc())
        .bind(revocation.expires_at.to_utc())
        .execute(conn))
        .map(|_| ())
    }

    /// Forgets revocations of JWTs that lapsed before `at`. Says how many.
    pub async fn remove_lapsed_revocations(&mut self, at: Timestamp) -> Result<u64, StoreError> {
        executing!(self, conn =>
            sqlx::query("delete from revocations where expires_at < $1").bind(at.to_utc()).execute(conn))
    }
}
