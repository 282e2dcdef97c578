//! Request bodies that cost more than they are worth.

use std::{fs, io::Write, time::Duration};

use reqwest::Method;
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::harness::{
    client::{Answer, RawClient},
    scene::MODEL,
    server::{Server, Setup},
    upstream::Upstream,
};

/// The most memory that the server has ever used, MB.
fn peak_mb(server: &Server) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("the server runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") / 1024
}

#[tokio::test]
async fn a_bomb_unfolds_to_the_limit_and_no_further() {
    let upstream = Upstream::start();
    let setup = Setup::alone().set("TOLLWAY_SERVER_BODY_LIMIT", "8MiB");
    let house = setup.scene().await.ordinary(&upstream.base_url()).await;
    let server = setup.boot().await;
    let caller = server.caller(&house.a.token);
    caller.chat(&json!({"model": MODEL, "messages": []})).await.expect_status(200);
    let before = peak_mb(&server);
    let zeros = vec![0; 1 << 20];
    let level = flate2::Compression::fast();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), level);
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), level);
    let mut zstd = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
    let mut brotli = brotli::CompressorWriter::new(Vec::new(), 4_096, 1, 22);
    for _ in 0..96 {
        for out in [&mut gzip as &mut dyn Write, &mut zlib, &mut zstd, &mut brotli] {
            out.write_all(&zeros).unwrap();
        }
    }
    for (coding, bomb) in [
        ("gzip", gzip.finish().unwrap()),
        ("deflate", zlib.finish().unwrap()),
        ("zstd", zstd.finish().unwrap()),
        ("br", brotli.into_inner()),
    ] {
        assert!(bomb.len() < 2 << 20);
        let request = caller.request(Method::POST, "/v1/chat/completions").header("content-encoding", coding);
        let answer = Answer::of(request.body(bomb)).await.expect_status(413);
        assert_eq!(answer.json()["error"]["code"], "request_too_large", "{coding}");
        let grown = peak_mb(&server) - before;
        assert!(grown < 48, "{coding}: {grown} MB for a limit of 8");
    }
    assert_eq!(upstream.request_count(), 1);
}

#[tokio::test]
async fn codings_that_are_said_twice_are_refused() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let house = setup.scene().await.ordinary(&upstream.base_url()).await;
    let server = setup.boot().await;
    let caller = server.caller(&house.a.token);
    let body = json!({"model": MODEL, "messages": []}).to_string();
    for codings in [&["gzip, gzip"][..], &["identity", "gzip"], &["gzip", "identity"], &["lzma"]] {
        let mut request = caller.request(Method::POST, "/v1/chat/completions").body(body.clone());
        for coding in codings {
            request = request.header("content-encoding", *coding);
        }
        Answer::of(request).await.expect_status(415);
    }
    let plain = caller.request(Method::POST, "/v1/chat/completions").header("content-encoding", "Identity");
    Answer::of(plain.body(body)).await.expect_status(200);
}

#[tokio::test]
async fn a_body_that_dribbles_in_is_given_up_and_one_that_flows_is_not() {
    let upstream = Upstream::start();
    let setup = Setup::alone().set("TOLLWAY_SERVER_HEADER_TIMEOUT", "1s");
    let house = setup.scene().await.ordinary(&upstream.base_url()).await;
    let server = setup.boot().await;
    let body = json!({"model": MODEL, "messages": [], "pad": "x".repeat(400_000)}).to_string();
    let head = |coding: &str| {
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n{coding}\r\n\r\n",
            house.a.token
        )
    };
    let (length, chunked) =
        (format!("content-length: {}", body.len()), "transfer-encoding: chunked".to_owned());
    for (coding, first) in [(&length, "{"), (&length, ""), (&chunked, "1\r\n{\r\n"), (&chunked, "1;a=")] {
        let mut slow = RawClient::connect(server.address()).await;
        let since = Instant::now();
        slow.send((head(coding) + first).as_bytes()).await;
        let said =
            timeout(Duration::from_secs(10), slow.read_until("\r\n\r\n")).await.expect("it is given up");
        assert!(said.starts_with("HTTP/1.1 408"), "{said}");
        assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    }
    let mut steady = RawClient::connect(server.address()).await;
    steady.send(head(&length).as_bytes()).await;
    for piece in body.as_bytes().chunks(25_000) {
        tokio::time::sleep(Duration::from_millis(100)).await;
        steady.send(piece).await;
    }
    assert!(steady.read_until("\r\n\r\n").await.starts_with("HTTP/1.1 200"));
    assert_eq!(upstream.request_count(), 1);
}

#[tokio::test]
async fn one_tenants_bodies_leave_room_for_anothers() {
    let upstream = Upstream::start();
    let setup = Setup::alone()
        .set("TOLLWAY_SERVER_BODY_LIMIT", "2MiB")
        .set("TOLLWAY_SERVER_BODY_MEMORY", "8MiB")
        .set("TOLLWAY_SERVER_WORKERS", "2");
    let house = setup.scene().await.ordinary(&upstream.base_url()).await;
    let server = setup.boot().await;
    let body = json!({"model": MODEL, "messages": [], "pad": "x".repeat(1_500_000)}).to_string();
    // All but its last byte: the body stays where it is.
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\n\r\n",
        house.a.token,
        body.len()
    );
    let unfinished = [head.as_bytes(), &body.as_bytes()[..body.len() - 1]].concat();
    let mut waiting = Vec::new();
    for _ in 0..6 {
        let mut client = RawClient::connect(server.address()).await;
        client.send(&unfinished).await;
        waiting.push(client);
    }
    let greedy = server.caller(&house.a.token);
    let asked = Instant::now();
    let refused = loop {
        let request = greedy.request(Method::POST, "/v1/chat/completions").body(body.clone());
        let answer = Answer::of(request).await;
        if answer.status == 429 {
            break answer;
        }
        assert!(asked.elapsed() < Duration::from_secs(5), "never refused: {}", answer.status);
    };
    assert_eq!(refused.json()["error"]["code"], "too_many_large_requests");
    assert_eq!(refused.header("retry-after"), Some("1"));
    greedy.chat(&json!({"model": MODEL, "messages": []})).await.expect_status(200);

    let other =
        server.caller(&house.b.token).request(Method::POST, "/v1/chat/completions").body(body.clone());
    Answer::of(other).await.expect_status(200);

    drop(waiting);
    let given_up = Instant::now();
    while Answer::of(greedy.request(Method::POST, "/v1/chat/completions").body(body.clone())).await.status
        != 200
    {
        assert!(given_up.elapsed() < Duration::from_secs(5), "the room never comes back");
    }
}
