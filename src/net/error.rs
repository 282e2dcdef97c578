//! What can go wrong between the first lookup and the last byte of a body.

use std::io;

use crate::net::guard::Forbidden;

/// Why a request got no answer, or an answer no end. Prints no URL, header or body: those may hold
/// a secret.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// The address is one that must not be called.
    #[error("{0}")]
    Guard(#[from] Forbidden),
    /// The name has no address.
    #[error("the name could not be resolved: {0}")]
    Resolve(io::Error),
    /// No address took the connection.
    #[error("the connection was not taken: {0}")]
    Connect(io::Error),
    /// No connection came about in time.
    #[error("no connection within the connect timeout")]
    Timeout,
    /// The TLS handshake failed, or TLS could not be set up.
    #[error("TLS failed: {0}")]
    Tls(String),
    /// The request cannot be sent as it is.
    #[error("the request cannot be sent: {0}")]
    InvalidRequest(&'static str),
    /// The server does not keep to HTTP.
    #[error("the server broke the protocol: {0}")]
    Protocol(&'static str),
    /// The server closed before the head of its answer.
    #[error("the server closed the connection before it answered")]
    Closed,
    /// The body ended before its announced end.
    #[error("the answer ended before it was complete")]
    Truncated,
    /// The head, or a collected body, is longer than allowed.
    #[error("the answer is larger than {limit} bytes")]
    TooLarge {
        /// The bound, in bytes.
        limit: usize,
    },
    /// The content encoding is unknown, damaged, or expands too far.
    #[error("the answer could not be decoded: {0}")]
    Decode(&'static str),
    /// The connection failed after it was made.
    #[error("the connection failed: {0}")]
    Io(io::Error),
}

impl NetError {
    /// Whether no connection came about: nothing of the request was sent.
    #[must_use]
    pub const fn is_connect(&self) -> bool {
        matches!(self, Self::Guard(_) | Self::Resolve(_) | Self::Connect(_) | Self::Tls(_))
            || self.is_timeout()
    }

    /// Whether the connect timeout ran out.
    #[must_use]
    pub const fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout)
    }

    /// Whether a body stopped in the middle.
    #[must_use]
    pub const fn is_truncated(&self) -> bool {
        matches!(self, Self::Truncated)
    }
}
