//! The body of an answer over HTTP/1.1.

use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};

use crate::net::{
    error::NetError,
    http1::{
        exchange::{Line, Read},
        framing::Framing,
    },
    pool::Home,
};

/// A body being read. Dropped before its end it closes the connection; at its end the connection
/// goes home.
pub(in crate::net) struct Http1Body {
    /// What came with the head.
    first: Bytes,
    framing: Framing,
    /// None once the body is complete.
    line: Option<(Line, Home)>,
    is_kept_alive: bool,
}

impl Http1Body {
    /// Starts with what was read behind the head.
    pub(in crate::net) fn start(
        line: Line,
        home: Home,
        framing: Framing,
        is_kept_alive: bool,
        rest: &[u8],
    ) -> Result<Self, NetError> {
        let line = Some((line, home));
        let mut body = Self { first: Bytes::new(), framing, line, is_kept_alive };
        let mut first = BytesMut::with_capacity(rest.len());
        let taken = body.framing.take(rest, &mut first)?;
        body.first = first.freeze();
        body.settle(taken == rest.len());
        Ok(body)
    }

    pub(in crate::net) fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, NetError>>> {
        if !self.first.is_empty() {
            return Poll::Ready(Some(Ok(std::mem::take(&mut self.first))));
        }
        while let Some((line, _)) = &mut self.line {
            let framing = &mut self.framing;
            let mut piece = BytesMut::new();
            let read = line.poll_read(cx, |bytes| {
                piece.reserve(bytes.len());
                Ok(framing.take(bytes, &mut piece)? == bytes.len())
            });
            match ready!(read) {
                Ok(Read::Some(is_all_taken)) => self.settle(is_all_taken),
                Ok(Read::End) if self.framing == Framing::UntilClose => self.line = None,
                Ok(Read::End) | Err(NetError::Io(_)) => return self.fail(NetError::Truncated),
                Err(error) => return self.fail(error),
            }
            if !piece.is_empty() {
                return Poll::Ready(Some(Ok(piece.freeze())));
            }
        }
        Poll::Ready(None)
    }

    /// Gives the connection back once the body is complete, unless something unasked-for follows.
    fn settle(&mut self, is_all_taken: bool) {
        if !self.framing.is_done() {
            return;
        }
        if let Some((line, home)) = self.line.take()
            && self.is_kept_alive
            && is_all_taken
            && let Some(connection) = line.into_connection()
        {
            home.take_back(connection);
        }
    }

    fn fail(&mut self, error: NetError) -> Poll<Option<Result<Bytes, NetError>>> {
        self.line = None;
        Poll::Ready(Some(Err(error)))
    }
}
