//! Tenants.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::{
    domain::{ids::TenantId, tenant::Tenant},
    store::{
        Change, Page, RemoveOutcome, Store, StoreError, Tx, UpdateOutcome,
        column::{Cell, limit_columns},
    },
};

#[derive(sqlx::FromRow)]
pub(super) struct TenantRow {
    id: Uuid,
    name: String,
    rpm: Option<i64>,
    tpm: Option<i64>,
    concurrency: Option<i64>,
    billing: String,
    enabled: bool,
    version: i64,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
}

impl TryFrom<TenantRow> for Tenant {
    type Error = StoreError;

    fn try_from(row: TenantRow) -> Result<Self, StoreError> {
        let id = TenantId::from_uuid(row.id);
        let cell = Cell::of("tenants", &id);
        Ok(Self {
            id,
            limits: cell.limits(row.rpm, row.tpm, row.concurrency)?,
            billing: cell.variant("billing", &row.billing)?,
            name: row.name,
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
                name,
                rpm,
                tpm,
                concurrency,
                billing,
                enabled,
                version,
                created_at,
                updated_at
            from tenants ",
            $rest
        )
    };
}

const VERSION: &str = "select version from tenants where id = $1";

impl Store {
    /// The tenant of this id.
    pub async fn lookup_tenant(&self, id: TenantId) -> Result<Option<Tenant>, StoreError> {
        let row: Option<TenantRow> = reading!(self, conn =>
            sqlx::query_as(select!("where id = $1")).bind(id.uuid()).fetch_optional(conn))?;
        row.map(Tenant::try_from).transpose()
    }

    /// The tenant of this name.
    pub async fn find_tenant_by_name(&self, name: &str) -> Result<Option<Tenant>, StoreError> {
        let row: Option<TenantRow> = reading!(self, conn =>
            sqlx::query_as(select!("where name = $1")).bind(name).fetch_optional(conn))?;
        row.map(Tenant::try_from).transpose()
    }

    /// Tenants.
    pub async fn list_tenants(&self, page: Page) -> Result<Vec<Tenant>, StoreError> {
        let rows = listing!(self, TenantRow, select!("where true"), page, {})?;
        rows.into_iter().map(Tenant::try_from).collect()
    }
}

impl Tx {
    /// Adds a tenant.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] on `name`.
    pub async fn add_tenant(&mut self, tenant: &Tenant) -> Result<(), StoreError> {
        self.changes(Change::Access);
        let [rpm, tpm, concurrency] = limit_columns(&tenant.limits);
        executing!(self, conn => sqlx::query(
            "insert into tenants (
                id,
                name,
                rpm,
                tpm,
                concurrency,
                billing,
                enabled,
                version,
                created_at,
                updated_at
            ) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        )
        .bind(tenant.id.uuid())
        .bind(&tenant.name)
        .bind(rpm)
        .bind(tpm)
        .bind(concurrency)
        .bind(tenant.billing.as_str())
        .bind(tenant.enabled)
        .bind(tenant.version)
        .bind(tenant.created_at.to_utc())
        .bind(tenant.updated_at.to_utc())
        .execute(conn))
        .map(|_| ())
    }

    /// Replaces everything of a tenant but its id and birth, if it still has `expected_version`.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] on `name`.
    pub async fn update_tenant(
        &mut self,
        tenant: &Tenant,
        expected_version: i64,
    ) -> Result<UpdateOutcome, StoreError> {
        self.changes(Change::Access);
        let [rpm, tpm, concurrency] = limit_columns(&tenant.limits);
        let updated = writing!(self, conn => sqlx::query_scalar(
            "update tenants set
                name = $3,
                rpm = $4,
                tpm = $5,
                concurrency = $6,
                billing = $7,
                enabled = $8,
                updated_at = $9,
                version = version + 1
            where id = $1 and version = $2
            returning version",
        )
        .bind(tenant.id.uuid())
        .bind(expected_version)
        .bind(&tenant.name)
        .bind(rpm)
        .bind(tpm)
        .bind(concurrency)
        .bind(tenant.billing.as_str())
        .bind(tenant.enabled)
        .bind(tenant.updated_at.to_utc())
        .fetch_optional(conn))?;
        self.update_outcome(updated, VERSION, tenant.id.uuid()).await
    }

    /// Removes a tenant, if it still has `expected_version` where one is given, and with
    /// it its members, access tokens and grants. Its events, ledger and balance stay: they are books.
    ///
    /// # Errors
    /// [`StoreError::Reference`] while it has keys of its own.
    pub async fn remove_tenant(
        &mut self,
        id: TenantId,
        expected_version: Option<i64>,
    ) -> Result<RemoveOutcome, StoreError> {
        self.changes(Change::Access);
        let removed = writing!(self, conn => sqlx::query_scalar(
            "delete from tenants where id = $1 and version = coalesce($2, version) returning version",
        )
        .bind(id.uuid())
        .bind(expected_version)
        .fetch_optional(conn))?;
        self.remove_outcome(removed, VERSION, id.uuid()).await
    }
}
