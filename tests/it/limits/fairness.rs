//! Equal keys take turns, whichever replica asks.

use std::{collections::HashMap, time::Duration};

use super::replica;
use crate::harness::{
    load::{Load, Plan, answer_by_number},
    scene::MODEL,
    server::Production,
    upstream::Upstream,
};

#[tokio::test]
async fn ten_equal_keys_serve_a_thousand_requests_of_two_replicas_evenly() {
    const KEYS: usize = 10;
    const REQUESTS: usize = 1_000;
    let upstream = Upstream::start();
    answer_by_number(&upstream, Duration::from_millis(5));
    let production = Production::start().await;
    let setup = replica(&production);
    let scene = setup.scene().await;
    let provider = scene.provider("house", &upstream.base_url(), |_| ()).await;
    for n in 0..KEYS {
        scene.key(&provider, &format!("key {n}"), &format!("sk-equal-key-number-{n}"), |_| ()).await;
    }
    let model = scene.model(MODEL, |_| ()).await;
    scene.route(&model, &provider, |_| ()).await;
    let tenant = scene.tenant("acme", |_| ()).await;
    let (one, other) = (setup.boot().await, replica(&production).boot().await);

    let callers = vec![one.caller(&tenant.token), other.caller(&tenant.token)];
    let samples = Load::start(&Plan::new(callers, 16, 0..REQUESTS)).finish().await;

    assert!(samples.iter().all(crate::harness::load::Sample::is_served));
    let mut uses: HashMap<String, usize> = HashMap::new();
    for request in upstream.requests() {
        *uses.entry(request.bearer().expect("a key").to_owned()).or_default() += 1;
    }
    assert_eq!(uses.len(), KEYS);
    for (key, n) in &uses {
        assert!(n.abs_diff(REQUESTS / KEYS) <= 1, "{key} served {n} times: {uses:?}");
    }
}
