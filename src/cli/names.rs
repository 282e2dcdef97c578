//! Names for the ids that lists have.

use std::{collections::BTreeMap, fmt::Display};

use crate::{
    domain::ids::{ProviderId, TenantId},
    store::{Store, StoreError, every},
};

/// The providers' names.
pub async fn providers(store: &Store) -> Result<BTreeMap<ProviderId, String>, StoreError> {
    let all = every(async |page| store.list_providers(page).await, |provider| provider.id.uuid()).await?;
    Ok(all.into_iter().map(|provider| (provider.id, provider.name)).collect())
}

/// The tenants' names.
pub async fn tenants(store: &Store) -> Result<BTreeMap<TenantId, String>, StoreError> {
    let all = every(async |page| store.list_tenants(page).await, |tenant| tenant.id.uuid()).await?;
    Ok(all.into_iter().map(|tenant| (tenant.id, tenant.name)).collect())
}

/// The name of an id, or the id where it was added just now.
pub fn of<Id: Ord + Copy + Display>(names: &BTreeMap<Id, String>, id: Id) -> String {
    names.get(&id).cloned().unwrap_or_else(|| id.to_string())
}
