//! Access tokens. The opaque text itself never comes here: its SHA-256 does.

use chrono::{DateTime, Utc};
use sqlx::types::Json;
use uuid::Uuid;

use crate::{
    domain::{
        clock::Timestamp,
        grant::Grants,
        ids::{AccessTokenId, MemberId, TenantId},
        tenant::AccessToken,
    },
    store::{
        Change, Page, Store, StoreError, Tx,
        column::{Cell, limit_columns},
    },
};

/// Which access tokens; none everywhere: all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AccessTokenFilter {
    /// Of this tenant.
    pub tenant_id: Option<TenantId>,
    /// Of this member.
    pub member_id: Option<MemberId>,
}

/// An access token that is no longer taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RevokedToken {
    /// Which; the `jti` of a JWT.
    pub id: AccessTokenId,
    /// Since when.
    pub revoked_at: Timestamp,
    /// When it would have lapsed by itself; none: never.
    pub expires_at: Option<Timestamp>,
}

#[derive(sqlx::FromRow)]
struct AccessTokenRow {
    id: Uuid,
    tenant_id: Option<Uuid>,
    member_id: Option<Uuid>,
    name: String,
    kind: String,
    role: String,
    grants: Option<Json<Grants>>,
    rpm: Option<i64>,
    tpm: Option<i64>,
    concurrency: Option<i64>,
    expires_at: Option<DateTime<Utc>>,
    revoked_at: Option<DateTime<Utc>>,
    created_at: DateTime<Utc>,
}

impl TryFrom<AccessTokenRow> for AccessToken {
    type Error = StoreError;

    fn try_from(row: AccessTokenRow) -> Result<Self, StoreError> {
        let id = AccessTokenId::from_uuid(row.id);
        let cell = Cell::of("access_tokens", &id);
        Ok(Self {
            id,
            tenant_id: row.tenant_id.map(TenantId::from_uuid),
            member_id: row.member_id.map(MemberId::from_uuid),
            kind: cell.variant("kind", &row.kind)?,
            role: cell.variant("role", &row.role)?,
            limits: cell.limits(row.rpm, row.tpm, row.concurrency)?,
            name: row.name,
            grants: row.grants.map(|json| json.0),
            expires_at: row.expires_at.map(Timestamp::from),
            revoked_at: row.revoked_at.map(Timestamp::from),
            created_at: row.created_at.into(),
        })
    }
}

macro_rules! columns {
    () => {
        "id,
        tenant_id,
        member_id,
        name,
        kind,
        role,
        grants,
        rpm,
        tpm,
        concurrency,
        expires_at,
        revoked_at,
        created_at"
    };
}

macro_rules! select {
    ($rest:literal) => {
        concat!("select ", columns!(), " from access_tokens ", $rest)
    };
}

/// Whether somebody may operate the deployment at an instant.
macro_rules! operator_exists {
    ($now:literal) => {
        concat!(
            "exists (
                select 1
                from access_tokens as operators
                where operators.role = 'operator'
                    and operators.kind <> 'setup'
                    and operators.revoked_at is null
                    and (operators.expires_at is null or operators.expires_at > ",
            $now,
            ")
            )"
        )
    };
}

impl Store {
    /// The access token of this id.
    pub async fn lookup_access_token(&self, id: AccessTokenId) -> Result<Option<AccessToken>, StoreError> {
        let row: Option<AccessTokenRow> = reading!(self, conn =>
            sqlx::query_as(select!("where id = $1")).bind(id.uuid()).fetch_optional(conn))?;
        row.map(AccessToken::try_from).transpose()
    }

    /// The access token whose opaque text has this SHA-256, revoked and lapsed ones included.
    pub async fn find_access_token_by_hash(
        &self,
        text_hash: &[u8; 32],
    ) -> Result<Option<AccessToken>, StoreError> {
        let row: Option<AccessTokenRow> = reading!(self, conn =>
            sqlx::query_as(select!("where text_hash = $1")).bind(&text_hash[..]).fetch_optional(conn))?;
        row.map(AccessToken::try_from).transpose()
    }

    /// Whether somebody may operate the deployment: an operator's access token that is neither
    /// revoked nor lapsed.
    pub async fn has_operator(&self, now: Timestamp) -> Result<bool, StoreError> {
        reading!(self, conn => sqlx::query_scalar(concat!("select ", operator_exists!("$1")))
            .bind(now.to_utc())
            .fetch_one(conn))
    }

    /// Access tokens, revoked and lapsed ones included.
    pub async fn list_access_tokens(
        &self,
        filter: &AccessTokenFilter,
        page: Page,
    ) -> Result<Vec<AccessToken>, StoreError> {
        let rows = listing!(self, AccessTokenRow, select!("where true"), page, {
            "tenant_id = ?" => filter.tenant_id.map(TenantId::uuid),
            "member_id = ?" => filter.member_id.map(MemberId::uuid),
        })?;
        rows.into_iter().map(AccessToken::try_from).collect()
    }

