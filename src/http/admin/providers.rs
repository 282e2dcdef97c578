//! Providers: upstream services.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    domain::{
        clock::Timestamp,
        faults::Fault,
        ids::ProviderId,
        provider::{ApiFormat, AuthStyle, Provider, Tier, Timeouts, Transport},
    },
    http::admin::{
        Desk, input,
        problem::Problem,
        resource::Resource,
        schema::{self, NoFilter},
    },
    net::base_url_fault,
    store::{Change, Page, RemoveOutcome, Store, StoreError, Tx, UpdateOutcome},
};

/// A provider as it is written.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProviderInput {
    /// Unique name: lower-case letters, digits and dashes.
    #[schema(example = "openai")]
    name: String,
    /// Base URL; calls go to paths below it.
    #[schema(example = "https://api.openai.com/v1")]
    base_url: String,
    /// The wire format it speaks.
    #[serde(default = "usual_format")]
    #[schema(schema_with = schema::format)]
    format: ApiFormat,
    /// How a key is presented.
    #[serde(default = "usual_auth")]
    #[schema(schema_with = schema::auth)]
    auth: AuthStyle,
    /// Cost class, tried in the order subscription, cheap, free.
    #[serde(default)]
    #[schema(schema_with = schema::tier)]
    tier: Tier,
    /// HTTP version of the connection.
    #[serde(default)]
    #[schema(schema_with = schema::transport)]
    transport: Transport,
    /// Headers added to every call; never secret, for they are shown.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// How long to wait for what.
    #[serde(default)]
    #[schema(schema_with = schema::timeouts)]
    timeouts: Timeouts,
    /// Whether it is used.
    #[serde(default = "yes")]
    enabled: bool,
}

/// A provider as it is shown.
#[derive(Serialize, ToSchema)]
#[schema(as = Provider)]
pub struct ProviderView {
    /// Its id.
    #[schema(value_type = String, example = "prv_0197c2d3e4f570008000000000000001")]
    id: ProviderId,
    #[serde(flatten)]
    input: ProviderInput,
    /// Rises with each change; the ETag.
    version: i64,
    /// When it was added.
    #[schema(schema_with = schema::instant)]
    created_at: Timestamp,
    /// When it last changed.
    #[schema(schema_with = schema::instant)]
    updated_at: Timestamp,
}

const fn usual_format() -> ApiFormat {
    ApiFormat::OpenAiChat
}

const fn usual_auth() -> AuthStyle {
    AuthStyle::Bearer
}

/// What most things are when nobody says otherwise: switched on.
pub(super) const fn yes() -> bool {
    true
}

pub(super) enum Providers {}

impl Resource for Providers {
    const PATH: &'static str = "providers";
    const NAME: &'static str = "provider";
    const DEPENDENTS: &'static str = "its keys and routes";
    const CHANGE: Change = Change::Catalog;
    const WHOLE: &'static [&'static str] = &["auth"];
    type Id = ProviderId;
    type Filter = NoFilter;
    type Input = ProviderInput;
    type View = ProviderView;
    type Object = Provider;

    fn id(object: &Provider) -> ProviderId {
        object.id
    }

    fn uuid(object: &Provider) -> Uuid {
        object.id.uuid()
    }

    fn version(object: &Provider) -> i64 {
        object.version
    }

    fn input(object: &Provider) -> ProviderInput {
        let object = object.clone();
        ProviderInput {
            name: object.name,
            base_url: object.base_url,
            format: object.format,
            auth: object.auth,
            tier: object.tier,
            transport: object.transport,
            headers: object.headers,
            timeouts: object.timeouts,
            enabled: object.enabled,
        }
    }

    fn view(object: Provider) -> ProviderView {
        ProviderView {
            id: object.id,
            input: Self::input(&object),
            version: object.version,
            created_at: object.created_at,
            updated_at: object.updated_at,
        }
    }

    async fn build(desk: &Desk, input: ProviderInput, old: Option<&Provider>) -> Result<Provider, Problem> {
        let now = desk.clock.now();
        let (version, created_at) = input::stamps(now, old.map(|old| (old.version, old.created_at)));
        let provider = Provider {
            id: old.map_or_else(|| ProviderId::generate(now, desk.entropy.id_bytes()), |old| old.id),
            name: input.name,
            base_url: input.base_url,
            format: input.format,
            auth: input.auth,
            tier: input.tier,
            transport: input.transport,
            headers: input.headers,
            timeouts: input.timeouts,
            enabled: input.enabled,
            version,
            created_at,
            updated_at: now,
        };
        let mut faults = provider.faults();
        faults.extend(
            base_url_fault(&provider.base_url, &desk.guard).map(|reason| Fault::new("base_url", reason)),
        );
        input::sound(faults)?;
        Ok(provider)
    }

    async fn lookup(store: &Store, id: ProviderId) -> Result<Option<Provider>, StoreError> {
        store.lookup_provider(id).await
    }

    async fn list(store: &Store, _: &NoFilter, page: Page) -> Result<Vec<Provider>, StoreError> {
        store.list_providers(page).await
    }

    async fn add(tx: &mut Tx, object: &Provider) -> Result<(), StoreError> {
        tx.add_provider(object).await
    }

    async fn update(tx: &mut Tx, object: &Provider, expected: i64) -> Result<UpdateOutcome, StoreError> {
        tx.update_provider(object, expected).await
    }

    async fn remove(tx: &mut Tx, id: ProviderId, expected: Option<i64>) -> Result<RemoveOutcome, StoreError> {
        tx.remove_provider(id, expected).await
    }
}
