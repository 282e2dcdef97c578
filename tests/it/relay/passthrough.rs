//! Bytes that pass: untouched but for the model's name and the usage that only we asked for.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tollway::domain::{event::Outcome, money::Nanos, usage::UsageSource};

use super::events::event_of;
use crate::harness::{
    scene::MODEL,
    server::Setup,
    upstream::{Script, UPSTREAM_MODEL, Upstream, Usage, chat_json, chat_stream},
};

fn ask(stream: bool) -> Value {
    json!({"model": MODEL, "stream": stream, "messages": [{"role": "user", "content": "Say hello"}]})
}

#[tokio::test]
async fn a_plain_answer_comes_back_billed_under_the_public_name() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let house = scene.ordinary(&upstream.base_url()).await;
    let server = setup.boot().await;
    upstream.then(chat_json("你好 👋", Usage::new(1_000, 100)));

    let answer = server.caller(&house.a.token).chat(&ask(false)).await.expect_status(200);

    assert_eq!(answer.json()["model"], MODEL);
    assert_eq!(answer.json()["choices"][0]["message"]["content"], "你好 👋");
    assert!(!answer.text().contains(UPSTREAM_MODEL));
    let sent = upstream.next_request().await;
    assert_eq!(sent.json()["messages"], ask(false)["messages"]);
    assert_ne!(sent.json()["model"], MODEL);

    let event = event_of(&scene.store, answer.header("x-request-id").unwrap()).await;
    assert_eq!((event.outcome, event.usage.source), (Outcome::Completed, UsageSource::Upstream));
    assert_eq!((event.usage.input_tokens, event.usage.output_tokens), (1_000, 100));
    assert_eq!(event.charge, house.model.prices.charge(&event.usage));
    assert!(event.charge > Nanos::ZERO);
    assert_eq!(event.attempts.len(), 1);
    let balance = scene.store.lookup_balance(house.a.tenant.id).await.unwrap();
    assert_eq!(balance, event.charge.negated());
}

#[tokio::test]
async fn unknown_fields_and_spacing_reach_the_upstream_as_they_were_written() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let house = setup.scene().await.ordinary(&upstream.base_url()).await;
    let server = setup.boot().await;
    let body = format!(
        "{{ \"x_vendor\" : [1e3, 0.10,\"\\u4f60\\ud83d\\ude00\"],\n\t\"model\":\"{MODEL}\" , \"messages\":[ ],\"seed\":18446744073709551615 }}"
    );

    let answer = server
        .caller(&house.a.token)
        .request(reqwest::Method::POST, "/v1/chat/completions")
        .header("content-type", "application/json")
        .body(body.clone())
        .send()
        .await
        .unwrap();

    assert_eq!(answer.status(), 200);
    let expected = body.replace(MODEL, &house.route.upstream_model);
    assert_eq!(upstream.next_request().await.body, expected.as_bytes());
}

/// A stream with CJK, emoji and `\u` escapes, CRLF, a comment and an event line.
fn tricky_stream() -> String {
    let chunk = |delta: &str, finish: &str| {
        format!(
            "{{\"id\":\"c1\",\"object\":\"chat.completion.chunk\", \"created\":1,\"model\":\"{UPSTREAM_MODEL}\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}"
        )
    };
    let first = chunk(r#"{"role":"assistant","content":""}"#, "null");
    let texts = [
        r#"{"content":"你好，世界"}"#,
        r#"{"content":"👩‍👩‍👧 \u4f60\ud83d\ude00 \"q\" \\"}"#,
        r#"{"content":"é́"}"#,
    ];
    let mut stream = format!(": hello\n\ndata: {first}\n\n");
    write!(stream, "event: message\r\ndata: {}\r\n\r\n", chunk(texts[0], "null")).unwrap();
    write!(stream, "data:{}\n\n", chunk(texts[1], "null")).unwrap();
    write!(stream, "data: {}\n\n", chunk(texts[2], "null")).unwrap();
    write!(stream, "data: {}\n\n", chunk("{}", "\"stop\"")).unwrap();
    stream + "data: [DONE]\n\n"
}

#[tokio::test]
async fn a_stream_split_at_any_byte_comes_out_the_same() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let house = setup.scene().await.ordinary(&upstream.base_url()).await;
    let server = setup.boot().await;
    let stream = tricky_stream();
    let expected = stream.replace(UPSTREAM_MODEL, MODEL);
    let body =
        json!({"model": MODEL, "stream": true, "stream_options": {"include_usage": true}, "messages": []});
    let caller = server.caller(&house.a.token);

    for at in 1..stream.len() {
        let (head, tail) = stream.as_bytes().split_at(at);
        upstream.then(Script::status(200).sse().body(head.to_vec()).body(tail.to_vec()).end());
        let answer = caller.chat(&body).await.expect_status(200);
        assert_eq!(answer.text(), expected, "split at byte {at}");
    }
}

