//! What is refused, and how it is told.

use reqwest::Method;
use serde_json::json;

use super::world::{World, fields};
use crate::harness::client::{Answer, Caller};

in_both_worlds! {
    all_wrong_fields_are_named_at_once, a_body_that_is_no_object_of_the_kind_is_refused,
    a_refusal_is_a_problem_document, what_cannot_be_changed_stays, a_store_that_is_away_is_told_without_its_causes,
    a_base_url_that_must_not_be_called_is_refused, a_body_is_bounded,
}

async fn all_wrong_fields_are_named_at_once(world: &World) {
    let body = json!({
        "name": "No Slug",
        "base_url": "ftp://example.com",
        "auth": {"header": "x key"},
        "headers": {"Host": "elsewhere"},
        "timeouts": {"connect_ms": 0, "total_ms": 86_400_001},
    });
    let refused = world.post("providers", body).await.expect_status(422);
    let expected =
        ["name", "auth.header", "headers.Host", "timeouts.connect_ms", "timeouts.total_ms", "base_url"];
    assert_eq!(fields(&refused), expected);
    let body = json!({
        "provider_id": "prv_0197c2d3e4f570008000000000000001",
        "tenant_id": "ten_0197c2d3e4f570008000000000000001",
        "label": " x",
        "weight": 0,
        "state": "invalid",
    });
    let refused = world.post("keys", body).await.expect_status(422);
    assert_eq!(fields(&refused), ["provider_id", "tenant_id", "state", "secret", "label", "weight"]);
    let body = json!({"name": "a*", "context_tokens": 0, "prices": {"input": "-1", "image": "-0.01"}});
    let refused = world.post("models", body).await.expect_status(422);
    assert_eq!(fields(&refused), ["name", "context_tokens", "prices.input", "prices.image"]);
    for path in ["providers", "keys", "models"] {
        assert_eq!(world.get(path).await.json()["data"], json!([]), "{path}: nothing was made");
    }
}

async fn a_body_that_is_no_object_of_the_kind_is_refused(world: &World) {
    for (body, wrong) in [
        (json!({"name": "a", "base_url": "https://a.example", "colour": 1}), "colour"),
        (json!({"base_url": "https://a.example"}), "name"),
        (
            json!({"name": "a", "base_url": "https://a.example", "timeouts": {"connect_ms": "5"}}),
            "timeouts.connect_ms",
        ),
        (
            json!({"name": "a", "base_url": "https://a.example", "timeouts": {"connect_s": 5}}),
            "timeouts.connect_s",
        ),
        (json!({"name": "a", "base_url": "https://a.example", "tier": "premium"}), "tier"),
    ] {
        let refused = world.post("providers", body.clone()).await.expect_status(422);
        assert_eq!(fields(&refused), [wrong], "{body}: {}", refused.text());
    }
    let body = json!({
        "nmae": "a",
        "base_url": 7,
        "colour": "red",
        "timeouts": {"connect_ms": "5", "idle_s": 1},
        "enabled": "no",
    });
    let refused = world.post("providers", body).await.expect_status(422);
    let told = refused.json()["errors"].as_array().unwrap().len();
    assert_eq!(told, 7, "all at once: {}", refused.text());
    for words in [
        "name: is missing",
        "base_url: must be a text, not 7",
        "timeouts.connect_ms: must be a whole number, not the text \\\"5\\\"",
        "enabled: must be true or false",
    ] {
        assert!(refused.text().contains(words), "no «{words}» in {}", refused.text());
    }
    let body = json!({"name": "a", "base_url": "https://a.example/v1/chat/completions"});
    let refused = world.post("providers", body).await.expect_status(422);
    assert!(refused.text().contains("begin with: https://a.example/v1\""), "{}", refused.text());

    let tenant = world.tenant("acme").await;
    for limits in [json!({"rpm": -1}), json!({"rpm": 4_294_967_296_u64}), json!({"rpm": 1.5})] {
        let refused = world.patch(&format!("tenants/{tenant}"), json!({"limits": limits})).await;
        assert_eq!(fields(&refused.expect_status(422)), ["limits.rpm"]);
    }
    let refused = world.patch(&format!("tenants/{tenant}"), json!({"name": null})).await.expect_status(422);
    assert_eq!(fields(&refused), ["name"], "what has to be there cannot be removed");
}

