//! Tenants that pay in advance.

use std::time::Duration;

use serde_json::{Value, json};
use tollway::domain::{money::Nanos, price::Prices, tenant::BillingMode};

use super::events::event_of;
use crate::harness::{
    eventually,
    scene::{MODEL, Ordinary, Scene, TenantHandle},
    server::{Production, Server, Setup},
    upstream::{Gate, Script, Upstream, Usage, chat_json, chat_stream, error},
};

/// What the plain answer of the upstream costs: 9 tokens in at 2, 3 out at 6 units per million.
const CHARGE: i64 = 36_000;
/// Longer than a balance in the store takes to be known.
const PATIENCE: Duration = Duration::from_secs(10);

fn ask() -> Value {
    json!({"model": MODEL, "messages": []})
}

async fn chat(server: &Server, tenant: &TenantHandle) -> u16 {
    server.caller(&tenant.token).chat(&ask()).await.status.as_u16()
}

async fn prepaid(setup: &Setup, upstream: &Upstream, paid_in: i64) -> (Scene, Ordinary, TenantHandle) {
    let scene = setup.scene().await;
    let house = scene.ordinary(&upstream.base_url()).await;
    let tenant = scene.tenant("prepaid", |tenant| tenant.billing = BillingMode::Prepaid).await;
    if paid_in > 0 {
        scene.top_up(tenant.tenant.id, Nanos::new(paid_in)).await;
    }
    (scene, house, tenant)
}

/// Until the store has all that was charged, and the server has had time to see it.
async fn settled(scene: &Scene, tenant: &TenantHandle, balance: i64) {
    eventually("the recorder books", PATIENCE, async || {
        scene.store.lookup_balance(tenant.tenant.id).await.unwrap() == Nanos::new(balance)
    })
    .await;
    tokio::time::sleep(Duration::from_millis(2_500)).await;
}

async fn is_spent_to_the_last_charge(setup: Setup) {
    let upstream = Upstream::start();
    let (scene, house, tenant) = prepaid(&setup, &upstream, 5 * CHARGE).await;
    let server = setup.boot().await;
    for _ in 0..2 {
        assert_eq!(chat(&server, &tenant).await, 200);
    }
    // Neither the charge that the store has by now nor the one it has not is counted twice.
    settled(&scene, &tenant, 3 * CHARGE).await;
    for _ in 0..3 {
        assert_eq!(chat(&server, &tenant).await, 200);
    }
    let refused = server.caller(&tenant.token).chat(&ask()).await.expect_status(402);
    let error = &refused.json()["error"];
    assert_eq!(
        (&error["type"], &error["code"]),
        (&json!("insufficient_quota"), &json!("insufficient_quota"))
    );
    settled(&scene, &tenant, 0).await;
    assert_eq!(chat(&server, &tenant).await, 402);
    assert_eq!(upstream.request_count(), 5, "nothing is sent that nobody pays for");
    assert_eq!(chat(&server, &house.a).await, 200, "others go on");

    scene.top_up(tenant.tenant.id, Nanos::new(CHARGE)).await;
    eventually("the top-up is seen", PATIENCE, async || chat(&server, &tenant).await == 200).await;
    assert_eq!(chat(&server, &tenant).await, 402);
}

#[tokio::test]
async fn a_balance_is_spent_to_the_last_charge_and_a_top_up_lets_in_again_alone() {
    is_spent_to_the_last_charge(Setup::alone()).await;
}

#[tokio::test]
async fn a_balance_is_spent_to_the_last_charge_and_a_top_up_lets_in_again_in_production() {
    let production = Production::start().await;
    is_spent_to_the_last_charge(production.replica()).await;
}

