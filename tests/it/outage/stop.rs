//! A stop that is asked for: answers may finish, what exceeds the grace period is cut, and all is settled.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use tollway::domain::{event::Outcome, money::Nanos};

use crate::{
    crash::books::drained,
    harness::{
        client::Caller,
        eventually,
        scene::MODEL,
        server::{Production, Setup},
        services::start_postgres,
        upstream::{Gate, Script, Upstream, Usage, chat_chunk, chat_stream},
    },
    relay::events::event_of,
};

const GRACE: Duration = Duration::from_secs(3);

async fn stops_in_order(setup: Setup) {
    let upstream = Upstream::start();
    let setup = setup.set("TOLLWAY_SERVER_GRACE_PERIOD", "3s");
    let scene = setup.scene().await;
    let house = scene.ordinary(&upstream.base_url()).await;
    let mut server = setup.boot().await;
    let body = json!({"model": MODEL, "stream": true, "messages": []});
    let ready = chat_chunk(&json!({"content": "ready"}), &Value::Null);
    let gate = Gate::default();
    upstream.then(
        Script::status(200)
            .sse()
            .body(ready.clone())
            .wait(&gate)
            .append(chat_stream(&["and the rest"], Usage::new(1_000, 100)).without_head()),
    );
    upstream.then(Script::status(200).sse().body(ready).hang());
    // Connections of their own, so that none waits for the other.
    let mut finishes = Caller::new(&server.url(), Some(&house.a.token)).chat_stream(&body).await;
    finishes.read_until("ready").await;
    let finishing = upstream.next_request().await;
    let mut exceeds = Caller::new(&server.url(), Some(&house.a.token)).chat_stream(&body).await;
    exceeds.read_until("ready").await;
    let exceeding = upstream.next_request().await;

    server.signal(Signal::TERM);
    let told = Instant::now();
    tokio::time::sleep(Duration::from_millis(500)).await;
    gate.open();
    finishes.read_until("[DONE]").await;
    assert!(told.elapsed() < GRACE);
    while exceeds.next().await.is_some_and(|piece| piece.is_ok()) {}
    let cut = told.elapsed();
    assert!(cut + Duration::from_millis(100) >= GRACE && cut < GRACE + Duration::from_secs(3), "{cut:?}");
    let status = server.wait_for_exit().await;
    assert!(status.success(), "{status}\n{}", server.log());
    eprintln!("cut after {cut:?}, stopped after {:?}", told.elapsed());

    // The store has everything without anybody starting again.
    for (received, outcome) in [(finishing, Outcome::Completed), (exceeding, Outcome::Aborted)] {
        let id = received.header("x-request-id").unwrap().parse().unwrap();
        let event = scene.store.lookup_event(id).await.unwrap();
        let event = event.unwrap_or_else(|| panic!("no event of what {outcome:?}\n{}", server.log()));
        assert_eq!(event.outcome, outcome);
        assert!(event.charge > Nanos::ZERO);
    }
    let books = server.setup().run(&["reconcile"]);
    assert!(!books.contains("wait in the journal"), "{books}");
}

#[tokio::test]
async fn alone() {
    stops_in_order(Setup::alone()).await;
}

#[tokio::test]
async fn in_production() {
    let production = Production::start().await;
    stops_in_order(production.replica()).await;
}

#[tokio::test]
async fn a_balancer_is_told_before_the_listener_closes() {
    let upstream = Upstream::start();
    let setup = Setup::alone().set("TOLLWAY_SERVER_DRAIN_DELAY", "2s");
    let house = setup.scene().await.ordinary(&upstream.base_url()).await;
    let mut server = setup.boot().await;

    server.signal(Signal::TERM);
    let told = Instant::now();
    // Callers of their own: each makes a new connection, as a probe does.
    let unready = async || server.anonymous().get("/readyz").await.status == 503;
    eventually("/readyz says that it is stopping", Duration::from_millis(1_500), unready).await;
    server.anonymous().get("/healthz").await.expect_status(200);
    let late = server.caller(&house.a.token).chat(&json!({"model": MODEL, "messages": []})).await;
    late.expect_status(200);
    assert!(told.elapsed() < Duration::from_secs(2), "the machine is too busy: {:?}", told.elapsed());

    let status = server.wait_for_exit().await;
    assert!(status.success(), "{status}\n{}", server.log());
    assert!(told.elapsed() >= Duration::from_secs(2), "{:?}", told.elapsed());
}

#[tokio::test]
async fn without_a_database_and_what_is_not_stored_waits_for_the_next_start() {
    let upstream = Upstream::start();
    let mut postgres = start_postgres();
    let setup = Setup::alone().set("DATABASE_URL", &postgres.url);
    let house = setup.scene().await.ordinary(&upstream.base_url()).await;
    let mut server = setup.boot().await;
    let caller = server.caller(&house.a.token);
    let body = json!({"model": MODEL, "messages": []});
    caller.chat(&body).await.expect_status(200);
    postgres.kill();
    let answer = caller.chat(&body).await.expect_status(200);

    let told = Instant::now();
    let status = server.stop().await;
    assert!(status.success(), "{status}\n{}", server.log());
    // The database is tried for a while, not for ever.
    assert!(told.elapsed() < GRACE + Duration::from_secs(15), "{:?}", told.elapsed());

    postgres.restart();
    server.restart().await;
    let scene = server.setup().scene().await;
    let event = event_of(&scene.store, answer.header("x-request-id").unwrap()).await;
    assert_eq!(event.outcome, Outcome::Completed);
    assert!(event.charge > Nanos::ZERO);
    drained(&server).await;
    server.setup().run(&["reconcile"]);
}
