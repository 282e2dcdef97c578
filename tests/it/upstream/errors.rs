//! What is made of an answer, above all of one that echoes the key.

use std::time::Duration;

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use tokio::time::{Instant, timeout};
use tollway::{
    domain::{
        failure::{FailureClass, classify},
        provider::AuthStyle,
    },
    upstream::{UpstreamError, read_error},
};

use crate::{
    net::PATIENCE,
    upstream::{Desk, NOW, SECRET},
};

async fn error(answer: &[u8]) -> UpstreamError {
    let desk = Desk::with(AuthStyle::Bearer, SECRET).await;
    read_error(desk.reply(answer).await, NOW).await
}

fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}").into_bytes()
}

/// A part of twelve characters of the key, in any form a text could carry, that stands in `text`.
fn leak(text: &str) -> Option<String> {
    let hex = SECRET.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    let form: String = url::form_urlencoded::byte_serialize(SECRET.as_bytes()).collect();
    let bearer = format!("Bearer {SECRET}");
    let forms = [
        SECRET.to_owned(),
        hex,
        form,
        STANDARD.encode(SECRET),
        URL_SAFE_NO_PAD.encode(SECRET),
        STANDARD.encode(&SECRET[1..]),
        STANDARD.encode(&SECRET[2..]),
        STANDARD.encode(&bearer)[12..].to_owned(),
        STANDARD.encode(format!("x:{SECRET}"))[4..].to_owned(),
    ];
    let text = text.to_ascii_lowercase();
    forms
        .iter()
        .flat_map(|form| {
            let form = form.to_ascii_lowercase();
            (0..=form.len() - 12).map(move |at| form[at..at + 12].to_owned()).collect::<Vec<_>>()
        })
        .find(|part| text.contains(part))
}

/// Ways in which an upstream has echoed a key, or could.
fn echoes() -> Vec<String> {
    let hex = SECRET.bytes().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().concat();
    let form: String = url::form_urlencoded::byte_serialize(SECRET.as_bytes()).collect();
    vec![
        SECRET.to_owned(),
        format!("Bearer {SECRET}"),
        STANDARD.encode(format!("Bearer {SECRET}")),
        STANDARD.encode(format!("user:{SECRET}:more")),
        URL_SAFE_NO_PAD.encode(format!("u:{SECRET}")),
        STANDARD.encode(SECRET),
        hex,
        form.to_lowercase(),
        form,
        SECRET[3..20].to_owned(),
    ]
}

#[test]
fn the_search_for_leaks_finds_every_echo() {
    for echo in echoes() {
        assert!(leak(&echo).is_some(), "{echo}");
    }
}

#[tokio::test]
async fn an_echoed_key_is_found_nowhere() {
    for echo in echoes() {
        let body = format!(
            r#"{{"error":{{"message":"bad key {echo} given","type":"{echo}","code":"{echo}","{echo}":[{{"deep":"x{echo}y"}}]}}}}"#
        );
        let headers = format!(
            "x-request-id: {echo}\r\nopenai-version: {echo}\r\nx-ratelimit-{}: {echo}\r\nset-cookie: {echo}\r\n",
            echo.replace(|byte: char| !byte.is_ascii_alphanumeric(), "-"),
        );
        let desk = Desk::with(AuthStyle::Bearer, SECRET).await;
        let reply = desk.reply(&answer("401 No", &headers, &body)).await;
        let printed = format!("{reply:?}");
        let shown: Vec<_> = reply.headers.for_client().collect();
        let error = read_error(reply, NOW).await;
        for text in [format!("{shown:?}"), format!("{error:?}"), printed] {
            assert_eq!(leak(&text), None, "{echo}: {text}");
        }
        let body = std::str::from_utf8(&error.body).unwrap();
        assert_eq!(leak(body), None, "{body}");
        let value: serde_json::Value = serde_json::from_str(body).unwrap();
        assert!(value["error"]["message"].as_str().unwrap().contains("[redacted]"), "{body}");
    }
}

