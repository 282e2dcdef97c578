//! The counters in this process: the default alone, and each replica's own part where Redis counts.
//!
//! | file | what |
//! |---|---|
//! | `window` | the sliding minute, and a replica's share of a limit |
//! | `tenant` | a tenant's windows, passes and holds |
//! | `pool` | a provider's keys: windows, leases, cooldowns |
//! | `view` | the keys as one model sees them, in the order of selection |
//! | `select` | the walk to the next usable key |
//! | `slot` | one key's counters, and a lease of it |
//! | `cooldown` | deadlines and back-off levels |
//! | `steady` | a clock that never goes back |
//! | `beside` | what a replica keeps here while Redis counts |
//! | `told` | which of that is known there |
//!
//! Tenants and providers are independent: each has its own lock, found through a map that is only
//! locked to read.

mod beside;
mod cooldown;
mod pool;
mod select;
mod slot;
mod steady;
mod tenant;
mod told;
mod view;
mod window;

use std::{hash::Hash, sync::Arc, time::Duration};

use parking_lot::{Mutex, RwLock};
use tokio_util::sync::CancellationToken;

pub(super) use self::cooldown::ladder;
pub(super) use self::{
    beside::{Ended, Owner},
    slot::Leased,
    tenant::Pass,
    told::{ANY_EPOCH_OR_NONE, Whose},
    window::{Bucket, SPAN_S, Share},
};
use self::{pool::Keys, steady::Now, steady::Steady, tenant::Door};
use super::{
    Acquire, Cool, CoolScope, Enter, KeyLive, LEASE_FOR, Lease, Past, Pool, Refused, SettleLease, SettlePass,
    Subject, SubjectLive,
};
use crate::domain::{
    clock::{SharedClock, Timestamp},
    ids::{IdMap, KeyId, ProviderId, TenantId},
};

/// Microseconds in a second.
const MICROS: i64 = 1_000_000;
/// A whole window, the wait named for a limit of zero.
const WHOLE: i64 = 60 * MICROS;
const HOUR: i64 = 3_600 * MICROS;
/// Later than anything.
const NEVER: i64 = i64::MAX;
/// When a key with a limit of zero comes back.
const NO_TIME: i64 = NEVER - 1;
/// Keys with some tokens left, but too few for this request, that one selection steps over.
pub(super) const SPARE_MISFITS: u32 = 64;
/// The wait named for a key without a free slot: nobody knows when a request ends.
const RETRY_SLOT: i64 = MICROS;
/// The wait named where only holds stand in the way.
pub(super) const RETRY_FUNDS: Duration = Duration::from_secs(1);
/// How often live leases and passes are renewed: a third of their life.
pub(super) const RENEW_EVERY: Duration = Duration::from_secs(15);

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

fn span(us: i64) -> Duration {
    Duration::from_micros(u64::try_from(us).unwrap_or(0))
}

fn lease_until(now: i64) -> i64 {
    now + micros(LEASE_FOR)
}

/// The in-process backend.
#[derive(Debug)]
pub struct Local {
    steady: Steady,
    tenants: RwLock<IdMap<TenantId, Arc<Mutex<Door>>>>,
    providers: RwLock<IdMap<ProviderId, Arc<Mutex<Keys>>>>,
}

impl Local {
    /// Empty counters that live by `clock`.
    #[must_use]
    pub fn new(clock: SharedClock) -> Self {
        Self { steady: Steady::new(clock), tenants: RwLock::default(), providers: RwLock::default() }
    }

    fn door(&self, tenant: TenantId) -> Arc<Mutex<Door>> {
        entry(&self.tenants, tenant)
    }

    fn keys(&self, provider: ProviderId) -> Arc<Mutex<Keys>> {
        entry(&self.providers, provider)
    }

    /// See [`super::Admission::admit`].
    pub fn admit(&self, enter: &Enter, acquire: &Acquire) -> Result<Lease, Refused> {
        self.admit_within(Share::ALL, enter, acquire)
    }

    /// Admits within one replica's share of every limit.
    pub(super) fn admit_within(
        &self,
        share: Share,
        enter: &Enter,
        acquire: &Acquire,
    ) -> Result<Lease, Refused> {
        let door = self.door(enter.tenant);
        door.lock().enter(self.steady.now().us, enter, share)?;
        self.acquire_within(share, acquire)
            .inspect_err(|_| door.lock().undo(self.steady.now().us, enter.request))
    }

