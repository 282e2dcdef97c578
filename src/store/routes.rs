//! Routes.

use chrono::{DateTime, Utc};
use sqlx::types::Json;
use uuid::Uuid;

use crate::{
    domain::{
        ids::{ModelId, ProviderId, RouteId},
        model::{Capabilities, Route},
        price::Prices,
    },
    store::{Change, Page, RemoveOutcome, Store, StoreError, Tx, UpdateOutcome, column::Cell},
};

/// Which routes; none everywhere: all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RouteFilter {
    /// That serve this model.
    pub model_id: Option<ModelId>,
    /// By this provider.
    pub provider_id: Option<ProviderId>,
}

#[derive(sqlx::FromRow)]
pub(super) struct RouteRow {
    id: Uuid,
    model_id: Uuid,
    provider_id: Uuid,
    upstream_model: String,
    priority: i64,
    weight: i64,
    cost: Json<Prices>,
    capabilities: Option<Json<Capabilities>>,
    enabled: bool,
    version: i64,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
}

impl TryFrom<RouteRow> for Route {
    type Error = StoreError;

    fn try_from(row: RouteRow) -> Result<Self, StoreError> {
        let id = RouteId::from_uuid(row.id);
        let cell = Cell::of("routes", &id);
        Ok(Self {
            id,
            model_id: ModelId::from_uuid(row.model_id),
            provider_id: ProviderId::from_uuid(row.provider_id),
            priority: cell.number("priority", row.priority)?,
            weight: cell.number("weight", row.weight)?,
            upstream_model: row.upstream_model,
            cost: row.cost.0,
            capabilities: row.capabilities.map(|json| json.0),
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
                model_id,
                provider_id,
                upstream_model,
                priority,
                weight,
                cost,
                capabilities,
                enabled,
                version,
                created_at,
                updated_at
            from routes ",
            $rest
        )
    };
}

/// All of them, for the catalog.
pub(super) const ALL: &str = select!("order by id");

const VERSION: &str = "select version from routes where id = $1";

impl Store {
    /// The route of this id.
    pub async fn lookup_route(&self, id: RouteId) -> Result<Option<Route>, StoreError> {
        let row: Option<RouteRow> = reading!(self, conn =>
            sqlx::query_as(select!("where id = $1")).bind(id.uuid()).fetch_optional(conn))?;
        row.map(Route::try_from).transpose()
    }

    /// Routes.
    pub async fn list_routes(&self, filter: &RouteFilter, page: Page) -> Result<Vec<Route>, StoreError> {
        let rows = listing!(self, RouteRow, select!("where true"), page, {
            "model_id = ?" => filter.model_id.map(ModelId::uuid),
            "provider_id = ?" => filter.provider_id.map(ProviderId::uuid),
        })?;
        rows.into_iter().map(Route::try_from).collect()
    }
}

impl Tx {
    /// Adds a route.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] on `upstream_model`, [`StoreError::Reference`] without its model or
    /// provider.
    pub async fn add_route(&mut self, route: &Route) -> Result<(), StoreError> {
        self.changes(Change::Catalog);
        executing!(self, conn => sqlx::query(
            "insert into routes (
                id,
                model_id,
                provider_id,
                upstream_model,
                priority,
                weight,
                cost,
                capabilities,
                enabled,
                version,
                created_at,
                updated_at
            ) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        )
        .bind(route.id.uuid())
        .bind(route.model_id.uuid())
        .bind(route.provider_id.uuid())
        .bind(&route.upstream_model)
        .bind(i64::from(route.priority))
        .bind(i64::from(route.weight))
        .bind(Json(route.cost))
        .bind(route.capabilities.map(Json))
        .bind(route.enabled)
        .bind(route.version)
        .bind(route.created_at.to_utc())
        .bind(route.updated_at.to_utc())
        .execute(conn))
        .map(|_| ())
    }

    /// Replaces everything of a route but its id and birth, if it still has `expected_version`.
    ///
    /// # Errors
    /// As [`add_route`](Self::add_route).
    pub async fn update_route(
        &mut self,
        route: &Route,
        expected_version: i64,
    ) -> Result<UpdateOutcome, StoreError> {
        self.changes(Change::Catalog);
        let updated = writing!(self, conn => sqlx::query_scalar(
            "update routes set
                model_id = $3,
                provider_id = $4,
                upstream_model = $5,
                priority = $6,
                weight = $7,
                cost = $8,
                capabilities = $9,
                enabled = $10,
                updated_at = $11,
                version = version + 1
            where id = $1 and version = $2
            returning version",
        )
        .bind(route.id.uuid())
        .bind(expected_version)
        .bind(route.model_id.uuid())
        .bind(route.provider_id.uuid())
        .bind(&route.upstream_model)
        .bind(i64::from(route.priority))
        .bind(i64::from(route.weight))
        .bind(Json(route.cost))
        .bind(route.capabilities.map(Json))
        .bind(route.enabled)
        .bind(route.updated_at.to_utc())
        .fetch_optional(conn))?;
        self.update_outcome(updated, VERSION, route.id.uuid()).await
    }

    /// Removes a route, if it still has `expected_version` where one is given.
    pub async fn remove_route(
        &mut self,
        id: RouteId,
        expected_version: Option<i64>,
    ) -> Result<RemoveOutcome, StoreError> {
        self.changes(Change::Catalog);
        let removed = writing!(self, conn => sqlx::query_scalar(
            "delete from routes where id = $1 and version = coalesce($2, version) returning version",
        )
        .bind(id.uuid())
        .bind(expected_version)
        .fetch_optional(conn))?;
        self.remove_outcome(removed, VERSION, id.uuid()).await
    }
}
