//! What Redis has counted and its asker may not live to hear of.

use std::sync::Arc;

use ::redis::Value;

use super::{
    Redis,
    calls::{self, Acquired, LeaseEnd},
    queue::Work,
    scripts::Op,
};
use crate::{
    admission::{Acquire, Enter, local::Local},
    domain::ids::{LeaseId, ModelId, ProviderId, RequestId, TenantId},
    telemetry::labels::AdmissionOp,
};

/// Who asked what, as far as undoing it needs.
#[derive(Debug, Clone, Copy)]
pub enum Asker {
    Enter { tenant: TenantId, request: RequestId },
    Acquire { provider: ProviderId, lease: LeaseId, model: ModelId, tokens: u64 },
}

impl Asker {
    pub const fn of_enter(enter: &Enter) -> Self {
        Self::Enter { tenant: enter.tenant, request: enter.request }
    }

    pub const fn of_acquire(acquire: &Acquire) -> Self {
        let Acquire { lease, model, tokens, .. } = *acquire;
        Self::Acquire { provider: acquire.pool.provider, lease, model, tokens }
    }

    /// What it is counted as.
    pub const fn label(self) -> AdmissionOp {
        match self {
            Self::Enter { .. } => Op::Enter.label(),
            Self::Acquire { .. } => Op::Acquire.label(),
        }
    }

    /// What undoes the answer, if it counted something.
    fn undoing(self, answer: &Value) -> Option<Work> {
        match self {
            Self::Enter { tenant, request } => {
                calls::has_entered(answer).then_some(Work::UndoPass { tenant, request })
            }
            Self::Acquire { provider, lease, model, tokens } => match calls::acquired(answer) {
                Ok(Acquired::Leased { granted, .. }) => {
                    Some(Work::Lease { provider, end: LeaseEnd::undone(lease, model, tokens, &granted) })
                }
                _ => None,
            },
        }
    }
}

/// An answer that is undone when it is dropped, by whoever did not wait for it or has no use for it, unless it
/// is kept.
pub struct Tentative<T> {
    redis: Arc<Redis>,
    undoing: Option<Work>,
    value: T,
}

impl Tentative<Value> {
    pub fn new(redis: Arc<Redis>, asker: Asker, value: Value) -> Self {
        Self { undoing: asker.undoing(&value), redis, value }
    }

    /// Whether what was counted is what is live here.
    pub fn is_of(&self, own: &Local) -> bool {
        match &self.undoing {
            Some(Work::UndoPass { tenant, request }) => own.has_pass(*tenant, *request),
            Some(Work::Lease { provider, end }) => own.has_lease(*provider, end.lease, end.key),
            Some(Work::Pass { .. }) | None => false,
        }
    }
}

impl<T> Tentative<T> {
    /// Of something that counts nothing.
    pub const fn of_nothing(redis: Arc<Redis>, value: T) -> Self {
        Self { redis, undoing: None, value }
    }

    pub const fn value(&self) -> &T {
        &self.value
    }

    /// The same, as something that was read from it.
    pub fn with<U>(mut self, value: U) -> Tentative<U> {
        Tentative { redis: Arc::clone(&self.redis), undoing: self.undoing.take(), value }
    }
}

impl<T: Copy> Tentative<T> {
    /// It counts.
    pub fn keep(mut self) -> T {
        self.undoing = None;
        self.value
    }
}

impl<T> Drop for Tentative<T> {
    fn drop(&mut self) {
        if let Some(work) = self.undoing.take() {
            self.redis.tell_soon(work);
        }
    }
}
