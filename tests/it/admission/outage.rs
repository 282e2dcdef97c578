//! Redis frozen, killed, emptied: what is lost, what goes on, what comes back.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use tollway::{
    admission::{Acquire, Enter, Health, Refused, Subject, redis::Layout},
    domain::{limits::Limits, money::Nanos},
};

use super::world::*;
use crate::harness::{
    eventually,
    services::{RedisServer, start_redis},
};

const PATIENCE: Duration = Duration::from_secs(20);

/// As in production.
fn world_on(server: &RedisServer) -> World {
    world_of(server, 1)
}

/// With so many replicas expected.
fn world_of(server: &RedisServer, replicas: u32) -> World {
    let mut config = config(vec![server.url.clone()], Layout::Single);
    config.op_timeout = Duration::from_millis(100);
    config.connect_timeout = Duration::from_millis(300);
    config.replicas_expected = replicas;
    World::redis(config)
}

async fn becomes(world: &World, what: impl Fn(Health) -> bool) {
    eventually("the counters' health to change", PATIENCE, async || what(world.admission.health())).await;
}

fn is_degraded(health: Health) -> bool {
    matches!(health, Health::Degraded { .. })
}

fn is_shared(health: Health) -> bool {
    health == Health::Shared
}

fn something() -> (Enter, Acquire) {
    let team = tenant();
    let pool = pool([key(0, Limits { rpm: Some(100), tpm: None, concurrency: Some(50) })]);
    (enter(team, Limits { rpm: Some(100), tpm: None, concurrency: Some(50) }), acquire(&pool, team, model()))
}

#[tokio::test]
async fn a_frozen_redis_costs_less_than_a_second_and_recovers_by_itself() {
    let server = start_redis();
    let world = world_on(&server);
    let _maintained = world.maintained();
    let (door, attempt) = something();
    world.admission.admit(&another(&door), &again(&attempt)).await.expect("in");
    world.assert_counted_together();

    server.freeze();
    let since = Instant::now();
    for _ in 0..40 {
        world.admission.admit(&another(&door), &again(&attempt)).await.expect("in, on this replica's share");
    }
    assert!(since.elapsed() < Duration::from_secs(1), "{:?} for 40 requests", since.elapsed());
    assert!(is_degraded(world.admission.health()));

    server.thaw();
    becomes(&world, is_shared).await;
    // What was let in meanwhile is counted now.
    let live = world.admission.inspect_tenant(door.tenant, &[Subject::Tenant]).await;
    assert_eq!((live[0].rpm_used, live[0].in_flight), (41, 41));
    let live = world.admission.inspect_pool(&attempt.pool).await;
    assert_eq!((live[0].1.rpm_used, live[0].1.in_flight), (41, 41));
}

#[tokio::test]
async fn without_redis_each_replica_spends_its_share_less_what_it_used() {
    let mut server = start_redis();
    let world = world_of(&server, 2);
    let team = tenant();
    let pool = pool([key(0, Limits::default())]);
    let (door, attempt) = (enter(team, rpm(20)), acquire(&pool, team, model()));
    let slow = enter(tenant(), rpm(1));
    world.to_next_second();
    for _ in 0..4 {
        world.admission.admit(&another(&door), &again(&attempt)).await.expect("in");
    }
    server.kill();
    let mut entered = 4;
    while world.admission.admit(&another(&door), &again(&attempt)).await.is_ok() {
        entered += 1;
    }
    assert_eq!(entered, 10, "half of 20");
    // Half a request a minute is one in two.
    world.admission.admit(&slow, &again(&attempt)).await.expect("the first");
    world.advance(Duration::from_secs(119));
    assert!(matches!(
        world.admission.admit(&another(&slow), &again(&attempt)).await,
        Err(Refused::Limit { retry_after, .. }) if retry_after <= Duration::from_secs(1)
    ));
    world.advance(Duration::from_secs(1));
    world.admission.admit(&another(&slow), &again(&attempt)).await.expect("the second");
}

#[tokio::test]
async fn what_is_held_is_posted_again_after_a_flush() {
    let mut server = start_redis();
    let world = world_on(&server);
    let _maintained = world.maintained();
    let (mut door, attempt) = something();
    (door.hold, door.funds, door.tokens) = (Nanos::new(7), Some(Nanos::new(100)), 30);
    let lease = world.admission.admit(&door, &attempt).await.expect("in");
    let counted = async || {
        let live = world.admission.inspect_tenant(door.tenant, &[Subject::Tenant]).await;
        let key = &world.admission.inspect_pool(&attempt.pool).await[0].1;
        (live[0].rpm_used, live[0].tpm_used, live[0].in_flight, live[0].held, key.rpm_used, key.in_flight)
    };
    let before = counted().await;
    assert_eq!(before, (1, 30, 1, Nanos::new(7), 1, 1));
    // Let the maintenance see the epoch that is about to be lost.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    server.run::<()>(&redis::cmd("FLUSHALL"));
    eventually("what is held to be posted again", Duration::from_secs(3), async || counted().await == before)
        .await;
    world.assert_counted_together();

    server.restart_empty();
    becomes(&world, is_shared).await;
    eventually("what is held to be posted again", PATIENCE, async || counted().await == before).await;
    world.settle(lease, served(&attempt)).await;
    world.leave(&door, None).await;
    eventually("all to be given back", PATIENCE, async || {
        let (_, _, in_flight, held, _, leased) = counted().await;
        (in_flight, held, leased) == (0, Nanos::ZERO, 0)
    })
    .await;
}

#[tokio::test]
async fn what_ends_while_redis_is_away_is_told_when_it_is_back() {
    let server = start_redis();
    let world = world_on(&server);
    let _maintained = world.maintained();
    let (door, attempt) = something();
    let lease = world.admission.admit(&door, &attempt).await.expect("in");
    server.freeze();
    becomes(&world, is_degraded).await;
    world.settle(lease, served(&attempt)).await;
    world.leave(&door, None).await;
    server.thaw();
    eventually("the end to be told", PATIENCE, async || {
        is_shared(world.admission.health())
            && world.admission.inspect_pool(&attempt.pool).await[0].1.in_flight == 0
            && world.admission.inspect_tenant(door.tenant, &[Subject::Tenant]).await[0].in_flight == 0
    })
    .await;
}

#[tokio::test]
async fn live_replicas_count_each_other_and_one_that_stops_leaves_its_share() {
    let mut server = start_redis();
    let (a, b) = (world_on(&server), world_on(&server));
    let third = world_on(&server);
    let _maintained = (a.maintained(), b.maintained());
    let stop = CancellationToken::new();
    let stopping = tokio::spawn({
        let (third, stop) = (third.admission.clone(), stop.clone());
        async move { third.maintain(stop).await }
    });
    eventually("three heartbeats", PATIENCE, async || replicas_on_the_roll(&server).await == 3).await;
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    stop.cancel();
    stopping.await.expect("it stops");
    assert_eq!(replicas_on_the_roll(&server).await, 2);
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    server.kill();
    becomes(&a, |health| matches!(health, Health::Degraded { share: 2, .. })).await;
}
