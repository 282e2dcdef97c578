//! Dropping a call closes its connection, whatever it was waiting for.

use std::time::Duration;

use bytes::Bytes;
use tokio::{
    io::AsyncReadExt,
    time::{Instant, timeout},
};

use crate::net::{Server, client, post, target};

/// How soon the server sees that nobody waits any more; milliseconds as a rule.
const SOON: Duration = Duration::from_millis(500);

#[tokio::test]
async fn while_waiting_for_the_head() {
    let server = Server::bind().await;
    let client = client();
    let (target, request) = (server.target(), post("{}"));
    let mut peer = tokio::select! {
        _ = client.send(&target, &request) => panic!("there is no answer"),
        peer = async { let mut peer = server.accept().await; peer.request().await; peer } => peer,
    };
    let dropped = Instant::now();
    peer.closed().await;
    assert!(dropped.elapsed() < SOON);
}

#[tokio::test]
async fn while_the_head_drips_in() {
    let server = Server::bind().await;
    let client = client();
    let (target, request) = (server.target(), post("{}"));
    let head = b"HTTP/1.1 200 OK\r\nx-a: ";
    let mut peer = tokio::select! {
        _ = client.send(&target, &request) => panic!("the head has no end"),
        peer = async {
            let mut peer = server.answer(head).await;
            for _ in 0..50 {
                peer.say(b"a").await;
                tokio::task::yield_now().await;
            }
            peer
        } => peer,
    };
    let dropped = Instant::now();
    peer.closed().await;
    assert!(dropped.elapsed() < SOON);
}

#[tokio::test]
async fn while_writing_a_large_body() {
    let server = Server::bind().await;
    let client = client();
    let target = server.target();
    let request = post(Bytes::from(vec![b'x'; 64 << 20]));
    let mut peer = tokio::select! {
        _ = client.send(&target, &request) => panic!("there is no answer"),
        peer = async {
            let mut peer = server.accept().await;
            peer.stream.read_exact(&mut [0; 1_000]).await.unwrap();
            peer
        } => peer,
    };
    let dropped = Instant::now();
    // Reset, not closed: what is still queued must not keep the server reading.
    let end = timeout(SOON, async {
        let mut sink = vec![0; 1 << 16];
        loop {
            match peer.stream.read(&mut sink).await {
                Ok(0) => break None,
                Ok(_) => {}
                Err(error) => break Some(error.kind()),
            }
        }
    });
    assert_eq!(end.await.unwrap(), Some(std::io::ErrorKind::ConnectionReset));
    assert!(dropped.elapsed() < SOON);
}

#[tokio::test]
async fn in_the_middle_of_a_body() {
    let server = Server::bind().await;
    let client = client();
    for answer in [
        &b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n"[..],
        b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\n\r\nhello",
    ] {
        let (target, request) = (server.target(), post("{}"));
        let (sent, mut peer) = tokio::join!(client.send(&target, &request), server.answer(answer));
        let mut body = sent.unwrap().body;
        assert_eq!(body.chunk().await.unwrap().unwrap(), "hello");
        assert!(timeout(Duration::from_millis(10), body.chunk()).await.is_err(), "no more yet");
        let dropped = Instant::now();
        drop(body);
        peer.closed().await;
        assert!(dropped.elapsed() < SOON);
    }
}

#[tokio::test]
async fn during_the_tls_handshake() {
    let server = Server::bind().await;
    let client = client();
    let target = target(&format!("https://{}", server.address));
    let request = post("{}");
    let mut peer = tokio::select! {
        _ = client.send(&target, &request) => panic!("nobody greets back"),
        peer = async {
            let mut peer = server.accept().await;
            // The first byte of the client's hello.
            assert_eq!(peer.stream.read_u8().await.unwrap(), 22);
            peer
        } => peer,
    };
    let dropped = Instant::now();
    peer.closed().await;
    assert!(dropped.elapsed() < SOON);
}
