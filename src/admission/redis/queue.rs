//! What ended and waits to be told to Redis.

use std::{collections::VecDeque, time::Duration};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::calls::LeaseEnd;
use crate::{
    admission::{
        HOLD_FOR, SettlePass,
        local::{Ended, Owner, SPAN_S},
    },
    domain::{
        clock::Timestamp,
        ids::{ProviderId, RequestId, TenantId},
    },
};

/// So many wait at most; beyond, the oldest is dropped and lapses in Redis by itself.
const MOST: usize = 200_000;

/// One thing that ended.
pub enum Work {
    Lease { provider: ProviderId, end: LeaseEnd },
    Pass { end: SettlePass, ended: Option<Ended> },
    UndoPass { tenant: TenantId, request: RequestId },
}

impl Work {
    /// Whose counters must hear of it.
    pub const fn owner(&self) -> Owner {
        match self {
            Self::Lease { provider, .. } => Owner::Provider(*provider),
            Self::Pass { end, .. } => Owner::Tenant(end.tenant),
            Self::UndoPass { tenant, .. } => Owner::Tenant(*tenant),
        }
    }

    /// After so long it has lapsed by itself.
    const fn lapses_after(&self) -> Duration {
        match self {
            // It may have to be counted yet; the lease itself lapses before.
            Self::Lease { .. } => Duration::from_secs(SPAN_S.unsigned_abs()),
            Self::Pass { .. } | Self::UndoPass { .. } => HOLD_FOR,
        }
    }
}

/// Filled from any thread, emptied by `maintain`.
#[derive(Default)]
pub struct Queue {
    waiting: Mutex<VecDeque<(Timestamp, Work)>>,
    filled: Notify,
}

/// See [`Queue::taken`].
pub struct Taken<'q> {
    queue: &'q Queue,
    pub works: Vec<(Timestamp, Work)>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut waiting = self.queue.waiting.lock();
        for work in self.works.drain(..).rev() {
            waiting.push_front(work);
        }
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("waiting", &self.waiting.lock().len()).finish_non_exhaustive()
    }
}

impl Queue {
    /// Adds work; whether it is the first that waits, so that somebody must see to it.
    pub fn push(&self, now: Timestamp, work: Work) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.len() >= MOST {
            waiting.pop_front();
        }
        waiting.push_back((now.plus(work.lapses_after()), work));
        waiting.len() == 1
    }

    /// Has [`Self::filled`] return.
    pub fn call_for_help(&self) {
        self.filled.notify_one();
    }

    /// Takes up to `most` that have not lapsed.
    pub fn take(&self, now: Timestamp, most: usize) -> Vec<(Timestamp, Work)> {
        let mut waiting = self.waiting.lock();
        let mut taken = Vec::new();
        while taken.len() < most {
            match waiting.pop_front() {
                Some((lapses_at, _)) if lapses_at <= now => {}
                Some(work) => taken.push(work),
                None => break,
            }
        }
        taken
    }

    /// Works that were taken: those left in it when it is dropped wait again, in their old order.
    pub fn taken(&self, works: Vec<(Timestamp, Work)>) -> Taken<'_> {
        Taken { queue: self, works }
    }

    /// Returns when somebody called for help since the last time.
    pub async fn filled(&self) {
        self.filled.notified().await;
    }
}