    /// Access tokens revoked at or after `since` (none: ever) that have not lapsed at `now`. The
    /// instants are the revoker's clock and become visible at commit: reach back further than the
    /// last answer by more than clocks differ and transactions last.
    pub async fn list_revoked_tokens(
        &self,
        since: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<Vec<RevokedToken>, StoreError> {
        type Row = (Uuid, DateTime<Utc>, Option<DateTime<Utc>>);
        let rows: Vec<Row> = reading!(self, conn => sqlx::query_as(
            "select
                id,
                revoked_at,
                expires_at
            from access_tokens
            where revoked_at is not null
                and revoked_at >= $1
                and (expires_at is null or expires_at > $2)",
        )
        .bind(since.unwrap_or_default().to_utc())
        .bind(now.to_utc())
        .fetch_all(conn))?;
        let revoked = |(id, revoked_at, expires_at): Row| RevokedToken {
            id: AccessTokenId::from_uuid(id),
            revoked_at: revoked_at.into(),
            expires_at: expires_at.map(Timestamp::from),
        };
        Ok(rows.into_iter().map(revoked).collect())
    }
}

impl Tx {
    /// Adds an access token; `text_hash` is the SHA-256 of its opaque text, where it has one.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] on `text_hash`, [`StoreError::Reference`] without its tenant or
    /// member.
    pub async fn add_access_token(
        &mut self,
        token: &AccessToken,
        text_hash: Option<&[u8; 32]>,
    ) -> Result<(), StoreError> {
        let [rpm, tpm, concurrency] = limit_columns(&token.limits);
        executing!(self, conn => sqlx::query(
            "insert into access_tokens (
                id,
                tenant_id,
                member_id,
                name,
                kind,
                role,
                grants,
                rpm,
                tpm,
                concurrency,
                text_hash,
                expires_at,
                revoked_at,
                created_at
            ) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
        )
        .bind(token.id.uuid())
        .bind(token.tenant_id.map(TenantId::uuid))
        .bind(token.member_id.map(MemberId::uuid))
        .bind(&token.name)
        .bind(token.kind.as_str())
        .bind(token.role.as_str())
        .bind(token.grants.as_ref().map(Json))
        .bind(rpm)
        .bind(tpm)
        .bind(concurrency)
        .bind(text_hash.map(|hash| &hash[..]))
        .bind(token.expires_at.map(Timestamp::to_utc))
        .bind(token.revoked_at.map(Timestamp::to_utc))
        .bind(token.created_at.to_utc())
        .execute(conn))
        .map(|_| ())
    }

    /// Revokes an access token. The first revocation counts; gives it with its instant, or none
    /// where there is no such token.
    pub async fn revoke_access_token(
        &mut self,
        id: AccessTokenId,
        now: Timestamp,
    ) -> Result<Option<AccessToken>, StoreError> {
        self.changes(Change::Access);
        let row: Option<AccessTokenRow> = writing!(self, conn => sqlx::query_as(concat!(
            "update access_tokens set revoked_at = coalesce(revoked_at, $2) where id = $1 returning ",
            columns!()
        ))
        .bind(id.uuid())
        .bind(now.to_utc())
        .fetch_optional(conn))?;
        row.map(AccessToken::try_from).transpose()
    }

    /// Revokes every access token of a member. Says how many.
    pub async fn revoke_member_tokens(
        &mut self,
        member_id: MemberId,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        self.changes(Change::Access);
        executing!(self, conn =>
            sqlx::query("update access_tokens set revoked_at = $2 where member_id = $1 and revoked_at is null")
                .bind(member_id.uuid())
                .bind(now.to_utc())
                .execute(conn))
    }

    /// Consumes a set-up token: of any number of callers, with the same text or several, on any number
    /// of replicas, one gets it. None: there is an operator already, or no such token, or it was used
    /// or has lapsed.
    pub async fn take_setup_token(
        &mut self,
        text_hash: &[u8; 32],
        now: Timestamp,
    ) -> Result<Option<AccessToken>, StoreError> {
        // Two callers with two texts would else not see each other's operator.
        self.lock_first_start().await?;
        let row: Option<AccessTokenRow> = writing!(self, conn => sqlx::query_as(concat!(
            "update access_tokens set revoked_at = $2
            where text_hash = $1
                and kind = 'setup'
                and revoked_at is null
                and (expires_at is null or expires_at > $2)
                and not ",
            operator_exists!("$2"),
            " returning ",
            columns!()
        ))
        .bind(&text_hash[..])
        .bind(now.to_utc())
        .fetch_optional(conn))?;
        row.map(AccessToken::try_from).transpose()
    }
}
