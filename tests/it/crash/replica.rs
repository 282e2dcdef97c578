//! Replicas killed at any instant under load, and started again on the same directories.

use std::time::Duration;

use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use tollway::domain::{event::Outcome, money::Nanos};

use super::books::{Books, drained};
use crate::{
    harness::{
        client::RawClient,
        eventually,
        load::{Load, Plan, Sample, answer_by_number},
        rounds,
        scene::{MODEL, Scene},
        server::{Production, Server, Setup},
        upstream::{Script, Upstream, Usage, chat_chunk, chat_stream},
    },
    relay::events::event_of,
};

/// How long an answer takes: long enough that a kill finds some in every phase.
const ANSWER: Duration = Duration::from_millis(40);

#[tokio::test]
async fn a_killed_server_alone_loses_and_doubles_nothing() {
    alone(3, 240).await;
}

#[tokio::test]
async fn a_killed_replica_of_two_loses_and_doubles_nothing() {
    production(3, 240).await;
}

mod long {
    use crate::harness::is_quick;

    #[tokio::test]
    async fn twenty_kills_of_a_server_alone_lose_and_double_nothing() {
        if is_quick() {
            return;
        }
        super::alone(20, 2_000).await;
    }

    #[tokio::test]
    async fn twenty_kills_of_replicas_lose_and_double_nothing() {
        if is_quick() {
            return;
        }
        super::production(20, 2_000).await;
    }
}

async fn alone(rounds: usize, requests: usize) {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let house = scene.ordinary(&upstream.base_url()).await;
    let servers = vec![setup.boot().await];
    killed(&upstream, &scene, servers, &house.a.token, rounds, requests).await;
}

async fn production(rounds: usize, requests: usize) {
    let upstream = Upstream::start();
    let production = Production::start().await;
    let setup = production.replica();
    let scene = setup.scene().await;
    let house = scene.ordinary(&upstream.base_url()).await;
    let servers = vec![setup.boot().await, production.replica().boot().await];
    killed(&upstream, &scene, servers, &house.a.token, rounds, requests).await;
}

/// Kills one of `servers` in each round at an instant that `TOLLWAY_TEST_SEED` decides, and checks all books.
async fn killed(
    upstream: &Upstream,
    scene: &Scene,
    mut servers: Vec<Server>,
    token: &str,
    rounds: usize,
    requests: usize,
) {
    let seed =
        std::env::var("TOLLWAY_TEST_SEED").map_or_else(|_| rand::random(), |text| text.parse().unwrap());
    eprintln!("TOLLWAY_TEST_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    answer_by_number(upstream, ANSWER);
    let callers: Vec<_> = servers.iter().map(|server| server.caller(token)).collect();
    let mut samples: Vec<Sample> = Vec::new();
    for round in 0..rounds {
        let numbers = round * requests..(round + 1) * requests;
        let load = Load::start(&Plan::new(callers.clone(), 12, numbers));
        let kill_after = random.random_range(requests / 20..requests * 9 / 10);
        eventually("some answers", Duration::from_secs(60), async || load.ended() >= kill_after).await;
        tokio::time::sleep(Duration::from_micros(random.random_range(0..20_000))).await;
        let victim = random.random_range(0..servers.len());
        servers[victim].kill();
        tokio::time::sleep(Duration::from_millis(random.random_range(0..300))).await;
        servers[victim].restart().await;
        samples.extend(load.finish().await);
    }
    for server in &servers {
        drained(server).await;
    }
    let books = Books::read(&scene.store).await;
    books.check(upstream, &samples);
    servers[0].setup().run(&["reconcile"]);
    let interrupted = books.events.values().filter(|event| event.outcome == Outcome::Interrupted).count();
    let served = samples.iter().filter(|sample| sample.is_served()).count();
    eprintln!(
        "{rounds} kills: {} upstream calls, {} events, {served} answers whole, {interrupted} interrupted",
        upstream.request_count(),
        books.events.len(),
    );
    assert!(interrupted > 0, "the kills hit nothing");
    // A request that the kill cut is asked for again, and everybody else is served.
    assert!(served + interrupted >= rounds * requests, "{served} of {} served", rounds * requests);
}

fn ask_streamed() -> Value {
    json!({"model": MODEL, "stream": true, "messages": []})
}

/// The end mark comes in the middle of a large piece, so that nothing else makes the relay look again.
#[tokio::test]
async fn who_has_the_end_mark_is_charged_even_if_the_server_dies_that_instant() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let house = scene.ordinary(&upstream.base_url()).await;
    let mut server = setup.boot().await;
    for _ in 0..rounds(4, 40) {
        let whole = chat_stream(&["a", &"x".repeat(200_000), "z"], Usage::new(1_000, 100));
        upstream.then(whole.cut_at(400));
        let mut client = RawClient::chat(server.address(), &house.a.token, &ask_streamed()).await;
        let received = upstream.next_request().await;
        client.read_until("data: [DONE]").await;
        server.kill();
        server.restart().await;
        let event = event_of(&scene.store, received.header("x-request-id").unwrap()).await;
        assert_eq!((event.outcome, event.charge), (Outcome::Completed, Nanos::new(2_600_000)));
    }
}

#[tokio::test]
async fn a_long_stream_that_a_kill_cuts_is_charged_by_its_last_progress() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let house = scene.ordinary(&upstream.base_url()).await;
    let mut server = setup.boot().await;
    let mut script = Script::status(200).sse();
    for n in 0..60 {
        let chunk = chat_chunk(&json!({"content": format!("piece {n};")}), &Value::Null);
        script = script.body(chunk).sleep(Duration::from_millis(120));
    }
    upstream.then(script.hang());
    let mut client = RawClient::chat(server.address(), &house.a.token, &ask_streamed()).await;
    let received = upstream.next_request().await;
    client.read_until("piece 55;").await;
    server.kill();
    server.restart().await;
    let event = event_of(&scene.store, received.header("x-request-id").unwrap()).await;
    assert_eq!(event.outcome, Outcome::Interrupted);
    assert!(event.usage.output_tokens > 0 && event.charge > Nanos::ZERO, "{event:?}");
    drained(&server).await;
    server.setup().run(&["reconcile"]);
}
