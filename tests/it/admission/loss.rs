//! Redis loses what it counted, or did not count all: a limit is kept all the same.

use std::time::{Duration, Instant};

use tollway::{
    admission::{Acquire, CoolFor, CoolScope, Enter, Health, Past, Pool, Subject, redis::Layout},
    domain::limits::Limits,
};

use super::world::*;
use crate::harness::{
    eventually,
    services::{RedisServer, start_redis},
};

const PATIENCE: Duration = Duration::from_secs(20);
/// Longer than everyone takes to find a loss and to tell again.
const A_WHILE: Duration = Duration::from_secs(3);

fn flush(server: &RedisServer) {
    server.run::<()>(&redis::cmd("FLUSHALL"));
}

/// A replica of a deployment of `replicas`, known to the others.
async fn replica(server: &RedisServer, replicas: u32) -> (World, Maintained) {
    let mut config = config(vec![server.url.clone()], Layout::Single);
    config.connect_timeout = Duration::from_millis(300);
    config.op_timeout = Duration::from_millis(200);
    config.replicas_expected = replicas;
    let world = World::redis(config);
    let maintained = world.maintained();
    eventually("a place on the roll", PATIENCE, async || replicas_on_the_roll(server).await == replicas)
        .await;
    (world, maintained)
}

async fn both(server: &RedisServer) -> [(World, Maintained); 2] {
    let all = [replica(server, 1).await, replica(server, 2).await];
    // The first hears of the second.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    all
}

/// One request from its entry to its settlement; whether it was let in.
async fn passes(world: &World, door: &Enter, attempt: &Acquire) -> bool {
    let (door, attempt) = (another(door), again(attempt));
    let Ok(lease) = world.admission.admit(&door, &attempt).await else { return false };
    world.settle(lease, served(&attempt)).await;
    world.leave(&door, None).await;
    true
}

async fn use_up(world: &World, door: &Enter, attempt: &Acquire, times: usize) {
    for _ in 0..times {
        assert!(passes(world, door, attempt).await);
    }
}

