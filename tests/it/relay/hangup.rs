//! A client that leaves takes the upstream call with it, in every phase, within a second.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollway::domain::event::Outcome;

use crate::harness::{
    client::RawClient,
    scene::MODEL,
    server::{Server, Setup},
    upstream::{Script, Upstream, chat_chunk},
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

/// Plays `script`, lets the client leave once `ready` has been read (nothing: at the request), and
/// checks that the upstream hears of it in time and the request is booked as aborted.
async fn leaves_in(ways: &[Leaves], script: impl Fn() -> Script, stream: bool, ready: Option<&str>) {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let _house = scene.ordinary(&upstream.base_url()).await;
    let narrow = scene.tenant("narrow", |tenant| tenant.limits.concurrency = Some(1)).await;
    let server: Server = setup.boot().await;
    for &how in ways {
        upstream.then(script());
        let mut client = RawClient::chat(server.address(), &narrow.token, &ask(stream)).await;
        let received = upstream.next_request().await;
        if let Some(text) = ready {
            client.read_until(text).await;
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
    leaves_in(&EVERY_WAY, Script::silent, false, None).await;
    leaves_in(&EVERY_WAY, Script::silent, true, None).await;
}

#[tokio::test]
async fn while_waiting_for_the_first_content() {
    let script = || {
        let role = chat_chunk(&json!({"role": "assistant", "content": ""}), &Value::Null);
        Script::status(200).sse().body(role).hang()
    };
    leaves_in(&EVERY_WAY, script, true, None).await;
}

#[tokio::test]
async fn in_the_middle_of_a_stream() {
    let script =
        || Script::status(200).sse().body(chat_chunk(&json!({"content": "ready"}), &Value::Null)).hang();
    leaves_in(&EVERY_WAY, script, true, Some("ready")).await;
}

#[tokio::test]
async fn in_the_middle_of_a_plain_answer() {
    let script = || Script::status(200).length(1_000).body("{\"id\":\"x\",").hang();
    leaves_in(&EVERY_WAY, script, false, None).await;
}

#[tokio::test]
async fn under_backpressure() {
    // The client reads nothing more, so that everything fills up; then it leaves. One that only
    // half-closes and goes on not reading is cut by the listener's user timeout.
    let script = || {
        let chunk = chat_chunk(&json!({"content": "x".repeat(60_000)}), &Value::Null);
        let mut script =
            Script::status(200).sse().body(chat_chunk(&json!({"content": "ready"}), &Value::Null));
        for _ in 0..400 {
            script = script.body(chunk.clone());
        }
        script.hang()
    };
    leaves_in(&[Leaves::Close, Leaves::Reset], script, true, Some("ready")).await;
}
