//! What the store has of the things that files name.

use uuid::Uuid;

use crate::{
    domain::{
        grant::Grant,
        ids::{ProviderId, TenantId},
        key::Key,
        model::Route,
    },
    store::{GrantFilter, KeyFilter, Page, RouteFilter, Store, StoreError},
};

/// Rows read at a time.
const PIECE: u32 = 500;

/// All keys of a provider.
pub async fn keys(store: &Store, provider_id: ProviderId) -> Result<Vec<Key>, StoreError> {
    let filter = KeyFilter { provider_id: Some(provider_id), ..KeyFilter::default() };
    all(async |page| store.list_keys(&filter, page).await, |key| key.id.uuid()).await
}

/// All routes of a provider.
pub async fn routes(store: &Store, provider_id: ProviderId) -> Result<Vec<Route>, StoreError> {
    let filter = RouteFilter { provider_id: Some(provider_id), ..RouteFilter::default() };
    all(async |page| store.list_routes(&filter, page).await, |route| route.id.uuid()).await
}

/// All grants inside a tenant.
pub async fn grants(store: &Store, tenant_id: TenantId) -> Result<Vec<Grant>, StoreError> {
    let filter = GrantFilter { tenant_id: Some(tenant_id), ..GrantFilter::default() };
    all(async |page| store.list_grants(&filter, page).await, |grant| grant.id.uuid()).await
}

/// Reads a list to its end.
async fn all<T>(
    read: impl AsyncFn(Page) -> Result<Vec<T>, StoreError>,
    id: impl Fn(&T) -> Uuid,
) -> Result<Vec<T>, StoreError> {
    let mut rows = read(Page::first(PIECE)).await?;
    let mut is_more = rows.len() == PIECE as usize;
    while let Some(last) = rows.last().filter(|_| is_more) {
        let piece = read(Page::after(id(last), PIECE)).await?;
        is_more = piece.len() == PIECE as usize;
        rows.extend(piece);
    }
    Ok(rows)
}
