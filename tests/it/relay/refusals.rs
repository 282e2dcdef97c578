//! Requests that are refused before any upstream call, in OpenAI's shape.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{
    client::Answer,
    scene::MODEL,
    server::Setup,
    upstream::{Script, Upstream},
};

fn ask() -> Value {
    json!({"model": MODEL, "messages": []})
}

#[tokio::test]
async fn a_model_that_is_not_there_or_not_granted_is_named_alike() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let house = scene.ordinary(&upstream.base_url()).await;
    let secret = scene.model("for-nobody", |model| model.enabled = false).await;
    scene.route(&secret, &house.provider, |_| ()).await;
    let server = setup.boot().await;
    let caller = server.caller(&house.a.token);

    let mut texts = Vec::new();
    for model in ["no-such-model", "for-nobody"] {
        let body = json!({"model": model, "messages": []});
        let openai = caller.chat(&body).await.expect_status(404);
        let relay = caller.post("/api/v1/relay/chat/completions", &body).await.expect_status(400);
        for answer in [openai, relay] {
            let error = &answer.json()["error"];
            assert_eq!((&error["code"], &error["param"]), (&json!("model_not_found"), &json!("model")));
            let text = error["message"].as_str().unwrap().to_owned();
            assert!(text.contains(model) && text.contains("/models"), "{text}");
            texts.push(text.replace(model, "M"));
        }
    }
    assert_eq!(texts[..2], texts[2..], "unknown and switched off are told alike");
    assert_eq!(upstream.request_count(), 0);
}

#[tokio::test]
async fn bad_bodies_are_refused_with_the_field() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let house = setup.scene().await.ordinary(&upstream.base_url()).await;
    let server = setup.boot().await;
    let caller = server.caller(&house.a.token);
    for (body, param) in [
        ("", Value::Null),
        ("{", Value::Null),
        ("[]", Value::Null),
        ("{\"messages\":[]}", json!("model")),
        ("{\"model\":\"house-large\"}", json!("messages")),
        ("{\"model\":\"house-large\",\"model\":\"other\",\"messages\":[]}", json!("model")),
        ("{\"model\":7,\"messages\":[]}", json!("model")),
        ("{\"model\":\"house-large\",\"messages\":[],\"stream\":\"yes\"}", json!("stream")),
    ] {
        let request = caller.request(Method::POST, "/v1/chat/completions").body(body);
        let answer = Answer::of(request).await.expect_status(400);
        let error = &answer.json()["error"];
        assert_eq!(error["param"], param, "{body}");
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()));
        assert!(answer.header("x-request-id").is_some());
    }
    assert_eq!(upstream.request_count(), 0);
}

#[tokio::test]
async fn a_body_over_the_limit_is_413_compressed_or_not() {
    let upstream = Upstream::start();
    let setup = Setup::alone().set("TOLLWAY_SERVER_BODY_LIMIT", "64KiB");
    let house = setup.scene().await.ordinary(&upstream.base_url()).await;
    let server = setup.boot().await;
    let caller = server.caller(&house.a.token);
    let fits = json!({"model": MODEL, "messages": [], "pad": "x".repeat(60_000)}).to_string();
    let large = json!({"model": MODEL, "messages": [], "pad": "x".repeat(70_000)}).to_string();
    let gzip = |text: &str| {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let send = async |body: Vec<u8>, coding: Option<&str>| {
        let mut request = caller.request(Method::POST, "/v1/chat/completions").body(body);
        if let Some(coding) = coding {
            request = request.header("content-encoding", coding);
        }
        Answer::of(request).await
    };
    send(fits.clone().into_bytes(), None).await.expect_status(200);
    assert_eq!(upstream.next_request().await.json()["pad"].as_str().unwrap().len(), 60_000);
    send(gzip(&fits), Some("gzip")).await.expect_status(200);
    assert_eq!(upstream.next_request().await.json()["pad"].as_str().unwrap().len(), 60_000);
    send(large.clone().into_bytes(), None).await.expect_status(413);
    send(gzip(&large), Some("gzip")).await.expect_status(413);
    send(b"not gzip".to_vec(), Some("gzip")).await.expect_status(400);
    send(fits.into_bytes(), Some("lzma")).await.expect_status(415);
}

#[tokio::test]
async fn every_usual_header_carries_the_token_and_none_is_401() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let house = setup.scene().await.ordinary(&upstream.base_url()).await;
    let server = setup.boot().await;
    for name in ["x-api-key", "api-key", "x-goog-api-key"] {
        let request = server.anonymous().request(Method::POST, "/v1/chat/completions");
        Answer::of(request.header(name, &house.a.token).json(&ask())).await.expect_status(200);
    }
    let path = format!("/v1/models?key={}", house.a.token);
    let models = server.anonymous().get(&path).await.expect_status(200);
    assert_eq!(models.json()["data"][0]["id"], MODEL);
    let answer = server.anonymous().chat(&ask()).await.expect_status(401);
    assert_eq!(answer.json()["error"]["code"], "access_token_missing");
    server.caller("tw_wrong").chat(&ask()).await.expect_status(401);
}

