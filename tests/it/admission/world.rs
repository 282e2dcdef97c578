//! A backend under test, with a clock to turn.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tollway::{
    admission::{
        Acquire, Admission, Cool, CoolFor, CoolScope, Enter, Health, Lease, NoKey, Pool, PoolKey, Refused,
        SettleLease, SettlePass, Subject,
        local::Local,
        redis::{Layout, Redis, RedisConfig},
    },
    domain::{
        clock::{Clock, SystemClock, Timestamp},
        failure::FailureClass,
        ids::{KeyId, LeaseId, ModelId, ProviderId, ReplicaId, RequestId, TenantId},
        limits::Limits,
        money::Nanos,
    },
};

use crate::harness::services::RedisServer;

/// The system's clock, turned by hand; a Redis on this machine is turned with it.
#[derive(Debug, Default)]
pub struct Turned(AtomicI64);

impl Clock for Turned {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_us(SystemClock.now().unix_us() + self.0.load(Ordering::SeqCst))
    }
}

pub struct World {
    pub admission: Admission,
    pub clock: Arc<Turned>,
    redis: Option<Arc<Redis>>,
}

pub fn ten_bytes() -> [u8; 10] {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut bytes = [0; 10];
    // The process and a count: unlike any other test's, in whatever process it runs.
    bytes[..4].copy_from_slice(&std::process::id().to_be_bytes());
    bytes[4..].copy_from_slice(&COUNT.fetch_add(1, Ordering::SeqCst).to_be_bytes()[2..]);
    bytes
}

macro_rules! fresh {
    ($kind:ident) => {
        $kind::generate(SystemClock.now(), ten_bytes())
    };
}

pub fn config(urls: Vec<String>, layout: Layout) -> RedisConfig {
    RedisConfig {
        layout,
        // The machine is shared with other tests; the bound itself is tested in `outage`.
        op_timeout: Duration::from_secs(5),
        connect_timeout: Duration::from_secs(5),
        urls,
        ..RedisConfig::single("", fresh!(ReplicaId))
    }
}

/// Maintenance that ends with this, as in a process that is killed.
pub struct Maintained(AbortHandle);

impl Drop for Maintained {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl World {
    pub fn local() -> Self {
        let clock = Arc::new(Turned::default());
        Self { admission: Admission::Local(Arc::new(Local::new(clock.clone()))), clock, redis: None }
    }

    pub fn redis(config: RedisConfig) -> Self {
        let clock = Arc::new(Turned::default());
        let redis = Arc::new(Redis::new(config, clock.clone()).expect("the URLs are right"));
        Self { admission: Admission::Redis(Arc::clone(&redis)), clock, redis: Some(redis) }
    }

    /// A backend on the tests' shared Redis.
    pub fn shared_redis() -> Self {
        Self::redis(config(vec![crate::harness::services::redis()], Layout::Single))
    }

    /// Proves that Redis counted, not this process in its place.
    pub fn assert_counted_together(&self) {
        assert_eq!((self.decided_alone(), self.admission.health()), (0, Health::Shared));
    }

    /// How many decisions this process made without Redis.
    pub fn decided_alone(&self) -> u64 {
        self.admission.decided_alone()
    }

