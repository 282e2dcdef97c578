//! A request and its answer, the same for both transports.

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, Method};

use crate::net::body::Body;

/// What is sent to a [`Target`](crate::net::Target).
///
/// `host`, `content-length`, `transfer-encoding` and `connection` are the client's own: values
/// given here are ignored. `accept-encoding: identity` is added unless the caller says otherwise.
#[derive(Clone)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// Path and query below the target's prefix, starting with `/`; may hold a secret, so it is
    /// never printed by this floor.
    pub path: String,
    /// The headers; may hold a secret.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

/// An answer whose head has arrived.
pub struct Response {
    /// The status, never 1xx.
    pub status: u16,
    /// The headers; `content-encoding` and `content-length` are gone where the body was decoded.
    pub headers: HeaderMap,
    /// The rest.
    pub body: Body,
}

// Both print nothing that came from outside: a path or a header may hold a key, and an answer may
// echo it.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({}, {} bytes)", self.method, self.body.len())
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Response({})", self.status)
    }
}
