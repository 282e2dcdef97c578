//! TLS against servers with certificates of our own authority.

use std::{io, sync::Arc, time::Duration};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{
    HandshakeKind, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer},
};
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    time::{Instant, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tollway::net::{NetError, Target, Tls};

use crate::net::{PATIENCE, Peer, Server, body, client, client_trusting, post, target};

/// An authority and a server certificate it signed.
pub struct Authority {
    pub root: CertificateDer<'static>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Authority {
    pub fn certifying(names: &[&str]) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root_key = KeyPair::generate().unwrap();
        let root = params.self_signed(&root_key).unwrap().der().clone();
        let issuer = Issuer::new(params, root_key);
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let leaf = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        Self { root, chain: vec![leaf.der().clone()], key }
    }

    pub fn acceptor(&self, protocols: &[&[u8]]) -> TlsAcceptor {
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(ring)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(self.chain.clone(), self.key.clone_key())
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }

    pub fn tls(&self) -> Tls {
        Tls::trusting([self.root.clone()]).unwrap()
    }
}

async fn accept(server: &Server, acceptor: &TlsAcceptor) -> io::Result<Peer<TlsStream<TcpStream>>> {
    let tcp = server.accept().await.stream;
    timeout(PATIENCE, acceptor.accept(tcp)).await.unwrap().map(|stream| Peer { stream })
}

fn secure(server: &Server, host: &str) -> Target {
    target(&format!("https://{host}:{}", server.address.port()))
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[tokio::test]
async fn a_trusted_server_is_called_over_tls_and_kept() {
    let authority = Authority::certifying(&["localhost", "127.0.0.1"]);
    for host in ["localhost", "127.0.0.1"] {
        let server = Server::bind().await;
        let acceptor = authority.acceptor(&[b"h2", b"http/1.1"]);
        let client = client_trusting(&authority.tls());
        let (target, request) = (secure(&server, host), post(vec![b'x'; 300_000]));
        let (first, mut peer) = tokio::join!(client.send(&target, &request), async {
            let mut peer = accept(&server, &acceptor).await.unwrap();
            assert_eq!(peer.stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
            assert_eq!(peer.request().await.1.len(), 300_000);
            peer.say(OK).await;
            peer
        });
        assert_eq!(body(first.unwrap()).await.unwrap(), "ok");
        let (second, ()) = tokio::join!(client.send(&target, &request), async {
            peer.request().await;
            peer.say(OK).await;
        });
        assert_eq!(body(second.unwrap()).await.unwrap(), "ok");
    }
}

#[tokio::test]
async fn a_second_connection_resumes_the_session() {
    let authority = Authority::certifying(&["localhost"]);
    let server = Server::bind().await;
    let acceptor = authority.acceptor(&[]);
    let tls = authority.tls();
    let mut kinds = Vec::new();
    for _ in 0..2 {
        // Another worker's client: sessions are shared, connections are not.
        let client = client_trusting(&tls);
        let (target, request) = (secure(&server, "localhost"), post("{}"));
        let (sent, peer) = tokio::join!(client.send(&target, &request), async {
            let mut peer = accept(&server, &acceptor).await.unwrap();
            peer.request().await;
            peer.say(OK).await;
            peer
        });
        body(sent.unwrap()).await.unwrap();
        kinds.push(peer.stream.get_ref().1.handshake_kind().unwrap());
    }
    assert_eq!(kinds[1], HandshakeKind::Resumed, "{kinds:?}");
}

#[tokio::test]
async fn an_untrusted_or_wrongly_named_server_is_not_called() {
    let authority = Authority::certifying(&["localhost"]);
    let acceptor = authority.acceptor(&[]);
    let other = Authority::certifying(&["localhost"]);
    for (tls, host) in [(other.tls(), "localhost"), (authority.tls(), "127.0.0.1")] {
        let server = Server::bind().await;
        let client = client_trusting(&tls);
        let (target, request) = (secure(&server, host), post("{}"));
        let (sent, accepted) = tokio::join!(client.send(&target, &request), accept(&server, &acceptor));
        assert!(matches!(sent, Err(NetError::Tls(_))), "{sent:?}");
        assert!(accepted.is_err());
    }
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_is_a_tls_error() {
    let server = Server::bind().await;
    let client = client();
    let (target, request) = (secure(&server, "127.0.0.1"), post("{}"));
    let (sent, ()) = tokio::join!(client.send(&target, &request), async {
        server.accept().await.say(b"HTTP/1.1 400 Bad\r\n\r\n").await;
    });
    let error = sent.unwrap_err();
    assert!(matches!(error, NetError::Tls(_)) && error.is_connect(), "{error:?}");
}

#[tokio::test]
async fn without_a_farewell_a_body_until_close_is_truncated() {
    let authority = Authority::certifying(&["localhost"]);
    let acceptor = authority.acceptor(&[]);
    for says_farewell in [true, false] {
        let server = Server::bind().await;
        let client = client_trusting(&authority.tls());
        let (target, request) = (secure(&server, "localhost"), post("{}"));
        let (sent, mut peer) = tokio::join!(client.send(&target, &request), async {
            let mut peer = accept(&server, &acceptor).await.unwrap();
            peer.request().await;
            peer.say(b"HTTP/1.1 200 OK\r\n\r\nall").await;
            peer
        });
        if says_farewell {
            peer.stream.shutdown().await.unwrap();
        }
        drop(peer);
        let read = body(sent.unwrap()).await;
        if says_farewell {
            assert_eq!(read.unwrap(), "all");
        } else {
            // Otherwise whoever cuts the line decides what the answer is.
            assert!(matches!(read, Err(NetError::Truncated)), "{read:?}");
        }
    }
}

#[tokio::test]
async fn chunks_over_tls_are_gathered_and_dropping_closes() {
    let authority = Authority::certifying(&["localhost"]);
    let acceptor = authority.acceptor(&[]);
    let server = Server::bind().await;
    let client = client_trusting(&authority.tls());
    let (target, request) = (secure(&server, "localhost"), post("{}"));
    let (sent, mut peer) = tokio::join!(client.send(&target, &request), async {
        let mut peer = accept(&server, &acceptor).await.unwrap();
        peer.request().await;
        peer.say(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
        peer
    });
    let mut stream = sent.unwrap().body;
    for _ in 0..100 {
        peer.say(b"a\r\n0123456789\r\n").await;
    }
    let (mut pieces, mut bytes) = (0, 0);
    while bytes < 1_000 {
        bytes += timeout(PATIENCE, stream.chunk()).await.unwrap().unwrap().unwrap().len();
        pieces += 1;
    }
    assert!(bytes == 1_000 && pieces <= 5, "{bytes} bytes in {pieces} pieces");
    let dropped = Instant::now();
    drop(stream);
    peer.closed().await;
    assert!(dropped.elapsed() < Duration::from_millis(500));
}
