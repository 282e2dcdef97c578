//! Requests per minute: never more, and hardly less.

use std::time::{Duration, Instant};

use super::replica;
use crate::harness::{
    load::{Load, Plan, answer_by_number},
    scene::MODEL,
    server::Production,
    upstream::Upstream,
};

/// Requests per minute.
const LIMIT: usize = 10;
const MINUTE: Duration = Duration::from_secs(60);

/// 60 callers on two replicas for `span`, against a limit of one key and against a limit of one tenant.
async fn limits_hold_for(span: Duration) {
    let upstream = Upstream::start();
    answer_by_number(&upstream, Duration::from_millis(20));
    let production = Production::start().await;
    let setup = replica(&production);
    let scene = setup.scene().await;
    let limit = u32::try_from(LIMIT).unwrap();
    let scarce = scene.provider("scarce", &upstream.base_url(), |_| ()).await;
    scene.key(&scarce, "only", "sk-scarce-key-4711", |key| key.limits.rpm = Some(limit)).await;
    let model = scene.model("scarce", |_| ()).await;
    scene.route(&model, &scarce, |_| ()).await;
    let house = scene.ordinary(&upstream.base_url()).await;
    let narrow = scene.tenant("narrow", |tenant| tenant.limits.rpm = Some(limit)).await;
    let replicas = [setup.boot().await, replica(&production).boot().await];
    let plan = |model, token: &str| Plan {
        callers: replicas.iter().map(|replica| replica.caller(token)).collect(),
        at_once: 60,
        numbers: 0..usize::MAX,
        model,
        pause: Duration::from_millis(400),
    };

    let began = Instant::now();
    let by_key = Load::start(&plan("scarce", &house.a.token));
    let by_tenant = Load::start(&plan(MODEL, &narrow.token));
    tokio::time::sleep(span).await;
    let ended = Instant::now();
    let samples = [by_key.stop().await, by_tenant.stop().await];

    for (samples, upstream_model) in samples.iter().zip(["upstream-scarce", "upstream-house-large"]) {
        let refused = samples.iter().filter(|sample| sample.status.is_some_and(|status| status == 429));
        let served = samples.iter().filter(|sample| sample.is_served()).count();
        assert_eq!(refused.count() + served, samples.len(), "served, or 429");
        let calls: Vec<Instant> = upstream
            .requests()
            .iter()
            .filter(|call| call.json()["model"] == upstream_model)
            .map(|call| call.at)
            .collect();
        for window in calls.windows(LIMIT + 1) {
            let apart = window[LIMIT] - window[0];
            assert!(apart >= MINUTE, "{upstream_model}: {} calls within {apart:?}", LIMIT + 1);
        }
        // At most this many fit: a full window at the start and one after each minute.
        let minutes = usize::try_from((ended - began).as_secs().div_ceil(60)).unwrap();
        let used = calls.iter().filter(|at| **at <= ended).count();
        let share = used * 100 / (minutes * LIMIT);
        eprintln!("{upstream_model}: {used} calls in {:?}, {share} % of the limit", ended - began);
        assert!(share >= 95, "{upstream_model}: only {share} % of the limit used");
    }
}

#[tokio::test]
async fn the_first_window_of_two_replicas_holds_the_limit_and_is_used() {
    limits_hold_for(Duration::from_secs(8)).await;
}

mod long {
    use std::time::Duration;

    use crate::harness::is_quick;

    #[tokio::test]
    async fn three_minutes_on_two_replicas_hold_the_limit_and_use_it() {
        if is_quick() {
            return;
        }
        super::limits_hold_for(Duration::from_secs(179)).await;
    }
}
