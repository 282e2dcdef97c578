//! Models.

use chrono::{DateTime, Utc};
use sqlx::types::Json;
use uuid::Uuid;

use crate::{
    domain::{
        ids::ModelId,
        model::{Capabilities, Model},
        price::Prices,
    },
    store::{
        Change, Page, RemoveOutcome, Store, StoreError, Tx, UpdateOutcome,
        column::{Cell, signed},
    },
};

#[derive(sqlx::FromRow)]
pub(super) struct ModelRow {
    id: Uuid,
    name: String,
    capabilities: Json<Capabilities>,
    context_tokens: Option<i64>,
    max_output_tokens: Option<i64>,
    prices: Json<Prices>,
    enabled: bool,
    version: i64,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
}

impl TryFrom<ModelRow> for Model {
    type Error = StoreError;

    fn try_from(row: ModelRow) -> Result<Self, StoreError> {
        let id = ModelId::from_uuid(row.id);
        let cell = Cell::of("models", &id);
        Ok(Self {
            id,
            context_tokens: cell.maybe("context_tokens", row.context_tokens)?,
            max_output_tokens: cell.maybe("max_output_tokens", row.max_output_tokens)?,
            name: row.name,
            capabilities: row.capabilities.0,
            prices: row.prices.0,
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
                capabilities,
                context_tokens,
                max_output_tokens,
                prices,
                enabled,
                version,
                created_at,
                updated_at
            from models ",
            $rest
        )
    };
}

/// All of them, for the catalog.
pub(super) const ALL: &str = select!("order by id");

const VERSION: &str = "select version from models where id = $1";

impl Store {
    /// The model of this id.
    pub async fn lookup_model(&self, id: ModelId) -> Result<Option<Model>, StoreError> {
        let row: Option<ModelRow> = reading!(self, conn =>
            sqlx::query_as(select!("where id = $1")).bind(id.uuid()).fetch_optional(conn))?;
        row.map(Model::try_from).transpose()
    }

    /// The model of this name.
    pub async fn find_model_by_name(&self, name: &str) -> Result<Option<Model>, StoreError> {
        let row: Option<ModelRow> = reading!(self, conn =>
            sqlx::query_as(select!("where name = $1")).bind(name).fetch_optional(conn))?;
        row.map(Model::try_from).transpose()
    }

    /// Models.
    pub async fn list_models(&self, page: Page) -> Result<Vec<Model>, StoreError> {
        let rows = listing!(self, ModelRow, select!("where true"), page, {})?;
        rows.into_iter().map(Model::try_from).collect()
    }
}

impl Tx {
    /// Adds a model.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] on `name`.
    pub async fn add_model(&mut self, model: &Model) -> Result<(), StoreError> {
        self.changes(Change::Catalog);
        executing!(self, conn => sqlx::query(
            "insert into models (
                id,
                name,
                capabilities,
                context_tokens,
                max_output_tokens,
                prices,
                enabled,
                version,
                created_at,
                updated_at
            ) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        )
        .bind(model.id.uuid())
        .bind(&model.name)
        .bind(Json(model.capabilities))
        .bind(model.context_tokens.map(signed))
        .bind(model.max_output_tokens.map(signed))
        .bind(Json(model.prices))
        .bind(model.enabled)
        .bind(model.version)
        .bind(model.created_at.to_utc())
        .bind(model.updated_at.to_utc())
        .execute(conn))
        .map(|_| ())
    }

    /// Replaces everything of a model but its id and birth, if it still has `expected_version`.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] on `name`.
    pub async fn update_model(
        &mut self,
        model: &Model,
        expected_version: i64,
    ) -> Result<UpdateOutcome, StoreError> {
        self.changes(Change::Catalog);
        let updated = writing!(self, conn => sqlx::query_scalar(
            "update models set
                name = $3,
                capabilities = $4,
                context_tokens = $5,
                max_output_tokens = $6,
                prices = $7,
                enabled = $8,
                updated_at = $9,
                version = version + 1
            where id = $1 and version = $2
            returning version",
        )
        .bind(model.id.uuid())
        .bind(expected_version)
        .bind(&model.name)
        .bind(Json(model.capabilities))
        .bind(model.context_tokens.map(signed))
        .bind(model.max_output_tokens.map(signed))
        .bind(Json(model.prices))
        .bind(model.enabled)
        .bind(model.updated_at.to_utc())
        .fetch_optional(conn))?;
        self.update_outcome(updated, VERSION, model.id.uuid()).await
    }

    /// Removes a model, if it still has `expected_version` where one is given.
    ///
    /// # Errors
    /// [`StoreError::Reference`] while it has routes.
    pub async fn remove_model(
        &mut self,
        id: ModelId,
        expected_version: Option<i64>,
    ) -> Result<RemoveOutcome, StoreError> {
        self.changes(Change::Catalog);
        let removed = writing!(self, conn => sqlx::query_scalar(
            "delete from models where id = $1 and version = coalesce($2, version) returning version",
        )
        .bind(id.uuid())
        .bind(expected_version)
        .fetch_optional(conn))?;
        self.remove_outcome(removed, VERSION, id.uuid()).await
    }
}
