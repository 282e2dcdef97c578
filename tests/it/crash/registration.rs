//! A replica killed and started again takes its own place: nobody takes its last life for another replica.

use std::time::{Duration, Instant};

use crate::harness::{
    rounds,
    server::{Production, Setup},
};

async fn takes_its_place_again(setup: Setup) {
    let mut server = setup.boot().await;
    for _ in 0..rounds(3, 20) {
        let since = Instant::now();
        server.kill();
        server.restart().await;
        assert!(since.elapsed() < Duration::from_secs(10), "back after {:?}", since.elapsed());
    }
    assert!(!server.log().contains("another"), "{}", server.log());
}

#[tokio::test]
async fn with_shared_counters() {
    let production = Production::start().await;
    takes_its_place_again(production.replica()).await;
}

#[tokio::test]
async fn with_counters_of_its_own() {
    let production = Production::start().await;
    takes_its_place_again(production.replica().set("REDIS_URL", "")).await;
}

#[tokio::test]
async fn but_nobody_else_beside_counters_of_its_own() {
    let production = Production::start().await;
    let alone = || production.replica().set("REDIS_URL", "").set("TOLLWAY_SERVER_LISTEN", "127.0.0.1:0");
    let mut first = alone().boot().await;
    let together = production.replica().set("TOLLWAY_SERVER_LISTEN", "127.0.0.1:0");
    for second in [alone(), together] {
        let refused = second.command(&["serve"]).output().expect("run the binary");
        assert!(!refused.status.success());
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(told.contains("REDIS_URL"), "{told}");
    }
    // The refused one has left nothing behind that keeps the first from its place.
    first.kill();
    first.restart().await;
}
