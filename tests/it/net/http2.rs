//! The reqwest transport behind the same types: HTTP/2 over TLS, HTTP/1.1 in clear.

use std::time::Duration;

use bytes::Bytes;
use h2::SendStream;
use tokio::time::{Instant, timeout};
use tollway::{
    domain::provider::Transport,
    net::{NetError, Target},
};

use crate::net::{PATIENCE, Server, body, client, client_trusting, post, tls::Authority};

fn target(url: &str) -> Target {
    Target::parse(url, Transport::Http2, Duration::from_secs(2)).unwrap()
}

#[tokio::test]
async fn a_server_that_offers_http2_is_called_over_it() {
    let authority = Authority::certifying(&["localhost"]);
    let acceptor = authority.acceptor(&[b"h2"]);
    let server = Server::bind().await;
    let client = client_trusting(&authority.tls());
    let target = target(&format!("https://localhost:{}/base", server.address.port()));
    let request = post("hello");
    let serve = async {
        let stream = acceptor.accept(server.accept().await.stream).await.unwrap();
        let mut connection = h2::server::handshake(stream).await.unwrap();
        let (request, mut respond) = connection.accept().await.unwrap().unwrap();
        assert_eq!(request.uri().path(), "/base/v1/x");
        assert_eq!(request.headers()["accept-encoding"], "identity");
        let answer = http::Response::builder().status(201).header("x-a", "1").body(()).unwrap();
        let mut body: SendStream<Bytes> = respond.send_response(answer, false).unwrap();
        for _ in 0..100 {
            body.send_data(Bytes::from_static(b"0123456789"), false).unwrap();
        }
        body.send_data(Bytes::new(), true).unwrap();
        while connection.accept().await.is_some() {}
    };
    let call = async {
        let answer = client.send(&target, &request).await.unwrap();
        assert_eq!((answer.status, &answer.headers["x-a"]), (201, &"1".parse().unwrap()));
        let mut stream = answer.body;
        let (mut pieces, mut bytes) = (0, 0);
        while let Some(piece) = stream.chunk().await {
            bytes += piece.unwrap().len();
            pieces += 1;
        }
        (pieces, bytes)
    };
    let (pieces, bytes) = tokio::select! {
        read = timeout(PATIENCE, call) => read.unwrap(),
        () = serve => panic!("the server waits for the client"),
    };
    assert!(bytes == 1_000 && pieces <= 10, "{bytes} bytes in {pieces} pieces");
}

#[tokio::test]
async fn in_clear_it_speaks_http1() {
    let server = Server::bind().await;
    let client = client();
    let (target, request) = (target(&format!("http://{}", server.address)), post("hello"));
    let (sent, head) = tokio::join!(client.send(&target, &request), async {
        let mut peer = server.accept().await;
        let (head, body) = peer.request().await;
        assert_eq!(body, b"hello");
        peer.say(b"HTTP/1.1 429 Slow\r\nretry-after: 1\r\ncontent-length: 2\r\n\r\nno").await;
        head
    });
    assert!(head.starts_with("POST /v1/x HTTP/1.1\r\n"), "{head}");
    let answer = sent.unwrap();
    assert_eq!((answer.status, &answer.headers["retry-after"]), (429, &"1".parse().unwrap()));
    assert_eq!(body(answer).await.unwrap(), "no");
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_not_followed() {
    let server = Server::bind().await;
    let client = client();
    let (target, request) = (target(&format!("http://{}", server.address)), post("{}"));
    let answer = b"HTTP/1.1 307 Go\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n";
    let (sent, _peer) = tokio::join!(client.send(&target, &request), server.answer(answer));
    assert_eq!(sent.unwrap().status, 307);
}

#[tokio::test]
async fn breaks_are_told_apart() {
    for (answer, is_expected) in [
        (&b""[..], (|error| matches!(error, NetError::Closed)) as fn(&NetError) -> bool),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello", |error| matches!(error, NetError::Truncated)),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel", |error| {
            matches!(error, NetError::Truncated)
        }),
    ] {
        let server = Server::bind().await;
        let client = client();
        let (target, request) = (target(&format!("http://{}", server.address)), post("{}"));
        let (read, ()) = tokio::join!(async { body(client.send(&target, &request).await?).await }, async {
            drop(server.answer(answer).await);
        });
        let error = read.unwrap_err();
        assert!(is_expected(&error), "{answer:?}: {error:?}");
    }
}

#[tokio::test]
async fn dropping_a_call_or_a_body_closes_the_connection() {
    let server = Server::bind().await;
    let client = client();
    let (target, request) = (target(&format!("http://{}", server.address)), post("{}"));
    let mut waiting = tokio::select! {
        _ = client.send(&target, &request) => panic!("there is no answer"),
        peer = server.answer(b"") => peer,
    };
    let dropped = Instant::now();
    waiting.closed().await;
    assert!(dropped.elapsed() < Duration::from_millis(500));

    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello";
    let (sent, mut peer) = tokio::join!(client.send(&target, &request), server.answer(head));
    let mut stream = sent.unwrap().body;
    assert_eq!(stream.chunk().await.unwrap().unwrap(), "hello");
    let dropped = Instant::now();
    drop(stream);
    peer.closed().await;
    assert!(dropped.elapsed() < Duration::from_millis(500));
}