    /// Runs the backend's maintenance until the guard is dropped.
    pub fn maintained(&self) -> Maintained {
        let admission = self.admission.clone();
        let task = tokio::spawn(async move { admission.maintain(CancellationToken::new()).await });
        Maintained(task.abort_handle())
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn advance(&self, span: Duration) {
        self.turn(i64::try_from(span.as_micros()).unwrap());
    }

    /// Steps the clock, backwards too.
    pub fn turn(&self, us: i64) {
        let offset = self.clock.0.fetch_add(us, Ordering::SeqCst) + us;
        if let Some(redis) = &self.redis {
            redis.turn_clock(offset);
        }
    }

    /// Moves on to the beginning of a second, so that what follows falls into one bucket.
    pub fn to_next_second(&self) {
        self.turn(1_000_000 - self.now().unix_us().rem_euclid(1_000_000));
    }

    /// Waits until what ended has been told.
    pub async fn told(&self) {
        if let Some(redis) = &self.redis {
            redis.drain().await;
        }
    }

    pub fn end_lease(&self, lease: Lease, how: Settle) {
        self.admission.settle_lease(SettleLease {
            lease,
            model: how.model,
            reserved: how.reserved,
            used: how.used,
            served: how.served,
        });
    }

    pub async fn settle(&self, lease: Lease, how: Settle) {
        self.end_lease(lease, how);
        self.told().await;
    }

    pub async fn leave(&self, enter: &Enter, used: Option<u64>) {
        self.end(enter, used);
        self.told().await;
    }

    pub fn end(&self, enter: &Enter, used: Option<u64>) {
        self.admission.settle_pass(SettlePass {
            request: enter.request,
            tenant: enter.tenant,
            windows: enter.windows.clone(),
            reserved: enter.tokens,
            used,
        });
    }

    pub async fn cool(&self, pool: &Pool, scope: CoolScope, span: CoolFor) -> Option<Timestamp> {
        self.cool_for(FailureClass::RateLimited, pool, scope, span).await
    }

    pub async fn cool_for(
        &self,
        reason: FailureClass,
        pool: &Pool,
        scope: CoolScope,
        span: CoolFor,
    ) -> Option<Timestamp> {
        self.admission.cool(&Cool { provider: pool.provider, scope, span, reason }).await
    }
}

/// The end of an attempt, less its lease.
#[derive(Clone, Copy)]
pub struct Settle {
    pub model: ModelId,
    pub reserved: u64,
    pub used: Option<u64>,
    pub served: bool,
}

pub fn served(acquire: &Acquire) -> Settle {
    Settle { model: acquire.model, reserved: acquire.tokens, used: None, served: true }
}

/// How many replicas stand on the roll in a Redis of its own.
pub async fn replicas_on_the_roll(server: &RedisServer) -> u32 {
    let client = redis::Client::open(server.url.as_str()).expect("a URL");
    let mut connection = client.get_multiplexed_async_connection().await.expect("a connection");
    redis::cmd("ZCARD").arg("{replicas}1:r").query_async(&mut connection).await.expect("a count")
}

pub fn key(priority: i32, limits: Limits) -> PoolKey {
    PoolKey { id: fresh!(KeyId), tenant: None, priority, limits }
}

pub fn rpm(rpm: u32) -> Limits {
    Limits { rpm: Some(rpm), ..Limits::default() }
}

pub fn tpm(tpm: u64) -> Limits {
    Limits { tpm: Some(tpm), ..Limits::default() }
}

pub fn slots(concurrency: u32) -> Limits {
    Limits { concurrency: Some(concurrency), ..Limits::default() }
}

pub fn pool(keys: impl IntoIterator<Item = PoolKey>) -> Pool {
    Pool { provider: fresh!(ProviderId), version: 1, keys: keys.into_iter().collect() }
}

pub fn tenant() -> TenantId {
    fresh!(TenantId)
}

pub fn model() -> ModelId {
    fresh!(ModelId)
}

pub fn acquire(pool: &Pool, tenant: TenantId, model: ModelId) -> Acquire {
    Acquire { lease: fresh!(LeaseId), pool: pool.clone(), tenant, model, exclude: Vec::new(), tokens: 0 }
}

/// The same for another attempt.
pub fn again(acquire: &Acquire) -> Acquire {
    Acquire { lease: fresh!(LeaseId), ..acquire.clone() }
}

pub fn enter(tenant: TenantId, limits: Limits) -> Enter {
    Enter {
        request: fresh!(RequestId),
        tenant,
        windows: vec![(Subject::Tenant, limits)],
        tokens: 0,
        hold: Nanos::ZERO,
        funds: None,
    }
}

/// The same for another request.
pub fn another(enter: &Enter) -> Enter {
    Enter { request: fresh!(RequestId), ..enter.clone() }
}

pub fn no_key(result: Result<Lease, Refused>) -> NoKey {
    match result {
        Err(Refused::NoKey(none)) => none,
        other => panic!("expected no key, got {other:?}"),
    }
}
