//! A connection from an address that the guard let through.

use std::{
    io::{self, IoSlice},
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, timeout, timeout_at},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::net::{
    error::NetError,
    resolve::Resolver,
    target::{Target, TargetHost},
};

/// The shortest time an address gets while others wait behind it.
const LEAST_PER_ADDRESS: Duration = Duration::from_millis(250);

/// A connection, plain or in TLS.
pub(in crate::net) enum Connection {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Looks up, connects and greets, all within the target's connect timeout.
///
/// # Cancellation
/// Dropping it closes what was opened.
pub(in crate::net) async fn dial(
    target: &Target,
    resolver: &Resolver,
    tls: &Arc<ClientConfig>,
) -> Result<Connection, NetError> {
    let deadline = Instant::now() + target.connect_timeout();
    let dialled = timeout_at(deadline, async {
        let stream = connect(target, resolver, deadline).await?;
        stream.set_nodelay(true).map_err(NetError::Connect)?;
        if target.is_tls() { greet(target, stream, tls).await } else { Ok(Connection::Plain(stream)) }
    });
    dialled.await.unwrap_or(Err(NetError::Timeout))
}

/// Tries the addresses in order. Each but the last gets a share of the time, so that one that
/// drops packets does not use it up.
async fn connect(target: &Target, resolver: &Resolver, deadline: Instant) -> Result<TcpStream, NetError> {
    let addresses = resolver.resolve(target.host()).await?;
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for (tried, ip) in addresses.iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        let waiting = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        let share = if waiting == 1 { left } else { (left / waiting).max(LEAST_PER_ADDRESS) };
        match timeout(share, TcpStream::connect(SocketAddr::new(*ip, target.port()))).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failure = error,
            Err(_) => failure = io::ErrorKind::TimedOut.into(),
        }
    }
    resolver.forget(target.host());
    if failure.kind() == io::ErrorKind::TimedOut {
        return Err(NetError::Timeout);
    }
    Err(NetError::Connect(failure))
}

async fn greet(target: &Target, stream: TcpStream, tls: &Arc<ClientConfig>) -> Result<Connection, NetError> {
    let name = match target.host() {
        TargetHost::Name(name) => ServerName::try_from(name.clone())
            .map_err(|_| NetError::Tls("the host is no name for a certificate".to_owned()))?,
        TargetHost::Address(ip) => ServerName::from(*ip),
    };
    let connector = TlsConnector::from(Arc::clone(tls));
    let greeted = connector.connect(name, stream).await;
    let stream = greeted.map_err(|error| NetError::Tls(error.to_string()))?;
    Ok(Connection::Tls(Box::new(stream)))
}

impl Connection {
    /// Makes closing throw away what is not yet sent, so that a server sees at once that a request
    /// was broken off in the middle.
    pub(in crate::net) fn abandon(&self) {
        let stream = match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        };
        // Best effort: if the socket is gone already there is nothing to throw away.
        let _ = stream.set_zero_linger();
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
