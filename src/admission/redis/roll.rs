//! Who shares the limits, and what follows when Redis has lost its counters.
//!
//! On the roll stands every replica that has told all it counted. A server that lost the counters has lost
//! the roll with them. So who misses itself on it, or misses counters that it has a part in, knows: it
//! strikes off whoever is still on it, tells what it counted in the last minute again, and takes its place
//! anew. Until everyone is back nothing is counted together: requests wait for a moment, then each replica
//! keeps to its share.

use std::{
    sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering},
    time::Duration,
};

use ::redis::{RedisResult, from_redis_value_ref};
use tokio::{sync::Notify, time::timeout};

use super::{
    Away, Redis,
    calls::us,
    maintain::{HEARTBEAT_FOR, WATCH_EVERY},
    scripts::{Call, Op},
};
use crate::domain::clock::Timestamp;

/// How long requests wait for everyone to be back; every replica looks at Redis more often than that.
pub const REBUILT_WITHIN: Duration = WATCH_EVERY.saturating_mul(3);
/// A heartbeat younger than this is of a replica that is on good terms with Redis now.
const FRESH_FOR: Duration = WATCH_EVERY.saturating_mul(3);

/// What this replica knows of the roll.
#[derive(Debug)]
pub struct Roll {
    /// How many share the limits.
    replicas: AtomicU32,
    /// Whether this replica has a place.
    is_on: AtomicBool,
    /// Since when not everyone is back after the counters were lost or Redis was away, in microseconds; zero:
    /// everyone is.
    lost_since: AtomicI64,
    /// How often counters were lost.
    losses: AtomicU32,
    /// Counters are missing although the roll may stand: on a cluster each is lost for itself.
    to_strike: AtomicBool,
    found_lost: Notify,
    /// Everyone is back, or is not waited for any longer.
    changes: Notify,
}

/// What to do with the roll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calling {
    /// Keep this replica's place.
    Keep,
    /// Strike everyone off.
    Strike,
    /// Begin to tell.
    Begin,
    /// Take a place, if nothing was lost since it began to tell.
    Join,
    /// Give up this replica's place.
    Leave,
}

/// The roll as it was called.
#[derive(Debug, Clone, Copy)]
pub struct Called {
    /// Whether this replica was on it.
    pub was_on: bool,
    /// Whether it is now.
    pub is_on: bool,
    /// How many are.
    pub live: u32,
    /// How many of them were heard just now.
    pub fresh: u32,
}

impl Roll {
    pub fn of(expected: u32) -> Self {
        Self {
            replicas: AtomicU32::new(expected.max(1)),
            is_on: AtomicBool::new(false),
            lost_since: AtomicI64::new(0),
            losses: AtomicU32::new(0),
            to_strike: AtomicBool::new(false),
            found_lost: Notify::new(),
            changes: Notify::new(),
        }
    }

    /// How many share the limits.
    pub fn replicas(&self) -> u32 {
        self.replicas.load(Ordering::Relaxed)
    }

    pub fn set_replicas(&self, replicas: u32) {
        self.replicas.store(replicas.max(1), Ordering::Relaxed);
    }

    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    pub fn set_on(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::Release);
    }

    pub fn is_lost(&self) -> bool {
        self.lost_since().is_some()
    }

    /// Since when requests wait, or each replica keeps to its share.
    pub fn lost_since(&self) -> Option<Timestamp> {
        let us = self.lost_since.load(Ordering::Acquire);
        (us != 0).then(|| Timestamp::from_unix_us(us))
    }

    /// Notes that counters are missing; true for the first to find it.
    pub fn lose(&self, now: Timestamp) -> bool {
        let us = now.unix_us().max(1);
        self.lost_since.compare_exchange(0, us, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// How often counters were lost so far.
    pub fn losses(&self) -> u32 {
        self.losses.load(Ordering::Acquire)
    }

    /// Whether a call has found counters missing since this was last asked.
    pub fn take_to_strike(&self) -> bool {
        self.to_strike.swap(false, Ordering::AcqRel)
    }

    /// Notes that everyone is back.
    pub fn make_whole(&self) {
        self.lost_since.store(0, Ordering::Release);
        self.changes.notify_waiters();
    }

    /// Returns when a call has found counters missing.
    pub async fn found_lost(&self) {
        self.found_lost.notified().await;
    }
}

impl Redis {
    /// Calls the roll; it doubles as a heartbeat.
    pub(super) async fn call_roll(&self, calling: Calling, fresh_for: Duration) -> RedisResult<Called> {
        let what: &[u8] = match calling {
            Calling::Keep => b"k",
            Calling::Strike => b"s",
            Calling::Begin => b"b",
            Calling::Join => b"j",
            Calling::Leave => b"l",
        };
        let call = Call::on_replicas(Op::CallRoll, self.clock_offset())
            .id(self.config.replica.uuid())
            .int(us(HEARTBEAT_FOR))
            .int(us(FRESH_FOR.min(fresh_for)))
            .bytes(what);
        let (was_on, is_on, live, fresh) = from_redis_value_ref(&self.ask(&call).await?)?;
        Ok(Called { was_on, is_on, live, fresh })
    }

    /// What to do about counters that are not those expected: where this replica counted nothing they
    /// are new, or others have made them again; else they were lost.
    pub(super) async fn missing(&self, has_past: bool) -> Result<(), Away> {
        if !has_past && !self.roll.is_lost() && self.check_roll().await? {
            return Ok(());
        }
        self.found_lost();
        self.whole().await
    }

    /// Whether the roll stands, as far as this replica can tell; if not, the counters were lost.
    pub(super) async fn check_roll(&self) -> Result<bool, Away> {
        if !self.roll.is_on() {
            return Ok(true);
        }
        let called = self.call_roll(Calling::Keep, FRESH_FOR).await;
        let stands = self.understood(called)?.was_on;
        if !stands {
            self.found_lost();
        }
        Ok(stands)
    }

    /// Has the roll called, since counters are missing that this replica has a part in.
    pub(super) fn found_lost(&self) {
        if self.lose() {
            self.roll.to_strike.store(true, Ordering::Release);
            self.roll.found_lost.notify_one();
        }
    }

    /// Notes that what this replica counted may be missing; true for the first to find it.
    pub(super) fn lose(&self) -> bool {
        let is_first = self.roll.lose(self.clock.now());
        if is_first {
            self.roll.losses.fetch_add(1, Ordering::AcqRel);
            tracing::warn!("counters in Redis are missing: every replica tells what it counted again");
        }
        is_first
    }

    /// Returns when nothing that was counted is missing in Redis.
    pub(super) async fn whole(&self) -> Result<(), Away> {
        if !self.roll.is_lost() {
            return Ok(());
        }
        let changes = self.roll.changes.notified();
        tokio::pin!(changes);
        // From here on a change is heard; it may have come before.
        changes.as_mut().enable();
        if self.roll.is_lost() && self.breaker.open_since().is_none() {
            let _ = timeout(REBUILT_WITHIN, changes).await;
        }
        if self.roll.is_lost() {
            self.give_up();
            return Err(Away);
        }
        Ok(())
    }

    /// Decides alone from now on, until everyone is back.
    pub(super) fn give_up(&self) {
        if self.breaker.open(self.clock.now()) {
            tracing::warn!(share = self.roll.replicas(), "not every replica is back: limits are shared out");
            self.roll.changes.notify_waiters();
        }
    }
}
