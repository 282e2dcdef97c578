//! The real server in front of Sentinel and of a Cluster, and a master that dies.

use std::time::Duration;

use super::{ANSWER, assert_served, becomes, steady};
use crate::{
    crash::books::{Books, drained},
    harness::{
        eventually,
        load::{Load, answer_by_number, ask},
        scene::{Ordinary, Scene},
        server::{Server, Setup},
        services::{Sentinel, migrated_database, start_redis_cluster, start_sentinel},
        upstream::Upstream,
    },
};

struct World {
    upstream: Upstream,
    scene: Scene,
    house: Ordinary,
    replicas: [Server; 2],
}

impl World {
    async fn boot(setups: [Setup; 2]) -> Self {
        let upstream = Upstream::start();
        answer_by_number(&upstream, ANSWER);
        let scene = setups[0].scene().await;
        let house = scene.ordinary(&upstream.base_url()).await;
        let [one, other] = setups;
        let replicas = [one.boot().await, other.boot().await];
        Self { upstream, scene, house, replicas }
    }

    async fn load(&self) -> Load {
        let callers = self.replicas.iter().map(|replica| replica.caller(&self.house.a.token));
        let load = Load::start(&steady(callers.collect()));
        eventually("the load to run", Duration::from_secs(10), async || load.ended() > 20).await;
        for replica in &self.replicas {
            becomes(replica, "admission", "shared").await;
        }
        load
    }

    /// How many of ten requests through both replicas a tenant limited to four gets served.
    async fn served_of_four(&self, name: &str) -> usize {
        let narrow = self.scene.tenant(name, |tenant| tenant.limits.rpm = Some(4)).await;
        let mut served = 0;
        for replica in self.replicas.iter().cycle().take(10) {
            let status = replica.caller(&narrow.token).chat(&ask(0)).await.status;
            served += usize::from(status == 200);
        }
        served
    }

    /// Ends the load; all was served, all is booked, and the replicas count together.
    async fn check(&self, load: Load, what: &str) {
        for replica in &self.replicas {
            becomes(replica, "admission", "shared").await;
        }
        let samples = load.stop().await;
        assert_served(&samples, what);
        // On a machine that is too busy one may decide alone now and then, within its share.
        let mut served = 0;
        for name in ["narrow", "narrower", "narrowest"] {
            served = self.served_of_four(name).await;
            assert!(served <= 4, "{served} of four");
            if served == 4 {
                break;
            }
        }
        assert_eq!(served, 4, "one limit for both");
        for replica in &self.replicas {
            drained(replica).await;
        }
        Books::read(&self.scene.store).await.check(&self.upstream, &samples);
        self.replicas[0].setup().run(&["reconcile"]);
    }
}

#[tokio::test]
async fn requests_go_on_through_a_sentinel_fail_over() {
    let mut sentinel = start_sentinel();
    let database = migrated_database().await;
    let setup = || {
        Setup::alone()
            .set("DATABASE_URL", &database.url)
            .set("REDIS_URL", &sentinel.url)
            .set("TOLLWAY_REDIS_TIMEOUT", "200ms")
            .set("TOLLWAY_REDIS_MODE", "sentinel")
            .set("TOLLWAY_REDIS_SENTINEL_MASTER", Sentinel::MASTER)
    };
    let world = World::boot([setup(), setup()]).await;
    let load = world.load().await;
    let sentinel = tokio::task::spawn_blocking(move || {
        sentinel.fail_over();
        sentinel
    });
    let _sentinel = sentinel.await.expect("the replica takes over");
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.check(load, "a Sentinel fail-over").await;
}

#[tokio::test]
async fn requests_go_on_while_a_node_of_a_cluster_is_away() {
    let mut cluster = start_redis_cluster(3);
    let database = migrated_database().await;
    let urls = cluster.urls().join(",");
    let setup = || {
        Setup::alone()
            .set("DATABASE_URL", &database.url)
            .set("REDIS_URL", &urls)
            .set("TOLLWAY_REDIS_TIMEOUT", "200ms")
            .set("TOLLWAY_REDIS_MODE", "cluster")
    };
    let world = World::boot([setup(), setup()]).await;
    let load = world.load().await;
    cluster.nodes[0].kill();
    for replica in &world.replicas {
        becomes(replica, "admission", "degraded").await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    cluster.nodes[0].restart();
    world.check(load, "a Cluster without one of its nodes").await;
}
