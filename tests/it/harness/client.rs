//! Clients for tests: an ordinary one, and a bare socket for what ordinary clients do not do.

use std::{
    net::SocketAddr,
    sync::LazyLock,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::StreamExt;
use reqwest::{Method, StatusCode, header::HeaderMap};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Longer than any answer in a test takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes an ordinary HTTP client with a connection pool of its own.
pub fn http_client() -> reqwest::Client {
    static PROVIDER: LazyLock<()> = LazyLock::new(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    LazyLock::force(&PROVIDER);
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(PATIENCE)
        .build()
        .expect("build a client")
}

/// A client of one server with one access token.
#[derive(Clone)]
pub struct Caller {
    http: reqwest::Client,
    base: String,
    token: Option<String>,
}

impl Caller {
    /// Calls `base` (`http://host:port`) with `token`; none: without credential.
    pub fn new(base: &str, token: Option<&str>) -> Self {
        Self { http: http_client(), base: base.to_owned(), token: token.map(str::to_owned) }
    }

    /// The same connections with another access token.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    /// A request to be sent by [`Answer::of`] or in other ways.
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    /// GET, whole.
    pub async fn get(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::GET, path)).await
    }

    /// POST of JSON, whole.
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        Answer::of(self.request(Method::POST, path).json(body)).await
    }

    /// DELETE, whole.
    pub async fn delete(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::DELETE, path)).await
    }

    /// A chat request, whole, streamed or not as `body` says.
    pub async fn chat(&self, body: &Value) -> Answer {
        self.post("/v1/chat/completions", body).await
    }

    /// A chat request whose answer is read piece by piece.
    pub async fn chat_stream(&self, body: &Value) -> Pieces {
        let sent = self.request(Method::POST, "/v1/chat/completions").json(body).send().await;
        let response = sent.expect("the server answers");
        Pieces {
            status: response.status(),
            headers: response.headers().clone(),
            body: Box::pin(response.bytes_stream()),
        }
    }
}

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body as received.
    pub body: Bytes,
    /// From sending to the last byte.
    pub took: Duration,
}

impl Answer {
    /// Sends and reads to the end.
    ///
    /// # Panics
    /// When the server does not answer or breaks off; [`Answer::try_of`] returns that.
    pub async fn of(request: reqwest::RequestBuilder) -> Self {
        Self::try_of(request).await.expect("the server answers whole")
    }

    /// As [`Answer::of`], for tests in which the server may be away.
    pub async fn try_of(request: reqwest::RequestBuilder) -> reqwest::Result<Self> {
        let since = Instant::now();
        let response = request.send().await?;
        let (status, headers) = (response.status(), response.headers().clone());
        Ok(Self { status, headers, body: response.bytes().await?, took: since.elapsed() })
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// When it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The same answer, for chaining.
    ///
    /// # Panics
    /// When the status is another.
    pub fn expect_status(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{}", self.text());
        self
    }

    /// The `data:` payloads of an event stream, `[DONE]` included.
    pub fn events(&self) -> Vec<String> {
        self.text()
            .lines()
            .filter_map(|line| line.strip_prefix("data:"))
            .map(|data| data.trim().into())
            .collect()
    }
}

/// An answer read piece by piece.
pub struct Pieces {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    body: std::pin::Pin<Box<dyn futures_util::Stream<Item = reqwest::Result<Bytes>> + Send>>,
}

impl Pieces {
    /// The next piece; none at the end.
    pub async fn next(&mut self) -> Option<reqwest::Result<Bytes>> {
        self.body.next().await
    }

    /// Everything up to and including the first `needle`, and what came with it.
    ///
    /// # Panics
    /// When the answer ends before.
    pub async fn read_until(&mut self, needle: &str) -> String {
        let mut seen = Vec::new();
        while memchr::memmem::find(&seen, needle.as_bytes()).is_none() {
            let piece = self.next().await.unwrap_or_else(|| {
                panic!("the answer ends without {needle:?}: {}", String::from_utf8_lossy(&seen))
            });
            seen.extend_from_slice(&piece.expect("the answer goes on"));
        }
        String::from_utf8_lossy(&seen).into_owned()
    }
}

/// A bare connection: sends what it is told, half-closes, resets.
pub struct RawClient {
    stream: TcpStream,
}

impl RawClient {
    /// Connects.
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("connect");
        stream.set_nodelay(true).expect("send at once");
        Self { stream }
    }

    /// Speaks over a connection that stands.
    pub fn over(stream: TcpStream) -> Self {
        Self { stream }
    }

    /// Connects and sends a whole chat request.
    pub async fn chat(address: SocketAddr, token: &str, body: &Value) -> Self {
        let mut client = Self::connect(address).await;
        client.send(chat_request(token, body).as_bytes()).await;
        client
    }

    /// Sends these bytes in one write.
    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("send");
    }

    /// As [`RawClient::send`], when the server may have left.
    ///
    /// # Errors
    /// When it has.
    pub async fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Reads until `needle` has come and returns all that came.
    ///
    /// # Panics
    /// When the connection ends before, or nothing comes in time.
    pub async fn read_until(&mut self, needle: &str) -> String {
        let mut seen = Vec::new();
        while memchr::memmem::find(&seen, needle.as_bytes()).is_none() {
            let read = tokio::time::timeout(PATIENCE, self.stream.read_buf(&mut seen)).await;
            let n = read.expect("something comes").expect("the connection lives");
            assert!(n > 0, "the connection ends without {needle:?}: {}", String::from_utf8_lossy(&seen));
        }
        String::from_utf8_lossy(&seen).into_owned()
    }

    /// Reads to the end of the connection.
    ///
    /// # Errors
    /// When it ends by a reset.
    pub async fn read_to_end(&mut self) -> std::io::Result<Vec<u8>> {
        let mut seen = Vec::new();
        self.stream.read_to_end(&mut seen).await?;
        Ok(seen)
    }

    /// Reads to the end of the connection, be it a reset.
    pub async fn read_what_comes(&mut self) -> Vec<u8> {
        let mut seen = Vec::new();
        let _ = self.stream.read_to_end(&mut seen).await;
        seen
    }

    /// Says that it will send no more, and goes on listening.
    pub async fn half_close(&mut self) {
        self.stream.shutdown().await.expect("half-close");
    }

    /// Leaves in the ordinary way.
    pub fn close(self) {
        drop(self.stream);
    }

    /// Leaves by a reset.
    pub fn reset(self) {
        self.stream.set_zero_linger().expect("ask for a reset");
    }
}

/// The bytes of a chat request.
pub fn chat_request(token: &str, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: tollway\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}
