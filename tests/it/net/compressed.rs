//! Servers that compress although nobody asked.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use tollway::net::NetError;

use crate::net::{Server, body, client, exchange, post};

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn answer(encoding: &str, data: &[u8]) -> Vec<u8> {
    let length = data.len();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\ncontent-length: {length}\r\n\r\n");
    [head.as_bytes(), data].concat()
}

#[tokio::test]
async fn identity_is_asked_for_and_compression_is_undone() {
    let server = Server::bind().await;
    let client = client();
    let (target, request) = (server.target(), post("{}"));
    let data = answer("gzip", &gzip("{\"ok\":true}"));
    let (sent, head) = tokio::join!(client.send(&target, &request), async {
        let mut peer = server.accept().await;
        let (head, _) = peer.request().await;
        peer.say(&data).await;
        head
    });
    assert!(head.contains("accept-encoding: identity\r\n"), "{head}");
    let answer = sent.unwrap();
    assert!(!answer.headers.contains_key("content-encoding"));
    assert!(!answer.headers.contains_key("content-length"));
    assert_eq!(body(answer).await.unwrap(), "{\"ok\":true}");
}

#[tokio::test]
async fn events_of_a_compressed_stream_come_as_they_are_sent() {
    let server = Server::bind().await;
    let client = client();
    let (target, request) = (server.target(), post("{}"));
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n";
    let (sent, mut peer) = tokio::join!(client.send(&target, &request), server.answer(head));
    let mut stream = sent.unwrap().body;
    for event in ["data: 1\n\n", "data: 2\n\n", "data: 3\n\n"] {
        encoder.write_all(event.as_bytes()).unwrap();
        encoder.flush().unwrap();
        peer.say(&std::mem::take(encoder.get_mut())).await;
        assert_eq!(stream.chunk().await.unwrap().unwrap(), event);
    }
    peer.say(&encoder.finish().unwrap()).await;
    drop(peer);
    assert!(stream.chunk().await.is_none());
}

#[tokio::test]
async fn what_cannot_be_decoded_is_an_error() {
    let whole = gzip("some text");
    let read = exchange(&answer("gzip", &whole[..whole.len() - 3])).await;
    assert!(matches!(read, Err(NetError::Truncated)), "{read:?}");
    let read = exchange(&answer("gzip", b"no gzip at all")).await;
    assert!(matches!(read, Err(NetError::Decode(_))), "{read:?}");
    let read = exchange(&answer("compress", b"x")).await;
    assert!(matches!(read, Err(NetError::Decode(_))), "{read:?}");
}
