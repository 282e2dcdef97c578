use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::*;

async fn connect(upstream: &Upstream) -> TcpStream {
    TcpStream::connect(upstream.address()).await.unwrap()
}

async fn ask(upstream: &Upstream) -> TcpStream {
    let mut stream = connect(upstream).await;
    stream
        .write_all(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}")
        .await
        .unwrap();
    stream
}

async fn read_some(stream: &mut TcpStream) -> Vec<u8> {
    let mut buffer = vec![0; 65_536];
    let n = stream.read(&mut buffer).await.unwrap();
    buffer.truncate(n);
    buffer
}

#[tokio::test]
async fn it_splits_an_answer_exactly_where_told() {
    let upstream = Upstream::start();
    let whole = chat_stream(&["añ🦊"], Usage::new(1, 1));
    let gate = Gate::default();
    for offset in [1, 17, 100, whole.wire_len() - 1] {
        upstream.then(whole.clone().cut_at(offset));
        let mut stream = ask(&upstream).await;
        let mut got = read_some(&mut stream).await;
        assert_eq!(got.len(), offset);
        while got.len() < whole.wire_len() {
            got.extend(read_some(&mut stream).await);
        }
        assert!(got.ends_with(b"data: [DONE]\n\n\r\n0\r\n\r\n"));
    }
    upstream.then(Script::status(200).chunked().body("one").wait(&gate).body("two").end());
    let mut stream = ask(&upstream).await;
    let mut got = read_some(&mut stream).await;
    while !got.ends_with(b"one\r\n") {
        got.extend(read_some(&mut stream).await);
    }
    gate.open();
    let mut rest = Vec::new();
    while !rest.ends_with(b"0\r\n\r\n") {
        rest.extend(read_some(&mut stream).await);
    }
    assert_eq!(rest, b"3\r\ntwo\r\n0\r\n\r\n");
}

#[tokio::test]
async fn it_tells_a_fin_from_a_reset_in_every_phase() {
    let upstream = Upstream::start();
    let phases = [Script::silent(), Script::status(200).sse().body("data: x\n\n").hang()];
    for script in phases {
        for how in [Hangup::Fin, Hangup::Reset] {
            upstream.then(script.clone());
            let mut stream = ask(&upstream).await;
            let request = upstream.next_request().await;
            assert!(request.outcome_now().is_none());
            if script.wire_len() > 0 {
                let mut got = Vec::new();
                while !got.ends_with(b"data: x\n\n\r\n") {
                    got.extend(read_some(&mut stream).await);
                }
            }
            let left = std::time::Instant::now();
            match how {
                Hangup::Fin => stream.shutdown().await.unwrap(),
                Hangup::Reset => {
                    stream.set_zero_linger().unwrap();
                    drop(stream);
                }
            }
            let hangup = request.wait_for_hangup().await;
            assert_eq!(hangup.how, how);
            assert!(hangup.at.duration_since(left) < Duration::from_millis(500));
        }
    }
    assert_eq!(upstream.open_connections(), 0);
    assert_eq!(upstream.accepted_connections(), 4);
}

#[tokio::test]
async fn it_notices_a_leaver_while_its_writes_are_blocked() {
    let upstream = Upstream::start();
    upstream.then(Script::status(200).chunked().body(vec![b'x'; 64 << 20]));
    let stream = ask(&upstream).await;
    let request = upstream.next_request().await;
    drop(stream);
    request.wait_for_hangup().await;
}

#[tokio::test]
async fn it_resets_and_truncates_for_real() {
    let upstream = Upstream::start();
    upstream.then(Script::refuse());
    let mut stream = ask(&upstream).await;
    let error = stream.read(&mut [0; 10]).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);

    upstream.then(Script::status(200).length(100).body("only this").close());
    let mut stream = ask(&upstream).await;
    let mut got = String::new();
    stream.read_to_string(&mut got).await.unwrap();
    assert!(got.ends_with("\r\n\r\nonly this"), "{got}");
}

#[tokio::test]
async fn it_reads_bodies_of_either_framing_and_keeps_the_connection() {
    let upstream = Upstream::start();
    let mut stream = connect(&upstream).await;
    for body in [
        "content-length: 5\r\n\r\nhello",
        "transfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\na: b\r\n\r\n",
    ] {
        stream
            .write_all(format!("POST /a?b HTTP/1.1\r\nX-Two: 1\r\nx-two: 2\r\n{body}").as_bytes())
            .await
            .unwrap();
        let request = upstream.next_request().await;
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/a?b"));
        assert_eq!(&request.body[..], b"hello");
        assert_eq!(request.headers.iter().filter(|(name, _)| name == "x-two").count(), 2);
        assert!(matches!(request.outcome().await, Outcome::Played { .. }));
        assert!(read_some(&mut stream).await.starts_with(b"HTTP/1.1 200 OK\r\n"));
    }
    assert_eq!(upstream.accepted_connections(), 1);
}

#[tokio::test]
async fn it_picks_the_script_by_turn_then_by_rule() {
    let upstream = Upstream::start();
    upstream.when(path_ends("/completions"), error(500, "later", "by rule"));
    upstream.then(error(429, "first", "by turn"));
    for status in ["429", "500"] {
        let mut stream = ask(&upstream).await;
        let answer = String::from_utf8(read_some(&mut stream).await).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
}

#[tokio::test]
async fn it_holds_thousands_of_connections() {
    let upstream = Upstream::start();
    let gate = Gate::default();
    upstream.otherwise({
        let gate = gate.clone();
        move |_| chat_json("late", Usage::new(1, 1)).held_by(&gate)
    });
    let mut streams = Vec::new();
    for _ in 0..2_000 {
        streams.push(ask(&upstream).await);
    }
    for _ in 0..2_000 {
        upstream.next_request().await;
    }
    assert_eq!(upstream.peak_connections(), 2_000);
    gate.open();
    for mut stream in streams {
        assert!(!read_some(&mut stream).await.is_empty());
    }
}
