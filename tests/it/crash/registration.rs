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
