//! What goes on beside the requests: renewals, settlements, the roll, watching for loss, recovery.

use std::time::Duration;

use ::redis::{RedisResult, from_redis_value_ref};
use futures_util::future::{join_all, try_join_all};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    Redis, calls,
    connect::timed_out,
    queue::Work,
    roll::{Called, Calling, REBUILT_WITHIN},
    scripts::{Call, Op},
};
use crate::{
    admission::{
        Cool,
        local::{Owner, RENEW_EVERY},
    },
    domain::{
        clock::Timestamp,
        ids::{IdMap, ProviderId},
    },
};

/// How often Redis is looked at, healthy or not.
pub const WATCH_EVERY: Duration = Duration::from_millis(500);
/// And how often while requests wait for everyone to be back.
const REBUILD_EVERY: Duration = Duration::from_millis(50);
/// A replica that was not heard of for so long takes no share any more; all that it counted has left the
/// windows by then.
pub const HEARTBEAT_FOR: Duration = Duration::from_secs(60);
/// Settlements told at once: Redis does nothing else until one owner's are done.
const SETTLE_AT_ONCE: usize = 64;
/// Leases or passes renewed, or windows told, by one call.
const RENEW_AT_ONCE: usize = 200;
/// Owners whose counters are looked at together.
const OWNERS_AT_ONCE: usize = 64;

/// What the maintenance remembers from one look to the next.
#[derive(Default)]
struct Watch {
    looks_until_renewal: u32,
    /// Since when this replica stands on the roll, and so has told everything.
    told_since: Option<Timestamp>,
    /// Whether it has ever stood there.
    has_stood: bool,
    /// Since when something is missing in Redis, or the others are awaited.
    lost_since: Option<Timestamp>,
    /// When the outage began that is not over for all; none: the others were not awaited after it yet.
    outage_since: Option<Timestamp>,
}

impl Redis {
    /// See [`crate::admission::Admission::maintain`].
    pub async fn maintain(&self, shutdown: CancellationToken) {
        let mut looks = interval(WATCH_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut watch = Watch::default();
        while !shutdown.is_cancelled() {
            let is_awaited = self.roll.is_lost() && self.breaker.open_since().is_none();
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = self.queue.filled() => {}
                () = self.roll.found_lost() => self.look(&mut watch).await,
                () = sleep(REBUILD_EVERY), if is_awaited => self.look(&mut watch).await,
                _ = looks.tick() => self.look(&mut watch).await,
            }
            self.drain().await;
        }
        // Its share is the others' from now on; not heard, it lapses by itself.
        let _ = self.call_roll(Calling::Leave, Duration::MAX).await;
    }

    /// Tells Redis what ended; what cannot be told now waits for the next time.
    pub async fn drain(&self) {
        if self.breaker.open_since().is_none()
            && let Err(error) = self.tell_ended().await
        {
            self.failed(&error);
        }
    }

    /// Tells Redis what has ended by now, whatever the breaker says.
    async fn tell_ended(&self) -> RedisResult<()> {
        while self.tell_some_ended().await? {}
        Ok(())
    }

    /// Whether there may be more: what ends from now on has its own turn, so that under a steady load nobody
    /// goes on for ever with others waiting behind.
    async fn tell_some_ended(&self) -> RedisResult<bool> {
        // One at a time: what ends meanwhile is told together after it, and who waits for this knows that
        // all has been told.
        let _turn = self.telling.lock().await;
        let batch = self.queue.take(self.clock.now(), SETTLE_AT_ONCE);
        let is_full = batch.len() == SETTLE_AT_ONCE;
        let mut by_owner: IdMap<Owner, Vec<_>> = IdMap::default();
        for work in batch {
            by_owner.entry(work.1.owner()).or_default().push(work);
        }
        let answers = join_all(by_owner.into_values().map(|works| self.tell(works))).await;
        answers.into_iter().collect::<RedisResult<()>>()?;
        Ok(is_full)
    }

    /// Tells what ended of one owner's; what could not be told waits again.
    ///
    /// # Cancellation
    /// Dropped, it waits again too: told twice it counts once.
    async fn tell(&self, works: Vec<(Timestamp, Work)>) -> RedisResult<()> {
        let mut untold = self.queue.taken(works);
        let calls: Vec<_> = untold.works.iter().map(|(_, work)| self.ending(work)).collect();
        self.ask_all(&calls).await?;
        untold.works.clear();
        Ok(())
    }

