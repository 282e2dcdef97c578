//! The counters in Redis, shared by all replicas.
//!
//! | file | what |
//! |---|---|
//! | `config` | settings |
//! | `connect` | one connection for each thread, on one server, Sentinel or Cluster |
//! | `scripts`, `scripts/*.lua` | the operations, in one script for each kind of owner |
//! | `calls` | what each operation sends, and what the answers mean |
//! | `answer` | how answers come |
//! | `together` | operations of one moment on one owner's keys, in one call |
//! | `ask` | what a request asks |
//! | `tentative` | what is undone when its asker has gone |
//! | `awaited` | until when somebody waits, by the server's clock |
//! | `breaker` | whether Redis is worth asking |
//! | `queue` | what ended and waits to be told |
//! | `roll` | who shares the limits, and what follows when the counters were lost |
//! | `maintain` | renewals, settlements, heartbeat, recovery |
//!
//! Beside Redis stands a [`Local`] that counts what this replica does: its leases are what is
//! renewed, and it decides alone, within this replica's share of every limit, while Redis is away.

mod answer;
mod ask;
mod awaited;
mod breaker;
mod calls;
mod config;
mod connect;
mod inspect;
mod maintain;
mod queue;
mod roll;
mod scripts;
mod tentative;
mod together;

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use ::redis::{ErrorKind, RedisResult, ServerErrorKind, Value, from_redis_value_ref};
use tokio::{runtime::Handle, time::timeout};

pub use self::config::{Layout, RedisConfig, RedisError};
use self::{
    answer::Answers,
    awaited::Clocks,
    breaker::Breaker,
    calls::{Granted, LeaseEnd},
    connect::{Connections, timed_out},
    queue::{Queue, Work},
    roll::Roll,
    scripts::{Call, Op, Scripts},
    tentative::Tentative,
    together::{Together, at_the_end_of_this_turn},
};
use super::{
    Acquire, Cool, CoolScope, Enter, Health, Lease, NoKey, Past, Refused, SettleLease, SettlePass,
    local::{Local, Owner, Share},
};
use crate::{
    domain::{
        clock::{SharedClock, Timestamp},
        ids::ProviderId,
    },
    telemetry::{Metrics, labels::AdmissionOp},
};

/// An answer that comes later than this is not heard: what it counted lapses by itself.
const LATE: Duration = Duration::from_secs(10);

/// The Redis backend.
#[derive(Debug)]
pub struct Redis {
    config: RedisConfig,
    clock: SharedClock,
    connections: Connections,
    scripts: Scripts,
    clocks: Clocks,
    breaker: Breaker,
    together: Together,
    queue: Queue,
    /// Held by whoever tells what ended.
    telling: tokio::sync::Mutex<()>,
    /// What this replica does itself.
    own: Local,
    roll: Roll,
    /// Added to the server's time, in microseconds.
    clock_offset: AtomicI64,
    decided_alone: AtomicU64,
    metrics: Option<Arc<Metrics>>,
}

/// Redis did not answer in time, or not with an answer.
#[derive(Debug, Clone, Copy)]
struct Away;

impl Redis {
    /// Reads the settings; connections are made when they are first needed, so that a server that
    /// is away does not stop the start.
    ///
    /// TLS uses rustls with the process's crypto provider: ring, the only one built in.
    ///
    /// # Errors
    /// [`RedisError`] when a URL is wrong or none is given.
    pub fn new(config: RedisConfig, clock: SharedClock) -> Result<Self, RedisError> {
        Ok(Self {
            connections: Connections::new(config.clone())?,
            scripts: Scripts::new(),
            clocks: Clocks::default(),
            breaker: Breaker::default(),
            together: Together::default(),
            queue: Queue::default(),
            telling: tokio::sync::Mutex::default(),
            own: Local::new(clock.clone()),
            roll: Roll::of(config.replicas_expected),
            clock_offset: AtomicI64::new(0),
            decided_alone: AtomicU64::new(0),
            metrics: None,
            clock,
            config,
        })
    }

    /// Times what it asks of Redis.
    #[must_use]
    pub fn counting(mut self, metrics: Arc<Metrics>) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// See [`super::Admission::health`].
    #[must_use]
    pub fn health(&self) -> Health {
        match self.breaker.open_since().or_else(|| self.roll.lost_since()) {
            Some(since) => Health::Degraded { since, share: self.share().0 },
            None => Health::Shared,
        }
    }

