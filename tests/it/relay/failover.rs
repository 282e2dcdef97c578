//! What happens when a key or a provider fails.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tollway::domain::{event::Outcome, failure::FailureClass, provider::Provider};

use super::events::event_of;
use crate::harness::{
    client::Answer,
    eventually,
    scene::{MODEL, Ordinary, Scene},
    server::{Production, Setup},
    upstream::{Script, Upstream, Usage, bearer, chat_json, chat_stream, error},
};

fn ask(stream: bool) -> Value {
    json!({"model": MODEL, "stream": stream, "messages": [{"role": "user", "content": "Hi"}]})
}

const SECOND_KEY: &str = "sk-second-key-0815";

/// Another key of the house's provider, behind the first.
async fn add_second_key(scene: &Scene, house: &Ordinary) {
    scene.key(&house.provider, "second", SECOND_KEY, |key| key.priority = 200).await;
}

/// Another provider with one key, to which the house's model goes next.
async fn add_spare(scene: &Scene, house: &Ordinary, upstream: &Upstream) -> Provider {
    let spare = scene.provider("spare", &upstream.base_url(), |_| ()).await;
    scene.key(&spare, "only", "sk-spare-key-4242", |_| ()).await;
    scene.route(&house.model, &spare, |route| route.priority = house.route.priority + 1).await;
    spare
}

#[tokio::test]
async fn a_limited_key_makes_room_for_the_next_and_stays_out() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let house = scene.ordinary(&upstream.base_url()).await;
    add_second_key(&scene, &house).await;
    let server = setup.boot().await;
    let caller = server.caller(&house.a.token);
    let limited = Script::status(429).header("retry-after", "60").json(
        &json!({"error": {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}}),
    );
    upstream.when(bearer(crate::harness::scene::UPSTREAM_KEY), limited);

    let first = caller.chat(&ask(true)).await.expect_status(200);
    assert_eq!(upstream.request_count(), 2);
    let event = event_of(&scene.store, first.header("x-request-id").unwrap()).await;
    let classes: Vec<_> = event.attempts.iter().map(|one| (one.status, one.class)).collect();
    assert_eq!(classes, [(Some(429), Some(FailureClass::RateLimited)), (Some(200), None)]);

    caller.chat(&ask(false)).await.expect_status(200);
    assert_eq!(upstream.request_count(), 3, "the limited key is left alone");
}

#[tokio::test]
async fn a_broken_provider_is_followed_by_the_next_route() {
    let broken = Upstream::start();
    let healthy = Upstream::start();
    broken.otherwise(|_| Script::status(500).json(&json!({"error": {"message": "boom"}})));
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let house = scene.ordinary(&broken.base_url()).await;
    let spare = add_spare(&scene, &house, &healthy).await;
    let server = setup.boot().await;

    let answer = server.caller(&house.a.token).chat(&ask(false)).await.expect_status(200);

    assert_eq!((broken.request_count(), healthy.request_count()), (1, 1));
    let event = event_of(&scene.store, answer.header("x-request-id").unwrap()).await;
    assert_eq!(event.attempts[0].class, Some(FailureClass::Broken));
    assert_eq!(event.attempts[1].provider_id, spare.id);
}

#[tokio::test]
async fn a_stream_fails_over_until_its_first_content_and_never_after() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let house = scene.ordinary(&upstream.base_url()).await;
    let spare_upstream = Upstream::start();
    add_spare(&scene, &house, &spare_upstream).await;
    let server = setup.boot().await;
    let caller = server.caller(&house.a.token);

    let role_only =
        crate::harness::upstream::chat_chunk(&json!({"role": "assistant", "content": ""}), &Value::Null);
    upstream.then(Script::status(200).sse().body(role_only.clone()).reset());
    let answer = caller.chat(&ask(true)).await.expect_status(200);
    assert_eq!(answer.events().last().map(String::as_str), Some("[DONE]"));
    assert_eq!(spare_upstream.request_count(), 1);

    upstream.then(Script::status(200).sse().body(
        "data: {\"error\":{\"message\":\"The server is overloaded\",\"type\":\"overloaded_error\"}}\n\n",
    ).end());
    caller.chat(&ask(true)).await.expect_status(200);
    assert_eq!(spare_upstream.request_count(), 2, "an error as the first event is a failed attempt");

    let text = crate::harness::upstream::chat_chunk(&json!({"content": "half an ans"}), &Value::Null);
    upstream.then(Script::status(200).sse().body(role_only).body(text).reset());
    let answer = caller.chat(&ask(true)).await;
    if answer.text().contains("half an ans") {
        let last: Value = serde_json::from_str(answer.events().last().unwrap()).unwrap();
        assert!(last["error"]["message"].is_string());
        assert_eq!(spare_upstream.request_count(), 2, "no replay after content");
    } else {
        assert_eq!(spare_upstream.request_count(), 3, "the key was still out, the spare served");
    }
}