    /// See [`super::Admission::acquire`].
    pub fn acquire(&self, acquire: &Acquire) -> Result<Lease, Refused> {
        self.acquire_within(Share::ALL, acquire)
    }

    /// Acquires within one replica's share of every limit.
    pub(super) fn acquire_within(&self, share: Share, acquire: &Acquire) -> Result<Lease, Refused> {
        let keys = self.keys(acquire.pool.provider);
        let mut keys = keys.lock();
        let now = self.steady.now();
        let key = keys.acquire(now.us, acquire, share).map_err(Refused::NoKey)?;
        if keys.version() == Some(acquire.pool.version)
            || acquire.pool.keys.iter().any(|known| known.id == key)
        {
            return Ok(lease(acquire, key, now));
        }
        // The counters follow a newer catalog than this caller, who would not know what to do with
        // a key added since.
        keys.undo(now.us, acquire.lease);
        drop(keys);
        let mut without = acquire.clone();
        without.exclude.push(key);
        self.acquire_within(share, &without)
    }

    /// See [`super::Admission::settle_lease`].
    pub fn settle_lease(&self, end: &SettleLease) {
        self.keys(end.lease.provider).lock().settle(self.steady.now().us, end);
    }

    /// See [`super::Admission::settle_pass`].
    pub fn settle_pass(&self, end: &SettlePass) {
        self.door(end.tenant).lock().settle(self.steady.now().us, end);
    }

    /// See [`super::Admission::cool`].
    pub fn cool(&self, cool: &Cool) -> Option<Timestamp> {
        let now = self.steady.now();
        self.keys(cool.provider).lock().cool(now.us, cool).map(|until| now.wall(until))
    }

    /// See [`super::Admission::clear`].
    pub fn clear(&self, provider: ProviderId, scope: CoolScope) {
        self.keys(provider).lock().clear(scope);
    }

    /// See [`super::Admission::inspect_pool`].
    pub fn inspect_pool(&self, pool: &Pool) -> Vec<(KeyId, KeyLive)> {
        let keys = self.keys(pool.provider);
        let mut keys = keys.lock();
        let now = self.steady.now();
        keys.sync(pool);
        pool.keys.iter().map(|key| (key.id, keys.inspect(now, key.id))).collect()
    }

    /// See [`super::Admission::inspect_tenant`].
    pub fn inspect_tenant(&self, tenant: TenantId, subjects: &[Subject]) -> Vec<SubjectLive> {
        let door = self.door(tenant);
        let mut door = door.lock();
        let now = self.steady.now();
        subjects.iter().map(|subject| door.inspect(now.us, *subject)).collect()
    }

    /// See [`super::Admission::remember`].
    pub fn remember(&self, mut past: Vec<Past>) {
        // In the order of time, which is the order in which keys were last used.
        past.sort_by_key(|attempt| attempt.at);
        let now = self.steady.now().us;
        for attempt in past {
            let at = attempt.at.unix_us().min(now);
            self.keys(attempt.provider).lock().remember(attempt.key, at, attempt.tokens);
            if !attempt.subjects.is_empty() {
                self.door(attempt.tenant).lock().remember(&attempt.subjects, at, attempt.tokens);
            }
        }
    }

    /// See [`super::Admission::maintain`].
    pub async fn maintain(&self, shutdown: CancellationToken) {
        while shutdown.run_until_cancelled(tokio::time::sleep(RENEW_EVERY)).await.is_some() {
            self.renew();
        }
    }

    /// Renews every live lease and pass; lets go of tenants that are idle.
    pub fn renew(&self) {
        let providers: Vec<_> = self.providers.read().values().cloned().collect();
        for keys in providers {
            keys.lock().renew(self.steady.now().us);
        }
        let tenants: Vec<_> = self.tenants.read().values().cloned().collect();
        for door in tenants {
            door.lock().renew(self.steady.now().us);
        }
        // A door that somebody holds right now is kept: what it is about to count would be lost.
        self.tenants.write().retain(|_, door| Arc::strong_count(door) > 1 || !door.lock().is_idle());
    }
}

fn lease(acquire: &Acquire, key: KeyId, now: Now) -> Lease {
    Lease { id: acquire.lease, provider: acquire.pool.provider, key, acquired_at: now.wall(now.us) }
}

fn entry<K: Eq + Hash + Copy, V: Default>(map: &RwLock<IdMap<K, Arc<Mutex<V>>>>, key: K) -> Arc<Mutex<V>> {
    if let Some(found) = map.read().get(&key) {
        return Arc::clone(found);
    }
    Arc::clone(map.write().entry(key).or_default())
}