    /// How many entries and keys this replica decided alone since it started, for a metric.
    #[must_use]
    pub fn decided_alone(&self) -> u64 {
        self.decided_alone.load(Ordering::Relaxed)
    }

    /// The share to decide by alone.
    fn alone(&self) -> Share {
        self.decided_alone.fetch_add(1, Ordering::Relaxed);
        self.share()
    }

    /// Makes every script add this to the server's time; for tests that turn the clock.
    pub fn turn_clock(&self, offset_us: i64) {
        self.clock_offset.store(offset_us, Ordering::Relaxed);
    }

    fn clock_offset(&self) -> i64 {
        self.clock_offset.load(Ordering::Relaxed)
    }

    fn share(&self) -> Share {
        Share(self.roll.replicas())
    }

    /// See [`super::Admission::admit`].
    pub async fn admit(self: &Arc<Self>, enter: &Enter, acquire: &Acquire) -> Result<Lease, Refused> {
        if self.breaker.open_since().is_some() || self.whole().await.is_err() {
            return self.own.admit_within(self.alone(), enter, acquire);
        }
        let (entered, granted) = self.enter_and_grant(enter, acquire).await;
        match entered {
            Ok(Ok(counted)) => {
                let at = counted.keep();
                self.own.note_enter(enter, at.second, at.epoch);
            }
            // A key that was granted is dropped, and so given back.
            Ok(Err(refused)) => return Err(refused),
            Err(Away) => self.own.enter_within(self.alone(), enter)?,
        }
        self.lease(acquire, granted).inspect_err(|_| self.undo_enter(enter))
    }

    /// See [`super::Admission::acquire`].
    pub async fn acquire(self: &Arc<Self>, acquire: &Acquire) -> Result<Lease, Refused> {
        let granted = match self.whole().await {
            Ok(()) => self.once_more_if_gone(self.grant(acquire).await, acquire).await,
            Err(away) => Err(away),
        };
        self.lease(acquire, granted)
    }

    fn lease(
        &self,
        acquire: &Acquire,
        granted: Result<Result<Tentative<(Granted, Timestamp)>, NoKey>, Away>,
    ) -> Result<Lease, Refused> {
        match granted {
            Ok(Ok(counted)) => {
                let (granted, asked_at) = counted.keep();
                self.own.note_acquire(acquire, granted.key, granted.at.second, granted.at.epoch);
                let provider = acquire.pool.provider;
                // Counted no earlier than asked: the send guard errs on the safe side.
                Ok(Lease { id: acquire.lease, provider, key: granted.key, acquired_at: asked_at })
            }
            Ok(Err(none)) => Err(Refused::NoKey(none)),
            Err(Away) => self.own.acquire_within(self.alone(), acquire),
        }
    }

    /// See [`super::Admission::settle_lease`].
    pub fn settle_lease(self: &Arc<Self>, end: &SettleLease) {
        let ended = self.own.end_lease(end);
        let work = Work::Lease { provider: end.lease.provider, end: LeaseEnd::settled(end, ended) };
        self.tell_soon(work);
    }

    /// See [`super::Admission::settle_pass`].
    pub fn settle_pass(self: &Arc<Self>, end: SettlePass) {
        let ended = self.own.end_pass(&end);
        self.tell_soon(Work::Pass { end, ended });
    }

