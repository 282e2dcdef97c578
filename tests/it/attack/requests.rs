//! Requests that could be read in two ways, or not at all.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::harness::{
    client::{Answer, RawClient},
    scene::MODEL,
    server::{Server, Setup},
    upstream::Upstream,
};

/// A whole request, small.
const BODY: &str = "{\"model\":\"house-large\",\"messages\":[]}";

/// What comes back for these bytes until the server closes.
async fn answer(server: &Server, bytes: &[u8]) -> String {
    let mut client = RawClient::connect(server.address()).await;
    client.send(bytes).await;
    let read = timeout(Duration::from_secs(5), client.read_what_comes()).await;
    String::from_utf8_lossy(&read.expect("the connection is closed")).into_owned()
}

#[tokio::test]
async fn what_could_be_read_in_two_ways_reaches_no_upstream() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let house = setup.scene().await.ordinary(&upstream.base_url()).await;
    let server = setup.boot().await;
    let length = BODY.len();
    let chunks = format!("{length:x}\r\n{BODY}\r\n0\r\n\r\n");
    let smuggled = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n\r\n";
    for (version, headers, body) in [
        ("1.1", format!("content-length: {length}\r\ntransfer-encoding: chunked\r\n"), &*chunks),
        ("1.1", "transfer-encoding: chunked\r\ncontent-length: 4\r\n".to_owned(), &*chunks),
        ("1.1", format!("content-length: {length}\r\ncontent-length: 4\r\n"), BODY),
        ("1.1", format!("content-length: {length}, {length}\r\n"), BODY),
        ("1.1", format!("content-length: +{length}\r\n"), BODY),
        ("1.1", "content-length: -1\r\n".to_owned(), BODY),
        ("1.1", "content-length: 99999999999999999999999\r\n".to_owned(), BODY),
        ("1.1", "transfer-encoding: xchunked\r\n".to_owned(), &*chunks),
        ("1.1", "transfer-encoding: identity, chunked\r\n".to_owned(), &*chunks),
        ("1.1", "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n".to_owned(), &*chunks),
        ("1.1", "transfer-encoding : chunked\r\n".to_owned(), &*chunks),
        ("1.1", "x: a\r\n transfer-encoding: chunked\r\n".to_owned(), &*chunks),
        ("1.0", "transfer-encoding: chunked\r\n".to_owned(), &*chunks),
        ("1.1", "transfer-encoding: chunked\r\n".to_owned(), "-1\r\nx"),
        ("1.1", "transfer-encoding: chunked\r\n".to_owned(), "FFFFFFFFFFFFFFFFF\r\nx"),
        ("1.1", "transfer-encoding: chunked\r\n".to_owned(), "0x1\r\nx\r\n0\r\n\r\n"),
        ("1.1", "host: other\r\ncontent-length: 0\r\n".to_owned(), ""),
    ] {
        let token = &house.a.token;
        let request = format!(
            "POST /v1/chat/completions HTTP/{version}\r\nhost: x\r\nauthorization: Bearer {token}\r\n{headers}\r\n{body}{smuggled}"
        );
        let said = answer(&server, request.as_bytes()).await;
        // A reset can overtake the answer when the body is still being sent.
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 400"), "{headers}{body}: {said}");
        assert!(said.matches("HTTP/1.1").count() <= 1, "nothing after it is a request: {said}");
    }
    assert_eq!(upstream.request_count(), 0);
    server.caller(&house.b.token).chat(&json!({"model": MODEL, "messages": []})).await.expect_status(200);
}

