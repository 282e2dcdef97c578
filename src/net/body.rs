//! The body of an answer, piece by piece.

use std::{
    fmt,
    future::poll_fn,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};

use crate::net::{error::NetError, http1::Http1Body, http2::Http2Body};

/// A body being read. Pieces are what the network gave, decoded; their borders mean nothing.
///
/// # Cancellation
/// Dropping it before its end closes the connection, so the server sees at once that nobody reads.
pub struct Body(Source);

enum Source {
    Done,
    Http1(Box<Http1Body>),
    Http2(Http2Body),
}

impl Body {
    /// Polls for the next piece, never an empty one. After the end or an error: `None`.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, NetError>>> {
        let polled = match &mut self.0 {
            Source::Done => Poll::Ready(None),
            Source::Http1(body) => body.poll_chunk(cx),
            Source::Http2(body) => body.poll_chunk(cx),
        };
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.0 = Source::Done;
        }
        polled
    }

    /// The next piece; `None` at the end.
    pub async fn chunk(&mut self) -> Option<Result<Bytes, NetError>> {
        poll_fn(|cx| self.poll_chunk(cx)).await
    }

    /// The whole body.
    ///
    /// # Errors
    /// [`NetError::TooLarge`] beyond `limit` bytes, else what reading met.
    pub async fn collect(mut self, limit: usize) -> Result<Bytes, NetError> {
        let Some(first) = self.chunk().await.transpose()? else {
            return Ok(Bytes::new());
        };
        if first.len() > limit {
            return Err(NetError::TooLarge { limit });
        }
        let Some(second) = self.chunk().await.transpose()? else {
            return Ok(first);
        };
        let mut whole = BytesMut::from(first);
        let mut next = Some(second);
        while let Some(piece) = next {
            if whole.len() + piece.len() > limit {
                return Err(NetError::TooLarge { limit });
            }
            whole.extend_from_slice(&piece);
            next = self.chunk().await.transpose()?;
        }
        Ok(whole.freeze())
    }

    pub(in crate::net) fn from_http1(body: Http1Body) -> Self {
        Self(Source::Http1(Box::new(body)))
    }

    pub(in crate::net) fn from_http2(body: Http2Body) -> Self {
        Self(Source::Http2(body))
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Body(…)")
    }
}
