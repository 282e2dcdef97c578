//! What the store has of the things that files name.

use crate::{
    domain::{
        grant::Grant,
        ids::{ProviderId, TenantId},
        key::Key,
        model::Route,
    },
    store::{GrantFilter, KeyFilter, RouteFilter, Store, StoreError, every},
};

/// All keys of a provider.
pub async fn keys(store: &Store, provider_id: ProviderId) -> Result<Vec<Key>, StoreError> {
    let filter = KeyFilter { provider_id: Some(provider_id), ..KeyFilter::default() };
    every(async |page| store.list_keys(&filter, page).await, |key| key.id.uuid()).await
}

/// All routes of a provider.
pub async fn routes(store: &Store, provider_id: ProviderId) -> Result<Vec<Route>, StoreError> {
    let filter = RouteFilter { provider_id: Some(provider_id), ..RouteFilter::default() };
    every(async |page| store.list_routes(&filter, page).await, |route| route.id.uuid()).await
}

/// All grants inside a tenant.
pub async fn grants(store: &Store, tenant_id: TenantId) -> Result<Vec<Grant>, StoreError> {
    let filter = GrantFilter { tenant_id: Some(tenant_id), ..GrantFilter::default() };
    every(async |page| store.list_grants(&filter, page).await, |grant| grant.id.uuid()).await
}
