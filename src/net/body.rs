//! The body of an answer, piece by piece.

use std::{
    fmt,
    future::poll_fn,
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;

use crate::net::{decode::Decoder, error::NetError, http1::Http1Body, http2::Http2Body};

/// A body being read. Pieces are what the network gave, decoded; their borders mean nothing.
///
/// # Cancellation
/// Dropping it before its end closes the connection, so the server sees at once that nobody reads.
pub struct Body {
    source: Source,
    /// Where the server compressed.
    decoder: Option<Box<Decoder>>,
}

/// Where the pieces come from.
pub(in crate::net) enum Source {
    Done,
    Http1(Box<Http1Body>),
    Http2(Box<Http2Body>),
}

impl Body {
    /// Polls for the next piece, never an empty one. After the end or an error: `None`.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, NetError>>> {
        loop {
            let read = match ready!(self.source.poll_chunk(cx)) {
                Some(Ok(piece)) => self.decode(piece),
                Some(Err(error)) => Err(error),
                None => {
                    self.source = Source::Done;
                    let Some(mut decoder) = self.decoder.take() else {
                        return Poll::Ready(None);
                    };
                    return Poll::Ready(decoder.finish().err().map(Err));
                }
            };
            match read {
                Ok(piece) if piece.is_empty() => {}
                Ok(piece) => return Poll::Ready(Some(Ok(piece))),
                Err(error) => {
                    (self.source, self.decoder) = (Source::Done, None);
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }

    fn decode(&mut self, piece: Bytes) -> Result<Bytes, NetError> {
        match &mut self.decoder {
            Some(decoder) => decoder.push(&piece),
            None => Ok(piece),
        }
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

    /// A body of either transport, decoded as its headers say.
    pub(in crate::net) fn new(source: Source, headers: &mut HeaderMap) -> Result<Self, NetError> {
        let decoder = Decoder::for_headers(headers)?.map(Box::new);
        Ok(Self { source, decoder })
    }
}

impl Source {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, NetError>>> {
        match self {
            Self::Done => Poll::Ready(None),
            Self::Http1(body) => body.poll_chunk(cx),
            Self::Http2(body) => body.poll_chunk(cx),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Body(…)")
    }
}