async fn a_refusal_is_a_problem_document(world: &World) {
    let post = |path: &str| world.operator.request(Method::POST, &format!("/admin/v1/{path}"));
    let broken = post("providers").header("content-type", "application/json").body("{\n  \"name\": oops}");
    let refused = Answer::of(broken).await.expect_status(400);
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    let details = refused.json();
    assert_eq!(details["type"], "urn:tollway:problem:invalid_json");
    assert_eq!(details["status"], 400);
    assert!(details["detail"].as_str().unwrap().contains("line 2 column"), "{details}");
    assert!(refused.header("x-request-id").unwrap().starts_with("req_"));
    assert_eq!(refused.header("cache-control"), Some("no-store"));

    let form = post("providers").header("content-type", "text/plain").body("{}");
    Answer::of(form).await.expect_status(415);
    for path in ["nothing", "providers/x/y/z", "providers/", "v1"] {
        let refused = world.get(path).await.expect_status(404);
        assert_eq!(refused.json()["code"], "unknown_path", "{path}");
    }
    for id in ["prv_0197c2d3e4f570008000000000000001", "nonsense", "key_0197c2d3e4f570008000000000000001"] {
        let refused = world.get(&format!("providers/{id}")).await.expect_status(404);
        assert_eq!(refused.json()["code"], "not_found", "{id}");
    }
    let refused =
        Answer::of(world.operator.request(Method::PUT, "/admin/v1/providers")).await.expect_status(405);
    assert_eq!(refused.header("allow"), Some("GET, POST"));
}

async fn what_cannot_be_changed_stays(world: &World) {
    let (a, b) = (world.provider("a").await, world.provider("b").await);
    let key = format!("keys/{}", world.key(&a, "one", "sk-1").await);
    let refused = world.patch(&key, json!({"provider_id": b})).await.expect_status(422);
    assert_eq!(fields(&refused), ["provider_id"]);
    for read_only in ["id", "version", "created_at", "fingerprint"] {
        let refused = world.patch(&key, json!({read_only: "x"})).await.expect_status(422);
        assert_eq!(fields(&refused), [read_only]);
    }
    assert_eq!(world.get(&key).await.header("etag"), Some("\"1\""));
}

async fn a_base_url_that_must_not_be_called_is_refused(world: &World) {
    for url in
        ["http://127.0.0.1:8080/v1", "http://169.254.169.254/latest", "http://localhost", "http://[::1]"]
    {
        let refused = world.post("providers", json!({"name": "a", "base_url": url})).await.expect_status(422);
        assert_eq!(fields(&refused), ["base_url"], "{url}");
        assert!(refused.text().contains("TOLLWAY_NET_ALLOW"), "{url}: the setting is named");
    }
    let provider = world.provider("house").await;
    let body = json!({"provider_id": provider, "label": "a", "secret": "s", "base_url": "http://10.0.0.1"});
    assert_eq!(fields(&world.post("keys", body).await.expect_status(422)), ["base_url"]);
}

async fn a_body_is_bounded(world: &World) {
    let long = "x".repeat(1 << 20);
    let refused = world.post("models", json!({"name": long})).await.expect_status(413);
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
}

async fn a_store_that_is_away_is_told_without_its_causes(world: &World) {
    // The operator's token has been seen, so it stays good.
    world.get("providers").await.expect_status(200);
    let operator = Caller::new(&world.url, Some(&world.token));
    world.desk.store.close().await;
    let answers = [
        operator.get("/admin/v1/providers").await,
        operator.post("/admin/v1/models", &json!({"name": "a"})).await,
    ];
    for answer in answers {
        let refused = answer.expect_status(503);
        assert!(refused.header("retry-after").is_some());
        let details = refused.json();
        assert_eq!(details["code"], "store_unavailable");
        for inner in ["pool", "sqlx", "postgres", "sqlite", "connection"] {
            assert!(!refused.text().to_lowercase().contains(inner), "{details}");
        }
    }
}
