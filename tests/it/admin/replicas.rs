//! A change is in force on every replica soon: by notification, and by the poll alone.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::world::World;
use crate::harness::eventually;

/// What is promised.
const SOON: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_replica_serves_a_change_within_two_seconds() {
    let world = World::postgres().await;
    let other = world.replica().await;
    let shutdown = CancellationToken::new();
    let (catalog, until) = (other.desk.catalog.clone(), shutdown.clone());
    let watching = tokio::spawn(async move { catalog.watch(until).await });
    for n in 0..5 {
        let name = format!("model-{n}");
        let id = world.model(&name).await;
        let since = Instant::now();
        eventually("the model is known", SOON, async || other.desk.catalog.current().model(&name).is_some())
            .await;
        world.patch(&format!("models/{id}"), json!({"enabled": false})).await.expect_status(200);
        let is_disabled =
            async || other.desk.catalog.current().model(&name).is_some_and(|served| !served.model.enabled);
        eventually("the model is disabled", SOON, is_disabled).await;
        assert!(since.elapsed() < 2 * SOON);
    }
    shutdown.cancel();
    watching.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_poll_alone_finds_a_change() {
    // SQLite has no notifications: two processes' worth of state on one file see what polls see.
    let world = World::sqlite().await;
    let other = world.replica().await;
    let shutdown = CancellationToken::new();
    let (catalog, until) = (other.desk.catalog.clone(), shutdown.clone());
    let watching = tokio::spawn(async move { catalog.watch(until).await });
    world.model("large").await;
    eventually("the model is known", SOON, async || other.desk.catalog.current().model("large").is_some())
        .await;
    shutdown.cancel();
    watching.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_is_in_force_at_once_where_it_was_made() {
    for world in [World::postgres().await, World::sqlite().await] {
        let model = world.model("large").await;
        assert!(world.desk.catalog.current().model("large").is_some());
        world.delete(&format!("models/{model}")).await.expect_status(204);
        assert!(world.desk.catalog.current().model("large").is_none());
        let tenant = world.tenant("acme").await;
        let token = world.create("access-tokens", json!({"tenant_id": tenant, "name": "a"})).await;
        let text = token["text"].as_str().unwrap();
        world.desk.identity.verify(text).await.unwrap();
        world.patch(&format!("tenants/{tenant}"), json!({"enabled": false})).await.expect_status(200);
        assert!(world.desk.identity.verify(text).await.is_err(), "a disabled tenant is shut out at once");
    }
}
