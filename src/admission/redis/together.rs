//! Operations of one moment on one owner's keys, in one call.
//!
//! A call costs this process some ten microseconds, its answer wakes a thread, and a script reads and
//! writes an owner's keys however little it does. Under load the requests of one turn of a thread ask
//! about the same few owners, so what is asked in one turn goes out together at its end.

use std::{
    collections::HashMap,
    sync::Arc,
    thread::{self, ThreadId},
};

use ::redis::Value;
use parking_lot::Mutex;
use tokio::{runtime::Handle, sync::oneshot, task::yield_now, time::timeout};

use super::{
    Away, Redis,
    connect::timed_out,
    scripts::Call,
    tentative::{Asker, Tentative},
};
use crate::admission::local::Owner;

/// Operations in one call: Redis does nothing else until the last of them is done.
const AT_ONCE: usize = 32;

/// Who asked, and where the answer goes.
type Waiting = (Asker, oneshot::Sender<Result<Tentative<Value>, Away>>);
/// Something asked.
type Asked = (Call, Waiting);

/// What the threads are about to ask.
#[derive(Default)]
pub struct Together(Mutex<HashMap<(ThreadId, Owner), Vec<Asked>>>);

impl std::fmt::Debug for Together {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Together").finish_non_exhaustive()
    }
}

impl Together {
    /// Adds to what is asked of an owner at the end of this turn; whether it is the first.
    fn add(&self, by: (ThreadId, Owner), asked: Asked) -> bool {
        let mut asking = self.0.lock();
        let all = asking.entry(by).or_default();
        all.push(asked);
        all.len() == 1
    }

    fn take(&self, by: (ThreadId, Owner)) -> Vec<Asked> {
        self.0.lock().remove(&by).unwrap_or_default()
    }
}

/// Does something when every other task of this thread that is ready has had its turn, whatever becomes of
/// the request that asked for it: others may have joined in.
pub(super) fn at_the_end_of_this_turn(runtime: &Handle, work: impl Future<Output = ()> + Send + 'static) {
    runtime.spawn(async move {
        yield_now().await;
        work.await;
    });
}

impl Redis {
    /// Makes a call together with the others of this turn of the thread, unless Redis is known to be away.
    ///
    /// # Cancellation
    /// Dropped, the call is made all the same, and undone when its answer comes.
    pub(super) async fn run_together(
        self: &Arc<Self>,
        owner: Owner,
        asker: Asker,
        call: Call,
    ) -> Result<Tentative<Value>, Away> {
        if self.breaker.open_since().is_some() {
            return Err(Away);
        }
        let (answer, answered) = oneshot::channel();
        let by = (thread::current().id(), owner);
        if self.together.add(by, (call, (asker, answer))) {
            let redis = Arc::clone(self);
            at_the_end_of_this_turn(&Handle::current(), async move { redis.ask_asked(by).await });
        }
        // No answer: the thread ends.
        answered.await.unwrap_or(Err(Away))
    }

    async fn ask_asked(self: &Arc<Self>, by: (ThreadId, Owner)) {
        let mut all = self.together.take(by);
        while !all.is_empty() {
            let rest = all.split_off(all.len().min(AT_ONCE));
            let (calls, askers): (Vec<_>, Vec<_>) = all.into_iter().unzip();
            // Those before may have found Redis away.
            if self.breaker.open_since().is_some() {
                // Dropped, their answers say that Redis is away.
                drop(askers);
            } else {
                self.ask_for(by.1, calls, askers).await;
            }
            all = rest;
        }
    }

    /// Asks for some who wait `op_timeout` and then go on alone.
    async fn ask_for(self: &Arc<Self>, owner: Owner, calls: Vec<Call>, askers: Vec<Waiting>) {
        let redis = Arc::clone(self);
        let mut asking = Box::pin(async move { redis.ask_awaited(owner, &calls).await });
        let got = timeout(self.config.op_timeout, &mut asking).await.map_err(timed_out).flatten();
        let is_late = got.as_ref().is_err_and(redis::RedisError::is_timeout);
        if let Ok(got) = self.understood(got) {
            for ((asker, answer), got) in askers.into_iter().zip(got) {
                // Whoever does not wait any more has been dropped, and the answer that is dropped undoes itself.
                drop(answer.send(Ok(Tentative::new(Arc::clone(self), asker, got))));
            }
        } else if is_late {
            self.missed(askers.iter().map(|(asker, _)| asker.label()));
            let askers: Vec<Asker> = askers.into_iter().map(|(asker, _)| asker).collect();
            let redis = Arc::clone(self);
            at_the_end_of_this_turn(&Handle::current(), async move {
                if let Ok(got) = asking.await {
                    askers.into_iter().zip(got).for_each(|(asker, got)| redis.heard_late(asker, got));
                }
            });
        }
    }

    /// Somebody's answer has come when he went on alone: it stands only if it is what he then did.
    fn heard_late(self: &Arc<Self>, asker: Asker, answer: Value) {
        let answer = Tentative::new(Arc::clone(self), asker, answer);
        if answer.is_of(&self.own) {
            answer.with(()).keep();
        }
    }
}
