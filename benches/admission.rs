//! What one admission costs: entering with a leased key and settling both, among 10 to 10 000 keys
//! of which nine in ten are parked. Redis only with `TEST_REDIS_URL`, with the server's own time for
//! each script.
#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench stands outside the floors and says what it measures"
)]

use std::{
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tollway::{
    admission::{
        Acquire, Admission, Cool, CoolFor, CoolScope, Enter, Pool, PoolKey, SettleLease, SettlePass, Subject,
        local::Local,
        redis::{Redis, RedisConfig},
    },
    domain::{
        clock::{Clock, SystemClock},
        failure::FailureClass,
        ids::{KeyId, LeaseId, ModelId, ProviderId, ReplicaId, RequestId, TenantId},
        limits::Limits,
        money::Nanos,
    },
};

const SIZES: [usize; 3] = [10, 1_000, 10_000];

fn ten_bytes() -> [u8; 10] {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut bytes = [0; 10];
    bytes[2..].copy_from_slice(&COUNT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    bytes
}

/// A pool of `size` keys, and the request that every round repeats.
fn request(size: usize) -> (Enter, Acquire) {
    let now = SystemClock.now();
    let limits = Limits { rpm: Some(u32::MAX), tpm: Some(u64::MAX), concurrency: Some(1_000_000) };
    let tenant = TenantId::generate(now, ten_bytes());
    let keys = (0..size)
        .map(|_| PoolKey { id: KeyId::generate(now, ten_bytes()), tenant: None, priority: 0, limits })
        .collect();
    let enter = Enter {
        request: RequestId::generate(now, ten_bytes()),
        tenant,
        windows: vec![(Subject::Tenant, limits)],
        tokens: 1_000,
        hold: Nanos::new(5),
        funds: Some(Nanos::new(1 << 50)),
    };
    let acquire = Acquire {
        lease: LeaseId::generate(now, ten_bytes()),
        pool: Pool { provider: ProviderId::generate(now, ten_bytes()), version: 1, keys },
        tenant,
        model: ModelId::generate(now, ten_bytes()),
        exclude: Vec::new(),
        tokens: 1_000,
    };
    (enter, acquire)
}

/// Cools nine keys in ten and lets a selection meet them.
async fn park(admission: &Admission, acquire: &Acquire) {
    let _ = admission.acquire(acquire).await;
    for key in acquire.pool.keys.iter().enumerate().filter(|(at, _)| at % 10 != 0).map(|(_, key)| key.id) {
        let scope = CoolScope::KeyModel(key, acquire.model);
        let span = CoolFor::Span(Duration::from_secs(1_800));
        admission
            .cool(&Cool { provider: acquire.pool.provider, scope, span, reason: FailureClass::Broken })
            .await;
    }
    let _ = admission.acquire(acquire).await;
}

async fn round(admission: &Admission, enter: &mut Enter, acquire: &mut Acquire) {
    enter.request = RequestId::from_uuid(uuid::Uuid::from_u128(enter.request.uuid().as_u128() + 1));
    acquire.lease = LeaseId::from_uuid(uuid::Uuid::from_u128(acquire.lease.uuid().as_u128() + 1));
    let lease = admission.admit(enter, acquire).await.expect("a key is free");
    admission.settle_lease(SettleLease {
        lease,
        model: acquire.model,
        reserved: 1_000,
        used: Some(900),
        served: true,
    });
    admission.settle_pass(SettlePass {
        request: enter.request,
        tenant: enter.tenant,
        windows: Vec::new(),
        reserved: 1_000,
        used: Some(900),
    });
    black_box(lease);
}

fn local(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let mut group = c.benchmark_group("local admit and settle");
    for size in SIZES {
        let admission = Admission::Local(Arc::new(Local::new(Arc::new(SystemClock))));
        let (mut enter, mut acquire) = request(size);
        runtime.block_on(park(&admission, &acquire));
        group.bench_function(BenchmarkId::from_parameter(size), |b| {
            b.iter(|| runtime.block_on(round(&admission, &mut enter, &mut acquire)));
        });
    }
}

fn shared(c: &mut Criterion) {
    let Ok(url) = std::env::var("TEST_REDIS_URL") else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut group = c.benchmark_group("redis admit and settle");
    for size in SIZES {
        let replica = ReplicaId::generate(SystemClock.now(), ten_bytes());
        let config = RedisConfig { op_timeout: Duration::from_secs(5), ..RedisConfig::single(&url, replica) };
        let backend = Arc::new(Redis::new(config, Arc::new(SystemClock)).expect("the URL is right"));
        let admission = Admission::Redis(Arc::clone(&backend));
        let (mut enter, mut acquire) = request(size);
        runtime.block_on(park(&admission, &acquire));
        runtime.block_on(round(&admission, &mut enter, &mut acquire));
        let before = scripts(&url);
        group.bench_function(BenchmarkId::from_parameter(size), |b| {
            b.iter(|| {
                runtime.block_on(async {
                    round(&admission, &mut enter, &mut acquire).await;
                    backend.drain().await;
                });
            });
        });
        let after = scripts(&url);
        println!(
            "{size} keys: {:.1} µs of redis-server for each script; decided alone: {}",
            (after.1 - before.1) / (after.0 - before.0),
            backend.decided_alone()
        );
    }
}

/// How many scripts the server ran by hash, and the microseconds they took.
fn scripts(url: &str) -> (f64, f64) {
    let mut connection =
        redis::Client::open(url).and_then(|client| client.get_connection()).expect("Redis answers");
    let stats: String =
        redis::cmd("INFO").arg("commandstats").query(&mut connection).expect("its statistics");
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap_or_default();
    let field = |name: &str| {
        let value = line.split([':', ',']).find_map(|part| part.strip_prefix(name));
        value.and_then(|value| value.parse().ok()).unwrap_or(0.0)
    };
    (field("calls="), field("usec="))
}

criterion_group!(benches, local, shared);
criterion_main!(benches);
