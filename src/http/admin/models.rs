//! Models: the public names that clients send, and what tenants pay for them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    domain::{
        clock::Timestamp,
        ids::ModelId,
        model::{Capabilities, Model},
    },
    http::admin::{
        Desk, input,
        problem::Problem,
        providers::yes,
        resource::Resource,
        schema::{self, NoFilter, PriceList},
    },
    store::{Change, Page, RemoveOutcome, Store, StoreError, Tx, UpdateOutcome},
};

/// A model as it is written.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelInput {
    /// The name that clients send, matched exactly.
    #[schema(example = "gpt-4o-mini")]
    name: String,
    /// What it can do.
    #[serde(default)]
    #[schema(schema_with = schema::capabilities)]
    capabilities: Capabilities,
    /// Context window, tokens.
    #[serde(default)]
    context_tokens: Option<u64>,
    /// Most output it gives, tokens.
    #[serde(default)]
    max_output_tokens: Option<u64>,
    /// Selling prices.
    #[serde(default)]
    prices: PriceList,
    /// Whether it is served.
    #[serde(default = "yes")]
    enabled: bool,
}

/// A model as it is shown.
#[derive(Serialize, ToSchema)]
#[schema(as = Model)]
pub struct ModelView {
    /// Its id.
    #[schema(value_type = String, example = "mdl_0197c2d3e4f570008000000000000001")]
    id: ModelId,
    #[serde(flatten)]
    input: ModelInput,
    /// Rises with each change; the ETag.
    version: i64,
    /// When it was added.
    #[schema(schema_with = schema::instant)]
    created_at: Timestamp,
    /// When it last changed.
    #[schema(schema_with = schema::instant)]
    updated_at: Timestamp,
}

pub(super) enum Models {}

impl Resource for Models {
    const PATH: &'static str = "models";
    const NAME: &'static str = "model";
    const DEPENDENTS: &'static str = "its routes";
    const CHANGE: Change = Change::Catalog;
    type Id = ModelId;
    type Filter = NoFilter;
    type Input = ModelInput;
    type View = ModelView;
    type Object = Model;

    fn id(object: &Model) -> ModelId {
        object.id
    }

    fn uuid(object: &Model) -> Uuid {
        object.id.uuid()
    }

    fn version(object: &Model) -> i64 {
        object.version
    }

    fn input(object: &Model) -> ModelInput {
        ModelInput {
            name: object.name.clone(),
            capabilities: object.capabilities,
            context_tokens: object.context_tokens,
            max_output_tokens: object.max_output_tokens,
            prices: object.prices.into(),
            enabled: object.enabled,
        }
    }

    fn view(object: Model) -> ModelView {
        ModelView {
            id: object.id,
            input: Self::input(&object),
            version: object.version,
            created_at: object.created_at,
            updated_at: object.updated_at,
        }
    }

    async fn build(desk: &Desk, input: ModelInput, old: Option<&Model>) -> Result<Model, Problem> {
        let now = desk.clock.now();
        let (version, created_at) = input::stamps(now, old.map(|old| (old.version, old.created_at)));
        let model = Model {
            id: old.map_or_else(|| ModelId::generate(now, desk.entropy.id_bytes()), |old| old.id),
            name: input.name,
            capabilities: input.capabilities,
            context_tokens: input.context_tokens,
            max_output_tokens: input.max_output_tokens,
            prices: input.prices.into(),
            enabled: input.enabled,
            version,
            created_at,
            updated_at: now,
        };
        input::sound(model.faults())?;
        Ok(model)
    }

    async fn lookup(store: &Store, id: ModelId) -> Result<Option<Model>, StoreError> {
        store.lookup_model(id).await
    }

    async fn list(store: &Store, _: &NoFilter, page: Page) -> Result<Vec<Model>, StoreError> {
        store.list_models(page).await
    }

    async fn add(tx: &mut Tx, object: &Model) -> Result<(), StoreError> {
        tx.add_model(object).await
    }

    async fn update(tx: &mut Tx, object: &Model, expected: i64) -> Result<UpdateOutcome, StoreError> {
        tx.update_model(object, expected).await
    }

    async fn remove(tx: &mut Tx, id: ModelId, expected: Option<i64>) -> Result<RemoveOutcome, StoreError> {
        tx.remove_model(id, expected).await
    }
}
