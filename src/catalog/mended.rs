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
                    keys: changed_keys(before, pool).collect(),
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
        let provider = self.pool.provider;
        if self.is_whole {
            admission.clear(provider, CoolScope::Provider).await;
        }
        let concerns = |key: KeyId, model: Option<ModelId>| {
            let of_model = model.is_some_and(|model| self.models.contains(&model));
            self.is_whole || self.keys.contains(&key) || of_model
        };
        for (key, live) in admission.inspect_pool(&self.pool).await {
            for (model, ..) in live.cooldowns.into_iter().filter(|(model, ..)| concerns(key, *model)) {
                let scope = model.map_or(CoolScope::Key(key), |model| CoolScope::KeyModel(key, model));
                admission.clear(provider, scope).await;
            }
        }
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

fn changed_keys<'a>(old: &'a ProviderPool, new: &'a ProviderPool) -> impl Iterator<Item = KeyId> + 'a {
    let called = |member: &PoolMember| {
        let key = &member.key;
        (key.fingerprint.clone(), key.base_url.clone(), key.params.clone(), member.is_usable())
    };
    let before: IdMap<KeyId, _> = old.members().map(|member| (member.key.id, called(member))).collect();
    let is_changed =
        move |member: &PoolMember| before.get(&member.key.id).is_some_and(|before| *before != called(member));
    new.members().filter(move |member| is_changed(member)).map(|member| member.key.id)
}
