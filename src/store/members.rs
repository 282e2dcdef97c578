//! Members.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::{
    domain::{
        ids::{MemberId, TenantId},
        tenant::Member,
    },
    store::{
        Change, Page, RemoveOutcome, Store, StoreError, Tx, UpdateOutcome,
        column::{Cell, limit_columns},
    },
};

/// Which members; none everywhere: all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemberFilter {
    /// Of this tenant.
    pub tenant_id: Option<TenantId>,
}

#[derive(sqlx::FromRow)]
pub(super) struct MemberRow {
    id: Uuid,
    tenant_id: Uuid,
    subject: String,
    role: String,
    token_generation: i64,
    rpm: Option<i64>,
    tpm: Option<i64>,
    concurrency: Option<i64>,
    enabled: bool,
    version: i64,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
}

impl TryFrom<MemberRow> for Member {
    type Error = StoreError;

    fn try_from(row: MemberRow) -> Result<Self, StoreError> {
        let id = MemberId::from_uuid(row.id);
        let cell = Cell::of("members", &id);
        Ok(Self {
            id,
            tenant_id: TenantId::from_uuid(row.tenant_id),
            role: cell.variant("role", &row.role)?,
            limits: cell.limits(row.rpm, row.tpm, row.concurrency)?,
            subject: row.subject,
            token_generation: row.token_generation,
            enabled: row.enabled,
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
                tenant_id,
                subject,
                role,
                token_generation,
                rpm,
                tpm,
                concurrency,
                enabled,
                version,
                created_at,
                updated_at
            from members ",
            $rest
        )
    };
}

const VERSION: &str = "select version from members where id = $1";

impl Store {
    /// The member of this id.
    pub async fn lookup_member(&self, id: MemberId) -> Result<Option<Member>, StoreError> {
        let row: Option<MemberRow> = reading!(self, conn =>
            sqlx::query_as(select!("where id = $1")).bind(id.uuid()).fetch_optional(conn))?;
        row.map(Member::try_from).transpose()
    }

    /// The member of this subject in a tenant.
    pub async fn find_member_by_subject(
        &self,
        tenant_id: TenantId,
        subject: &str,
    ) -> Result<Option<Member>, StoreError> {
        let row: Option<MemberRow> = reading!(self, conn =>
            sqlx::query_as(select!("where tenant_id = $1 and subject = $2"))
                .bind(tenant_id.uuid())
                .bind(subject)
                .fetch_optional(conn))?;
        row.map(Member::try_from).transpose()
    }

    /// Members.
    pub async fn list_members(&self, filter: &MemberFilter, page: Page) -> Result<Vec<Member>, StoreError> {
        let rows = listing!(self, MemberRow, select!("where true"), page, {
            "tenant_id = ?" => filter.tenant_id.map(TenantId::uuid),
        })?;
        rows.into_iter().map(Member::try_from).collect()
    }
}

impl Tx {
    /// Adds a member.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] on `subject`, [`StoreError::Reference`] without its tenant.
    pub async fn add_member(&mut self, member: &Member) -> Result<(), StoreError> {
        self.changes(Change::Access);
        let [rpm, tpm, concurrency] = limit_columns(&member.limits);
        executing!(self, conn => sqlx::query(
            "insert into members (
                id,
                tenant_id,
                subject,
                role,
                token_generation,
                rpm,
                tpm,
                concurrency,
                enabled,
                version,
                created_at,
                updated_at
            ) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        )
        .bind(member.id.uuid())
        .bind(member.tenant_id.uuid())
        .bind(&member.subject)
        .bind(member.role.as_str())
        .bind(member.token_generation)
        .bind(rpm)
        .bind(tpm)
        .bind(concurrency)
        .bind(member.enabled)
        .bind(member.version)
        .bind(member.created_at.to_utc())
        .bind(member.updated_at.to_utc())
        .execute(conn))
        .map(|_| ())
    }

    /// Replaces everything of a member but its id, tenant and birth, if it still has `expected_version`.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] on `subject`.
    pub async fn update_member(
        &mut self,
        member: &Member,
        expected_version: i64,
    ) -> Result<UpdateOutcome, StoreError> {
        self.changes(Change::Access);
        let [rpm, tpm, concurrency] = limit_columns(&member.limits);
        let updated = writing!(self, conn => sqlx::query_scalar(
            "update members set
                subject = $3,
                role = $4,
                token_generation = $5,
                rpm = $6,
                tpm = $7,
                concurrency = $8,
                enabled = $9,
                updated_at = $10,
                version = version + 1
            where id = $1 and version = $2
            returning version",
        )
        .bind(member.id.uuid())
        .bind(expected_version)
        .bind(&member.subject)
        .bind(member.role.as_str())
        .bind(member.token_generation)
        .bind(rpm)
        .bind(tpm)
        .bind(concurrency)
        .bind(member.enabled)
        .bind(member.updated_at.to_utc())
        .fetch_optional(conn))?;
        self.update_outcome(updated, VERSION, member.id.uuid()).await
    }

    /// Removes a member, if it still has `expected_version` where one is given, and with
    /// it its access tokens and grants.
    pub async fn remove_member(
        &mut self,
        id: MemberId,
        expected_version: Option<i64>,
    ) -> Result<RemoveOutcome, StoreError> {
        self.changes(Change::Access);
        let removed: Option<(i64, Uuid)> = writing!(self, conn => sqlx::query_as(
            "delete from members
            where id = $1 and version = coalesce($2, version)
            returning version, tenant_id",
        )
        .bind(id.uuid())
        .bind(expected_version)
        .fetch_optional(conn))?;
        if let Some((_, tenant_id)) = removed {
            self.remove_orphaned_grants(TenantId::from_uuid(tenant_id)).await?;
        }
        self.remove_outcome(removed.map(|(version, _)| version), VERSION, id.uuid()).await
    }
}