#[tokio::test]
async fn the_list_of_models_is_the_callers_own() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let house = scene.ordinary(&upstream.base_url()).await;
    let other = scene.model("other", |_| ()).await;
    scene.route(&other, &house.provider, |_| ()).await;
    scene.model("without-a-route", |_| ()).await;
    let narrow = scene.tenant("narrow", |_| ()).await;
    let narrowed = scene
        .token(narrow.tenant.id, |token| {
            token.grants = Some(
                [(
                    tollway::domain::grant::Pattern::parse("oth*").unwrap(),
                    tollway::domain::grant::Effect::Allow,
                )]
                .into_iter()
                .collect(),
            );
        })
        .await;
    let server = setup.boot().await;
    let names = async |token: &str, path: &str| -> Vec<String> {
        let list = server.caller(token).get(path).await.expect_status(200).json();
        list["data"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&house.a.token, "/v1/models").await, ["house-large", "other"]);
    assert_eq!(names(&house.a.token, "/v1/v1/models").await, ["house-large", "other"]);
    assert_eq!(names(&narrowed, "/api/v1/relay/models").await, ["other"]);
    server.caller(&narrowed).chat(&ask()).await.expect_status(404);
}

#[tokio::test]
async fn a_tenants_limits_refuse_with_the_time_to_wait_and_leave_others_alone() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let house = scene.ordinary(&upstream.base_url()).await;
    let narrow = scene.tenant("narrow", |tenant| tenant.limits.rpm = Some(2)).await;
    let server = setup.boot().await;
    let caller = server.caller(&narrow.token);
    caller.chat(&ask()).await.expect_status(200);
    caller.chat(&ask()).await.expect_status(200);
    let refused = caller.chat(&ask()).await.expect_status(429);
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((55..=62).contains(&wait), "{wait}");
    assert!(refused.json()["error"]["message"].as_str().unwrap().contains("tenant"));
    server.caller(&house.b.token).chat(&ask()).await.expect_status(200);
}

#[tokio::test]
async fn a_key_limit_is_429_too_and_costs_the_tenant_nothing() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let provider = scene.provider("narrow", &upstream.base_url(), |_| ()).await;
    scene.key(&provider, "only", "sk-narrow-key-4711", |key| key.limits.rpm = Some(1)).await;
    let model = scene.model("scarce", |_| ()).await;
    scene.route(&model, &provider, |_| ()).await;
    let tenant = scene.tenant("acme", |tenant| tenant.limits.rpm = Some(3)).await;
    let server = setup.boot().await;
    let caller = server.caller(&tenant.token);
    let body = json!({"model": "scarce", "messages": []});
    caller.chat(&body).await.expect_status(200);
    for _ in 0..5 {
        let refused = caller.chat(&body).await.expect_status(429);
        assert_eq!(
            refused.json()["error"]["code"],
            "all_keys_limited",
            "the tenant's own window is not used up"
        );
    }
    assert_eq!(upstream.request_count(), 1);
}

#[tokio::test]
async fn an_operators_token_does_not_relay_and_unknown_paths_answer_in_shape() {
    let upstream = Upstream::start();
    upstream.otherwise(|_| Script::refuse());
    let setup = Setup::alone();
    let scene = setup.scene().await;
    scene.ordinary(&upstream.base_url()).await;
    let operator = scene.operator_token().await;
    let server = setup.boot().await;
    let answer = server.caller(&operator).chat(&ask()).await;
    assert!([403, 404].contains(&answer.status.as_u16()), "{}", answer.status);
    for path in ["/v1/nothing", "/chat/completions", "/"] {
        let lost = server.anonymous().get(path).await.expect_status(404);
        let message = lost.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("/v1/chat/completions") && message.contains("/admin/v1"), "{message}");
    }
}
