//! The HTTP/2 transport: reqwest, one client per worker, behind the guard.
//!
//! Over `https` the server chooses HTTP/2 or HTTP/1.1; over `http` reqwest speaks HTTP/1.1, which
//! is how the two clients are compared.

use std::{
    cell::RefCell,
    collections::HashMap,
    error::Error as _,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use http::{HeaderMap, HeaderValue, header};
use reqwest::Url;

use crate::net::{
    error::NetError,
    guard::{Forbidden, Guard},
    message::Request,
    pool::{IDLE_FOR, MAX_IDLE},
    resolve::GuardedDns,
    target::{Target, TargetHost},
    tls::Tls,
};

/// How much is gathered before it is handed on.
const GATHER: usize = 24 << 10;
/// Turns given to the connection's task per piece, so that an endless stream still moves on.
const MAX_TURNS: u32 = 200;

/// reqwest's clients of a worker: one for each connect timeout, which reqwest fixes per client.
pub(in crate::net) struct Http2Client {
    guard: Arc<Guard>,
    tls: Tls,
    clients: RefCell<HashMap<Duration, reqwest::Client>>,
}

impl Http2Client {
    pub(in crate::net) fn new(guard: Arc<Guard>, tls: Tls) -> Self {
        Self { guard, tls, clients: RefCell::default() }
    }

    /// Sends and returns at the response head.
    pub(in crate::net) async fn send(
        &self,
        target: &Target,
        request: &Request,
    ) -> Result<(u16, HeaderMap, Http2Body), NetError> {
        if let TargetHost::Address(ip) = target.host() {
            // reqwest dials literals without asking its resolver.
            self.guard.check_ip(*ip)?;
        }
        let url = format!("{}{}{}", target.origin(), target.prefix(), request.path);
        let url = Url::parse(&url).map_err(|_| NetError::InvalidRequest("the path is no path"))?;
        let mut headers = request.headers.clone();
        headers.entry(header::ACCEPT_ENCODING).or_insert(HeaderValue::from_static("identity"));
        for ours in [header::HOST, header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION] {
            headers.remove(ours);
        }
        let answer = self
            .client(target.connect_timeout())?
            .request(request.method.clone(), url)
            .headers(headers)
            .body(request.body.clone())
            .send()
            .await
            .map_err(|error| net_error(&error, true))?;
        let status = answer.status().as_u16();
        let headers = answer.headers().clone();
        Ok((status, headers, Http2Body::new(answer)))
    }

    fn client(&self, connect: Duration) -> Result<reqwest::Client, NetError> {
        if let Some(client) = self.clients.borrow().get(&connect) {
            return Ok(client.clone());
        }
        #[expect(clippy::disallowed_methods, reason = "this is the guarded client")]
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .retry(reqwest::retry::never())
            .dns_resolver(Arc::new(GuardedDns(Arc::clone(&self.guard))))
            .tls_backend_preconfigured(self.tls.http2())
            .connect_timeout(connect)
            .pool_idle_timeout(IDLE_FOR)
            .pool_max_idle_per_host(MAX_IDLE)
            .tcp_nodelay(true)
            .build()
            .map_err(|error| net_error(&error, true))?;
        self.clients.borrow_mut().insert(connect, client.clone());
        Ok(client)
    }
}

/// A body that reqwest reads, gathered: its connection's task hands over one frame at a time, and
/// each alone would cost the server a write.
pub(in crate::net) struct Http2Body {
    frames: Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>>>>,
    held: BytesMut,
    turns: u32,
    is_ended: bool,
    /// Given once what is held is given.
    failure: Option<NetError>,
}

impl Http2Body {
    fn new(answer: reqwest::Response) -> Self {
        Self {
            frames: Box::pin(answer.bytes_stream()),
            held: BytesMut::new(),
            turns: 0,
            is_ended: false,
            failure: None,
        }
    }

    pub(in crate::net) fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, NetError>>> {
        let before = self.held.len();
        while !self.is_ended && self.held.len() < GATHER {
            match self.frames.as_mut().poll_next(cx) {
                Poll::Ready(Some(Ok(piece))) => self.held.extend_from_slice(&piece),
                Poll::Ready(None) => self.is_ended = true,
                Poll::Ready(Some(Err(error))) => {
                    self.is_ended = true;
                    self.failure = Some(net_error(&error, false));
                }
                Poll::Pending if self.held.is_empty() => return Poll::Pending,
                Poll::Pending if self.held.len() > before && self.turns < MAX_TURNS => {
                    self.turns += 1;
                    // Wakes us after the connection's task has had its turn.
                    let _ = pin!(tokio::task::yield_now()).poll(cx);
                    return Poll::Pending;
                }
                Poll::Pending => break,
            }
        }
        self.turns = 0;
        if !self.held.is_empty() {
            return Poll::Ready(Some(Ok(self.held.split().freeze())));
        }
        Poll::Ready(self.failure.take().map(Err))
    }
}

/// What reqwest's error means here; its own text is dropped, as it prints the URL.
fn net_error(error: &reqwest::Error, is_before_head: bool) -> NetError {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(forbidden) = inner.downcast_ref::<Forbidden>() {
            return NetError::Guard(*forbidden);
        }
        if let Some(NetError::Guard(forbidden)) = inner.downcast_ref::<NetError>() {
            return NetError::Guard(*forbidden);
        }
        cause = inner.source();
    }
    if error.is_connect() && error.is_timeout() {
        return NetError::Timeout;
    }
    if error.is_connect() {
        return NetError::Connect(std::io::Error::other("no address took it"));
    }
    if error.is_builder() {
        return NetError::InvalidRequest("it could not be built");
    }
    if is_before_head { NetError::Closed } else { NetError::Truncated }
}
