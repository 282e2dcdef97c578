//! The one door to both backends.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{
    Acquire, Cool, CoolScope, Enter, KeyLive, Lease, Past, Pool, Refused, SettleLease, SettlePass, Subject,
    SubjectLive, local::Local, redis::Redis,
};
use crate::domain::{
    clock::Timestamp,
    ids::{KeyId, ModelId, ProviderId, TenantId},
};

/// The counters of this deployment. Cheap to clone; one per process.
#[derive(Debug, Clone)]
pub enum Admission {
    /// Counted in this process.
    Local(Arc<Local>),
    /// Counted in Redis, by all replicas together.
    Redis(Arc<Redis>),
}

/// How the counters are doing, for `/readyz`, metrics and log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// Counted in this process, by design.
    Local,
    /// Counted in Redis, which answers.
    Shared,
    /// Redis is away: this replica spends its share of every limit.
    Degraded {
        /// Since when.
        since: Timestamp,
        /// One n-th of every limit is this replica's.
        share: u32,
    },
}

impl Admission {
    /// Lets a request in and leases its first key in one go. If one is refused the other is undone,
    /// window entry included.
    ///
    /// # Errors
    /// [`Refused`], saying what stood in the way and when another try is worth it.
    ///
    /// # Cancellation
    /// Dropped before it returns, what was counted lapses by itself; call [`Self::settle_pass`] by
    /// the request's id to give it back at once.
    pub async fn admit(&self, enter: &Enter, acquire: &Acquire) -> Result<Lease, Refused> {
        match self {
            Self::Local(local) => local.admit(enter, acquire),
            Self::Redis(redis) => Box::pin(redis.admit(enter, acquire)).await,
        }
    }

    /// Leases another key for a request that is in.
    ///
    /// # Errors
    /// [`Refused::NoKey`].
    ///
    /// # Cancellation
    /// Dropped before it returns, the lease lapses by itself.
    pub async fn acquire(&self, acquire: &Acquire) -> Result<Lease, Refused> {
        match self {
            Self::Local(local) => local.acquire(acquire),
            Self::Redis(redis) => Box::pin(redis.acquire(acquire)).await,
        }
    }

    /// Ends an attempt. Returns at once and may be called from `Drop` on any thread; the work is
    /// done by [`Self::maintain`] and repeated until it is done or the lease has lapsed.
    pub fn settle_lease(&self, end: SettleLease) {
        match self {
            Self::Local(local) => local.settle_lease(&end),
            Self::Redis(redis) => redis.settle_lease(&end),
        }
    }

    /// Ends a request: gives back slot and hold, corrects tpm. By id, so that a restarted process
    /// may settle what its journal shows. Returns at once, like [`Self::settle_lease`].
    pub fn settle_pass(&self, end: SettlePass) {
        match self {
            Self::Local(local) => local.settle_pass(&end),
            Self::Redis(redis) => redis.settle_pass(end),
        }
    }

    /// Takes something out; returns the deadline in force, none for a free first failure.
    pub async fn cool(&self, cool: &Cool) -> Option<Timestamp> {
        match self {
            Self::Local(local) => local.cool(cool),
            Self::Redis(redis) => Box::pin(redis.cool(cool)).await,
        }
    }

    /// Lifts a cooldown and forgets its back-off level.
    pub async fn clear(&self, provider: ProviderId, scope: CoolScope) {
        match self {
            Self::Local(local) => local.clear(provider, scope),
            Self::Redis(redis) => redis.clear(provider, scope).await,
        }
    }

    /// Lifts those cooldowns of a pool's keys that are `meant`, by key and model (none: for all models).
    pub async fn clear_keys(&self, pool: &Pool, meant: impl Fn(KeyId, Option<ModelId>) -> bool) {
        for (key, live) in self.inspect_pool(pool).await {
            for (model, ..) in live.cooldowns.into_iter().filter(|(model, ..)| meant(key, *model)) {
                let scope = model.map_or(CoolScope::Key(key), |model| CoolScope::KeyModel(key, model));
                self.clear(pool.provider, scope).await;
            }
        }
    }

    /// What an operator sees of a pool, in the order of its keys.
    pub async fn inspect_pool(&self, pool: &Pool) -> Vec<(KeyId, KeyLive)> {
        match self {
            Self::Local(local) => local.inspect_pool(pool),
            Self::Redis(redis) => redis.inspect_pool(pool).await,
        }
    }

    /// What an operator sees of a tenant, in the order of `subjects`.
    pub async fn inspect_tenant(&self, tenant: TenantId, subjects: &[Subject]) -> Vec<SubjectLive> {
        match self {
            Self::Local(local) => local.inspect_tenant(tenant, subjects),
            Self::Redis(redis) => redis.inspect_tenant(tenant, subjects).await,
        }
    }

    /// Counts what this process did before it was started again, in windows that it keeps itself;
    /// once, before anything else.
    pub fn remember(&self, past: Vec<Past>) {
        match self {
            Self::Local(local) => local.remember(past),
            Self::Redis(redis) => redis.remember(past),
        }
    }

    /// Renews what this process holds, settles what ended, watches Redis; one per process, until
    /// `shutdown`.
    ///
    /// # Cancellation
    /// Dropped, nothing is renewed any more and settlements wait.
    pub async fn maintain(&self, shutdown: CancellationToken) {
        match self {
            Self::Local(local) => local.maintain(shutdown).await,
            Self::Redis(redis) => redis.maintain(shutdown).await,
        }
    }

    /// How the counters are doing.
    #[must_use]
    pub fn health(&self) -> Health {
        match self {
            Self::Local(_) => Health::Local,
            Self::Redis(redis) => redis.health(),
        }
    }

    /// How many entries and keys were decided by this replica alone because Redis was away, since
    /// the start; for a metric.
    #[must_use]
    pub fn decided_alone(&self) -> u64 {
        match self {
            Self::Local(_) => 0,
            Self::Redis(redis) => redis.decided_alone(),
        }
    }
}
