//! The keys of one provider: windows, leases, cooldowns, and who is next.

use std::sync::Arc;

use super::{
    MICROS, NEVER, RETRY_SLOT, SPARE_MISFITS,
    cooldown::Cooldown,
    lease_until,
    select::Selection,
    slot::{Leased, Slot},
    steady::Now,
    told::{Gathered, Told, Whose},
    view::{Parked, Rank, View},
    window::Share,
};
use crate::{
    admission::{Acquire, Cool, CoolScope, KeyLive, NoKey, Pool, PoolKey, SettleLease},
    domain::{
        failure::FailureClass,
        ids::{IdMap, KeyId, LeaseId, ModelId, TenantId},
        limits::Limits,
    },
};

/// One provider's counters.
#[derive(Debug, Default)]
pub(super) struct Keys {
    version: Option<u64>,
    pub(super) slots: Vec<Slot>,
    index: IdMap<KeyId, u32>,
    owners: IdMap<Option<TenantId>, Vec<u32>>,
    pub(super) views: IdMap<(Option<TenantId>, ModelId), View>,
    pub(super) cooled: Cooldown,
    pub(super) models: IdMap<(KeyId, ModelId), Cooldown>,
    leases: IdMap<LeaseId, Leased>,
    used: u64,
    /// No lease lapses before.
    lapses_at: i64,
    pub told: Told,
}

impl Keys {
    pub const fn version(&self) -> Option<u64> {
        self.version
    }

    /// Takes over a newer configuration; counters of keys that stay, stay.
    pub fn sync(&mut self, pool: &Pool) {
        if self.version.is_some_and(|have| have >= pool.version) {
            return;
        }
        let mut old: IdMap<KeyId, Slot> = self.slots.drain(..).map(|slot| (slot.key.id, slot)).collect();
        self.version = Some(pool.version);
        self.views.clear();
        self.owners.clear();
        self.index.clear();
        for (at, key) in (0u32..).zip(pool.keys.iter()) {
            let mut slot = old.remove(&key.id).unwrap_or_else(|| Slot::new(*key));
            slot.key = *key;
            slot.waiting.clear();
            self.slots.push(slot);
            self.index.insert(key.id, at);
            self.owners.entry(key.tenant).or_default().push(at);
        }
        self.leases.retain(|_, lease| self.index.contains_key(&lease.key));
        self.models.retain(|(key, _), _| self.index.contains_key(key));
    }

    /// Counts and leases the next usable key.
    pub fn acquire(&mut self, now: i64, acquire: &Acquire, share: Share) -> Result<KeyId, NoKey> {
        self.sync(&acquire.pool);
        self.lapse(now);
        let visible = self.visible(acquire.tenant);
        if let Some((until, why)) = self.cooled.parks(now) {
            let retry_after = (visible > 0).then(|| super::span(until - now));
            let (limited, failing) = if why == Parked::Limited { (visible, 0) } else { (0, visible) };
            return Err(NoKey { retry_after, limited, failing, full: 0 });
        }
        let owners = [None, Some(acquire.tenant)];
        for owner in owners {
            self.open_view(owner, acquire.model, now);
        }
        let mut selection = Selection::new(acquire, self.slots_of(&acquire.exclude), now, share);
        match selection.walk(self) {
            Some(at) => Ok(self.lease(at, now, acquire)),
            None => Err(selection.none_left(self)),
        }
    }

    /// How many keys exist for a tenant.
    fn visible(&self, tenant: TenantId) -> u32 {
        let of = |owner| self.owners.get(&owner).map_or(0, Vec::len);
        u32::try_from(of(None) + of(Some(tenant))).unwrap_or(u32::MAX)
    }

    fn slots_of(&self, keys: &[KeyId]) -> Vec<u32> {
        keys.iter().filter_map(|key| self.index.get(key).copied()).collect()
    }

    fn open_view(&mut self, owner: Option<TenantId>, model: ModelId, now: i64) {
        let Some(members) = self.owners.get(&owner) else { return };
        let slots = &self.slots;
        let view = self
            .views
            .entry((owner, model))
            .or_insert_with(|| View::of(members.iter().map(|at| rank(slots, *at))));
        while let Some(at) = view.due(now) {
            view.put(rank(slots, at));
        }
    }

    fn lease(&mut self, at: u32, now: i64, acquire: &Acquire) -> KeyId {
        let key = self.slots[at as usize].key.id;
        let second = now.div_euclid(MICROS);
        let lease =
            Leased { key, second, tokens: acquire.tokens, until: lease_until(now), shared_second: None };
        self.count(at, now, acquire.lease, lease);
        let owner = self.slots[at as usize].key.tenant;
        if let Some(view) = self.views.get_mut(&(owner, acquire.model)) {
            view.put(rank(&self.slots, at));
        }
        key
    }