#[tokio::test]
async fn a_clients_fault_is_returned_as_it_is_and_touches_no_key() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let house = scene.ordinary(&upstream.base_url()).await;
    add_second_key(&scene, &house).await;
    let server = setup.boot().await;
    let caller = server.caller(&house.a.token);
    upstream.then(error(400, "context_length_exceeded", "maximum context length is 8192 tokens"));

    let answer = caller.chat(&ask(false)).await.expect_status(400);

    assert_eq!(answer.json()["error"]["code"], "context_length_exceeded");
    assert_eq!(upstream.request_count(), 1, "no other key is asked");
    let event = event_of(&scene.store, answer.header("x-request-id").unwrap()).await;
    assert_eq!(event.outcome, Outcome::Rejected);
    assert_eq!(event.charge.get(), 0);
    caller.chat(&ask(false)).await.expect_status(200);
}

#[tokio::test]
async fn when_all_are_limited_the_answer_is_429_with_the_earliest_return() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let house = setup.scene().await.ordinary(&upstream.base_url()).await;
    let server = setup.boot().await;
    upstream.otherwise(|_| {
        Script::status(429)
            .header("retry-after", "7")
            .json(&json!({"error": {"message": "Too Many Requests"}}))
    });

    let caller = server.caller(&house.a.token);
    let answer = caller.chat(&ask(false)).await.expect_status(429);

    assert_eq!(answer.header("retry-after"), Some("7"));
    assert!(answer.json()["error"]["message"].as_str().unwrap().contains("house: rate_limited"));

    let answer = caller.chat(&ask(false)).await.expect_status(429);
    assert!(answer.text().contains("house: its keys are at their limits"), "{}", answer.text());
    assert_eq!(upstream.request_count(), 1);
}

#[tokio::test]
async fn while_keys_cool_after_failures_the_answer_is_503() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let house = scene.ordinary(&upstream.base_url()).await;
    add_second_key(&scene, &house).await;
    let server = setup.boot().await;
    let caller = server.caller(&house.a.token);
    let limited = error(429, "rate_limit_exceeded", "slow down");
    upstream.when(bearer(crate::harness::scene::UPSTREAM_KEY), limited);
    upstream.when(bearer(SECOND_KEY), error(401, "invalid_api_key", "no such key"));

    for why in
        ["house: rate_limited, house: refused_credential", "house: its keys are cooling after failures"]
    {
        let refused = caller.chat(&ask(false)).await.expect_status(503);
        assert!(refused.header("retry-after").is_some());
        assert!(refused.json()["error"]["message"].as_str().unwrap().contains(why), "{}", refused.text());
        let id = refused.header("x-request-id").unwrap();
        let is_told = |line: &str| line.contains("refused") && line.contains(id) && line.contains(why);
        eventually("a line about it", Duration::from_secs(5), async || server.log().lines().any(is_told))
            .await;
    }
    assert_eq!(upstream.request_count(), 2, "nothing is sent while both are out");
}

/// A wrong key, a wrong URL and a wrong name are each put right; the next request is served.
async fn what_is_put_right_serves_at_once(setup: Setup) {
    let (upstream, lost) = (Upstream::start(), Upstream::start());
    lost.otherwise(|_| Script::status(404).json(&json!("Not Found")));
    upstream.otherwise(|request| match request.json()["model"].as_str() {
        Some("right") => chat_json("Hello", Usage::new(9, 3)),
        _ => error(404, "model_not_found", "no such model"),
    });
    upstream.when(bearer(crate::harness::scene::UPSTREAM_KEY), error(401, "invalid_api_key", "no such key"));
    let scene = setup.scene().await;
    let house = scene.ordinary(&lost.base_url()).await;
    let server = setup.boot().await;
    let caller = server.caller(&house.a.token);
    let operator = server.caller(&scene.operator_token().await);
    for (path, change) in [
        (format!("providers/{}", house.provider.id), json!({"base_url": upstream.base_url()})),
        (format!("keys/{}", house.key.id), json!({"secret": "sk-another-key-1234"})),
        (format!("routes/{}", house.route.id), json!({"upstream_model": "right"})),
    ] {
        caller.chat(&ask(false)).await.expect_status(503);
        let why = caller.chat(&ask(false)).await.expect_status(503).text();
        assert!(why.contains("its keys are cooling"), "{why}");
        let path = format!("/admin/v1/{path}");
        let request = operator.request(Method::PATCH, &path).header("if-match", "*").json(&change);
        Answer::of(request).await.expect_status(200);
    }
    caller.chat(&ask(false)).await.expect_status(200);
}

