//! Tenants: paying teams.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    domain::{
        clock::Timestamp,
        ids::TenantId,
        limits::Limits,
        tenant::{BillingMode, Tenant},
    },
    http::admin::{
        Desk, input,
        problem::Problem,
        providers::yes,
        resource::Resource,
        schema::{self, NoFilter},
    },
    store::{Change, Page, RemoveOutcome, Store, StoreError, Tx, UpdateOutcome},
};

/// A tenant as it is written.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantInput {
    /// Unique name.
    #[schema(example = "acme")]
    name: String,
    /// Its windows, over all its members and access tokens.
    #[serde(default)]
    #[schema(schema_with = schema::limits)]
    limits: Limits,
    /// How it pays.
    #[serde(default)]
    #[schema(schema_with = schema::billing)]
    billing: BillingMode,
    /// Whether it is let in.
    #[serde(default = "yes")]
    enabled: bool,
}

/// A tenant as it is shown.
#[derive(Serialize, ToSchema)]
#[schema(as = Tenant)]
pub struct TenantView {
    /// Its id.
    #[schema(value_type = String, example = "ten_0197c2d3e4f570008000000000000001")]
    id: TenantId,
    #[serde(flatten)]
    input: TenantInput,
    /// Rises with each change; the ETag.
    version: i64,
    /// When it was added.
    #[schema(schema_with = schema::instant)]
    created_at: Timestamp,
    /// When it last changed.
    #[schema(schema_with = schema::instant)]
    updated_at: Timestamp,
}

pub(super) enum Tenants {}

impl Resource for Tenants {
    const PATH: &'static str = "tenants";
    const NAME: &'static str = "tenant";
    const DEPENDENTS: &'static str = "the upstream keys that belong to it";
    const CHANGE: Change = Change::Access;
    type Id = TenantId;
    type Filter = NoFilter;
    type Input = TenantInput;
    type View = TenantView;
    type Object = Tenant;

    fn id(object: &Tenant) -> TenantId {
        object.id
    }

    fn uuid(object: &Tenant) -> Uuid {
        object.id.uuid()
    }

    fn version(object: &Tenant) -> i64 {
        object.version
    }

    fn input(object: &Tenant) -> TenantInput {
        TenantInput {
            name: object.name.clone(),
            limits: object.limits,
            billing: object.billing,
            enabled: object.enabled,
        }
    }

    fn view(object: Tenant) -> TenantView {
        TenantView {
            id: object.id,
            input: Self::input(&object),
            version: object.version,
            created_at: object.created_at,
            updated_at: object.updated_at,
        }
    }

    async fn build(desk: &Desk, input: TenantInput, old: Option<&Tenant>) -> Result<Tenant, Problem> {
        let now = desk.clock.now();
        let (version, created_at) = input::stamps(now, old.map(|old| (old.version, old.created_at)));
        let tenant = Tenant {
            id: old.map_or_else(|| TenantId::generate(now, desk.entropy.id_bytes()), |old| old.id),
            name: input.name,
            limits: input.limits,
            billing: input.billing,
            enabled: input.enabled,
            version,
            created_at,
            updated_at: now,
        };
        input::sound(tenant.faults())?;
        Ok(tenant)
    }

    async fn lookup(store: &Store, id: TenantId) -> Result<Option<Tenant>, StoreError> {
        store.lookup_tenant(id).await
    }

    async fn list(store: &Store, _: &NoFilter, page: Page) -> Result<Vec<Tenant>, StoreError> {
        store.list_tenants(page).await
    }

    async fn add(tx: &mut Tx, object: &Tenant) -> Result<(), StoreError> {
        tx.add_tenant(object).await
    }

    async fn update(tx: &mut Tx, object: &Tenant, expected: i64) -> Result<UpdateOutcome, StoreError> {
        tx.update_tenant(object, expected).await
    }

    async fn remove(tx: &mut Tx, id: TenantId, expected: Option<i64>) -> Result<RemoveOutcome, StoreError> {
        tx.remove_tenant(id, expected).await
    }
}