#[tokio::test]
async fn usage_is_asked_for_upstream_and_shown_only_to_who_asked() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let house = scene.ordinary(&upstream.base_url()).await;
    let server = setup.boot().await;
    let caller = server.caller(&house.a.token);

    upstream.then(chat_stream(&["a", "b"], Usage::new(20, 2)));
    let quiet = caller.chat(&ask(true)).await.expect_status(200);
    let sent = upstream.next_request().await;
    assert_eq!(sent.json()["stream_options"]["include_usage"], true);
    assert!(!quiet.text().contains("usage"), "{}", quiet.text());
    assert_eq!(quiet.events().last().map(String::as_str), Some("[DONE]"));

    upstream.then(chat_stream(&["a", "b"], Usage::new(20, 2)));
    let mut asking = ask(true);
    asking["stream_options"] = json!({"include_usage": true});
    let told = caller.chat(&asking).await.expect_status(200);
    assert!(told.text().contains("\"usage\""));

    for answer in [quiet, told] {
        let event = event_of(&scene.store, answer.header("x-request-id").unwrap()).await;
        assert_eq!((event.usage.input_tokens, event.usage.output_tokens), (20, 2));
    }
}

#[tokio::test]
async fn what_no_upstream_counted_is_estimated_and_marked() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let house = scene.ordinary(&upstream.base_url()).await;
    let server = setup.boot().await;
    upstream.then(chat_stream(&["twelve bytes", "twelve bytes"], None));

    let answer = server.caller(&house.a.token).chat(&ask(true)).await.expect_status(200);

    let event = event_of(&scene.store, answer.header("x-request-id").unwrap()).await;
    assert_eq!(event.usage.source, UsageSource::Estimated);
    assert_eq!(event.usage.output_tokens, 6);
    assert!(event.usage.input_tokens > 0);
}

#[tokio::test]
async fn a_stream_without_its_end_mark_is_whole_when_it_has_finished_and_broken_when_not() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let house = scene.ordinary(&upstream.base_url()).await;
    let server = setup.boot().await;
    let caller = server.caller(&house.a.token);
    let whole = tricky_stream().replace("data: [DONE]\n\n", "");
    let broken = whole[..whole.rfind("data: ").unwrap()].to_owned();

    upstream.then(Script::status(200).sse().body(whole).end());
    let answer = caller.chat(&ask(true)).await.expect_status(200);
    assert_eq!(answer.events().last().map(String::as_str), Some("[DONE]"));
    let event = event_of(&scene.store, answer.header("x-request-id").unwrap()).await;
    assert_eq!(event.outcome, Outcome::Completed);

    upstream.then(Script::status(200).sse().body(broken).end());
    let answer = caller.chat(&ask(true)).await.expect_status(200);
    let last: Value = serde_json::from_str(answer.events().last().unwrap()).unwrap();
    assert!(last["error"]["message"].is_string(), "{}", answer.text());
    let event = event_of(&scene.store, answer.header("x-request-id").unwrap()).await;
    assert_eq!(event.outcome, Outcome::Failed);
    assert!(event.charge > Nanos::ZERO, "what was received is paid for");
}

#[tokio::test]
async fn a_stream_that_falls_silent_after_its_finish_ends_within_seconds() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let house = setup.scene().await.ordinary(&upstream.base_url()).await;
    let server = setup.boot().await;
    let unfinished = tricky_stream().replace("data: [DONE]\n\n", "");
    upstream.then(Script::status(200).sse().body(unfinished).hang());

    let answer = server.caller(&house.a.token).chat(&ask(true)).await.expect_status(200);

    assert_eq!(answer.events().last().map(String::as_str), Some("[DONE]"));
    assert!(answer.took < std::time::Duration::from_secs(4), "{:?}", answer.took);
}

#[tokio::test]
async fn the_second_request_uses_the_connection_of_the_first() {
    let upstream = Upstream::start();
    let setup = Setup::alone().set("TOLLWAY_SERVER_WORKERS", "1");
    let house = setup.scene().await.ordinary(&upstream.base_url()).await;
    let server = setup.boot().await;
    let caller = server.caller(&house.a.token);
    for stream in [false, true, false, true] {
        caller.chat(&ask(stream)).await.expect_status(200);
    }
    assert_eq!(upstream.accepted_connections(), 1);
}

#[tokio::test]
async fn a_connection_is_kept_when_the_end_of_its_body_comes_after_done() {
    let upstream = Upstream::start();
    let setup = Setup::alone().set("TOLLWAY_SERVER_WORKERS", "1");
    let house = setup.scene().await.ordinary(&upstream.base_url()).await;
    let server = setup.boot().await;
    let caller = server.caller(&house.a.token);
    upstream.otherwise(|_| {
        Script::status(200).sse().body(tricky_stream()).sleep(std::time::Duration::from_millis(20)).end()
    });
    for _ in 0..3 {
        let answer = caller.chat(&ask(true)).await.expect_status(200);
        assert_eq!(answer.events().last().map(String::as_str), Some("[DONE]"));
    }
    assert_eq!(upstream.accepted_connections(), 1);
}