#[tokio::test]
async fn what_is_put_right_serves_at_once_alone() {
    what_is_put_right_serves_at_once(Setup::alone()).await;
}

#[tokio::test]
async fn what_is_put_right_serves_at_once_in_production() {
    let production = Production::start().await;
    what_is_put_right_serves_at_once(production.replica()).await;
}

#[tokio::test]
async fn a_silent_upstream_is_given_up_after_its_idle_time() {
    let silent = Upstream::start();
    silent.otherwise(|_| Script::silent());
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let provider =
        scene.provider("silent", &silent.base_url(), |provider| provider.timeouts.idle_ms = 300).await;
    scene.key(&provider, "only", "sk-silent-key-4711", |_| ()).await;
    let model = scene.model("quiet", |_| ()).await;
    scene.route(&model, &provider, |_| ()).await;
    let tenant = scene.tenant("acme", |_| ()).await;
    let server = setup.boot().await;

    let body = json!({"model": "quiet", "messages": []});
    let answer = server.caller(&tenant.token).chat(&body).await.expect_status(503);
    assert!(answer.took >= Duration::from_millis(300) && answer.took < Duration::from_secs(3));
}

#[tokio::test]
async fn comments_do_not_keep_a_stalled_stream_alive() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let provider =
        scene.provider("slow", &upstream.base_url(), |provider| provider.timeouts.idle_ms = 500).await;
    scene.key(&provider, "only", "sk-slow-key-4711", |_| ()).await;
    let model = scene.model("slow", |_| ()).await;
    scene.route(&model, &provider, |_| ()).await;
    let tenant = scene.tenant("acme", |_| ()).await;
    let server = setup.boot().await;
    let text = crate::harness::upstream::chat_chunk(&json!({"content": "one"}), &Value::Null);
    let mut script = Script::status(200).sse().body(text);
    for _ in 0..40 {
        script = script.sleep(Duration::from_millis(100)).body(": ping\n\n");
    }
    upstream.then(script.end());

    let body = json!({"model": "slow", "stream": true, "messages": []});
    let answer = server.caller(&tenant.token).chat(&body).await.expect_status(200);

    assert!(answer.took < Duration::from_secs(3), "{:?}", answer.took);
    let last: Value = serde_json::from_str(answer.events().last().unwrap()).unwrap();
    assert!(last["error"]["message"].is_string());
}

#[tokio::test]
async fn a_truncated_plain_answer_is_tried_elsewhere() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let house = scene.ordinary(&upstream.base_url()).await;
    let spare_upstream = Upstream::start();
    add_spare(&scene, &house, &spare_upstream).await;
    let server = setup.boot().await;
    upstream.then(Script::status(200).length(500).body("{\"id\":\"x\",\"model\":\"m\",").close());
    spare_upstream.then(chat_json("served by the spare", Usage::new(1, 1)));

    let answer = server.caller(&house.a.token).chat(&ask(false)).await.expect_status(200);
    assert!(answer.text().contains("served by the spare"));
    assert_eq!((upstream.request_count(), spare_upstream.request_count()), (1, 1));
}

#[tokio::test]
async fn an_upstream_that_streams_unasked_is_broken() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let house = setup.scene().await.ordinary(&upstream.base_url()).await;
    let server = setup.boot().await;
    upstream.then(chat_stream(&["never asked for"], None));

    let answer = server.caller(&house.a.token).chat(&ask(false)).await.expect_status(503);

    assert!(!answer.text().contains("never asked for"));
}

#[tokio::test]
async fn what_went_wrong_is_told_in_words() {
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let gone = scene.provider("gone", "http://127.0.0.1:9/v1", |_| ()).await;
    scene.key(&gone, "only", "sk-gone-key-4711", |_| ()).await;
    let bare = scene.provider("bare", "http://127.0.0.1:9/v1", |_| ()).await;
    for (name, provider) in [("unreachable", &gone), ("keyless", &bare)] {
        let model = scene.model(name, |_| ()).await;
        scene.route(&model, provider, |_| ()).await;
    }
    let tenant = scene.tenant("acme", |_| ()).await;
    let server = setup.boot().await;
    let caller = server.caller(&tenant.token);

    for (model, words) in [("unreachable", "gone: could not connect"), ("keyless", "bare: it has no key")] {
        let answer = caller.chat(&json!({"model": model, "messages": []})).await.expect_status(503);
        assert!(answer.text().contains(words), "{}", answer.text());
    }
    let told = async || server.log().contains("127.0.0.1:9/v1") && server.log().contains("\"error\":");
    crate::harness::eventually("the log names the address and the cause", Duration::from_secs(5), told).await;
}
