//! Upstreams that lie, flood or fall silent: an answer in time and in shape, and nobody else notices.

use std::time::Duration;

use serde_json::{Value, json};
use tollway::domain::provider::Provider;

use crate::harness::{
    client::{Answer, RawClient, chat_request},
    eventually,
    scene::{MODEL, Scene, UPSTREAM_KEY},
    server::Setup,
    upstream::{Script, Upstream},
};

/// Heads and bodies that no upstream should send; each ends the attempt.
fn lies() -> Vec<Script> {
    const JSON: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
    const GOOD: &str = "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"Hi\"}}]}";
    let answers = [
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n".to_owned(),
        "HTTP/1.1 100 Continue\r\n\r\n".repeat(10_000),
        format!("HTTP/1.1 200 OK\r\n{}", "x-a: b\r\n".repeat(20_000)),
        format!("HTTP/1.1 200 OK\r\nx-a: {}", "b".repeat(200_000)),
        "HTTP/1.1 301 Moved\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n".to_owned(),
        "HTTP/1.1 307 Moved\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n".to_owned(),
        format!("{JSON}content-length: 500\r\n\r\n{GOOD}"),
        format!("{JSON}content-length: 10\r\n\r\n{GOOD}"),
        format!("{JSON}content-length: -1\r\n\r\n{GOOD}"),
        format!("{JSON}content-length: 5\r\ncontent-length: 6\r\n\r\n{GOOD}"),
        format!("{JSON}content-length: 9223372036854775807\r\n\r\n{GOOD}"),
        format!("{JSON}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        format!("{JSON}transfer-encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n{GOOD}"),
        format!("{JSON}transfer-encoding: chunked\r\n\r\nzz\r\n{GOOD}"),
        "HTTP/1.1 000 X\r\n\r\n".to_owned(),
        "HTTP/1.1 999 X\r\ncontent-length: 0\r\n\r\n".to_owned(),
        "HTTP/1.1 abc X\r\n\r\n".to_owned(),
        "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
        "HTTP/2.0 200 OK\r\n\r\n".to_owned(),
        "SSH-2.0-OpenSSH_9.0\r\n".to_owned(),
        format!("{JSON}retry-after: 1\u{1}\r\ncontent-length: {}\r\n\r\n{GOOD}", GOOD.len()),
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 12\r\n\r\n<html></html>".to_owned(),
        format!("{JSON}content-length: 0\r\n\r\n"),
        format!("{JSON}content-encoding: gzip\r\n\r\nthis is not gzip at all"),
        format!("{JSON}content-encoding: gzip, gzip\r\n\r\n"),
        format!("{JSON}\r\n{{\"choices\":{}", "[".repeat(100_000)),
        String::new(),
    ];
    answers.into_iter().map(|answer| Script::empty().raw(answer).close()).collect()
}

/// A provider, a key, a model and a route of their own, so that no cooldown is in the way.
async fn own_route(scene: &Scene, upstream: &Upstream, name: &str) -> Provider {
    let provider = scene
        .provider(name, &upstream.base_url(), |provider| {
            provider.timeouts.idle_ms = 500;
            provider.timeouts.total_ms = 1_500;
        })
        .await;
    scene.key(&provider, "only", UPSTREAM_KEY, |_| ()).await;
    let model = scene.model(name, |_| ()).await;
    scene.route(&model, &provider, |_| ()).await;
    provider
}

fn ask(model: &str, stream: bool) -> Value {
    json!({"model": model, "stream": stream, "messages": []})
}

fn expect_unavailable(answer: Answer) {
    let answer = answer.expect_status(503);
    assert_eq!(answer.json()["error"]["code"], "no_provider_available");
    assert!(answer.took < Duration::from_secs(5), "{:?}", answer.took);
}

#[tokio::test]
async fn every_lie_is_answered_in_shape() {
    let (lies, liar, honest) = (lies(), Upstream::start(), Upstream::start());
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let house = scene.ordinary(&honest.base_url()).await;
    for n in 0..lies.len() {
        own_route(&scene, &liar, &format!("lie-{n}")).await;
    }
    let server = setup.boot().await;
    let (a, b) = (server.caller(&house.a.token), server.caller(&house.b.token));
    for (n, lie) in lies.into_iter().enumerate() {
        liar.then(lie);
        expect_unavailable(a.chat(&ask(&format!("lie-{n}"), n % 2 == 0)).await);
        assert_eq!(liar.request_count(), n + 1, "no redirect is followed, nothing sent twice");
        b.chat(&ask(MODEL, false)).await.expect_status(200);
    }
}

#[tokio::test]
async fn floods_and_drips_end_in_time() {
    let (flood, honest) = (Upstream::start(), Upstream::start());
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let house = scene.ordinary(&honest.base_url()).await;
    let json = || Script::status(200).header("content-type", "application/json").until_close();
    let endless = |mut script: Script, piece: &str, pause: u64| {
        for _ in 0..200 {
            script = script.raw(piece.to_owned()).sleep(Duration::from_millis(pause));
        }
        script.hang()
    };
    let cases = [
        (endless(Script::empty(), "HTTP/1.1 102 Processing\r\n\r\n", 50), true),
        (endless(Script::empty().raw("HTTP/1.1 200 OK\r\n"), "x: y\r\n", 50), false),
        (endless(Script::status(500).until_close(), "x", 50), false),
        (endless(json(), " ", 50), false),
        (endless(json().raw("{\"choices\":\""), "a", 50), false),
        (endless(json().raw("{\"error\":\""), &"a".repeat(1 << 20), 1), false),
        (endless(Script::status(200).sse(), "8\r\n: ping\n\n\r\n", 50), true),
        (Script::silent(), false),
    ];
    for n in 0..cases.len() {
        own_route(&scene, &flood, &format!("flood-{n}")).await;
    }
    let server = setup.boot().await;
    let (a, b) = (server.caller(&house.a.token), server.caller(&house.b.token));
    for (n, (script, stream)) in cases.into_iter().enumerate() {
        flood.then(script);
        let body = ask(&format!("flood-{n}"), stream);
        let calm = ask(MODEL, false);
        let (refused, other) = tokio::join!(a.chat(&body), b.chat(&calm));
        expect_unavailable(refused);
        assert!(other.expect_status(200).took < Duration::from_secs(1));
        flood.requests()[n].wait_for_hangup().await;
    }
}

#[tokio::test]
async fn an_answer_that_never_stops_is_cut_at_the_deadline() {
    let flood = Upstream::start();
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let house = scene.ordinary(&flood.base_url()).await;
    own_route(&scene, &flood, "endless").await;
    let server = setup.boot().await;
    let mut script = Script::status(200).header("content-type", "application/json").until_close();
    script = script.raw("{\"choices\":[{\"message\":{\"content\":\"");
    for _ in 0..20_000 {
        script = script.raw(vec![b'a'; 64 << 10]);
    }
    flood.then(script);
    let request = chat_request(&house.a.token, &ask("endless", false));
    let mut client = RawClient::connect(server.address()).await;
    client.send(request.as_bytes()).await;
    let since = std::time::Instant::now();
    let _ = client.read_to_end().await;
    assert!(since.elapsed() < Duration::from_secs(4), "{:?}", since.elapsed());
    let idle = async || {
        let metrics = server.anonymous().get("/metrics").await;
        metrics.text().contains("tollway_requests_in_flight 0")
    };
    eventually("nothing is in flight", Duration::from_secs(5), idle).await;
}
