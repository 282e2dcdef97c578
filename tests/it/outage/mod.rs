//! What the relay needs goes away under load, and comes back.

mod postgres;
mod redis;
mod stop;
mod topology;

use std::time::Duration;

use crate::harness::{
    client::Caller,
    eventually,
    load::{Plan, Sample},
    server::Server,
};

/// What an outage may add to a request.
const MAY_ADD: Duration = Duration::from_secs(1);
/// What an answer takes by itself.
const ANSWER: Duration = Duration::from_millis(40);
/// What a machine shared with other tests may add on top.
const BUSY: Duration = Duration::from_millis(500);

/// A steady load without end.
fn steady(callers: Vec<Caller>) -> Plan {
    Plan { pause: Duration::from_millis(20), ..Plan::new(callers, 8, 0..usize::MAX) }
}

/// Every request was served, and none took noticeably longer.
fn assert_served(samples: &[Sample], what: &str) {
    for sample in samples {
        assert!(sample.is_served(), "{what}: {sample:?}");
    }
    let worst = crate::harness::load::worst(samples);
    eprintln!("{what}: {} requests, all served, the slowest took {worst:?}", samples.len());
    assert!(worst < ANSWER + MAY_ADD + BUSY, "{what}: a request took {worst:?}");
    assert!(samples.len() > 50, "{what}: only {} requests", samples.len());
}

/// The state of a part, as `/readyz` tells it.
async fn state_of(server: &Server, part: &str) -> String {
    let answer = server.anonymous().get("/readyz").await.expect_status(200);
    answer.json()["parts"][part]["state"].as_str().expect("a state").to_owned()
}

/// Waits until `/readyz` says so of a part.
async fn becomes(server: &Server, part: &str, state: &str) {
    eventually(&format!("{part} to be {state}"), Duration::from_secs(20), async || {
        state_of(server, part).await == state
    })
    .await;
}

/// Whether `/metrics` tells that limits are shared out.
async fn is_degraded_by_metric(server: &Server) -> bool {
    let text = server.anonymous().get("/metrics").await.text();
    let value = text.lines().find_map(|line| line.strip_prefix("tollway_admission_degraded "));
    value.expect("the metric") == "1"
}