/// How many get through while all replicas try without a pause.
async fn get_through(worlds: &[&World], door: &Enter, attempt: &Acquire, span: Duration) -> usize {
    let since = Instant::now();
    let tries = worlds.iter().map(|world| async move {
        let mut passed = 0;
        while since.elapsed() < span {
            passed += usize::from(passes(world, door, attempt).await);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        passed
    });
    futures_util::future::join_all(tries).await.into_iter().sum()
}

/// Ten a minute, once for a tenant, once for a key.
fn ten_a_minute() -> [(Enter, Acquire); 2] {
    [(rpm(10), Limits::default()), (rpm(1_000), rpm(10))].map(|(of_tenant, of_key)| {
        let team = tenant();
        (enter(team, of_tenant), acquire(&pool([key(0, of_key)]), team, model()))
    })
}

#[tokio::test]
async fn what_was_settled_before_a_flush_still_counts() {
    let server = start_redis();
    let (world, _maintained) = replica(&server, 1).await;
    for (door, attempt) in ten_a_minute() {
        use_up(&world, &door, &attempt, 8).await;
        flush(&server);
        assert_eq!(get_through(&[&world], &door, &attempt, A_WHILE).await, 2);
    }
    world.assert_counted_together();
}

/// Two replicas use eight of ten, `lose` takes them from Redis, and both go on at once.
async fn two_replicas_get_two_more(used: [(usize, usize); 2], lose: impl Fn(&RedisServer, &Enter, &Acquire)) {
    let server = start_redis();
    let [(a, _a), (b, _b)] = both(&server).await;
    for (of_a, of_b) in used {
        for (door, attempt) in ten_a_minute() {
            use_up(&a, &door, &attempt, of_a).await;
            use_up(&b, &door, &attempt, of_b).await;
            lose(&server, &door, &attempt);
            assert_eq!(get_through(&[&a, &b], &door, &attempt, A_WHILE).await, 2, "{of_a} and {of_b}");
        }
    }
    a.assert_counted_together();
    b.assert_counted_together();
}

#[tokio::test]
async fn replicas_wait_for_each_others_part_of_what_was_lost() {
    two_replicas_get_two_more([(8, 0), (3, 5)], |server, _, _| flush(server)).await;
}

#[tokio::test]
async fn counters_that_are_lost_while_the_roll_stands_are_told_again_too() {
    // As when one master of a cluster comes back with nothing. Who has no part in the counters cannot tell
    // that they are not new.
    two_replicas_get_two_more([(7, 1), (3, 5)], |server, door, attempt| {
        for prefix in [
            format!("{{t:{}}}*", door.tenant.uuid().as_simple()),
            format!("{{p:{}}}*", attempt.pool.provider.uuid().as_simple()),
        ] {
            let keys: Vec<Vec<u8>> = server.run(redis::cmd("KEYS").arg(prefix));
            server.run::<()>(redis::cmd("DEL").arg(keys));
        }
    })
    .await;
}

/// Requests and tokens that Redis has counted of a tenant and of the pool's only key.
async fn counted(world: &World, door: &Enter, pool: &Pool) -> [(u32, u64); 2] {
    let tenant = world.admission.inspect_tenant(door.tenant, &[Subject::Tenant]).await[0];
    let key = &world.admission.inspect_pool(pool).await[0].1;
    [(tenant.rpm_used, tenant.tpm_used), (key.rpm_used, key.tpm_used)]
}

fn with_tokens() -> (Enter, Acquire) {
    let limits = Limits { rpm: Some(100), tpm: Some(10_000), concurrency: None };
    let (team, pool) = (tenant(), pool([key(0, limits)]));
    let attempt = Acquire { tokens: 300, ..acquire(&pool, team, model()) };
    (Enter { tokens: 300, ..enter(team, limits) }, attempt)
}

#[tokio::test]
async fn tokens_are_told_again_as_they_were_settled_and_nothing_is_told_twice() {
    let server = start_redis();
    let [(a, _a), (b, _b)] = both(&server).await;
    let (door, attempt) = with_tokens();
    for world in [&a, &b] {
        let (door, attempt) = (another(&door), again(&attempt));
        let lease = world.admission.admit(&door, &attempt).await.expect("in");
        world.settle(lease, Settle { used: Some(200), ..served(&attempt) }).await;
        world.leave(&door, Some(150)).await;
    }
    // One that is still under way, and ends after the loss.
    let (live, under_way) = (another(&door), again(&attempt));
    let lease = a.admission.admit(&live, &under_way).await.expect("in");
    let before = [(3, 600), (3, 700)];
    assert_eq!(counted(&a, &door, &attempt.pool).await, before);
    for _ in 0..3 {
        flush(&server);
        eventually("what was lost to be told again", PATIENCE, async || {
            counted(&a, &door, &attempt.pool).await == before
        })
        .await;
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        assert_eq!(counted(&b, &door, &attempt.pool).await, before, "told once");
    }
    a.settle(lease, Settle { used: Some(20), ..served(&under_way) }).await;
    a.leave(&live, Some(10)).await;
    assert_eq!(counted(&b, &door, &attempt.pool).await, [(3, 310), (3, 420)]);
}

#[tokio::test]
async fn what_was_let_in_alone_and_has_ended_is_counted_afterwards() {
    for comes_back_empty in [false, true] {
        let mut server = start_redis();
        let (world, _maintained) = replica(&server, 1).await;
        let (door, attempt) = with_tokens();
        use_up(&world, &door, &attempt, 4).await;
        if comes_back_empty {
            server.kill();
        } else {
            server.freeze();
        }
        eventually("Redis to be given up", PATIENCE, async || world.admission.health() != Health::Shared)
            .await;
        use_up(&world, &door, &attempt, 3).await;
        let live = another(&door);
        world.admission.admit(&live, &again(&attempt)).await.expect("in");
        if comes_back_empty {
            server.restart_empty();
        } else {
            server.thaw();
        }
        eventually("shared counting", PATIENCE, async || world.admission.health() == Health::Shared).await;
        assert_eq!(counted(&world, &door, &attempt.pool).await, [(8, 2_400); 2], "{comes_back_empty}");
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        assert_eq!(counted(&world, &door, &attempt.pool).await, [(8, 2_400); 2], "{comes_back_empty}");
    }
}

#[tokio::test]
async fn nobody_counts_on_an_empty_redis_before_the_others_are_back() {
    let mut server = start_redis();
    let [(a, _a), (b, b_maintained)] = both(&server).await;
    let (door, attempt) = ten_a_minute().into_iter().next().expect("the tenant's");
    use_up(&a, &door, &attempt, 1).await;
    use_up(&b, &door, &attempt, 5).await;
    server.kill();
    drop(b_maintained);
    let share_of_two = |world: &World| matches!(world.admission.health(), Health::Degraded { share: 2, .. });
    eventually("Redis to be given up", PATIENCE, async || share_of_two(&a)).await;
    server.restart_empty();
    let since = Instant::now();
    while since.elapsed() < A_WHILE {
        assert!(share_of_two(&a), "{:?}", a.admission.health());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(get_through(&[&a], &door, &attempt, Duration::from_millis(500)).await, 4, "half of ten");
    let _b = b.maintained();
    eventually("both to be back", PATIENCE, async || {
        a.admission.health() == Health::Shared && b.admission.health() == Health::Shared
    })
    .await;
    assert_eq!(get_through(&[&a, &b], &door, &attempt, A_WHILE).await, 0, "5 and 5 are 10");
}

#[tokio::test]
async fn a_replica_that_does_not_come_back_is_not_waited_for_longer_than_a_minute() {
    let server = start_redis();
    let [(a, _a), (_, b_maintained)] = both(&server).await;
    let (door, attempt) = ten_a_minute().into_iter().next().expect("the tenant's");
    use_up(&a, &door, &attempt, 4).await;
    drop(b_maintained);
    flush(&server);
    assert_eq!(get_through(&[&a], &door, &attempt, A_WHILE).await, 1, "four of the half of ten are used");
    assert!(matches!(a.admission.health(), Health::Degraded { share: 2, .. }));
    a.advance(Duration::from_secs(61));
    eventually("shared counting", PATIENCE, async || a.admission.health() == Health::Shared).await;
}

#[tokio::test]
async fn what_is_out_stays_out() {
    let server = start_redis();
    let [(a, _a), (b, _b)] = both(&server).await;
    let (team, keys) = (tenant(), [(); 2].map(|()| key(0, Limits::default())));
    let (pool, door) = (pool(keys), enter(team, rpm(1_000)));
    let attempt = acquire(&pool, team, model());
    for world in [&a, &b] {
        use_up(world, &door, &attempt, 2).await;
    }
    let minutes = CoolFor::Span(Duration::from_secs(600));
    a.cool(&pool, CoolScope::Key(keys[0].id), minutes).await.expect("a deadline");
    a.cool(&pool, CoolScope::KeyModel(keys[1].id, attempt.model), minutes).await.expect("a deadline");
    for _ in 0..2 {
        flush(&server);
        assert_eq!(get_through(&[&a, &b], &door, &attempt, A_WHILE).await, 0);
    }
    let other = Acquire { model: model(), ..attempt };
    assert_eq!(b.admission.acquire(&again(&other)).await.expect("for another model").key, keys[1].id);
    a.assert_counted_together();
    b.assert_counted_together();
}

#[tokio::test]
async fn what_a_restarted_replica_remembers_is_told_to_a_redis_that_has_nothing() {
    let server = start_redis();
    let (door, attempt) = ten_a_minute().into_iter().next().expect("the tenant's");
    let mut config = config(vec![server.url.clone()], Layout::Single);
    config.op_timeout = Duration::from_millis(200);
    let world = World::redis(config);
    let past = Past {
        tenant: door.tenant,
        subjects: vec![Subject::Tenant],
        provider: attempt.pool.provider,
        key: attempt.pool.keys[0].id,
        at: world.now().minus(Duration::from_secs(5)),
        tokens: 0,
    };
    world.admission.remember(vec![past; 8]);
    let _maintained = world.maintained();
    assert_eq!(get_through(&[&world], &door, &attempt, A_WHILE).await, 2);
}

#[tokio::test]
async fn whatever_is_lost_and_when_no_limit_is_passed() {
    let server = start_redis();
    let [(a, _a), (b, _b)] = both(&server).await;
    let doors: Vec<_> = std::iter::repeat_with(ten_a_minute).take(4).flatten().collect();
    let losses = async {
        for pause in [300, 1_400, 40, 1_600, 10, 1_500] {
            tokio::time::sleep(Duration::from_millis(pause)).await;
            let url = server.url.clone();
            let client = redis::Client::open(url).expect("a URL");
            let mut connection = client.get_multiplexed_async_connection().await.expect("a connection");
            let () = redis::cmd("FLUSHALL").query_async(&mut connection).await.expect("a flush");
        }
    };
    let worlds = [&a, &b];
    let tries = doors.iter().map(|(door, attempt)| get_through(&worlds, door, attempt, 2 * A_WHILE));
    let (passed, ()) = tokio::join!(futures_util::future::join_all(tries), losses);
    // On a machine that is too busy one may have given up waiting, and spent its half of the limit.
    let is_exact = worlds.iter().all(|world| world.decided_alone() == 0);
    let most = if is_exact { 10 } else { 15 };
    assert!(passed.iter().all(|passed| (10..=most).contains(passed)), "{passed:?} of ten each");
}
