//! `Idempotency-Key`: one object, however often and by how many it is asked for.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tollway::{domain::clock::ManualClock, http::admin::forget_old_answers};

use super::world::{World, fields};
use crate::harness::client::{Answer, Caller};

in_both_worlds! {
    ten_at_once_with_one_key_make_one_object, a_key_belongs_to_one_body_and_one_caller,
    a_refused_request_does_not_use_its_key_up, an_answer_is_forgotten_after_a_day, a_token_is_replayed_but_not_kept_in_plain,
}

async fn create(caller: &Caller, path: &str, key: &str, body: &Value) -> Answer {
    let request = caller.request(Method::POST, &format!("/admin/v1/{path}"));
    Answer::of(request.header("idempotency-key", key).json(body)).await
}

async fn ten_at_once_with_one_key_make_one_object(world: &World) {
    let body = json!({"name": "acme"});
    let answers = join_all((0..10).map(|_| create(&world.operator, "tenants", "k-1", &body))).await;
    let first = &answers[0];
    for answer in &answers {
        assert_eq!(answer.status, 201, "{}", answer.text());
        assert_eq!(answer.body, first.body);
        assert_eq!(answer.header("location"), first.header("location"));
        assert_eq!(answer.header("etag"), first.header("etag"));
    }
    assert_eq!(world.get("tenants").await.json()["data"].as_array().unwrap().len(), 1);
}

async fn a_key_belongs_to_one_body_and_one_caller(world: &World) {
    create(&world.operator, "tenants", "k", &json!({"name": "acme"})).await.expect_status(201);
    let other = create(&world.operator, "tenants", "k", &json!({"name": "globex"})).await.expect_status(422);
    assert_eq!(other.json()["code"], "idempotency_key_reused");
    // The same key elsewhere, or of somebody else, has nothing to do with it.
    create(&world.operator, "models", "k", &json!({"name": "acme"})).await.expect_status(201);
    let second = world.create("access-tokens", json!({"name": "second", "role": "operator"})).await;
    let second = Caller::new(&world.url, second["text"].as_str());
    create(&second, "tenants", "k", &json!({"name": "globex"})).await.expect_status(201);
    let bad = create(&second, "tenants", &"k".repeat(256), &json!({"name": "x"})).await.expect_status(422);
    assert_eq!(bad.json()["code"], "idempotency_key_invalid");
}

async fn a_refused_request_does_not_use_its_key_up(world: &World) {
    let tenant = world.tenant("acme").await;
    let body = json!({"name": "acme"});
    let clash = create(&world.operator, "tenants", "k", &body).await.expect_status(409);
    assert_eq!(fields(&clash), ["name"]);
    world.delete(&format!("tenants/{tenant}")).await.expect_status(204);
    create(&world.operator, "tenants", "k", &body).await.expect_status(201);
}

async fn a_token_is_replayed_but_not_kept_in_plain(world: &World) {
    let tenant = world.tenant("acme").await;
    let body = json!({"tenant_id": tenant, "name": "laptop"});
    let first = create(&world.operator, "access-tokens", "k", &body).await.expect_status(201);
    let again = create(&world.operator, "access-tokens", "k", &body).await.expect_status(201);
    assert_eq!(first.body, again.body);
    let text = first.json()["text"].as_str().unwrap().to_owned();
    let mut tx = world.desk.store.begin().await.unwrap();
    let operator = world.desk.identity.verify(&world.token).await.unwrap().token_id.to_string();
    let request_hash = sha2_of(&serde_json::to_vec(&body).unwrap());
    let claim = tollway::store::IdempotentRequest {
        principal: &operator,
        route: "POST /admin/v1/access-tokens",
        key: "k",
        request_hash,
    };
    let kept = tx.begin_idempotent(&claim, world.desk.clock.now()).await.unwrap();
    let tollway::store::Idempotency::Replay(saved) = kept else { panic!("nothing is kept: {kept:?}") };
    assert!(memchr::memmem::find(&saved.body, text.as_bytes()).is_none());
    assert!(memchr::memmem::find(&saved.body, &text.as_bytes()[3..15]).is_none());
    tx.rollback().await.unwrap();
}

async fn an_answer_is_forgotten_after_a_day(world: &World) {
    let body = json!({"name": "acme"});
    create(&world.operator, "tenants", "k", &body).await.expect_status(201);
    let sweep = async |hours: u64| {
        let then = world.desk.clock.now().plus(Duration::from_secs(hours * 3_600));
        let clock = Arc::new(ManualClock::starting_at(then));
        let shutdown = CancellationToken::new();
        shutdown.cancel();
        forget_old_answers(world.desk.store.clone(), clock, shutdown).await;
    };
    sweep(23).await;
    create(&world.operator, "tenants", "k", &json!({"name": "globex"})).await.expect_status(422);
    sweep(25).await;
    create(&world.operator, "tenants", "k", &json!({"name": "globex"})).await.expect_status(201);
}

fn sha2_of(bytes: &[u8]) -> [u8; 32] {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).into()
}
