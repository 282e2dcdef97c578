//! The guarded client against real sockets: servers that are written byte by byte.

mod cancel;
mod compressed;
mod connections;
mod framing;
mod guard;
mod hostile;
mod http2;
mod tls;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tollway::{
    domain::provider::Transport,
    net::{Client, Guard, GuardConfig, NetError, Request, Response, Target, Tls},
};

/// Nothing in these tests takes this long unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// A client that may call this machine.
pub fn client() -> Client {
    client_trusting(&Tls::trusting([]).unwrap())
}

pub fn client_trusting(tls: &Tls) -> Client {
    let allow = vec!["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()];
    Client::new(Arc::new(Guard::new(GuardConfig { allow })), tls)
}

pub fn target(url: &str) -> Target {
    Target::parse(url, Transport::Http1, Duration::from_secs(2)).unwrap()
}

pub fn post(body: impl Into<Bytes>) -> Request {
    Request { method: Method::POST, path: "/v1/x".to_owned(), headers: HeaderMap::new(), body: body.into() }
}

/// A port on which each connection is played by the test.
pub struct Server {
    listener: TcpListener,
    pub address: SocketAddr,
}

impl Server {
    pub async fn bind() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        Self { listener, address }
    }

    pub fn target(&self) -> Target {
        target(&format!("http://{}", self.address))
    }

    pub async fn accept(&self) -> Peer<TcpStream> {
        let (stream, _) = timeout(PATIENCE, self.listener.accept()).await.unwrap().unwrap();
        stream.set_nodelay(true).unwrap();
        Peer { stream }
    }

    /// Accepts, reads a request and answers it; the connection stays open.
    pub async fn answer(&self, answer: &[u8]) -> Peer<TcpStream> {
        let mut peer = self.accept().await;
        peer.request().await;
        peer.say(answer).await;
        peer
    }
}

/// The server's side of a connection.
pub struct Peer<S> {
    pub stream: S,
}

impl<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin> Peer<S> {
    /// Reads one request, its head and as much body as it announces.
    pub async fn request(&mut self) -> (String, Vec<u8>) {
        timeout(PATIENCE, async {
            let mut read = Vec::new();
            let end = loop {
                if let Some(end) = memchr::memmem::find(&read, b"\r\n\r\n") {
                    break end + 4;
                }
                assert_ne!(self.stream.read_buf(&mut read).await.unwrap(), 0, "no request");
            };
            let head = String::from_utf8(read[..end].to_vec()).unwrap();
            let length: usize = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |length| length.parse().unwrap());
            while read.len() < end + length {
                assert_ne!(self.stream.read_buf(&mut read).await.unwrap(), 0, "no whole body");
            }
            assert_eq!(read.len(), end + length, "one request at a time");
            (head, read.split_off(end))
        })
        .await
        .expect("a request in time")
    }

    pub async fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// Waits until the client closes, by FIN or RST, whatever it still sends.
    pub async fn closed(&mut self) {
        timeout(PATIENCE, async {
            let mut sink = [0; 4096];
            while matches!(self.stream.read(&mut sink).await, Ok(read) if read > 0) {}
        })
        .await
        .expect("the client closes");
    }
}

/// The whole body of an answer.
pub async fn body(answer: Response) -> Result<Bytes, NetError> {
    timeout(PATIENCE, answer.body.collect(1 << 20)).await.expect("a body in time")
}

/// Sends to a server that answers with these bytes and then closes; the status and the body.
pub async fn exchange(answer: &[u8]) -> Result<(u16, Bytes), NetError> {
    let server = Server::bind().await;
    let client = client();
    let (read, ()) = tokio::join!(
        async {
            let answer = client.send(&server.target(), &post("{}")).await?;
            let status = answer.status;
            Ok((status, body(answer).await?))
        },
        async { drop(server.answer(answer).await) }
    );
    read
}
