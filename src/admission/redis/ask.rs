//! What a request asks of Redis.

use std::borrow::Cow;

use futures_util::future::join;

use super::{
    Away, Redis,
    calls::{self, Acquired, Entered, Granted, on_provider, on_tenant},
    queue::Work,
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

/// Where a request was counted at the door: its second and epoch, zero where nothing is limited.
type At = (i64, i64);

impl Redis {
    /// Counts a request at the door and leases it a key, at once.
    pub(super) async fn enter_and_grant(
        &self,
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

    async fn enter(&self, enter: &Enter) -> Result<Result<At, Refused>, Away> {
        if enter.windows.is_empty() && enter.funds.is_none() && enter.hold == Nanos::ZERO {
            return Ok(Ok((0, 0)));
        }
        let owner = Owner::Tenant(enter.tenant);
        let mut expected = self.own.expects(owner);
        for _ in 0..2 {
            let call = calls::enter(on_tenant(enter.tenant, self.clock_offset()), enter, expected);
            let value = self.run(&self.scripts.enter, &call).await?;
            match self.understood(calls::entered(&value, enter))? {
                Entered::In { second, epoch } => return Ok(Ok((second, epoch))),
                Entered::Refused(refused) => return Ok(Err(refused)),
                Entered::Missing => self.found_missing(owner, expected).await?,
            }
            expected = ANY_EPOCH_OR_NONE;
        }
        Err(Away)
    }

    /// Leases a key; with it, when it was asked for.
    pub(super) async fn grant(&self, acquire: &Acquire) -> Result<Result<(Granted, Timestamp), NoKey>, Away> {
        let mut acquire = Cow::Borrowed(acquire);
        let provider = acquire.pool.provider;
        let owner = Owner::Provider(provider);
        let mut expected = self.own.expects(owner);
        for _ in 0..TURNS {
            let asked_at = self.clock.now();
            let call = calls::acquire(on_provider(provider, self.clock_offset()), &acquire, expected);
            let value = self.run(&self.scripts.acquire, &call).await?;
            match self.understood(calls::acquired(&value))? {
                Acquired::Again => {}
                Acquired::Missing => {
                    self.found_missing(owner, expected).await?;
                    expected = ANY_EPOCH_OR_NONE;
                }
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

    /// Counters that are not those expected may be asked again, for any that are there by now.
    async fn found_missing(&self, owner: Owner, expected: i64) -> Result<(), Away> {
        // Told again while the question was on its way.
        if self.own.expects(owner) != expected {
            return self.whole().await;
        }
        self.missing(self.own.has_past(owner)).await
    }

    /// Gives Redis the configuration of a pool.
    async fn load(&self, acquire: &Acquire) -> Result<(), Away> {
        let call = on_provider(acquire.pool.provider, self.clock_offset());
        for chunk in calls::load(&call, &acquire.pool) {
            self.run(&self.scripts.load, &chunk).await?;
        }
        Ok(())
    }

    pub(super) fn undo_enter(&self, enter: &Enter) {
        self.own.undo_enter(enter.tenant, enter.request);
        self.queue.push(self.clock.now(), Work::UndoPass { tenant: enter.tenant, request: enter.request });
    }

    pub(super) fn undo_grant(&self, acquire: &Acquire, granted: &Granted) {
        let end = calls::LeaseEnd::undone(acquire, granted);
        self.queue.push(self.clock.now(), Work::Lease { provider: acquire.pool.provider, end });
    }
}