#[tokio::test]
async fn a_top_up_by_rest_is_in_force_at_once() {
    let upstream = Upstream::start();
    upstream.otherwise(|_: &_| -> Script { chat_json("Hello", Usage::new(9, 3)) });
    let setup = Setup::alone();
    let (scene, _, tenant) = prepaid(&setup, &upstream, 0).await;
    let server = setup.boot().await;
    assert_eq!(chat(&server, &tenant).await, 402);
    let operator = server.caller(&scene.operator_token().await);
    let path = format!("/admin/v1/tenants/{}/ledger", tenant.tenant.id);
    let booking = json!({"kind": "top_up", "amount": "1", "note": "cash"});
    operator.post(&path, &booking).await.expect_status(201);
    assert_eq!(chat(&server, &tenant).await, 200);
}

#[tokio::test]
async fn nothing_paid_in_is_nothing_to_spend() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let (_scene, _, tenant) = prepaid(&setup, &upstream, 0).await;
    let server = setup.boot().await;
    assert_eq!(chat(&server, &tenant).await, 402);
    assert_eq!(upstream.request_count(), 0);
}

#[tokio::test]
async fn where_only_a_hold_stands_in_the_way_it_is_worth_another_try() {
    let upstream = Upstream::start();
    let gate = Gate::default();
    upstream.then(chat_json("Hello", Usage::new(9, 3)).held_by(&gate));
    let setup = Setup::alone();
    // 512 tokens of output are held for each request, at 6 units per million.
    let (_scene, _, tenant) = prepaid(&setup, &upstream, 4_000_000).await;
    let server = setup.boot().await;
    let caller = server.caller(&tenant.token);
    let first = tokio::spawn(async move { caller.chat(&ask()).await.status.as_u16() });
    upstream.next_request().await;
    let refused = server.caller(&tenant.token).chat(&ask()).await.expect_status(429);
    assert_eq!(refused.json()["error"]["code"], "balance_held");
    assert!(refused.header("retry-after").is_some());
    gate.open();
    assert_eq!(first.await.unwrap(), 200);
    eventually("the hold is given back", PATIENCE, async || chat(&server, &tenant).await == 200).await;
}

#[tokio::test]
async fn a_killed_server_does_not_forget_what_was_spent() {
    let upstream = Upstream::start();
    upstream.otherwise(|_: &_| -> Script { chat_json("Hello", Usage::new(9, 3)) });
    let setup = Setup::alone();
    let (_scene, _, tenant) = prepaid(&setup, &upstream, CHARGE).await;
    let mut server = setup.boot().await;
    assert_eq!(chat(&server, &tenant).await, 200);
    server.kill();
    server.restart().await;
    assert_eq!(chat(&server, &tenant).await, 402);
    assert_eq!(upstream.request_count(), 1);
}

#[tokio::test]
async fn a_price_for_each_request_is_paid_for_those_that_an_upstream_answers() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let house = scene.ordinary(&upstream.base_url()).await;
    let price = Prices { request: Some(Nanos::new(10_000_000)), ..Prices::default() };
    let model = scene.model("by-piece", |model| model.prices = price).await;
    scene.route(&model, &house.provider, |route| route.cost = price).await;
    let server = setup.boot().await;
    let caller = server.caller(&house.a.token);
    for (stream, script, status, requests, charge) in [
        (false, chat_json("Hello", Usage::new(9, 3)), 200, 1, 10_000_000),
        (true, chat_stream(&["Hel", "lo"], Usage::new(9, 3)), 200, 1, 10_000_000),
        (false, error(400, "bad", "no such parameter"), 400, 0, 0),
    ] {
        upstream.then(script);
        let asked = json!({"model": "by-piece", "messages": [], "stream": stream});
        let answer = caller.chat(&asked).await.expect_status(status);
        let event = event_of(&scene.store, answer.header("x-request-id").unwrap()).await;
        assert_eq!((event.usage.requests, event.charge.get(), event.cost.get()), (requests, charge, charge));
    }
    let metrics = server.anonymous().get("/metrics").await.expect_status(200).text();
    assert!(metrics.contains("tollway_unpriced_requests_total 0"), "a price for requests is a price");
}
