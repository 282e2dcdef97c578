//! Clients that come and leave at any instant leave nothing behind.

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tollway::domain::limits::Limits;

use crate::harness::{
    client::{RawClient, chat_request},
    eventually, rounds,
    scene::MODEL,
    server::{Server, Setup},
    upstream::{Script, Upstream, Usage, chat_chunk, chat_json},
};

/// Clients at once.
const CROWD: usize = 500;

fn open_files(server: &Server) -> usize {
    fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("the server runs").count()
}

/// Small numbers in no order; the run is the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// Comes, says some of a request, takes some of the answer, and leaves one way or the other.
async fn visit(server: &Server, token: &str, dice: &mut Dice) {
    let Ok(stream) = tokio::net::TcpStream::connect(server.address()).await else { return };
    let mut client = RawClient::over(stream);
    let request = chat_request(token, &json!({"model": MODEL, "stream": dice.roll(2) == 0, "messages": []}));
    let said = if dice.roll(4) == 0 {
        usize::try_from(dice.roll(request.len() as u64)).expect("small")
    } else {
        request.len()
    };
    let patience = Duration::from_millis(dice.roll(600));
    if client.try_send(&request.as_bytes()[..said]).await.is_ok() {
        let _ = tokio::time::timeout(patience, client.read_to_end()).await;
    }
    if dice.roll(2) == 0 { client.close() } else { client.reset() }
}

/// Processor time of the server so far.
fn busy(server: &Server) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", server.pid())).expect("the server runs");
    let after_name = stat.rsplit(')').next().expect("some fields").split_whitespace();
    let ticks: u64 = after_name.skip(11).take(2).map(|field| field.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(ticks * 10)
}

#[tokio::test]
async fn a_client_that_sends_far_ahead_does_not_keep_a_worker_busy() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let house = setup.scene().await.ordinary(&upstream.base_url()).await;
    let server = setup.boot().await;
    let body = json!({"model": MODEL, "stream": true, "messages": []});
    let ahead = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n".repeat(10_000);
    let ready = chat_chunk(&json!({"content": "ready"}), &Value::Null);
    let large = chat_chunk(&json!({"content": "x".repeat(60_000)}), &Value::Null);
    // While nothing comes for it, and while it takes nothing of what comes.
    for chunks in [0, 400] {
        let answer = std::iter::repeat_n(&large, chunks)
            .fold(Script::status(200).sse().body(ready.clone()), |answer, chunk| answer.body(chunk.clone()));
        upstream.then(answer.hang());
        let mut client = RawClient::chat(server.address(), &house.a.token, &body).await;
        let received = upstream.next_request().await;
        client.read_until("ready").await;
        let _ = client.try_send(ahead.as_bytes()).await;
        // It is cut, unless actix got round to reading none of it; then it only has to cost nothing.
        let _ = tokio::time::timeout(Duration::from_secs(5), received.wait_for_hangup()).await;
        let before = busy(&server);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let after = busy(&server).saturating_sub(before);
        assert!(after < Duration::from_millis(300), "{after:?} of processor time in a second");
    }
}

#[tokio::test]
async fn a_crowd_that_comes_and_goes_leaves_nothing_behind() {
    let upstream = Upstream::start();
    upstream.otherwise(|request| {
        let asked: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let pause = Duration::from_millis(20);
        if asked["stream"] == json!(true) {
            let chunk = || chat_chunk(&json!({"content": "word "}), &Value::Null);
            let end = chat_chunk(&json!({}), &json!("stop")) + "data: [DONE]\n\n";
            let stream = Script::status(200).sse().sleep(pause).body(chunk()).sleep(pause).body(chunk());
            stream.sleep(pause).body(end).end()
        } else {
            chat_json("Hello", Usage::new(9, 3))
        }
    });
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let house = scene.ordinary(&upstream.base_url()).await;
    let single = scene
        .tenant("single", |tenant| tenant.limits = Limits { concurrency: Some(1), ..Limits::default() })
        .await;
    let server = Arc::new(setup.boot().await);
    server.caller(&house.b.token).chat(&json!({"model": MODEL, "messages": []})).await.expect_status(200);
    let files = open_files(&server);

    let until = Instant::now() + Duration::from_secs(rounds(4, 20) as u64);
    let crowd = (0..CROWD as u64).map(|seed| {
        let (server, token) =
            (Arc::clone(&server), if seed % 5 == 0 { &single.token } else { &house.a.token }.clone());
        tokio::spawn(async move {
            let mut dice = Dice(seed);
            while Instant::now() < until {
                visit(&server, &token, &mut dice).await;
            }
        })
    });
    let crowd: Vec<_> = crowd.collect();
    let calm = server.caller(&house.b.token);
    while Instant::now() < until {
        calm.chat(&json!({"model": MODEL, "messages": []})).await.expect_status(200);
    }
    for one in crowd {
        one.await.expect("no visitor panics");
    }

    let quiet = async || {
        let metrics = server.anonymous().get("/metrics").await.text();
        let ready = server.anonymous().get("/readyz").await.json();
        metrics.contains("tollway_requests_in_flight 0")
            && ready["parts"]["journal"]["undrained_records"] == 0
    };
    eventually("all is settled", Duration::from_secs(20), quiet).await;
    // Connections to the upstream are kept for the next request; that is no leak.
    let kept = || upstream.open_connections();
    let closed = async || open_files(&server) <= files + 20 + kept();
    eventually("files are closed", Duration::from_secs(20), closed).await;
    for token in [&single.token, &house.a.token] {
        for _ in 0..3 {
            let body = json!({"model": MODEL, "messages": []});
            server.caller(token).chat(&body).await.expect_status(200);
        }
    }
    assert!(server.setup().run(&["reconcile"]).contains("the books agree"));
    assert!(upstream.request_count() > 50, "{}", upstream.request_count());
}