    fn ending(&self, work: &Work) -> Call {
        let offset = self.clock_offset();
        match work {
            Work::Lease { provider, end } => {
                let owner = Owner::Provider(*provider);
                let untold = end.ended.and_then(|ended| self.own.untold_for(owner, ended));
                end.call(Call::on_provider(Op::SettleLease, *provider, offset), untold)
            }
            Work::Pass { end, ended } => {
                let untold = ended.and_then(|ended| self.own.untold_for(Owner::Tenant(end.tenant), ended));
                calls::settle_pass(Call::on_tenant(Op::SettlePass, end.tenant, offset), end, untold)
            }
            Work::UndoPass { tenant, request } => {
                calls::undo_pass(Call::on_tenant(Op::SettlePass, *tenant, offset), *request)
            }
        }
    }

    async fn look(&self, watch: &mut Watch) {
        watch.looks_until_renewal = watch.looks_until_renewal.saturating_sub(1);
        let due = watch.looks_until_renewal == 0;
        if due {
            watch.looks_until_renewal =
                u32::try_from(RENEW_EVERY.as_millis() / WATCH_EVERY.as_millis()).unwrap_or(1);
            self.own.renew();
        }
        let was_away = self.breaker.open_since().is_some();
        if let Err(error) = self.tell_all(watch, due).await {
            // It may come back with nothing of what it was told.
            self.leave_roll(watch);
            if was_away {
                self.connections.drop_own();
            } else {
                self.failed(&error);
            }
        }
    }

    fn leave_roll(&self, watch: &mut Watch) {
        watch.told_since = None;
        self.roll.set_on(false);
    }

    /// Sees to it that Redis knows what this replica holds and has counted, in this order: who stands on
    /// the roll has nothing left to tell.
    async fn tell_all(&self, watch: &mut Watch, due: bool) -> RedisResult<()> {
        let mut connection = self.connections.get().await?;
        // On a cluster this asks every master: one heartbeat would only prove one of them well.
        timeout(self.config.op_timeout, connection.send(&redis::cmd("PING"))).await.map_err(timed_out)??;
        let away_since = self.breaker.open_since();
        let trouble_since = watch.outage_since.or(away_since);
        let fresh_for = trouble_since.map_or(Duration::MAX, |since| self.clock.now().since(since));
        let calling = if self.roll.take_to_strike() { Calling::Strike } else { Calling::Keep };
        let mut called = None;
        if watch.told_since.is_some() {
            called = self.keep_place(watch, calling, fresh_for).await?;
        }
        let is_told = called.is_some();
        if !is_told {
            let begun = self.call_roll(Calling::Begin, fresh_for).await?;
            self.tell_again(begun.was_on).await?;
        }
        self.renew(due || !is_told || away_since.is_some()).await?;
        if !is_told || away_since.is_some() {
            self.tell_ended().await?;
            let calling = if is_told { Calling::Keep } else { Calling::Join };
            called = self.keep_place(watch, calling, fresh_for).await?;
        }
        if let Some(called) = called {
            self.wait_for_all(watch, called);
        }
        Ok(())
    }

    /// Calls the roll; none when this replica has no place on it.
    async fn keep_place(
        &self,
        watch: &mut Watch,
        calling: Calling,
        fresh_for: Duration,
    ) -> RedisResult<Option<Called>> {
        let called = self.call_roll(calling, fresh_for).await?;
        if watch.has_stood && !called.was_on || !called.is_on {
            self.lose();
        }
        if !called.is_on {
            self.leave_roll(watch);
            return Ok(None);
        }
        watch.has_stood = true;
        watch.told_since.get_or_insert(self.clock.now());
        self.roll.set_on(true);
        Ok(Some(called))
    }

    /// Goes on together once everyone is back, or once nothing that the others counted can still be in a
    /// window.
    fn wait_for_all(&self, watch: &mut Watch, called: Called) {
        let now = self.clock.now();
        let away_since = self.breaker.open_since();
        if self.roll.is_lost() {
            watch.lost_since.get_or_insert(now);
        }
        let Some(since) = away_since.or(watch.lost_since) else {
            self.roll.set_replicas(called.live);
            return;
        };
        let for_long = |since: Option<Timestamp>, span| since.is_some_and(|since| now.since(since) >= span);
        let nobody_else = for_long(Some(since), HEARTBEAT_FOR) && for_long(watch.told_since, REBUILT_WITHIN);
        if called.fresh < self.roll.replicas() && !nobody_else {
            self.roll.set_replicas(self.roll.replicas().max(called.live));
            if away_since.is_some() && watch.outage_since.is_none() {
                self.await_others(watch, since);
            } else if away_since.is_none() && for_long(watch.lost_since, REBUILT_WITHIN) {
                self.give_up();
            }
            return;
        }
        self.roll.set_replicas(called.live);
        watch.lost_since = None;
        watch.outage_since = None;
        // What was let in while this was found out is told soon.
        watch.looks_until_renewal = 0;
        self.breaker.close();
        self.roll.make_whole();
        let away_ms = u64::try_from(now.since(since).as_millis()).unwrap_or(u64::MAX);
        tracing::warn!(away_ms, "limits are counted together again");
    }

