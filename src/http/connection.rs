//! A client's connection, given up once the client has left.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Sleep, sleep},
};

/// How long a client that has said its goodbye may take nothing of its answer. What it still takes
/// within that is given to it; the upstream must hear that it has left within a second.
const LINGERS_FOR: Duration = Duration::from_millis(500);

/// How often in a row actix may come by without trying to read or getting rid of anything. It does so for
/// a client that has sent further ahead than it reads, without a pause: one such client would have a
/// worker for itself.
const IDLE_TURNS: u16 = 1_000;

/// A connection as actix drives it.
///
/// A client that closes its side while its answer waits for room in the kernel's buffers has left, but
/// actix would go on flushing, for as long as the kernel keeps the connection. So a write that has no
/// room fails when the client has closed its side, and everything behind it is dropped.
pub struct Connection {
    stream: TcpStream,
    has_left: bool,
    /// Set while a client that has left takes nothing.
    lingers: Option<Pin<Box<Sleep>>>,
    idle_turns: u16,
}

impl Connection {
    /// Takes over an accepted connection; pieces of an answer are sent at once.
    ///
    /// # Errors
    /// When it has broken already.
    pub fn accepted(stream: TcpStream) -> io::Result<(Self, Option<SocketAddr>)> {
        stream.set_nodelay(true)?;
        let peer = stream.peer_addr().ok();
        Ok((Self { stream, has_left: false, lingers: None, idle_turns: 0 }, peer))
    }

    /// What a write came to: one that has no room is not waited for without end.
    fn written(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            (self.lingers, self.idle_turns) = (None, 0);
            return written;
        }
        self.idle_turn()?;
        if !self.has_left {
            return written;
        }
        let lingers = self.lingers.get_or_insert_with(|| Box::pin(sleep(LINGERS_FOR)));
        lingers.as_mut().poll(cx).map(|()| Err(io::ErrorKind::BrokenPipe.into()))
    }

    fn idle_turn(&mut self) -> io::Result<()> {
        self.idle_turns += 1;
        if self.idle_turns < IDLE_TURNS {
            return Ok(());
        }
        Err(io::Error::other("the client sends far ahead of what it is answered"))
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.idle_turns = 0;
        let (before, had_room) = (buffer.filled().len(), buffer.remaining() > 0);
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.has_left |= had_room && buffer.filled().len() == before && matches!(read, Poll::Ready(Ok(())));
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.idle_turn()?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
        time::Instant,
    };

    use super::*;

    /// More than the kernel holds for one connection.
    const MUCH: usize = 64 << 20;

    /// A connection whose client has closed its side, and that client.
    async fn closed_by_its_client() -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut connection, _) = Connection::accepted(listener.accept().await.unwrap().0).unwrap();
        client.shutdown().await.unwrap();
        assert_eq!(connection.read(&mut [0; 8]).await.unwrap(), 0);
        (connection, client)
    }

    #[tokio::test]
    async fn a_client_that_has_left_and_takes_nothing_is_given_up() {
        let (mut connection, _client) = closed_by_its_client().await;
        let since = Instant::now();
        let error = connection.write_all(&vec![0; MUCH]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        assert!((LINGERS_FOR..LINGERS_FOR * 2).contains(&since.elapsed()), "{:?}", since.elapsed());
    }

    #[tokio::test]
    async fn a_client_that_has_left_may_take_what_is_there_for_it() {
        let (mut connection, mut client) = closed_by_its_client().await;
        let given = async {
            let given = connection.write_all(&vec![0; MUCH]).await;
            drop(connection);
            given
        };
        let taken = async {
            let (mut taken, mut buffer) = (0, vec![0; MUCH / 8]);
            while let Ok(read @ 1..) = client.read(&mut buffer).await {
                taken += read;
                sleep(LINGERS_FOR / 10).await;
            }
            taken
        };
        let (given, taken) = tokio::join!(given, taken);
        assert!(given.is_ok(), "{given:?}");
        assert_eq!(taken, MUCH);
    }
}
