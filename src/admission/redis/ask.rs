//! What a request asks of Redis.

use std::{borrow::Cow, sync::Arc};

use futures_util::future::join;

use super::{
    Away, Redis,
    calls::{self, Acquired, Entered, Granted},
    queue::Work,
    scripts::{Call, Op},
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

/// Where a request was counted at the door: its second and epoch, zero where nothing is limited.
type At = (i64, i64);

impl Redis {
    /// Counts a request at the door and leases it a key, at once.
    pub(super) async fn enter_and_grant(
        self: &Arc<Self>,
        enter: &Enter,
        acquire: &Acquire,
    ) -> (Result<Result<At, Refused>, Away>, Result<Result<(Granted, Timestamp), NoKey>, Away>) {
        let (mut entered, mut granted) = join(self.enter(enter), self.grant(acquire)).await;
        // One may have waited for lost counters to be told again; what the other had counted before is not
        // part of that.
        let (tenant, provider) = (Owner::Tenant(enter.tenant), Owner::Provider(acquire.pool.provider));
        for _ in 0..2 {
            if matches!(entered, Ok(Ok((_, epoch))) if epoch != 0 && !self.own.stands(tenant, epoch)) {
                entered = self.enter(enter).await;
            }
            if matches!(&granted, Ok(Ok((granted, _))) if !self.own.stands(provider, granted.epoch)) {
                granted = self.grant(acquire).await;
            }
        }
        (entered, granted)
    }

    async fn enter(self: &Arc<Self>, enter: &Enter) -> Result<Result<At, Refused>, Away> {
        if enter.windows.is_empty() && enter.funds.is_none() && enter.hold == Nanos::ZERO {
            return Ok(Ok((0, 0)));
        }
        let owner = Owner::Tenant(enter.tenant);
        let mut expected = self.own.expects(owner);
        for _ in 0..LOSSES {
            let call = Call::on_tenant(Op::Enter, enter.tenant, self.clock_offset());
            let value = self.run_together(owner, calls::enter(call, enter, expected)).await?;
            match self.understood(calls::entered(&value, enter))? {
                Entered::In { second, epoch } => return Ok(Ok((second, epoch))),
                Entered::Refused(refused) => return Ok(Err(refused)),
                Entered::Missing => expected = self.found_missing(owner, expected).await?,
            }
        }
        Err(Away)
    }

    /// Leases a key; with it, when it was asked for.
    pub(super) async fn grant(
        self: &Arc<Self>,
        acquire: &Acquire,
    ) -> Result<Result<(Granted, Timestamp), NoKey>, Away> {
        let mut acquire = Cow::Borrowed(acquire);
        let provider = acquire.pool.provider;
        let owner = Owner::Provider(provider);
        let mut expected = self.own.expects(owner);
        for _ in 0..TURNS {
            let asked_at = self.clock.now();
            let call = Call::on_provider(Op::Acquire, provider, self.clock_offset());
            let value = self.run_together(owner, calls::acquire(call, &acquire, expected)).await?;
            match self.understood(calls::acquired(&value))? {
                Acquired::Again => {}
                Acquired::Missing => expected = self.found_missing(owner, expected).await?,
                Acquired::Load => self.load(&acquire).await?,
                Acquired::NoKey(none) => return Ok(Err(none)),
                Acquired::Leased { granted, version } => {
                    let key = granted.key;
                    if version == acquire.pool.version
                        || acquire.pool.keys.iter().any(|known| known.id == key)
                    {
                        return Ok(Ok((granted, asked_at)));
                    }
                    // The counters follow a newer catalog than this caller, who would not know what
                    // to do with a key added since.
                    self.undo_grant(&acquire, &granted);
                    acquire.to_mut().exclude.push(key);
                }
            }
        }
        Err(Away)
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

    pub(super) fn undo_grant(self: &Arc<Self>, acquire: &Acquire, granted: &Granted) {
        let end = calls::LeaseEnd::undone(acquire, granted);
        self.tell_soon(Work::Lease { provider: acquire.pool.provider, end });
    }
}
