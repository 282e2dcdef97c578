//! The same behaviour on a cluster, and operations that go on through a fail-over.

use std::time::Duration;

use tollway::{
    admission::{Health, redis::Layout},
    domain::limits::Limits,
};

use super::{suite::ALL, world::*};
use crate::harness::{
    eventually,
    services::{Sentinel, start_redis_cluster, start_sentinel},
};

#[tokio::test]
async fn the_suite_holds_on_a_cluster() {
    let cluster = start_redis_cluster(3);
    for (name, behaviour) in ALL {
        eprintln!("{name}");
        let world = World::redis(config(cluster.urls(), Layout::Cluster));
        behaviour(&world).await;
        world.assert_counted_together();
    }
}

#[tokio::test]
async fn operations_go_on_through_a_sentinel_fail_over() {
    let mut sentinel = start_sentinel();
    let layout = Layout::Sentinel { master: Sentinel::MASTER.to_owned() };
    let mut config = config(vec![sentinel.url.clone()], layout);
    config.op_timeout = Duration::from_millis(200);
    config.connect_timeout = Duration::from_millis(500);
    let world = World::redis(config);
    let _maintained = world.maintained();

    let team = tenant();
    let pool = pool([key(0, Limits { rpm: Some(1_000), tpm: None, concurrency: Some(100) })]);
    let attempt = acquire(&pool, team, model());
    let held = world.admission.acquire(&attempt).await.expect("a key");
    world.assert_counted_together();
    let failing_over = tokio::task::spawn_blocking(move || {
        sentinel.fail_over();
        sentinel
    });
    while !failing_over.is_finished() {
        let attempt = again(&attempt);
        let lease = world.admission.acquire(&attempt).await.expect("operations go on");
        world.admission.settle_lease(tollway::admission::SettleLease {
            lease,
            model: attempt.model,
            reserved: 0,
            used: None,
            served: true,
        });
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let _sentinel = failing_over.await.expect("the replica takes over");
    eventually("Redis to be back", Duration::from_secs(15), async || {
        world.admission.health() == Health::Shared
    })
    .await;
    // What is held was copied by replication or posted again; nothing else is left over.
    eventually("one lease to be in flight", Duration::from_secs(15), async || {
        world.admission.inspect_pool(&pool).await[0].1.in_flight == 1
    })
    .await;
    world.settle(held, served(&attempt)).await;
    let live = world.admission.inspect_pool(&pool).await;
    assert_eq!(live[0].1.in_flight, 0);
}
