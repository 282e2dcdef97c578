//! A client that leaves takes the upstream call with it, in every phase, within a second.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollway::domain::event::Outcome;

use crate::harness::{
    client::RawClient,
    eventually,
    scene::MODEL,
    server::{Production, Server, Setup},
    upstream::{Script, Upstream, Usage, chat_chunk, chat_json},
};

/// How a client leaves.
#[derive(Debug, Clone, Copy)]
enum Leaves {
    Fin,
    Close,
    Reset,
}

const EVERY_WAY: [Leaves; 3] = [Leaves::Fin, Leaves::Close, Leaves::Reset];

async fn leave(mut client: RawClient, how: Leaves) -> Option<RawClient> {
    match how {
        Leaves::Fin => {
            client.half_close().await;
            return Some(client);
        }
        Leaves::Close => client.close(),
        Leaves::Reset => client.reset(),
    }
    None
}

fn ask(stream: bool) -> Value {
    json!({"model": MODEL, "stream": stream, "messages": []})
}

/// When the client leaves.
#[derive(Debug, Clone, Copy)]
enum Once {
    /// The upstream has the request.
    Asked,
    /// This text has been read.
    Read(&'static str),
    /// It has read this text and nothing more, until every buffer was full.
    Stalled(&'static str),
}

/// Plays `script`, lets the client leave, and checks that the upstream hears of it in time and the
/// request is booked as aborted.
async fn leaves_in(script: impl Fn() -> Script, stream: bool, once: Once) {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let _house = scene.ordinary(&upstream.base_url()).await;
    let narrow = scene.tenant("narrow", |tenant| tenant.limits.concurrency = Some(1)).await;
    let server: Server = setup.boot().await;
    for how in EVERY_WAY {
        upstream.then(script());
        let mut client = RawClient::chat(server.address(), &narrow.token, &ask(stream)).await;
        let received = upstream.next_request().await;
        if let Once::Read(text) | Once::Stalled(text) = once {
            client.read_until(text).await;
        }
        if matches!(once, Once::Stalled(_)) {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let left = Instant::now();
        let kept = leave(client, how).await;
        let hung_up = received.wait_for_hangup().await;
        let after = hung_up.at.saturating_duration_since(left);
        assert!(after < Duration::from_secs(1), "{how:?}: the upstream heard after {after:?}");
        drop(kept);

        // The slot is free again: with one allowed at a time the next request enters.
        let answer = server.caller(&narrow.token).chat(&ask(false)).await.expect_status(200);
        upstream.next_request().await;
        drop(answer);
        let id = received.header("x-request-id").expect("our id upstream").to_owned();
        let event = super::events::event_of(&scene.store, &id).await;
        assert_eq!(event.outcome, Outcome::Aborted, "{how:?}");
    }
}

#[tokio::test]
async fn while_waiting_for_the_head() {
    leaves_in(Script::silent, false, Once::Asked).await;
    leaves_in(Script::silent, true, Once::Asked).await;
}

#[tokio::test]
async fn while_waiting_for_the_first_content() {
    let script = || {
        let role = chat_chunk(&json!({"role": "assistant", "content": ""}), &Value::Null);
        Script::status(200).sse().body(role).hang()
    };
    leaves_in(script, true, Once::Asked).await;
}

#[tokio::test]
async fn in_the_middle_of_a_stream() {
    let script =
        || Script::status(200).sse().body(chat_chunk(&json!({"content": "ready"}), &Value::Null)).hang();
    leaves_in(script, true, Once::Read("ready")).await;
}

#[tokio::test]
async fn in_the_middle_of_a_plain_answer() {
    let script = || Script::status(200).length(1_000).body("{\"id\":\"x\",").hang();
    leaves_in(script, false, Once::Asked).await;
}

/// More than all buffers on the way can hold.
const CHUNKS: usize = 400;

#[tokio::test]
async fn under_backpressure() {
    // The client reads nothing more, so that everything fills up; then it leaves.
    let script = || {
        let chunk = chat_chunk(&json!({"content": "x".repeat(60_000)}), &Value::Null);
        let mut script =
            Script::status(200).sse().body(chat_chunk(&json!({"content": "ready"}), &Value::Null));
        for _ in 0..CHUNKS {
            script = script.body(chunk.clone());
        }
        script.hang()
    };
    leaves_in(script, true, Once::Stalled("ready")).await;
}

#[tokio::test]
async fn under_the_backpressure_of_a_plain_answer() {
    let script = || {
        let mut script =
            Script::status(200).length(CHUNKS * 60_000 + 1_000).body("{\"id\":\"ready\",\"x\":\"");
        for _ in 0..CHUNKS {
            script = script.body("x".repeat(60_000));
        }
        script.hang()
    };
    leaves_in(script, false, Once::Stalled("ready")).await;
}

/// Redis answers a request that has gone: what it counted is given back at once, not when it lapses.
#[tokio::test]
async fn a_client_that_leaves_while_redis_is_asked_holds_nothing() {
    let upstream = Upstream::start();
    upstream.otherwise(|_| chat_json("Hello", Usage::new(9, 3)));
    let production = Production::start().await;
    let setup = production.replica();
    let scene = setup.scene().await;
    let house = scene.ordinary(&upstream.base_url()).await;
    let narrow = scene.tenant("narrow", |tenant| tenant.limits.concurrency = Some(3)).await;
    let server = setup.boot().await;
    server.caller(&narrow.token).chat(&ask(false)).await.expect_status(200);

    for n in 0..40 {
        let client = RawClient::chat(server.address(), &narrow.token, &ask(false)).await;
        tokio::time::sleep(Duration::from_micros(200 * (n % 4))).await;
        client.reset();
    }

    let operator = server.caller(&scene.operator_token().await);
    let live = format!("/admin/v1/providers/{}/live", house.provider.id);
    let is_free = async || operator.get(&live).await.expect_status(200).json()["keys"][0]["in_flight"] == 0;
    eventually("the key to be free", Duration::from_secs(5), is_free).await;
    for _ in 0..3 {
        server.caller(&narrow.token).chat(&ask(false)).await.expect_status(200);
    }
}