    fn count(&mut self, at: u32, now: i64, id: LeaseId, lease: Leased) {
        self.told.counted(now);
        self.used += 1;
        let slot = &mut self.slots[at as usize];
        slot.used = self.used;
        slot.used_at = now;
        slot.window(lease.second).add(lease.second, 1, lease.tokens);
        slot.in_flight += 1;
        if self.leases.is_empty() {
            self.lapses_at = lease.until;
        }
        self.leases.insert(id, lease);
    }

    /// Counts what the shared counters granted, so that this process knows its own part.
    pub fn note(&mut self, now: i64, acquire: &Acquire, key: KeyId, shared_second: Option<i64>) {
        self.sync(&acquire.pool);
        self.lapse(now);
        let Some(at) = self.index.get(&key).copied() else { return };
        let second = now.div_euclid(MICROS);
        let lease = Leased { key, second, tokens: acquire.tokens, until: lease_until(now), shared_second };
        self.count(at, now, acquire.lease, lease);
    }

    /// Counts an attempt of an earlier life. What else is known of its key comes with the first pool.
    pub fn remember(&mut self, id: KeyId, at: i64, tokens: u64) {
        let known = self.index.entry(id).or_insert_with(|| {
            self.slots.push(Slot::new(PoolKey { id, tenant: None, priority: 0, limits: Limits::default() }));
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        let slot = &mut self.slots[*known as usize];
        self.told.counted(at);
        self.used += 1;
        (slot.used, slot.used_at) = (self.used, at);
        let second = at.div_euclid(MICROS);
        slot.window(second).add(second, 1, tokens);
    }

    /// Undoes an acquire, window entry included.
    pub fn undo(&mut self, now: i64, id: LeaseId) {
        if let Some(lease) = self.release(now, id) {
            self.correct(now, &lease, 1, lease.tokens, 0);
        }
    }

    /// Ends an attempt; returns its lease if it was live.
    pub fn settle(&mut self, now: i64, end: &SettleLease) -> Option<Leased> {
        if end.served {
            self.reset_levels(now, end.lease.key, end.model);
        }
        let lease = self.release(now, end.lease.id)?;
        if let Some(used) = end.used {
            self.correct(now, &lease, 0, lease.tokens, used);
        }
        Some(lease)
    }

    /// A success ends the row of failures; a cooldown that another request set meanwhile stays.
    fn reset_levels(&mut self, now: i64, key: KeyId, model: ModelId) {
        if self.models.get(&(key, model)).is_some_and(|cooled| cooled.in_force(now).is_none()) {
            self.models.remove(&(key, model));
        }
        let slot = self.index.get(&key).map(|at| &mut self.slots[*at as usize].cooled);
        for cooled in
            slot.into_iter().chain([&mut self.cooled]).filter(|cooled| cooled.in_force(now).is_none())
        {
            *cooled = Cooldown::default();
        }
    }

    fn correct(&mut self, now: i64, lease: &Leased, requests: u32, reserved: u64, used: u64) {
        let Some(slot) = self.index.get(&lease.key).map(|at| &mut self.slots[*at as usize]) else { return };
        let window = slot.window(now.div_euclid(MICROS));
        window.take_back(lease.second, requests, reserved.saturating_sub(used));
        window.add(lease.second, 0, used.saturating_sub(reserved));
    }

    fn release(&mut self, now: i64, id: LeaseId) -> Option<Leased> {
        self.lapse(now);
        let lease = self.leases.remove(&id)?;
        self.free_slot(lease.key);
        Some(lease)
    }

    fn free_slot(&mut self, key: KeyId) {
        if let Some(at) = self.index.get(&key).copied() {
            self.slots[at as usize].in_flight -= 1;
            self.reconsider(at);
        }
    }

    /// Gives a key that waits for a slot or for tokens another look.
    fn reconsider(&mut self, at: u32) {
        let waiting = std::mem::take(&mut self.slots[at as usize].waiting);
        let owner = self.slots[at as usize].key.tenant;
        for model in waiting {
            if let Some(view) = self.views.get_mut(&(owner, model))
                && view.parked_as(at).is_some()
            {
                view.put(rank(&self.slots, at));
            }
        }
    }

    /// Remembers that a key is parked in a model's view until something is given back.
    pub(super) fn wait(&mut self, at: u32, model: ModelId) {
        let waiting = &mut self.slots[at as usize].waiting;
        if !waiting.contains(&model) {
            waiting.push(model);
        }
    }

    /// Frees the slots of leases that nobody renewed.
    fn lapse(&mut self, now: i64) {
        if now < self.lapses_at || self.leases.is_empty() {
            return;
        }
        let lapsed: Vec<(LeaseId, KeyId)> = self
            .leases
            .iter()
            .filter(|(_, lease)| lease.until <= now)
            .map(|(id, lease)| (*id, lease.key))
            .collect();
        for (id, key) in lapsed {
            self.leases.remove(&id);
            self.free_slot(key);
        }
        self.lapses_at = self.leases.values().map(|lease| lease.until).min().unwrap_or(NEVER);
    }

    /// Renews every live lease and forgets cooldowns that nobody would miss.
    pub fn renew(&mut self, now: i64) {
        self.lapse(now);
        for lease in self.leases.values_mut() {
            lease.until = lease_until(now);
        }
        self.models.retain(|_, cooled| !cooled.is_stale(now));
    }

    pub fn leases(&self) -> impl Iterator<Item = (LeaseId, &Leased)> {
        self.leases.iter().map(|(id, lease)| (*id, lease))
    }

    /// What the shared counters of epoch `there` must be told again; none: all stands there.
    pub fn tell_again(&mut self, now: i64, there: Option<i64>, is_kept: bool) -> Option<Arc<Gathered>> {
        self.lapse(now);
        let windows = self
            .slots
            .iter()
            .filter_map(|slot| Some((Whose::Key(slot.key.id), slot.window.as_deref()?.clone())));
        let live = self.leases.values().map(|lease| (Whose::Key(lease.key), lease.second, lease.tokens));
        let gathered = self.told.again(now, there, is_kept, windows, live)?;
        for lease in self.leases.values_mut() {
            lease.shared_second = None;
        }
        Some(gathered)
    }

    pub fn lease_mut(&mut self, id: LeaseId) -> Option<&mut Leased> {
        self.leases.get_mut(&id)
    }

    pub fn cool(&mut self, now: i64, cool: &Cool) -> Option<i64> {
        match cool.scope {
            CoolScope::Provider => self.cooled.extend(now, cool.span, cool.reason),
            CoolScope::Key(key) => {
                let at = *self.index.get(&key)?;
                self.slots[at as usize].cooled.extend(now, cool.span, cool.reason)
            }
            CoolScope::KeyModel(key, model) => {
                self.models.entry((key, model)).or_default().extend(now, cool.span, cool.reason)
            }
        }
    }

    pub fn clear(&mut self, scope: CoolScope) {
        let key = match scope {
            CoolScope::Provider => {
                self.cooled = Cooldown::default();
                return;
            }
            CoolScope::Key(key) => key,
            CoolScope::KeyModel(key, model) => {
                self.models.remove(&(key, model));
                key
            }
        };
        let Some(at) = self.index.get(&key).copied() else { return };
        if scope == CoolScope::Key(key) {
            self.slots[at as usize].cooled = Cooldown::default();
        }
        for view in self.views.values_mut() {
            if view.parked_as(at).is_some() {
                view.put(rank(&self.slots, at));
            }
        }
    }

    /// What is out, for how long and why.
    pub fn cooling(&self, now: i64) -> impl Iterator<Item = (CoolScope, i64, FailureClass)> {
        let of_keys = self.slots.iter().map(|slot| (CoolScope::Key(slot.key.id), &slot.cooled));
        let of_models =
            self.models.iter().map(|((key, model), cooled)| (CoolScope::KeyModel(*key, *model), cooled));
        of_keys
            .chain(of_models)
            .chain([(CoolScope::Provider, &self.cooled)])
            .filter_map(move |(scope, cooled)| Some((scope, cooled.in_force(now)? - now, cooled.reason?)))
    }

    pub fn inspect(&mut self, now: Now, key: KeyId) -> KeyLive {
        self.lapse(now.us);
        let Some(at) = self.index.get(&key).copied() else { return KeyLive::default() };
        let slot = &mut self.slots[at as usize];
        let window = slot.window(now.second());
        let (rpm_used, tpm_used) = (window.request_sum(), window.token_sum());
        let of_models =
            self.models.iter().filter(|((of, _), _)| *of == key).map(|((_, model), c)| (Some(*model), c));
        let of_all = [(None, &slot.cooled), (None, &self.cooled)];
        let cooldowns = of_all
            .into_iter()
            .chain(of_models)
            .filter_map(|(model, c)| {
                Some((model, now.wall(c.in_force(now.us)?), c.reason?.as_str().to_owned()))
            })
            .collect();
        KeyLive {
            rpm_used,
            tpm_used,
            in_flight: slot.in_flight,
            last_used_at: (slot.used_at > 0).then(|| now.wall(slot.used_at)),
            cooldowns,
        }
    }

    /// Where a key stands in the order of ready keys.
    pub(super) fn rank(&self, at: u32) -> Rank {
        rank(&self.slots, at)
    }

    pub(super) const fn misfits_allowed() -> u32 {
        SPARE_MISFITS
    }

    pub(super) const fn slot_free_at(now: i64) -> i64 {
        now + RETRY_SLOT
    }
}

fn rank(slots: &[Slot], at: u32) -> Rank {
    let slot = &slots[at as usize];
    (slot.key.priority, slot.used, at)
}
