//! Providers.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use sqlx::types::Json;
use uuid::Uuid;

use crate::{
    domain::{
        ids::ProviderId,
        provider::{AuthStyle, Provider, Timeouts},
    },
    store::{Change, Page, RemoveOutcome, Store, StoreError, Tx, UpdateOutcome, column::Cell},
};

#[derive(sqlx::FromRow)]
pub(super) struct ProviderRow {
    id: Uuid,
    name: String,
    base_url: String,
    format: String,
    auth_kind: String,
    auth_name: Option<String>,
    tier: String,
    transport: String,
    headers: Json<BTreeMap<String, String>>,
    timeouts: Json<Timeouts>,
    enabled: bool,
    version: i64,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
}

impl TryFrom<ProviderRow> for Provider {
    type Error = StoreError;

    fn try_from(row: ProviderRow) -> Result<Self, StoreError> {
        let id = ProviderId::from_uuid(row.id);
        let cell = Cell::of("providers", &id);
        Ok(Self {
            id,
            format: cell.variant("format", &row.format)?,
            auth: auth_style(&row.auth_kind, row.auth_name).ok_or_else(|| cell.bad("auth_kind"))?,
            tier: cell.variant("tier", &row.tier)?,
            transport: cell.variant("transport", &row.transport)?,
            name: row.name,
            base_url: row.base_url,
            headers: row.headers.0,
            timeouts: row.timeouts.0,
            enabled: row.enabled,
            version: row.version,
            created_at: row.created_at.into(),
            updated_at: row.updated_at.into(),
        })
    }
}

fn auth_style(kind: &str, name: Option<String>) -> Option<AuthStyle> {
    match (kind, name) {
        ("bearer", None) => Some(AuthStyle::Bearer),
        ("header", Some(name)) => Some(AuthStyle::Header(name)),
        ("query", Some(name)) => Some(AuthStyle::Query(name)),
        ("none", None) => Some(AuthStyle::None),
        _ => None,
    }
}

fn auth_columns(auth: &AuthStyle) -> (&'static str, Option<&str>) {
    match auth {
        AuthStyle::Bearer => ("bearer", None),
        AuthStyle::Header(name) => ("header", Some(name)),
        AuthStyle::Query(name) => ("query", Some(name)),
        AuthStyle::None => ("none", None),
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "select
                id,
                name,
                base_url,
                format,
                auth_kind,
                auth_name,
                tier,
                transport,
                headers,
                timeouts,
                enabled,
                version,
                created_at,
                updated_at
            from providers ",
            $rest
        )
    };
}

/// All of them, for the catalog.
pub(super) const ALL: &str = select!("order by id");

const VERSION: &str = "select version from providers where id = $1";

impl Store {
    /// The provider of this id.
    pub async fn lookup_provider(&self, id: ProviderId) -> Result<Option<Provider>, StoreError> {
        let row: Option<ProviderRow> = reading!(self, conn =>
            sqlx::query_as(select!("where id = $1")).bind(id.uuid()).fetch_optional(conn))?;
        row.map(Provider::try_from).transpose()
    }

    /// The provider of this name.
    pub async fn find_provider_by_name(&self, name: &str) -> Result<Option<Provider>, StoreError> {
        let row: Option<ProviderRow> = reading!(self, conn =>
            sqlx::query_as(select!("where name = $1")).bind(name).fetch_optional(conn))?;
        row.map(Provider::try_from).transpose()
    }

    /// Providers.
    pub async fn list_providers(&self, page: Page) -> Result<Vec<Provider>, StoreError> {
        let rows = listing!(self, ProviderRow, select!("where true"), page, {})?;
        rows.into_iter().map(Provider::try_from).collect()
    }
}

impl Tx {
    /// Adds a provider.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] on `name`.
    pub async fn add_provider(&mut self, provider: &Provider) -> Result<(), StoreError> {
        self.changes(Change::Catalog);
        let (auth_kind, auth_name) = auth_columns(&provider.auth);
        executing!(self, conn => sqlx::query(
            "insert into providers (
                id,
                name,
                base_url,
                format,
                auth_kind,
                auth_name,
                tier,
                transport,
                headers,
                timeouts,
                enabled,
                version,
                created_at,
                updated_at
            ) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
        )
        .bind(provider.id.uuid())
        .bind(&provider.name)
        .bind(&provider.base_url)
        .bind(provider.format.as_str())
        .bind(auth_kind)
        .bind(auth_name)
        .bind(provider.tier.as_str())
        .bind(provider.transport.as_str())
        .bind(Json(&provider.headers))
        .bind(Json(provider.timeouts))
        .bind(provider.enabled)
        .bind(provider.version)
        .bind(provider.created_at.to_utc())
        .bind(provider.updated_at.to_utc())
        .execute(conn))
        .map(|_| ())
    }

    /// Replaces everything of a provider but its id and birth, if it still has `expected_version`.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] on `name`.
    pub async fn update_provider(
        &mut self,
        provider: &Provider,
        expected_version: i64,
    ) -> Result<UpdateOutcome, StoreError> {
        self.changes(Change::Catalog);
        let (auth_kind, auth_name) = auth_columns(&provider.auth);
        let updated = writing!(self, conn => sqlx::query_scalar(
            "update providers set
                name = $3,
                base_url = $4,
                format = $5,
                auth_kind = $6,
                auth_name = $7,
                tier = $8,
                transport = $9,
                headers = $10,
                timeouts = $11,
                enabled = $12,
                updated_at = $13,
                version = version + 1
            where id = $1 and version = $2
            returning version",
        )
        .bind(provider.id.uuid())
        .bind(expected_version)
        .bind(&provider.name)
        .bind(&provider.base_url)
        .bind(provider.format.as_str())
        .bind(auth_kind)
        .bind(auth_name)
        .bind(provider.tier.as_str())
        .bind(provider.transport.as_str())
        .bind(Json(&provider.headers))
        .bind(Json(provider.timeouts))
        .bind(provider.enabled)
        .bind(provider.updated_at.to_utc())
        .fetch_optional(conn))?;
        self.update_outcome(updated, VERSION, provider.id.uuid()).await
    }

    /// Removes a provider, if it still has `expected_version` where one is given.
    ///
    /// # Errors
    /// [`StoreError::Reference`] while it has keys or routes.
    pub async fn remove_provider(
        &mut self,
        id: ProviderId,
        expected_version: Option<i64>,
    ) -> Result<RemoveOutcome, StoreError> {
        self.changes(Change::Catalog);
        let removed = writing!(self, conn => sqlx::query_scalar(
            "delete from providers where id = $1 and version = coalesce($2, version) returning version",
        )
        .bind(id.uuid())
        .bind(expected_version)
        .fetch_optional(conn))?;
        self.remove_outcome(removed, VERSION, id.uuid()).await
    }
}
