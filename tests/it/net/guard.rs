//! What the client refuses to call, and how connecting fails.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, timeout};
use tollway::{
    domain::provider::Transport,
    net::{Client, Guard, NetError, Target, Tls},
};

use crate::net::{PATIENCE, Server, client, post};

async fn refused(client: &Client, url: &str, transport: Transport) -> NetError {
    let target = Target::parse(url, transport, Duration::from_secs(2)).unwrap();
    let sent = timeout(PATIENCE, client.send(&target, &post("{}"))).await.expect("an answer in time");
    sent.expect_err(url)
}

#[tokio::test]
async fn nothing_private_is_dialled_by_literal_or_by_name() {
    let server = Server::bind().await;
    let port = server.address.port();
    let client = Client::new(Arc::new(Guard::default()), &Tls::trusting([]).unwrap());
    for transport in [Transport::Http1, Transport::Http2] {
        for host in [
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0177.0.0.1",
            "0",
            "[::1]",
            "[::]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "[64:ff9b::7f00:1]",
            "localhost",
            "LOCALHOST",
            "169.254.169.254",
            "[fd00:ec2::254]",
            "10.1.2.3",
        ] {
            let error = refused(&client, &format!("http://{host}:{port}"), transport).await;
            assert!(matches!(error, NetError::Guard(_)), "{transport:?} {host}: {error:?}");
            assert!(error.is_connect());
        }
    }
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_a_connect_error() {
    let address = Server::bind().await.address;
    for transport in [Transport::Http1, Transport::Http2] {
        let error = refused(&client(), &format!("http://{address}"), transport).await;
        assert!(matches!(error, NetError::Connect(_)), "{transport:?}: {error:?}");
    }
}

#[tokio::test]
async fn a_name_that_is_none_cannot_be_resolved() {
    let error = refused(&client(), "http://no-such-host.invalid", Transport::Http1).await;
    assert!(matches!(error, NetError::Resolve(_)), "{error:?}");
    assert!(error.is_connect());
}

#[tokio::test]
async fn a_handshake_that_hangs_ends_with_the_connect_timeout() {
    let server = Server::bind().await;
    let client = client();
    let url = format!("https://{}", server.address);
    let target = Target::parse(&url, Transport::Http1, Duration::from_millis(100)).unwrap();
    let request = post("{}");
    let began = Instant::now();
    let (sent, mut peer) = tokio::join!(client.send(&target, &request), server.accept());
    assert!(matches!(sent, Err(NetError::Timeout)), "{sent:?}");
    assert!(began.elapsed() < Duration::from_secs(2));
    peer.closed().await;
}
