//! Routes: which provider serves which model, under which name, at which cost.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::{
    domain::{
        clock::Timestamp,
        ids::{ModelId, ProviderId, RouteId},
        model::{Capabilities, Route},
    },
    http::admin::{
        Desk, input,
        keys::one,
        problem::Problem,
        providers::yes,
        resource::Resource,
        schema::{self, PriceList},
    },
    store::{Change, Page, RemoveOutcome, RouteFilter, Store, StoreError, Tx, UpdateOutcome},
};

/// A route as it is written.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteInput {
    /// The model it serves; cannot be changed.
    #[schema(value_type = String)]
    model_id: ModelId,
    /// The provider that serves it; cannot be changed.
    #[schema(value_type = String)]
    provider_id: ProviderId,
    /// The name sent upstream.
    #[schema(example = "gpt-4o-mini-2024-07-18")]
    upstream_model: String,
    /// Lower is tried first, within the provider's tier.
    #[serde(default)]
    priority: i32,
    /// Share among equals under weighted routing, at least 1.
    #[serde(default = "one")]
    weight: u32,
    /// Cost prices, what the provider takes.
    #[serde(default)]
    cost: PriceList,
    /// Replaces the model's capabilities on this route; null: as the model.
    #[serde(default)]
    #[schema(schema_with = schema::maybe_capabilities)]
    capabilities: Option<Capabilities>,
    /// Whether it is used.
    #[serde(default = "yes")]
    enabled: bool,
}

/// A route as it is shown.
#[derive(Serialize, ToSchema)]
#[schema(as = Route)]
pub struct RouteView {
    /// Its id.
    #[schema(value_type = String, example = "rte_0197c2d3e4f570008000000000000001")]
    id: RouteId,
    #[serde(flatten)]
    input: RouteInput,
    /// Rises with each change; the ETag.
    version: i64,
    /// When it was added.
    #[schema(schema_with = schema::instant)]
    created_at: Timestamp,
    /// When it last changed.
    #[schema(schema_with = schema::instant)]
    updated_at: Timestamp,
}

/// Narrows a list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// That serve this model.
    #[param(value_type = Option<String>)]
    model_id: Option<ModelId>,
    /// By this provider.
    #[param(value_type = Option<String>)]
    provider_id: Option<ProviderId>,
}

pub(super) enum Routes {}

impl Resource for Routes {
    const PATH: &'static str = "routes";
    const NAME: &'static str = "route";
    const DEPENDENTS: &'static str = "what refers to it";
    const CHANGE: Change = Change::Catalog;
    type Id = RouteId;
    type Filter = Filter;
    type Input = RouteInput;
    type View = RouteView;
    type Object = Route;

    fn id(object: &Route) -> RouteId {
        object.id
    }

    fn uuid(object: &Route) -> Uuid {
        object.id.uuid()
    }

    fn version(object: &Route) -> i64 {
        object.version
    }

    fn input(object: &Route) -> RouteInput {
        RouteInput {
            model_id: object.model_id,
            provider_id: object.provider_id,
            upstream_model: object.upstream_model.clone(),
            priority: object.priority,
            weight: object.weight,
            cost: object.cost.into(),
            capabilities: object.capabilities,
            enabled: object.enabled,
        }
    }

    fn view(object: Route) -> RouteView {
        RouteView {
            id: object.id,
            input: Self::input(&object),
            version: object.version,
            created_at: object.created_at,
            updated_at: object.updated_at,
        }
    }

    async fn build(desk: &Desk, input: RouteInput, old: Option<&Route>) -> Result<Route, Problem> {
        let now = desk.clock.now();
        let (version, created_at) = input::stamps(now, old.map(|old| (old.version, old.created_at)));
        let route = Route {
            id: old.map_or_else(|| RouteId::generate(now, desk.entropy.id_bytes()), |old| old.id),
            model_id: input.model_id,
            provider_id: input.provider_id,
            upstream_model: input.upstream_model,
            priority: input.priority,
            weight: input.weight,
            cost: input.cost.into(),
            capabilities: input.capabilities,
            enabled: input.enabled,
            version,
            created_at,
            updated_at: now,
        };
        let mut faults = route.faults();
        input::fixed(&mut faults, "model_id", old.map(|old| old.model_id), &route.model_id);
        input::fixed(&mut faults, "provider_id", old.map(|old| old.provider_id), &route.provider_id);
        let (model, provider) = (
            desk.store.lookup_model(route.model_id).await?,
            desk.store.lookup_provider(route.provider_id).await?,
        );
        input::exists(&mut faults, "model_id", model.as_ref());
        input::exists(&mut faults, "provider_id", provider.as_ref());
        input::sound(faults)?;
        Ok(route)
    }

    async fn lookup(store: &Store, id: RouteId) -> Result<Option<Route>, StoreError> {
        store.lookup_route(id).await
    }

    async fn list(store: &Store, filter: &Filter, page: Page) -> Result<Vec<Route>, StoreError> {
        let filter = RouteFilter { model_id: filter.model_id, provider_id: filter.provider_id };
        store.list_routes(&filter, page).await
    }

    async fn add(tx: &mut Tx, object: &Route) -> Result<(), StoreError> {
        tx.add_route(object).await
    }

    async fn update(tx: &mut Tx, object: &Route, expected: i64) -> Result<UpdateOutcome, StoreError> {
        tx.update_route(object, expected).await
    }

    async fn remove(tx: &mut Tx, id: RouteId, expected: Option<i64>) -> Result<RemoveOutcome, StoreError> {
        tx.remove_route(id, expected).await
    }
}