    /// This replica has told everything, and whoever comes after it counts together: so it decides nothing alone
    /// any more. Its requests wait for the others, once in an outage.
    fn await_others(&self, watch: &mut Watch, outage_since: Timestamp) {
        watch.outage_since = Some(outage_since);
        watch.lost_since = Some(self.clock.now());
        self.roll.lose(outage_since);
        self.breaker.close();
    }

    /// Tells again what counters that were lost held of this replica's last minute.
    async fn tell_again(&self, is_kept: bool) -> RedisResult<()> {
        for owners in self.own.owners().chunks(OWNERS_AT_ONCE) {
            try_join_all(owners.iter().map(|owner| self.tell_again_of(*owner, is_kept))).await?;
        }
        Ok(())
    }

    async fn tell_again_of(&self, owner: Owner, is_kept: bool) -> RedisResult<()> {
        if let Owner::Provider(provider) = owner {
            self.cool_again(provider).await?;
        }
        if !self.own.has_past(owner) {
            return Ok(());
        }
        let call = calls::telling(owner, self.clock_offset());
        let there = self.epoch(&call).await?;
        let Some(gathered) = self.own.tell_again(owner, there, is_kept) else { return Ok(()) };
        let mut epoch = 0;
        for windows in gathered.windows.chunks(RENEW_AT_ONCE) {
            let call =
                calls::tell(call.clone(), self.config.replica, gathered.number, windows, self.own.second());
            epoch = from_redis_value_ref(&self.ask(&call).await?)?;
        }
        self.own.arrived(owner, epoch);
        Ok(())
    }

    /// What is still out is only confirmed by being taken out again.
    async fn cool_again(&self, provider: ProviderId) -> RedisResult<()> {
        let cool =
            |cool: &Cool| calls::cool(Call::on_provider(Op::Cool, provider, self.clock_offset()), cool);
        for some in self.own.cooling(provider).chunks(SETTLE_AT_ONCE) {
            self.ask_all(&some.iter().map(cool).collect::<Vec<_>>()).await?;
        }
        Ok(())
    }

    /// Renews what this replica holds: all of it, or only what Redis has never seen.
    async fn renew(&self, all: bool) -> RedisResult<()> {
        for (provider, leases) in self.own.live_leases() {
            let call = Call::on_provider(Op::RenewLeases, provider, self.clock_offset());
            if !all && self.stands(Owner::Provider(provider), &call).await? {
                continue;
            }
            for leases in leases.chunks(RENEW_AT_ONCE) {
                let second = self.own.second();
                let call = calls::renew_leases(call.clone(), leases, second);
                let (epoch, of_server) = from_redis_value_ref(&self.ask(&call).await?)?;
                let seconds =
                    leases.iter().map(|(id, lease)| (*id, calls::second_of(lease, second, of_server)));
                self.own.mark_shared(provider, seconds);
                self.own.counted_in(Owner::Provider(provider), epoch);
            }
        }
        for (tenant, passes) in self.own.live_passes() {
            let call = Call::on_tenant(Op::RenewPasses, tenant, self.clock_offset());
            if !all && self.stands(Owner::Tenant(tenant), &call).await? {
                continue;
            }
            for passes in passes.chunks(RENEW_AT_ONCE) {
                let call = calls::renew_passes(call.clone(), passes, self.own.second());
                let epoch = from_redis_value_ref(&self.ask(&call).await?)?;
                self.own.counted_in(Owner::Tenant(tenant), epoch);
            }
        }
        Ok(())
    }

    /// Whether counters that what is live is part of are still there; if not, the roll is called.
    async fn stands(&self, owner: Owner, call: &Call) -> RedisResult<bool> {
        let known = self.own.epoch(owner);
        if known == 0 {
            return Ok(false);
        }
        if self.epoch(call).await? != Some(known) {
            self.found_lost();
        }
        Ok(true)
    }

    async fn epoch(&self, call: &Call) -> RedisResult<Option<i64>> {
        let mut connection = self.connections.get().await?;
        let answer =
            timeout(self.config.op_timeout, connection.send(&call.epoch())).await.map_err(timed_out)??;
        Ok(from_redis_value_ref(&answer)?)
    }
}
