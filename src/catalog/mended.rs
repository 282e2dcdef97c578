//! What a change of the catalog may have mended: keys that failed before it get another chance at once.

use std::collections::BTreeSet;

use super::snapshot::{PoolMember, ProviderPool, Snapshot};
use crate::{
    admission::{Admission, CoolScope, Pool},
    domain::{
        ids::{IdMap, KeyId, ModelId, ProviderId, RouteId},
        provider::Provider,
    },
};

/// Keys of one provider that may work now.
#[derive(Debug)]
pub struct Mended {
    pool: Pool,
    /// Every key of the provider, whatever for.
    is_whole: bool,
    /// These keys, whatever for.
    keys: BTreeSet<KeyId>,
    /// Every key, for these models.
    models: BTreeSet<ModelId>,
}

impl Mended {
    /// What differs between two snapshots, by provider.
    pub fn between(old: &Snapshot, new: &Snapshot) -> Vec<Self> {
        let named: IdMap<RouteId, &str> = routes(old).map(|(_, id, _, name)| (id, name)).collect();
        let renamed: Vec<_> = routes(new)
            .filter(|(_, id, _, name)| named.get(id).is_some_and(|before| before != name))
            .map(|(provider, _, model, _)| (provider, model))
            .collect();
        new.providers()
            .filter_map(|pool| {
                let before = old.provider(pool.provider.id)?;
                let mended = Self {
                    pool: pool.pool.clone(),
                    is_whole: called(&before.provider) != called(&pool.provider),
                    keys: changed_keys(before, pool),
                    models: renamed
                        .iter()
                        .filter_map(|(of, model)| (*of == pool.provider.id).then_some(*model))
                        .collect(),
                };
                let is_any = mended.is_whole || !mended.keys.is_empty() || !mended.models.is_empty();
                is_any.then_some(mended)
            })
            .collect()
    }

    /// Lifts the cooldowns.
    pub async fn give_another_chance(&self, admission: &Admission) {
        if self.is_whole {
            admission.clear(self.pool.provider, CoolScope::Provider).await;
        }
        let is_meant = |key: KeyId, model: Option<ModelId>| {
            let of_model = model.is_some_and(|model| self.models.contains(&model));
            self.is_whole || self.keys.contains(&key) || of_model
        };
        admission.clear_keys(&self.pool, is_meant).await;
    }
}

/// Every route: whose, its id, for which model and by what name.
fn routes(snapshot: &Snapshot) -> impl Iterator<Item = (ProviderId, RouteId, ModelId, &str)> {
    snapshot.models().flat_map(|served| &served.candidates).map(|candidate| {
        let route = &*candidate.route;
        (route.provider_id, route.id, route.model_id, route.upstream_model.as_str())
    })
}

/// What decides how a provider is called.
fn called(provider: &Provider) -> impl PartialEq + '_ {
    (&provider.base_url, provider.format, &provider.auth, provider.transport, &provider.headers)
}

/// What decides how a provider is called with a key.
fn presented(member: &PoolMember) -> impl PartialEq + '_ {
    let key = &member.key;
    (&key.fingerprint, &key.base_url, &key.params, member.is_usable())
}

fn changed_keys(old: &ProviderPool, new: &ProviderPool) -> BTreeSet<KeyId> {
    let before: IdMap<KeyId, _> = old.members().map(|member| (member.key.id, presented(member))).collect();
    new.members()
        .filter_map(|member| {
            let id = member.key.id;
            (*before.get(&id)? != presented(member)).then_some(id)
        })
        .collect()
}
