//! The client of one worker.

use std::{rc::Rc, sync::Arc};

use crate::net::{
    body::Body,
    error::NetError,
    guard::Guard,
    http2::Http2Client,
    message::{Request, Response},
    target::Target,
    tls::Tls,
};

/// One worker's client: its connections and lookups are its own, so nothing on the path is locked
/// or shared between threads. Cloning shares them within the thread.
#[derive(Clone)]
pub struct Client(Rc<Parts>);

struct Parts {
    http2: Http2Client,
}

impl Client {
    /// A client without connections; they are made inside the runtime that sends.
    #[must_use]
    pub fn new(guard: Arc<Guard>, tls: &Tls) -> Self {
        Self(Rc::new(Parts { http2: Http2Client::new(guard, tls.clone()) }))
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
        let (status, headers, body) = self.0.http2.send(target, request).await?;
        Ok(Response { status, headers, body: Body::from_http2(body) })
    }
}
