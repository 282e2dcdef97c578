//! Compares what the files say with what the store has.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    ApplyError, Problem, Step,
    entries::{ModelEntry, ProviderEntry, RouteEntry},
    known,
    read::{Place, Placed, ProviderRoutes, Wanted},
    secrets::Environment,
};
use crate::{
    domain::{
        clock::{Clock, Entropy, Timestamp},
        faults::Fault,
        ids::{ModelId, ProviderId, RouteId, TenantId},
        model::{Model, Route},
        provider::Provider,
    },
    net::{Guard, base_url_fault},
    store::{Store, StoreError},
    vault::Vault,
};

/// What applying takes.
pub struct Tools<'a> {
    /// What is compared with.
    pub store: &'a Store,
    /// Seals credentials.
    pub vault: &'a Vault,
    /// Says which base URLs can be called.
    pub guard: &'a Guard,
    /// Time of changes.
    pub clock: &'a dyn Clock,
    /// For ids.
    pub entropy: &'a dyn Entropy,
    /// For credentials that are in environment variables.
    pub environment: &'a Environment<'a>,
}

/// Makes the steps, and collects problems instead while there are any.
pub(super) struct Planner<'a> {
    pub(super) tools: &'a Tools<'a>,
    pub(super) now: Timestamp,
    pub(super) prune: bool,
    pub(super) steps: Vec<Step>,
    problems: Vec<Problem>,
    /// What the files name, with the place that named it first.
    named: BTreeMap<String, String>,
    pub(super) tenants: BTreeMap<String, TenantId>,
    providers: BTreeMap<String, ProviderId>,
    models: BTreeMap<String, ModelId>,
}

/// An object's own columns: as they were, or new.
macro_rules! birth {
    ($planner:expr, $old:expr, $id:ident) => {
        match $old {
            Some(old) => (old.id, old.version, old.created_at),
            None => {
                let (now, random) = ($planner.now, $planner.tools.entropy.id_bytes());
                ($id::generate(now, random), 1, now)
            }
        }
    };
}
pub(super) use birth;

impl<'a> Planner<'a> {
    pub(super) fn new(tools: &'a Tools<'a>, prune: bool) -> Self {
        Self {
            tools,
            now: tools.clock.now(),
            prune,
            steps: Vec::new(),
            problems: Vec::new(),
            named: BTreeMap::new(),
            tenants: BTreeMap::new(),
            providers: BTreeMap::new(),
            models: BTreeMap::new(),
        }
    }

    /// Goes through everything, what is referred to before what refers to it.
    pub(super) async fn plan(mut self, wanted: &Wanted<'_>) -> Result<Vec<Step>, ApplyError> {
        for tenant in &wanted.tenants {
            self.tenant(tenant).await?;
        }
        for provider in &wanted.providers {
            self.provider(provider).await?;
        }
        for model in &wanted.models {
            self.model(model).await?;
        }
        for routes in &wanted.routes {
            self.routes(routes).await?;
        }
        if self.problems.is_empty() { Ok(self.steps) } else { Err(ApplyError::Refused(self.problems)) }
    }

    async fn provider(&mut self, wanted: &Placed<'_, ProviderEntry>) -> Result<(), ApplyError> {
        let Placed { place, entry } = wanted;
        let old = self.tools.store.find_provider_by_name(&entry.name).await?;
        let (id, version, created_at) = birth!(self, &old, ProviderId);
        let provider = Provider {
            id,
            name: entry.name.clone(),
            base_url: entry.base_url.clone(),
            format: entry.format,
            auth: entry.auth.clone(),
            tier: entry.tier,
            transport: entry.transport,
            headers: entry.headers.clone(),
            timeouts: entry.timeouts,
            enabled: entry.enabled,
            version,
            created_at,
            updated_at: self.now,
        };
        let name = format!("provider {}", entry.name);
        self.claim(place, &name);
        self.faults(place, provider.faults());
        self.base_url(place, Some(&entry.base_url));
        self.providers.insert(entry.name.clone(), id);
        self.steps.push(Step::settle(name, old.as_ref(), provider));
        if let Some(keys) = &entry.keys {
            self.keys(place, id, entry, keys).await?;
        }
        Ok(())
    }

    async fn model(&mut self, wanted: &Placed<'_, ModelEntry>) -> Result<(), ApplyError> {
        let Placed { place, entry } = wanted;
        let old = self.tools.store.find_model_by_name(&entry.name).await?;
        let (id, version, created_at) = birth!(self, &old, ModelId);
        let model = Model {
            id,
            name: entry.name.clone(),
            capabilities: entry.capabilities,
            context_tokens: entry.context_tokens,
            max_output_tokens: entry.max_output_tokens,
            prices: (&entry.prices).into(),
            enabled: entry.enabled,
            version,
            created_at,
            updated_at: self.now,
        };
        let name = format!("model {}", entry.name);
        self.claim(place, &name);
        self.faults(place, model.faults());
        self.models.insert(entry.name.clone(), id);
        self.steps.push(Step::settle(name, old.as_ref(), model));
        Ok(())
    }