    /// Has Redis told of something that ended, together with what else ends in this turn of the thread.
    fn tell_soon(self: &Arc<Self>, work: Work) {
        let is_first = self.queue.push(self.clock.now(), work);
        if !is_first || self.breaker.open_since().is_some() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return self.queue.call_for_help() };
        let redis = Arc::clone(self);
        at_the_end_of_this_turn(&runtime, async move { redis.drain().await });
    }

    /// See [`super::Admission::cool`].
    pub async fn cool(&self, cool: &Cool) -> Option<Timestamp> {
        let own = self.own.cool(cool);
        let call = Call::on_provider(Op::Cool, cool.provider, self.clock_offset());
        let call = calls::cool(call, cool);
        let Ok(value) = self.run(&call).await else { return own };
        let rest: i64 = self.understood(from_redis_value_ref(&value).map_err(Into::into)).ok()?;
        (rest >= 0).then(|| self.clock.now().plus(calls::span(rest)))
    }

    /// See [`super::Admission::clear`].
    pub async fn clear(&self, provider: ProviderId, scope: CoolScope) {
        self.own.clear(provider, scope);
        let call = calls::scope(Call::on_provider(Op::Clear, provider, self.clock_offset()), scope);
        // Away, there is nothing more to lift than this replica's own.
        let _ = self.run(&call).await;
    }

    /// See [`super::Admission::remember`]. Redis has counted it; this replica's own part matters
    /// while it decides alone.
    pub fn remember(&self, past: Vec<Past>) {
        self.own.remember(past);
    }

    /// Makes a call unless Redis is known to be away.
    async fn run(&self, call: &Call) -> Result<Value, Away> {
        if self.breaker.open_since().is_some() {
            return Err(Away);
        }
        let answer = self.ask(call).await;
        self.understood(answer)
    }

    /// Makes a call, whatever the breaker says.
    async fn ask(&self, call: &Call) -> RedisResult<Value> {
        let mut answers = self.ask_all(std::slice::from_ref(call)).await?;
        answers.pop().ok_or_else(calls::odd)
    }

    /// Makes calls on one owner's keys in one go, whatever the breaker says; one answer each.
    async fn ask_all(&self, calls: &[Call]) -> RedisResult<Vec<Value>> {
        let answers = self.ask_until(calls, 0, self.config.op_timeout).await?.all;
        if answers.len() == calls.len() { Ok(answers) } else { Err(calls::odd()) }
    }

    /// As [`Self::ask_all`], but nothing is done once nobody waits any more, and an answer that comes late
    /// still comes.
    async fn ask_awaited(&self, owner: Owner, calls: &[Call]) -> RedisResult<Vec<Value>> {
        // What comes back in time and was too late for the server shows that its clock was set: once more.
        for _ in 0..2 {
            let until = self.clocks.awaited_until(owner, self.config.op_timeout);
            let answers = self.ask_until(calls, until, LATE).await?;
            self.clocks.heard(owner, answers.server_us);
            if answers.all.len() == calls.len() {
                return Ok(answers.all);
            }
        }
        Err(calls::odd())
    }

    async fn ask_until(
        &self,
        calls: &[Call],
        awaited_until: i64,
        patience: Duration,
    ) -> RedisResult<Answers> {
        let asked = Instant::now();
        let answer = timeout(patience, self.send(calls, awaited_until)).await.map_err(timed_out);
        let answers = answer.flatten().and_then(|answer| Answers::read(&answer));
        if let Some(metrics) = &self.metrics {
            let took = asked.elapsed();
            for call in calls {
                metrics.admission_op(call.op.label(), took);
            }
        }
        if answers.is_err() {
            self.missed(calls.iter().map(|call| call.op.label()));
        }
        answers
    }

    /// Counts operations without an answer.
    fn missed(&self, ops: impl Iterator<Item = AdmissionOp>) {
        if let Some(metrics) = &self.metrics {
            ops.for_each(|op| metrics.admission_failed(op));
        }
    }

    async fn send(&self, calls: &[Call], awaited_until: i64) -> RedisResult<Value> {
        let first = calls.first().ok_or_else(calls::odd)?;
        let script = self.scripts.of(first);
        let mut connection = self.connections.get().await?;
        match connection.send(&script.by_hash(calls, awaited_until)).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                connection.send(&script.by_text(calls, awaited_until)).await
            }
            answer => answer,
        }
    }

    /// Tells the breaker how an answer was.
    fn understood<T>(&self, answer: RedisResult<T>) -> Result<T, Away> {
        match answer {
            Ok(answer) => {
                self.breaker.succeeded();
                Ok(answer)
            }
            Err(error) => {
                self.failed(&error);
                Err(Away)
            }
        }
    }

    fn failed(&self, error: &redis::RedisError) {
        if !error.is_timeout() {
            // Closed, or a server that is not the master any more: the next one asks around again.
            self.connections.drop_own();
        }
        if self.breaker.failed(self.clock.now()) {
            self.connections.drop_all();
            tracing::warn!(error = %error.category(), share = self.share().0, "Redis is away: limits are shared out");
        }
    }
}