#[tokio::test]
async fn heads_that_are_none_or_too_large_end_the_connection() {
    let server = Setup::alone().boot().await;
    let large = format!("GET /v1/models HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "a".repeat(1 << 20));
    let many = format!("GET /v1/models HTTP/1.1\r\nhost: x\r\n{}\r\n", "x: y\r\n".repeat(1_000));
    for bytes in [
        &b"GET /v1/models\r\n\r\n"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03abcdefgh\r\n\r\n",
        b"GET /v1/mod\0els HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\nhost: x\r\nx: a\0b\r\n\r\n",
        b"GET /v1/models/\xff\xfe HTTP/1.1\r\nhost: x\r\n\r\n",
        large.as_bytes(),
        many.as_bytes(),
    ] {
        let said = answer(&server, bytes).await;
        let refused = ["HTTP/1.1 400", "HTTP/1.1 431", ""].iter().any(|start| said.starts_with(start));
        assert!(refused && said.matches("HTTP/1.1").count() <= 1, "{said}");
    }
    server.anonymous().get("/healthz").await.expect_status(200);
    let metrics = server.anonymous().get("/metrics").await.text();
    assert!(metrics.contains("tollway_refusals_total{reason=\"bad_request\"} 8"), "{metrics}");
    let log = server.log();
    assert!(!log.contains("ERROR") && !log.contains("WARN"), "whoever scans the port floods the log:\n{log}");
}

#[tokio::test]
async fn names_with_control_characters_are_told_back_without_harm() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let house = setup.scene().await.ordinary(&upstream.base_url()).await;
    let server = setup.boot().await;
    let caller = server.caller(&house.a.token);
    let name = "a\r\nx-evil: 1\r\n\r\n\u{0}\u{1b}[31m\u{2028}";
    let answers = [
        caller.chat(&json!({"model": name, "messages": []})).await,
        caller.get("/v1/models/a%0d%0ax-evil:%201%0d%0a%0d%0a%00%1b[31m").await,
        caller.get("/v1/models/%ff%fe").await,
        caller.get("/v1/models/..%2f..%2fadmin/v1/keys").await,
    ];
    for answer in answers {
        let answer = answer.expect_status(404);
        assert_eq!(answer.json()["error"]["code"], "model_not_found");
        assert!(answer.header("x-evil").is_none());
        assert!(answer.body.iter().all(|&byte| byte >= b' '), "{:?}", answer.text());
    }
    assert!(server.log().bytes().all(|byte| byte >= b' ' || byte == b'\n'), "{}", server.log());
    assert_eq!(upstream.request_count(), 0);
}

#[tokio::test]
async fn a_wrong_method_is_told_in_shape() {
    let server = Setup::alone().boot().await;
    for (method, path, allow) in [
        (Method::GET, "/v1/chat/completions", "POST"),
        (Method::DELETE, "/api/v1/relay/models", "GET"),
        (Method::PUT, "/v1/models/some", "GET"),
    ] {
        let answer = Answer::of(server.anonymous().request(method, path)).await.expect_status(405);
        assert_eq!(answer.json()["error"]["code"], "method_not_allowed");
        assert_eq!(answer.header("allow"), Some(allow));
        assert!(answer.header("x-request-id").is_some());
    }
}

#[tokio::test]
async fn bodies_that_mean_two_things_or_nothing_are_refused() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let house = setup.scene().await.ordinary(&upstream.base_url()).await;
    let server = setup.boot().await;
    let caller = server.caller(&house.a.token);
    let nested = format!("{{\"model\":\"house-large\",\"messages\":{}", "[".repeat(10_000_000));
    let named = format!("{{\"model\":\"{}\",\"messages\":[]}}", "a".repeat(20_000_000));
    for body in [
        nested.as_bytes(),
        named.as_bytes(),
        b"{\"model\":\"house-large\",\"m\\u006fdel\":\"other\",\"messages\":[]}",
        b"{\"Model\":\"other\",\"model\":\"house-large\",\"messages\":[]}",
        b"{\"model\":\"house-large\",\"messages\":[],\"max_tokens\":1e999}",
        b"{\"model\":\"house-large\",\"messages\":[],\"max_tokens\":18446744073709551616}",
        b"{\"model\":\"house-large\",\"messages\":[],\"n\":-1}",
        b"{\"model\":\"house-large\",\"messages\":[{\"content\":\"\xff\xfe\"}]}",
        b"\xef\xbb\xbf{\"model\":\"house-large\",\"messages\":[]}",
        b"{\"model\":\"house-large\",\"messages\":[]}\0",
        b"{\"model\":\"house-large\",\"messages\":[]}{\"model\":\"other\"}",
    ] {
        let request = caller.request(Method::POST, "/v1/chat/completions").body(body.to_vec());
        let answer = Answer::of(request).await.expect_status(400);
        assert_ne!(answer.json()["error"]["message"], Value::Null);
        assert!(answer.body.len() < 1_000, "it is not told back whole");
    }
    assert_eq!(upstream.request_count(), 0);
}
