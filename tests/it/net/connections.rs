//! Which connections are used again, and what a dead one costs.

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tollway::net::NetError;

use crate::net::{Server, body, client, post};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[tokio::test]
async fn a_connection_is_used_again_once_its_answer_is_read() {
    let server = Server::bind().await;
    let client = client();
    let (target, request) = (server.target(), post("{}"));
    let (first, mut peer) = tokio::join!(client.send(&target, &request), server.answer(OK));
    assert_eq!(body(first.unwrap()).await.unwrap(), "ok");
    for answer in [&b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"[..], OK, OK]
    {
        let (again, ()) = tokio::join!(client.send(&target, &request), async {
            peer.request().await;
            peer.say(answer).await;
        });
        assert_eq!(body(again.unwrap()).await.unwrap(), "ok");
    }
}

#[tokio::test]
async fn a_kept_connection_that_died_is_replaced() {
    let server = Server::bind().await;
    let client = client();
    let (target, request) = (server.target(), post("{}"));
    let (first, peer) = tokio::join!(client.send(&target, &request), server.answer(OK));
    body(first.unwrap()).await.unwrap();
    drop(peer);
    let (second, _peer) = tokio::join!(client.send(&target, &request), server.answer(OK));
    assert_eq!(body(second.unwrap()).await.unwrap(), "ok");
}

#[tokio::test]
async fn a_request_whose_kept_connection_closes_unanswered_is_sent_once_more() {
    let server = Server::bind().await;
    let client = client();
    let (target, request) = (server.target(), post("{}"));
    let (first, mut peer) = tokio::join!(client.send(&target, &request), server.answer(OK));
    body(first.unwrap()).await.unwrap();
    let (second, (_, again)) = tokio::join!(client.send(&target, &request), async {
        // The server has read the request when it closes, as at the end of its keep-alive time.
        peer.request().await;
        peer.stream.shutdown().await.unwrap();
        drop(peer);
        let mut peer = server.accept().await;
        let (_, again) = peer.request().await;
        peer.say(OK).await;
        (peer, again)
    });
    assert_eq!(body(second.unwrap()).await.unwrap(), "ok");
    assert_eq!(again, b"{}");
}

#[tokio::test]
async fn a_request_is_not_sent_again_once_anything_of_an_answer_came() {
    let server = Server::bind().await;
    let client = client();
    let (target, request) = (server.target(), post("{}"));
    let (first, mut peer) = tokio::join!(client.send(&target, &request), server.answer(OK));
    body(first.unwrap()).await.unwrap();
    let (second, ()) = tokio::join!(client.send(&target, &request), async {
        peer.request().await;
        peer.say(b"H").await;
        drop(peer);
    });
    assert!(matches!(second, Err(NetError::Protocol(_))), "{second:?}");
}

#[tokio::test]
async fn a_new_connection_that_closes_unanswered_is_an_error() {
    let server = Server::bind().await;
    let client = client();
    let (target, request) = (server.target(), post("{}"));
    let (sent, ()) = tokio::join!(client.send(&target, &request), async {
        server.accept().await.request().await;
    });
    assert!(matches!(sent, Err(NetError::Closed)), "{sent:?}");
}

#[tokio::test]
async fn a_connection_is_not_kept_against_the_servers_will() {
    for answer in [
        &b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"[..],
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        // Bytes after an answer would be taken for the next one.
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n",
    ] {
        let server = Server::bind().await;
        let client = client();
        let (target, request) = (server.target(), post("{}"));
        let (sent, mut peer) = tokio::join!(client.send(&target, &request), server.answer(answer));
        assert_eq!(body(sent.unwrap()).await.unwrap(), "ok");
        peer.closed().await;
    }
}

#[tokio::test]
async fn bytes_nobody_asked_for_rule_out_a_kept_connection() {
    let server = Server::bind().await;
    let client = client();
    let (target, request) = (server.target(), post("{}"));
    let (first, mut peer) = tokio::join!(client.send(&target, &request), server.answer(OK));
    body(first.unwrap()).await.unwrap();
    peer.say(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil").await;
    peer.stream.shutdown().await.unwrap();
    // The client's reactor sees the bytes while this waits for another port.
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    let (second, _peer) = tokio::join!(client.send(&target, &request), server.answer(OK));
    assert_eq!(body(second.unwrap()).await.unwrap(), "ok");
}

#[tokio::test]
async fn a_refusal_before_the_body_is_read_is_an_answer() {
    for closes_at_once in [false, true] {
        let server = Server::bind().await;
        let client = client();
        let target = server.target();
        let request = post(Bytes::from(vec![b'x'; 32 << 20]));
        let (sent, mut peer) = tokio::join!(client.send(&target, &request), async {
            let mut peer = server.accept().await;
            peer.say(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig").await;
            if closes_at_once {
                peer.stream.shutdown().await.unwrap();
            }
            peer
        });
        let answer = sent.unwrap();
        assert_eq!(answer.status, 413);
        assert_eq!(body(answer).await.unwrap(), "big");
        peer.closed().await;
    }
}

#[tokio::test]
async fn a_body_is_still_sent_while_its_answer_has_begun() {
    let server = Server::bind().await;
    let client = client();
    let target = server.target();
    let request = post(Bytes::from(vec![b'x'; 8 << 20]));
    let (read, received) =
        tokio::join!(async { body(client.send(&target, &request).await.unwrap()).await }, async {
            let mut peer = server.accept().await;
            peer.say(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n").await;
            let (_, received) = peer.request().await;
            peer.say(b"1\r\nb\r\n0\r\n\r\n").await;
            received.len()
        });
    assert_eq!(read.unwrap(), "ab");
    assert_eq!(received, 8 << 20);
}
