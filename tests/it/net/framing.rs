//! How answers end, however they are cut.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{sleep, timeout};
use tollway::net::NetError;

use crate::net::{PATIENCE, Server, body, client, exchange, post};

const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
    5;x=1\r\nhello\r\n7\r\n, world\r\n0\r\nt: 1\r\n\r\n";

#[tokio::test]
async fn a_request_arrives_whole_and_its_answer_comes_back() {
    let server = Server::bind().await;
    let client = client();
    let sent = Bytes::from(vec![b'x'; 100_000]);
    let request = post(sent.clone());
    let target = server.target();
    let (answer, (head, received)) = tokio::join!(client.send(&target, &request), async {
        let mut peer = server.accept().await;
        let request = peer.request().await;
        peer.say(b"HTTP/1.1 201 Made\r\nx-a: 1\r\ncontent-length: 2\r\n\r\nok").await;
        request
    });
    let answer = answer.unwrap();
    assert_eq!((answer.status, answer.headers["x-a"].as_bytes()), (201, &b"1"[..]));
    assert_eq!(body(answer).await.unwrap(), "ok");
    assert!(head.starts_with("POST /v1/x HTTP/1.1\r\nhost: 127.0.0.1:"), "{head}");
    assert_eq!(received, sent);
}

#[tokio::test]
async fn chunks_cut_at_any_byte_give_the_same_body() {
    let server = Server::bind().await;
    for cut in 1..CHUNKED.len() {
        let client = client();
        let target = server.target();
        let request = post("{}");
        let (read, ()) =
            tokio::join!(async { body(client.send(&target, &request).await.unwrap()).await }, async {
                let mut peer = server.accept().await;
                peer.request().await;
                peer.say(&CHUNKED[..cut]).await;
                // Lets the client read the first part before the second is sent.
                tokio::task::yield_now().await;
                sleep(Duration::from_millis(1)).await;
                peer.say(&CHUNKED[cut..]).await;
            });
        assert_eq!(read.unwrap(), "hello, world", "cut at {cut}");
    }
}

#[tokio::test]
async fn an_answer_dripping_in_byte_by_byte_is_read() {
    let server = Server::bind().await;
    let client = client();
    let (target, request) = (server.target(), post("{}"));
    let (read, ()) =
        tokio::join!(async { body(client.send(&target, &request).await.unwrap()).await }, async {
            let mut peer = server.accept().await;
            peer.request().await;
            for byte in CHUNKED {
                peer.say(&[*byte]).await;
                tokio::task::yield_now().await;
            }
        });
    assert_eq!(read.unwrap(), "hello, world");
}

#[tokio::test]
async fn interim_answers_are_passed_over() {
    let answer = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n\
        HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    assert_eq!(exchange(answer).await.unwrap(), (200, Bytes::from("ok")));
}

#[tokio::test]
async fn without_a_length_a_body_ends_with_the_connection() {
    let answer = b"HTTP/1.1 200 OK\r\n\r\nall there is";
    assert_eq!(exchange(answer).await.unwrap(), (200, Bytes::from("all there is")));
    let old = b"HTTP/1.0 200 OK\r\ncontent-type: text/plain\r\n\r\nold";
    assert_eq!(exchange(old).await.unwrap(), (200, Bytes::from("old")));
}

#[tokio::test]
async fn no_content_has_no_body() {
    assert_eq!(exchange(b"HTTP/1.1 204 No\r\n\r\n").await.unwrap(), (204, Bytes::new()));
    let empty = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(exchange(empty).await.unwrap(), (200, Bytes::new()));
}

#[tokio::test]
async fn a_body_that_stops_short_is_truncated() {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r",
    ] {
        let read = exchange(answer.as_bytes()).await;
        assert!(matches!(read, Err(NetError::Truncated)), "{answer:?}: {read:?}");
    }
}

#[tokio::test]
async fn what_came_before_a_break_is_given_first() {
    let server = Server::bind().await;
    let client = client();
    let (target, request) = (server.target(), post("{}"));
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello";
    let (sent, peer) = tokio::join!(client.send(&target, &request), server.answer(answer));
    drop(peer);
    let mut stream = sent.unwrap().body;
    assert_eq!(stream.chunk().await.unwrap().unwrap(), "hello");
    assert!(matches!(stream.chunk().await, Some(Err(NetError::Truncated))));
    assert!(stream.chunk().await.is_none(), "an error is said once");
}

#[tokio::test]
async fn a_broken_head_is_no_answer() {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-le",
        "HTTP/2 200 OK\r\n\r\n",
        "SSH-2.0-OpenSSH_9\r\n\r\n",
        "\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 999 No\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx-a: b\r\n c\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-1\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
    ] {
        let read = exchange(answer.as_bytes()).await;
        assert!(matches!(read, Err(NetError::Protocol(_))), "{answer:?}: {read:?}");
    }
}

#[tokio::test]
async fn a_huge_head_is_refused() {
    let large = format!("HTTP/1.1 200 OK\r\nx-a: {}\r\n\r\n", "a".repeat(70_000));
    let read = exchange(large.as_bytes()).await;
    assert!(matches!(read, Err(NetError::TooLarge { .. })), "{read:?}");
}

#[tokio::test]
async fn a_collected_body_is_bounded() {
    let server = Server::bind().await;
    let client = client();
    let (target, request) = (server.target(), post("{}"));
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
    let (sent, _peer) = tokio::join!(client.send(&target, &request), server.answer(answer));
    let read = sent.unwrap().body.collect(4).await;
    assert!(matches!(read, Err(NetError::TooLarge { limit: 4 })), "{read:?}");
}

#[tokio::test]
async fn a_burst_of_chunks_becomes_few_pieces() {
    let server = Server::bind().await;
    let client = client();
    let burst: String = (0..100).map(|_| "a\r\n0123456789\r\n").collect();
    let answer = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{burst}0\r\n\r\n");
    let (target, request) = (server.target(), post("{}"));
    let (sent, _peer) = tokio::join!(client.send(&target, &request), server.answer(answer.as_bytes()));
    let mut stream = sent.unwrap().body;
    let (mut pieces, mut bytes) = (0, 0);
    while let Some(piece) = timeout(PATIENCE, stream.chunk()).await.unwrap() {
        pieces += 1;
        bytes += piece.unwrap().len();
    }
    assert_eq!(bytes, 1_000);
    assert!(pieces <= 3, "{pieces}");
}
