//! Every metric family is recorded by something.
#![expect(clippy::float_cmp, reason = "counts are whole")]

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::json;
use tollway::{domain::price::Prices, telemetry::FAMILIES};

use crate::harness::{
    client::{Answer, RawClient},
    eventually,
    scene::MODEL,
    server::{Production, Server, Setup},
    upstream::{Gate, Script, Upstream, body_has, chat_chunk, error},
};

/// Families that stay at zero while all is well, and who records them.
const STILL: [&str; 7] = [
    "tollway_admission_degraded",
    "tollway_admission_failures_total",
    "tollway_journal_damaged_bytes_total",
    "tollway_journal_oldest_seconds",
    "tollway_log_lines_dropped",
    "tollway_recorder_failures_total",
    "tollway_recorder_rejected_total",
];
/// Gauges that are at zero as soon as the recorder has done its work.
const FLEETING: [&str; 2] = ["tollway_journal_undrained_bytes", "tollway_journal_undrained_records"];
/// Recorded by the supervisor alone, whose own tests show it; a family without a value is not shown.
const ABSENT: [&str; 1] = ["tollway_task_restarts_total"];

/// Every sample of a scrape by its name and labels.
async fn scrape(server: &Server) -> BTreeMap<String, f64> {
    let text = server.anonymous().get("/metrics").await.expect_status(200).text();
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(k, v)| (k.to_owned(), v.parse().unwrap()))
        .collect()
}

/// The sum over all labels; of a histogram, how often it was observed.
fn sum(samples: &BTreeMap<String, f64>, family: &str) -> Option<f64> {
    let of = |name: &str| name == family || name.strip_suffix("_count").is_some_and(|name| name == family);
    let mut found = samples.iter().filter(|(name, _)| of(name.split('{').next().unwrap())).peekable();
    found.peek()?;
    Some(found.map(|(_, value)| value).sum())
}

async fn every_family_is_recorded(setup: Setup) {
    let upstream = Upstream::start();
    let gate = Gate::default();
    let hello = chat_chunk(&json!({"content": "Hello"}), &json!(null));
    upstream
        .when(body_has("break"), error(500, "internal", "broken"))
        .when(body_has("hold"), Script::status(200).sse().body(hello.clone()).wait(&gate).close())
        .when(body_has("leave"), Script::status(200).sse().body(hello).hang());
    let setup = setup.set("TOLLWAY_SERVER_BODY_LIMIT", "64KiB");
    let scene = setup.scene().await;
    let house = scene.ordinary(&upstream.base_url()).await;
    let gift = scene.model("gift", |model| model.prices = Prices::default()).await;
    scene.route(&gift, &house.provider, |_| ()).await;
    let narrow = scene.tenant("narrow", |tenant| tenant.limits.rpm = Some(0)).await;
    let server = setup.boot().await;
    let caller = server.caller(&house.a.token);
    let ask = |text: &str| json!({"model": MODEL, "messages": [{"role": "user", "content": text}]});
    let stream =
        |text: &str| json!({"model": MODEL, "stream": true, "messages": [{"role": "user", "content": text}]});

    caller.chat(&ask("hello")).await.expect_status(200);
    caller.chat(&stream("hello")).await.expect_status(200);
    caller.chat(&json!({"model": "gift", "messages": []})).await.expect_status(200);
    server.anonymous().chat(&ask("hello")).await.expect_status(401);
    server.caller("tw_wrong").chat(&ask("hello")).await.expect_status(401);
    caller.chat(&json!({"model": "none", "messages": []})).await.expect_status(404);
    server.caller(&narrow.token).chat(&ask("hello")).await.expect_status(429);
    let large = caller.request(Method::POST, "/v1/chat/completions").body("x".repeat(70_000));
    Answer::of(large).await.expect_status(413);
    let mut left = RawClient::chat(server.address(), &house.a.token, &stream("leave")).await;
    left.read_until("Hello").await;
    left.close();
    let mut held = caller.chat_stream(&stream("hold")).await;
    held.read_until("Hello").await;

    let during = scrape(&server).await;
    assert_eq!(during["tollway_open_streams"], 1.0);
    assert_eq!(during["tollway_requests_in_flight"], 1.0);
    gate.open();
    while held.next().await.is_some_and(|piece| piece.is_ok()) {}
    caller.chat(&ask("break")).await.expect_status(503);

    let mut after = scrape(&server).await;
    eventually("the recorder books", std::time::Duration::from_secs(10), async || {
        after = scrape(&server).await;
        after["tollway_recorder_events_total"] >= 6.0
    })
    .await;
    for family in FAMILIES {
        let value = sum(&after, family.name);
        let gauge = sum(&during, family.name);
        if ABSENT.contains(&family.name) {
            assert_eq!(value, None, "{}", family.name);
        } else if FLEETING.contains(&family.name) {
            assert!(value.is_some(), "{}", family.name);
        } else if STILL.contains(&family.name) {
            assert_eq!(value, Some(0.0), "{}", family.name);
        } else {
            assert!(value > Some(0.0) || gauge > Some(0.0), "{} is recorded by nobody", family.name);
        }
    }
    for sample in [
        r#"tollway_requests_total{outcome="completed",stream="false",surface="openai.chat"}"#,
        r#"tollway_requests_total{outcome="completed",stream="true",surface="openai.chat"}"#,
        r#"tollway_requests_total{outcome="aborted",stream="true",surface="openai.chat"}"#,
        r#"tollway_requests_total{outcome="failed",stream="false",surface="openai.chat"}"#,
        r#"tollway_refusals_total{reason="unknown_model"}"#,
        r#"tollway_refusals_total{reason="rpm"}"#,
        r#"tollway_refusals_total{reason="too_large"}"#,
        r#"tollway_auth_denied_total{reason="missing"}"#,
        r#"tollway_auth_denied_total{reason="malformed"}"#,
        r#"tollway_attempts_total{class="served",provider="house"}"#,
        r#"tollway_attempts_total{class="aborted",provider="house"}"#,
        r#"tollway_attempts_total{class="broken",provider="house"}"#,
        r#"tollway_admission_op_seconds_count{op="enter_acquire"}"#,
        r#"tollway_keys{provider="house",state="active"}"#,
    ] {
        assert!(after.get(sample).is_some_and(|value| *value > 0.0), "{sample} did not move");
    }
    assert_eq!(after["tollway_open_streams"], 0.0);
    assert_eq!(after["tollway_requests_in_flight"], 0.0);
}

#[tokio::test]
async fn every_family_is_recorded_alone() {
    every_family_is_recorded(Setup::alone()).await;
}

#[tokio::test]
async fn every_family_is_recorded_in_production_and_redis_by_what_it_is_asked() {
    let production = Production::start().await;
    every_family_is_recorded(production.replica()).await;
}
