//! Grants.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::{
    domain::{
        grant::{Effect, Grant, GrantSubject, Grants, Pattern},
        ids::{AccessTokenId, GrantId, MemberId, TenantId},
    },
    store::{Change, Page, RemoveOutcome, Store, StoreError, Tx, UpdateOutcome, column::Cell},
};

/// Which grants; none everywhere: all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GrantFilter {
    /// Inside this tenant.
    pub tenant_id: Option<TenantId>,
    /// Of this member.
    pub member_id: Option<MemberId>,
    /// Of this access token.
    pub token_id: Option<AccessTokenId>,
}

#[derive(sqlx::FromRow)]
pub(super) struct GrantRow {
    id: Uuid,
    tenant_id: Uuid,
    subject_kind: String,
    subject_id: Uuid,
    pattern: String,
    effect: String,
    version: i64,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
}

impl TryFrom<GrantRow> for Grant {
    type Error = StoreError;

    fn try_from(row: GrantRow) -> Result<Self, StoreError> {
        let id = GrantId::from_uuid(row.id);
        let cell = Cell::of("grants", &id);
        let subject = match row.subject_kind.as_str() {
            "tenant" => GrantSubject::Tenant,
            "member" => GrantSubject::Member(MemberId::from_uuid(row.subject_id)),
            "access_token" => GrantSubject::AccessToken(AccessTokenId::from_uuid(row.subject_id)),
            _ => return Err(cell.bad("subject_kind")),
        };
        Ok(Self {
            id,
            tenant_id: TenantId::from_uuid(row.tenant_id),
            subject,
            pattern: Pattern::parse(&row.pattern).map_err(|_| cell.bad("pattern"))?,
            effect: cell.variant("effect", &row.effect)?,
            version: row.version,
            created_at: row.created_at.into(),
            updated_at: row.updated_at.into(),
        })
    }
}

/// The tenant itself stands in for the subject of its own lines, so that the column is never null
/// and uniqueness holds.
fn subject_columns(tenant_id: TenantId, subject: GrantSubject) -> (&'static str, Uuid) {
    match subject {
        GrantSubject::Tenant => ("tenant", tenant_id.uuid()),
        GrantSubject::Member(id) => ("member", id.uuid()),
        GrantSubject::AccessToken(id) => ("access_token", id.uuid()),
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "select
                id,
                tenant_id,
                subject_kind,
                subject_id,
                pattern,
                effect,
                version,
                created_at,
                updated_at
            from grants ",
            $rest
        )
    };
}

const VERSION: &str = "select version from grants where id = $1";

impl Store {
    /// The grant of this id.
    pub async fn lookup_grant(&self, id: GrantId) -> Result<Option<Grant>, StoreError> {
        let row: Option<GrantRow> = reading!(self, conn =>
            sqlx::query_as(select!("where id = $1")).bind(id.uuid()).fetch_optional(conn))?;
        row.map(Grant::try_from).transpose()
    }

    /// Grants.
    pub async fn list_grants(&self, filter: &GrantFilter, page: Page) -> Result<Vec<Grant>, StoreError> {
        let rows = listing!(self, GrantRow, select!("where true"), page, {
            "tenant_id = ?" => filter.tenant_id.map(TenantId::uuid),
            "subject_kind = 'member' and subject_id = ?" => filter.member_id.map(MemberId::uuid),
            "subject_kind = 'access_token' and subject_id = ?" => filter.token_id.map(AccessTokenId::uuid),
        })?;
        rows.into_iter().map(Grant::try_from).collect()
    }

    /// All lines that speak of one subject; none: there is no line. In a tenant that allows
    /// nothing, of a member or access token it narrows nothing.
    pub async fn find_grants_by_subject(
        &self,
        tenant_id: TenantId,
        subject: GrantSubject,
    ) -> Result<Option<Grants>, StoreError> {
        let (subject_kind, subject_id) = subject_columns(tenant_id, subject);
        let rows: Vec<GrantRow> = reading!(self, conn => sqlx::query_as(select!(
            "where tenant_id = $1 and subject_kind = $2 and subject_id = $3 order by id"
        ))
        .bind(tenant_id.uuid())
        .bind(subject_kind)
        .bind(subject_id)
        .fetch_all(conn))?;
        let lines: Vec<(Pattern, Effect)> = rows
            .into_iter()
            .map(|row| Grant::try_from(row).map(|grant| (grant.pattern, grant.effect)))
            .collect::<Result<_, _>>()?;
        Ok((!lines.is_empty()).then(|| lines.into_iter().collect()))
    }
}

impl Tx {
    /// Adds a grant.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] on `pattern`, [`StoreError::Reference`] without its tenant.
    pub async fn add_grant(&mut self, grant: &Grant) -> Result<(), StoreError> {
        self.changes(Change::Access);
        let (subject_kind, subject_id) = subject_columns(grant.tenant_id, grant.subject);
        executing!(self, conn => sqlx::query(
            "insert into grants (
                id,
                tenant_id,
                subject_kind,
                subject_id,
                pattern,
                effect,
                version,
                created_at,
                updated_at
            ) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        )
        .bind(grant.id.uuid())
        .bind(grant.tenant_id.uuid())
        .bind(subject_kind)
        .bind(subject_id)
        .bind(grant.pattern.as_str())
        .bind(grant.effect.as_str())
        .bind(grant.version)
        .bind(grant.created_at.to_utc())
        .bind(grant.updated_at.to_utc())
        .execute(conn))
        .map(|_| ())
    }

    /// Replaces everything of a grant but its id, subject and birth, if it still has `expected_version`.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] on `pattern`.
    pub async fn update_grant(
        &mut self,
        grant: &Grant,
        expected_version: i64,
    ) -> Result<UpdateOutcome, StoreError> {
        self.changes(Change::Access);
        let updated = writing!(self, conn => sqlx::query_scalar(
            "update grants set
                pattern = $3,
                effect = $4,
                updated_at = $5,
                version = version + 1
            where id = $1 and version = $2
            returning version",
        )
        .bind(grant.id.uuid())
        .bind(expected_version)
        .bind(grant.pattern.as_str())
        .bind(grant.effect.as_str())
        .bind(grant.updated_at.to_utc())
        .fetch_optional(conn))?;
        self.update_outcome(updated, VERSION, grant.id.uuid()).await
    }

    /// Removes a grant, if it still has `expected_version` where one is given.
    pub async fn remove_grant(
        &mut self,
        id: GrantId,
        expected_version: Option<i64>,
    ) -> Result<RemoveOutcome, StoreError> {
        self.changes(Change::Access);
        let removed = writing!(self, conn => sqlx::query_scalar(
            "delete from grants where id = $1 and version = coalesce($2, version) returning version",
        )
        .bind(id.uuid())
        .bind(expected_version)
        .fetch_optional(conn))?;
        self.remove_outcome(removed, VERSION, id.uuid()).await
    }

    /// Removes a tenant's lines that speak of a member or access token that is gone; the columns
    /// name three kinds of thing, so no foreign key does it.
    pub(super) async fn remove_orphaned_grants(&mut self, tenant_id: TenantId) -> Result<(), StoreError> {
        executing!(self, conn => sqlx::query(
            "delete from grants
            where tenant_id = $1
                and (
                    subject_kind = 'member'
                    and not exists (select 1 from members where members.id = grants.subject_id)
                    or subject_kind = 'access_token'
                    and not exists (select 1 from access_tokens where access_tokens.id = grants.subject_id)
                )",
        )
        .bind(tenant_id.uuid())
        .execute(conn))
        .map(|_| ())
    }
}
