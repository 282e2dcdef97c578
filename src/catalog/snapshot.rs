//! What a request sees of the catalog: built once per change, never modified.

use std::sync::{Arc, OnceLock};

use crate::{
    admission::{Pool, PoolKey},
    domain::{
        ids::{IdMap, KeyId, ProviderId},
        key::{Key, KeyState},
        model::{Model, Route},
        order,
        provider::Provider,
    },
    net::Target,
    store::CatalogRows,
    telemetry::{Metrics, ModelMetrics, ProviderMetrics},
};

/// Everything that can be served, as it stood at one version of the store.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The store's catalog version it was read at.
    pub version: i64,
    models: IdMap<String, Arc<Served>>,
    providers: IdMap<ProviderId, Arc<ProviderPool>>,
}

/// A model and the routes that serve it, in the order they are tried.
#[derive(Debug)]
pub struct Served {
    /// The model.
    pub model: Model,
    /// Enabled routes to enabled providers.
    pub candidates: Vec<Candidate>,
    counters: OnceLock<ModelMetrics>,
}

/// One way to serve a model.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The route.
    pub route: Arc<Route>,
    /// Where it leads.
    pub provider: Arc<ProviderPool>,
}

/// A provider with its keys.
#[derive(Debug)]
pub struct ProviderPool {
    /// The provider.
    pub provider: Provider,
    /// Where its calls go, unless a key says otherwise.
    pub target: Target,
    /// The keys as admission knows them: active ones only.
    pub pool: Pool,
    members: IdMap<KeyId, Arc<PoolMember>>,
    counters: OnceLock<ProviderMetrics>,
}

/// A key of a pool.
#[derive(Debug)]
pub struct PoolMember {
    /// The key, its secret sealed.
    pub key: Key,
    /// Its own base URL, where it has one.
    pub target: Option<Target>,
}

impl Served {
    /// The model's counters, found by its name once.
    pub fn counters(&self, metrics: &Metrics) -> &ModelMetrics {
        self.counters.get_or_init(|| metrics.model(&self.model.name))
    }
}

impl PoolMember {
    /// Whether requests may be sent with it.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.key.state == KeyState::Active
    }
}

impl ProviderPool {
    /// The key of an acquired lease; none when it was removed or put out of use meanwhile.
    #[must_use]
    pub fn member(&self, id: KeyId) -> Option<&Arc<PoolMember>> {
        self.members.get(&id).filter(|member| member.is_usable())
    }

    /// The provider's counters, found by its name once.
    pub fn counters(&self, metrics: &Metrics) -> &ProviderMetrics {
        self.counters.get_or_init(|| metrics.provider(&self.provider.name))
    }

    /// Every key, in no particular order, those out of use included.
    pub fn members(&self) -> impl Iterator<Item = &Arc<PoolMember>> {
        self.members.values()
    }
}

impl Snapshot {
    /// A snapshot of `rows`. Pools that did not change since `previous` keep their version, so that
    /// admission need not load them again. A provider or key whose URL does not parse is left out
    /// and logged: the admin surface refuses such URLs, so only a foreign hand can have written it.
    #[must_use]
    pub fn build(rows: CatalogRows, previous: &Self) -> Self {
        let mut keys: IdMap<ProviderId, Vec<Key>> = IdMap::default();
        for key in rows.keys {
            keys.entry(key.provider_id).or_default().push(key);
        }
        let providers: IdMap<_, _> = rows
            .providers
            .into_iter()
            .filter_map(|provider| {
                let id = provider.id;
                let keys = keys.remove(&id).unwrap_or_default();
                let pool = provider_pool(provider, keys, rows.version, previous.providers.get(&id))?;
                Some((id, Arc::new(pool)))
            })
            .collect();
        let mut routes: IdMap<_, Vec<Route>> = IdMap::default();
        for route in rows.routes {
            routes.entry(route.model_id).or_default().push(route);
        }
        let models = rows
            .models
            .into_iter()
            .map(|model| {
                let routes = routes.remove(&model.id).unwrap_or_default();
                let candidates = candidates(routes, &providers);
                (model.name.clone(), Arc::new(Served { model, candidates, counters: OnceLock::new() }))
            })
            .collect();
        Self { version: rows.version, models, providers }
    }

    /// The model of exactly this name, disabled ones included.
    #[must_use]
    pub fn model(&self, name: &str) -> Option<&Arc<Served>> {
        self.models.get(name)
    }

    /// Every model, in no particular order.
    pub fn models(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.models.values()
    }

    /// Every provider, disabled ones included.
    pub fn providers(&self) -> impl Iterator<Item = &Arc<ProviderPool>> {
        self.providers.values()
    }

    /// The provider of this id.
    #[must_use]
    pub fn provider(&self, id: ProviderId) -> Option<&Arc<ProviderPool>> {
        self.providers.get(&id)
    }
}

fn candidates(routes: Vec<Route>, providers: &IdMap<ProviderId, Arc<ProviderPool>>) -> Vec<Candidate> {
    let mut candidates: Vec<_> = routes
        .into_iter()
        .filter(|route| route.enabled)
        .filter_map(|route| {
            let provider = providers.get(&route.provider_id).filter(|pool| pool.provider.enabled)?;
            Some(Candidate { route: Arc::new(route), provider: Arc::clone(provider) })
        })
        .collect();
    order::order(&mut candidates, |candidate| (candidate.provider.provider.tier, &*candidate.route));
    candidates
}

fn provider_pool(
    provider: Provider,
    keys: Vec<Key>,
    version: i64,
    previous: Option<&Arc<ProviderPool>>,
) -> Option<ProviderPool> {
    let connect = provider.timeouts.connect();
    let parse = |url: &str| {
        Target::parse(url, provider.transport, connect).inspect_err(|error| {
            tracing::error!(provider = provider.name, %error, "unusable base URL, left out of the catalog");
        })
    };
    let target = parse(&provider.base_url).ok()?;
    let members: IdMap<_, _> = keys
        .into_iter()
        .filter_map(|key| {
            let target = key.base_url.as_deref().map(parse).transpose().ok()?;
            Some((key.id, Arc::new(PoolMember { key, target })))
        })
        .collect();
    let mut pool_keys: Vec<_> =
        members.values().filter(|member| member.is_usable()).map(|member| pool_key(&member.key)).collect();
    pool_keys.sort_unstable_by_key(|key| key.id);
    let pool = match previous {
        Some(old) if *old.pool.keys == *pool_keys => old.pool.clone(),
        _ => Pool { provider: provider.id, version: version.unsigned_abs(), keys: pool_keys.into() },
    };
    Some(ProviderPool { provider, target, pool, members, counters: OnceLock::new() })
}

fn pool_key(key: &Key) -> PoolKey {
    PoolKey { id: key.id, tenant: key.tenant_id, priority: key.priority, limits: key.limits }
}
