//! What a request asks of Redis.

use std::{borrow::Cow, sync::Arc};

use futures_util::future::join;

use super::{
    Away, Redis,
    calls::{self, Acquired, At, Entered, Granted},
    queue::Work,
    scripts::{Call, Op},
    tentative::{Asker, Tentative},
};
use crate::{
    admission::{
        Acquire, Enter, NoKey, Refused,
        local::{ANY_EPOCH_OR_NONE, Owner},
    },
    domain::{clock::Timestamp, money::Nanos},
};

/// How often one acquire may be told to load the pool or to ask again.
const TURNS: u32 = 64;
/// How many losses, one right after the other, one entry waits for.
const LOSSES: u32 = 4;

/// What came of an entry.
pub(super) type Entry = Result<Result<Tentative<At>, Refused>, Away>;
/// What came of asking for a key; with it, when it was asked for.
pub(super) type Grant = Result<Result<Tentative<(Granted, Timestamp)>, NoKey>, Away>;

impl Redis {
    /// Counts a request at the door and leases it a key, at once.
    pub(super) async fn enter_and_grant(
        self: &Arc<Self>,
        enter: &Enter,
        acquire: &Acquire,
    ) -> (Entry, Grant) {
        let (mut entered, mut granted) = join(self.enter(enter), self.grant(acquire)).await;
        // One may have waited for lost counters to be told again; what the other had counted before is not
        // part of that.
        for _ in 0..2 {
            entered = match entered {
                Ok(Ok(counted)) if self.is_gone(Owner::Tenant(enter.tenant), *counted.value()) => {
                    // There is nothing to be undone; it would undo what takes its place.
                    counted.keep();
                    self.once_more(self.enter(enter)).await
                }
                entered => entered,
            };
            granted = self.once_more_if_gone(granted, acquire).await;
        }
        (entered, granted)
    }

    /// Leases another key, likewise.
    pub(super) async fn once_more_if_gone(self: &Arc<Self>, granted: Grant, acquire: &Acquire) -> Grant {
        match granted {
            Ok(Ok(counted)) if self.is_gone(Owner::Provider(acquire.pool.provider), counted.value().0.at) => {
                counted.keep();
                self.once_more(self.grant(acquire)).await
            }
            granted => granted,
        }
    }

    /// Whether what was counted may have been lost since: who has counted nothing else there does not know.
    fn is_gone(&self, owner: Owner, at: At) -> bool {
        let may_be_lost = || at.losses != self.roll.losses() && self.own.epoch(owner) != at.epoch;
        at.epoch != 0 && (!self.own.stands(owner, at.epoch) || may_be_lost())
    }

    /// When nothing of ours is missing any more: before, it would be counted beside what is told yet.
    async fn once_more<T>(&self, asking: impl Future<Output = Result<T, Away>>) -> Result<T, Away> {
        self.whole().await?;
        asking.await
    }

    async fn enter(self: &Arc<Self>, enter: &Enter) -> Entry {
        if enter.windows.is_empty() && enter.funds.is_none() && enter.hold == Nanos::ZERO {
            return Ok(Ok(Tentative::of_nothing(Arc::clone(self), At::default())));
        }
        let owner = Owner::Tenant(enter.tenant);
        let mut expected = self.own.expects(owner);
        for _ in 0..LOSSES {
            let call = Call::on_tenant(Op::Enter, enter.tenant, self.clock_offset());
            let call = calls::enter(call, enter, expected);
            let losses = self.roll.losses();
            let answer = self.run_together(owner, Asker::of_enter(enter), call).await?;
            match self.understood(calls::entered(answer.value(), enter))? {
                Entered::In(at) => {
                    self.look_back(expected).await?;
                    return Ok(Ok(answer.with(At { losses, ..at })));
                }
                Entered::Refused(refused) => return Ok(Err(refused)),
                Entered::Missing => expected = self.found_missing(owner, expected).await?,
            }
        }
        Err(Away)
    }

    /// Leases a key; with it, when it was asked for.
    pub(super) async fn grant(self: &Arc<Self>, acquire: &Acquire) -> Grant {
        let mut acquire = Cow::Borrowed(acquire);
        let provider = acquire.pool.provider;
        let owner = Owner::Provider(provider);
        let mut expected = self.own.expects(owner);
        for _ in 0..TURNS {
            let asked_at = self.clock.now();
            let call = Call::on_provider(Op::Acquire, provider, self.clock_offset());
            let call = calls::acquire(call, &acquire, expected);
            let losses = self.roll.losses();
            let answer = self.run_together(owner, Asker::of_acquire(&acquire), call).await?;
            match self.understood(calls::acquired(answer.value()))? {
                Acquired::Again => {}
                Acquired::Missing => expected = self.found_missing(owner, expected).await?,
                Acquired::Load => self.load(&acquire).await?,
                Acquired::NoKey(none) => return Ok(Err(none)),
                Acquired::Leased { mut granted, version } => {
                    granted.at.losses = losses;
                    let key = granted.key;
                    if version == acquire.pool.version
                        || acquire.pool.keys.iter().any(|known| known.id == key)
                    {
                        self.look_back(expected).await?;
                        return Ok(Ok(answer.with((granted, asked_at))));
                    }
                    // The counters follow a newer catalog than this caller, who would not know what
                    // to do with a key added since: dropped, it is given back.
                    acquire.to_mut().exclude.push(key);
                }
            }
        }
        Err(Away)
    }

    /// What may have begun counters may have done so just after others were lost, of which somebody else knows.
    async fn look_back(&self, expected: i64) -> Result<(), Away> {
        if expected == ANY_EPOCH_OR_NONE { self.check_roll().await.map(drop) } else { Ok(()) }
    }

    /// Counters that are not those expected may be asked again, for those that this gives back.
    async fn found_missing(&self, owner: Owner, expected: i64) -> Result<i64, Away> {
        if self.own.expects(owner) == expected {
            self.missing(self.own.has_past(owner)).await?;
        } else {
            // Told again while the question was on its way.
            self.whole().await?;
        }
        // Only where nothing of ours can be missing may the counters begin with this question: they may
        // have been lost once more since.
        Ok(if self.own.has_past(owner) { self.own.expects(owner) } else { ANY_EPOCH_OR_NONE })
    }

    /// Gives Redis the configuration of a pool.
    async fn load(&self, acquire: &Acquire) -> Result<(), Away> {
        let call = Call::on_provider(Op::Load, acquire.pool.provider, self.clock_offset());
        for chunk in calls::load(&call, &acquire.pool) {
            self.run(&chunk).await?;
        }
        Ok(())
    }

    pub(super) fn undo_enter(self: &Arc<Self>, enter: &Enter) {
        self.own.undo_enter(enter.tenant, enter.request);
        self.tell_soon(Work::UndoPass { tenant: enter.tenant, request: enter.request });
    }
}