    async fn routes(&mut self, wanted: &ProviderRoutes<'_>) -> Result<(), ApplyError> {
        let provider = &wanted.provider;
        let Some(provider_id) = self.provider_id(&wanted.place, provider).await? else { return Ok(()) };
        let known = known::routes(self.tools.store, provider_id).await?;
        let mut listed = Vec::new();
        for Placed { place, entry } in &wanted.routes {
            let Some(model_id) = self.model_id(&place.below("model"), &entry.model).await? else { continue };
            listed.push((place, entry, model_id));
        }
        let olds =
            pair(&listed.iter().map(|(_, entry, id)| (*id, entry.upstream())).collect::<Vec<_>>(), &known);
        for ((place, entry, model_id), old) in listed.iter().zip(&olds) {
            let (id, version, created_at) = birth!(self, old, RouteId);
            let route = Route {
                id,
                model_id: *model_id,
                provider_id,
                upstream_model: entry.upstream().to_owned(),
                priority: entry.priority,
                weight: entry.weight,
                cost: (&entry.cost).into(),
                capabilities: entry.capabilities,
                enabled: entry.enabled,
                version,
                created_at,
                updated_at: self.now,
            };
            let name = format!("route {} → {provider}/{}", entry.model, entry.upstream());
            self.claim(place, &name);
            self.faults(place, route.faults());
            self.steps.push(Step::settle(name, *old, route));
        }
        let kept: BTreeSet<RouteId> = olds.iter().flatten().map(|route| route.id).collect();
        for route in known.iter().filter(|route| self.prune && !kept.contains(&route.id)) {
            let name = format!("route {} → {provider}/{}", route.model_id, route.upstream_model);
            self.steps.push(Step::remove(name, route.clone()));
        }
        Ok(())
    }

    pub(super) async fn tenant_id(
        &mut self,
        place: &Place<'_>,
        name: &str,
    ) -> Result<Option<TenantId>, StoreError> {
        if let Some(id) = self.tenants.get(name) {
            return Ok(Some(*id));
        }
        let found = self.tools.store.find_tenant_by_name(name).await?.map(|tenant| tenant.id);
        Ok(self.found(place, "tenant", found))
    }

    async fn provider_id(&mut self, place: &Place<'_>, name: &str) -> Result<Option<ProviderId>, StoreError> {
        if let Some(id) = self.providers.get(name) {
            return Ok(Some(*id));
        }
        let found = self.tools.store.find_provider_by_name(name).await?.map(|provider| provider.id);
        Ok(self.found(place, "provider", found))
    }

    async fn model_id(&mut self, place: &Place<'_>, name: &str) -> Result<Option<ModelId>, StoreError> {
        if let Some(id) = self.models.get(name) {
            return Ok(Some(*id));
        }
        let found = self.tools.store.find_model_by_name(name).await?.map(|model| model.id);
        Ok(self.found(place, "model", found))
    }

    fn found<T>(&mut self, place: &Place<'_>, kind: &str, found: Option<T>) -> Option<T> {
        if found.is_none() {
            self.problems
                .push(place.problem(format!("there is no such {kind}, in these files or in the store")));
        }
        found
    }

    /// Takes a name for one place of the files; a second one is a problem.
    pub(super) fn claim(&mut self, place: &Place<'_>, name: &str) {
        let here = place.problem("").position();
        if let Some(there) = self.named.get(name) {
            self.problems.push(place.problem(format!("{name} stands at {there} already")));
        } else {
            self.named.insert(name.to_owned(), here);
        }
    }

    pub(super) fn faults(&mut self, place: &Place<'_>, faults: Vec<Fault>) {
        let told = faults.into_iter().map(|fault| place.below(&fault.field).problem(fault.reason));
        self.problems.extend(told);
    }

    pub(super) fn problem(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    pub(super) fn base_url(&mut self, place: &Place<'_>, url: Option<&str>) {
        let fault = url.and_then(|url| base_url_fault(url, self.tools.guard));
        self.problems.extend(fault.map(|reason| place.below("base_url").problem(reason)));
    }
}

impl RouteEntry {
    fn upstream(&self) -> &str {
        self.upstream_model.as_deref().unwrap_or(&self.model)
    }
}

/// Which known route each wanted one is: that of the same upstream model, else the only one of its
/// model that is left when only one of the wanted is, which then gets another upstream model.
fn pair<'k>(wanted: &[(ModelId, &str)], known: &'k [Route]) -> Vec<Option<&'k Route>> {
    let same = |model: ModelId, upstream: &str| {
        known.iter().find(|route| route.model_id == model && route.upstream_model == upstream)
    };
    let exact: Vec<_> = wanted.iter().map(|&(model, upstream)| same(model, upstream)).collect();
    let taken: BTreeSet<RouteId> = exact.iter().flatten().map(|route| route.id).collect();
    let only = |at: usize, model: ModelId| {
        let is_alone = wanted
            .iter()
            .zip(&exact)
            .enumerate()
            .all(|(other, ((id, _), old))| other == at || *id != model || old.is_some());
        let mut left = known.iter().filter(|route| route.model_id == model && !taken.contains(&route.id));
        match (left.next(), left.next()) {
            (Some(route), None) if is_alone => Some(route),
            _ => None,
        }
    };
    exact
        .iter()
        .zip(wanted)
        .enumerate()
        .map(|(at, (old, (model, _)))| old.or_else(|| only(at, *model)))
        .collect()
}
