//! One request and its answer's head over one connection.

use std::{
    cell::RefCell,
    future::poll_fn,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes, BytesMut};
use http::Method;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::net::{
    dial::Connection,
    error::NetError,
    http1::{
        body::Http1Body,
        head::{Head, HeadReader},
    },
    pool::Home,
};

/// Room for one read. A large one gathers what a fast server sent in many pieces.
const SCRATCH: usize = 64 << 10;

thread_local! {
    /// One buffer per thread, filled only when a socket has something, so that ten thousand idle
    /// streams hold no buffer at all.
    static SCRATCH_BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; SCRATCH].into_boxed_slice());
}

/// Writes the request, reads the head of the answer and leaves the rest to the body.
///
/// # Errors
/// [`NetError::Closed`] exactly when the connection ended and not one byte of an answer was seen.
///
/// # Cancellation
/// Dropping it closes the connection.
pub(in crate::net) async fn exchange(
    connection: Connection,
    home: Home,
    head: Bytes,
    method: &Method,
    body: Bytes,
) -> Result<(Head, Http1Body), NetError> {
    let upload = Upload { head, body, state: Sending::Data };
    let mut line = Line { connection: Some(connection), upload };
    let mut reader = HeadReader::default();
    let mut rest = BytesMut::new();
    let is_bodiless = *method == Method::HEAD;
    let mut head = poll_fn(|cx| line.poll_head(cx, &mut reader, &mut rest, is_bodiless)).await?;
    if head.status >= 300 {
        line.upload.give_up();
    }
    let framing = std::mem::replace(&mut head.framing, super::framing::Framing::Length(0));
    let body = Http1Body::start(line, home, framing, head.is_kept_alive, &rest)?;
    Ok((head, body))
}

/// A connection with what is still to be written on it.
pub(in crate::net) struct Line {
    /// None only once it was taken out.
    connection: Option<Connection>,
    upload: Upload,
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some(connection) = &self.connection
            && self.upload.state != Sending::Done
        {
            connection.abandon();
        }
    }
}

impl Line {
    /// The connection, if the request was written to its end.
    pub(in crate::net) fn into_connection(mut self) -> Option<Connection> {
        if self.upload.state == Sending::Done { self.connection.take() } else { None }
    }

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        reader: &mut HeadReader,
        rest: &mut BytesMut,
        is_bodiless: bool,
    ) -> Poll<Result<Head, NetError>> {
        loop {
            // Reading goes on beside writing: a server may refuse a large body before its end.
            let read = self.poll_read(cx, |bytes| {
                let found = reader.push(bytes, is_bodiless)?;
                Ok(found.map(|(head, used)| {
                    rest.extend_from_slice(&bytes[used..]);
                    head
                }))
            });
            match ready!(read) {
                Ok(Read::Some(Some(head))) => return Poll::Ready(Ok(head)),
                Ok(Read::Some(None)) => {}
                Ok(Read::End) | Err(NetError::Io(_)) if reader.is_untouched() => {
                    return Poll::Ready(Err(NetError::Closed));
                }
                Ok(Read::End) => {
                    return Poll::Ready(Err(NetError::Protocol("the head of the answer broke off")));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Writes what can be written, then reads once and shows what came to `look`.
    pub(in crate::net) fn poll_read<T>(
        &mut self,
        cx: &mut Context<'_>,
        look: impl FnOnce(&[u8]) -> Result<T, NetError>,
    ) -> Poll<Result<Read<T>, NetError>> {
        let Some(connection) = &mut self.connection else {
            return Poll::Ready(Ok(Read::End));
        };
        self.upload.poll(connection, cx);
        SCRATCH_BUFFER.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(scratch);
            let read = Pin::new(connection).poll_read(cx, &mut buffer);
            Poll::Ready(match ready!(read) {
                Err(error) => Err(NetError::Io(error)),
                Ok(()) if buffer.filled().is_empty() => Ok(Read::End),
                Ok(()) => look(buffer.filled()).map(Read::Some),
            })
        })
    }
}

/// What one read gave.
pub(in crate::net) enum Read<T> {
    Some(T),
    /// The server will send no more.
    End,
}

/// A request on its way out.
struct Upload {
    head: Bytes,
    body: Bytes,
    state: Sending,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sending {
    Data,
    /// All is handed over, a TLS record may not be.
    Flush,
    Done,
    /// The server takes no more, or needs no more. Its answer may still come.
    GivenUp,
}

impl Upload {
    fn give_up(&mut self) {
        if self.state != Sending::Done {
            self.state = Sending::GivenUp;
            self.head = Bytes::new();
            self.body = Bytes::new();
        }
    }

    /// Writes until the connection takes no more.
    fn poll(&mut self, connection: &mut Connection, cx: &mut Context<'_>) {
        let polled = match self.state {
            Sending::Data => self.poll_data(connection, cx),
            Sending::Flush => Poll::Ready(Ok(())),
            Sending::Done | Sending::GivenUp => return,
        };
        let flushed = match polled {
            Poll::Ready(Ok(())) => {
                self.state = Sending::Flush;
                Pin::new(connection).poll_flush(cx)
            }
            stopped => stopped,
        };
        match flushed {
            Poll::Ready(Ok(())) => self.state = Sending::Done,
            // An answer sent before the server closed its side is still there to be read.
            Poll::Ready(Err(_)) => self.give_up(),
            Poll::Pending => {}
        }
    }

    fn poll_data(&mut self, connection: &mut Connection, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.head.has_remaining() || self.body.has_remaining() {
            let pieces = [IoSlice::new(&self.head), IoSlice::new(&self.body)];
            let first = usize::from(self.head.is_empty());
            let written = ready!(Pin::new(&mut *connection).poll_write_vectored(cx, &pieces[first..]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            let of_head = written.min(self.head.len());
            self.head.advance(of_head);
            self.body.advance(written - of_head);
        }
        // The body is freed as soon as it is sent.
        self.head = Bytes::new();
        self.body = Bytes::new();
        Poll::Ready(Ok(()))
    }
}
