//! The client of one worker.

use std::{rc::Rc, sync::Arc};

use bytes::Bytes;

use crate::{
    domain::provider::Transport,
    net::{
        body::{Body, Source},
        dial::{Connection, dial},
        error::NetError,
        guard::Guard,
        http1::{Head, encode, exchange},
        http2::Http2Client,
        message::{Request, Response},
        pool::Pool,
        resolve::Resolver,
        target::Target,
        tls::Tls,
    },
};

/// One worker's client: its connections and lookups are its own, so nothing on the path is locked
/// or shared between threads. Cloning shares them within the thread.
#[derive(Clone)]
pub struct Client(Rc<Parts>);

struct Parts {
    resolver: Resolver,
    pool: Pool,
    tls: Tls,
    http2: Http2Client,
}

impl Client {
    /// A client without connections; they are made inside the runtime that sends.
    #[must_use]
    pub fn new(guard: Arc<Guard>, tls: &Tls) -> Self {
        Self(Rc::new(Parts {
            resolver: Resolver::new(Arc::clone(&guard)),
            pool: Pool::new(),
            tls: tls.clone(),
            http2: Http2Client::new(guard, tls.clone()),
        }))
    }

    /// Sends a request and returns when the head of its answer is there.
    ///
    /// A request whose kept connection turns out to be closed before anything of an answer was
    /// seen is sent once more, on a new connection. Only the connect timeout is kept here; how long
    /// an answer may take is the caller's decision.
    ///
    /// # Errors
    /// [`NetError`]; `is_connect` tells whether nothing was sent.
    ///
    /// # Cancellation
    /// Dropping the future closes its connection at once, in every phase.
    pub async fn send(&self, target: &Target, request: &Request) -> Result<Response, NetError> {
        match target.transport() {
            Transport::Http1 => self.send_http1(target, request).await,
            Transport::Http2 => {
                // Boxed, like dialling below: a call over a kept connection needs no room for it.
                let (status, mut headers, body) = Box::pin(self.0.http2.send(target, request)).await?;
                let body = Body::new(Source::Http2(Box::new(body)), &mut headers)?;
                Ok(Response { status, headers, body })
            }
        }
    }

    async fn send_http1(&self, target: &Target, request: &Request) -> Result<Response, NetError> {
        let head = encode(target, request)?;
        if let Some(kept) = self.0.pool.take(target) {
            match self.exchange(kept, target, request, head.clone()).await {
                // The server closed it just as we wrote; nothing of an answer was seen.
                Err(NetError::Closed) => {}
                answered => return answered,
            }
        }
        let fresh = Box::pin(dial(target, &self.0.resolver, self.0.tls.http1())).await?;
        self.exchange(fresh, target, request, head).await
    }

    async fn exchange(
        &self,
        connection: Connection,
        target: &Target,
        request: &Request,
        head: Bytes,
    ) -> Result<Response, NetError> {
        let home = self.0.pool.home(target);
        let body = request.body.clone();
        let (head, body) = exchange(connection, home, head, &request.method, body).await?;
        let Head { status, mut headers, .. } = head;
        let body = Body::new(Source::Http1(Box::new(body)), &mut headers)?;
        Ok(Response { status, headers, body })
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client(…)")
    }
}