#[tokio::test]
async fn no_way_of_escaping_hides_a_key() {
    let escaped: String = SECRET
        .chars()
        .enumerate()
        .map(|(at, char)| if at % 5 == 0 { format!("\\u{:04x}", u32::from(char)) } else { char.to_string() })
        .collect();
    let error = error(&answer("401 No", "", &format!(r#"{{"error":{{"message":"{escaped}"}}}}"#))).await;
    let value: serde_json::Value = serde_json::from_slice(&error.body).unwrap();
    assert_eq!(value["error"]["message"], "[redacted]");
}

#[tokio::test]
async fn a_body_that_is_no_json_is_put_into_openais_shape() {
    for body in [format!("<html>bad {SECRET}</html>"), format!("\"{SECRET}\""), String::new()] {
        let error = error(&answer("502 Bad", "", &body)).await;
        let text = std::str::from_utf8(&error.body).unwrap();
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        assert!(value["error"]["message"].is_string(), "{text}");
        assert_eq!(leak(text), None, "{text}");
    }
}

#[tokio::test]
async fn an_error_without_the_key_keeps_its_bytes() {
    let body =
        r#"{"error": {"message": "slow", "type": "tokens", "param": null, "code": "rate_limit_exceeded"}}"#;
    let error = error(&answer("429 Slow", "retry-after: 7\r\n", body)).await;
    assert_eq!(error.body, body);
    assert_eq!(error.code.as_deref(), Some("rate_limit_exceeded"));
    assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
    assert_eq!(classify(error.symptom()), FailureClass::RateLimited);
}

#[tokio::test]
async fn the_wait_is_taken_from_the_body_when_no_header_names_one() {
    let body = r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"12s"}]}}"#;
    let error = error(&answer("429 Slow", "", body)).await;
    assert_eq!(error.retry_after, Some(Duration::from_secs(12)));
}

#[tokio::test]
async fn an_error_that_dribbles_or_never_ends_is_cut() {
    let desk = Desk::with(AuthStyle::Bearer, SECRET).await;
    let head = b"HTTP/1.1 500 No\r\n\r\nhalf an ans";
    let (reply, mut peer) = tokio::join!(desk.send(false), desk.server.answer(head));
    let began = Instant::now();
    let error = timeout(PATIENCE, read_error(reply.unwrap(), NOW)).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(3));
    assert_eq!(error.status, 500);
    peer.closed().await;

    let endless = answer("500 No", "", &"x".repeat(1 << 20));
    let (reply, mut peer) = tokio::join!(desk.send(false), desk.server.answer(&endless[..200_000]));
    let error = read_error(reply.unwrap(), NOW).await;
    assert!(error.body.len() < 80_000);
    peer.closed().await;
}

#[tokio::test]
async fn only_listed_headers_go_to_the_client() {
    let desk = Desk::with(AuthStyle::Bearer, SECRET).await;
    let headers = "content-type: text/event-stream; charset=utf-8\r\nx-ratelimit-remaining-tokens: 5\r\n\
        x-request-id: up-1\r\nopenai-processing-ms: 12\r\nset-cookie: a=b\r\nserver: x\r\ncf-ray: 1\r\n\
        openai-organization: org\r\nretry-after-ms: 5\r\n";
    let reply = desk.reply(&answer("200 OK", headers, "")).await;
    let mut shown: Vec<String> = reply
        .headers
        .for_client()
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .collect();
    shown.sort();
    assert_eq!(
        shown,
        [
            "content-type: text/event-stream; charset=utf-8",
            "openai-processing-ms: 12",
            "retry-after-ms: 5",
            "x-ratelimit-remaining-tokens: 5",
            "x-upstream-request-id: up-1",
        ]
    );
    assert!(reply.headers.is_event_stream());
}
