//! A TCP proxy that a test can cut, freeze and slow down: the network between the relay and what it needs.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpSocket, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    runtime::Runtime,
    sync::watch,
};

/// What happens to bytes under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// They pass, each way later by this much.
    Open(Duration),
    /// They stay where they are; connections stay open, new ones are taken.
    Frozen,
    /// Every connection is reset, new ones too.
    Cut,
}

/// A proxy on a loopback port of its own; it ends with this value.
pub struct Proxy {
    address: SocketAddr,
    line: Arc<watch::Sender<Line>>,
    runtime: Option<Runtime>,
}

impl Proxy {
    /// Starts one before `target`, all passing.
    #[must_use]
    pub fn start(target: SocketAddr) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("proxy")
            .enable_all()
            .build()
            .expect("build a runtime");
        let guard = runtime.enter();
        let socket = TcpSocket::new_v4().expect("make a socket");
        socket.bind(([127, 0, 0, 1], 0).into()).expect("bind the proxy");
        let listener = socket.listen(4_096).expect("listen");
        let address = listener.local_addr().expect("know the address");
        let line = Arc::new(watch::Sender::new(Line::Open(Duration::ZERO)));
        tokio::spawn(accept(listener, target, Arc::clone(&line)));
        drop(guard);
        Self { address, line, runtime: Some(runtime) }
    }

    /// Starts one before the server of `url`; see [`Proxy::url`].
    #[must_use]
    pub fn before(url: &str) -> Self {
        let url = url::Url::parse(url).expect("a URL");
        let port = url.port_or_known_default().expect("a URL with a port");
        let target = format!("{}:{port}", url.host_str().expect("a URL with a host"));
        let mut addresses = std::net::ToSocketAddrs::to_socket_addrs(&target).expect("resolve the target");
        Self::start(addresses.next().expect("an address"))
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `url` with this proxy in place of its server.
    #[must_use]
    pub fn url(&self, url: &str) -> String {
        let mut url = url::Url::parse(url).expect("a URL");
        url.set_host(Some("127.0.0.1")).expect("a URL with a host");
        url.set_port(Some(self.address.port())).expect("a URL with a port");
        url.into()
    }

    /// Resets every connection, and new ones as they come.
    pub fn cut(&self) {
        self.line.send_replace(Line::Cut);
    }

    /// Holds everything back.
    pub fn freeze(&self) {
        self.line.send_replace(Line::Frozen);
    }

    /// Delays each direction by `span`.
    pub fn delay(&self, span: Duration) {
        self.line.send_replace(Line::Open(span));
    }

    /// Lets everything pass again, what was frozen first; what was cut stays cut.
    pub fn restore(&self) {
        self.delay(Duration::ZERO);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn accept(listener: TcpListener, target: SocketAddr, line: Arc<watch::Sender<Line>>) {
    while let Ok((inward, _)) = listener.accept().await {
        tokio::spawn(carry(inward, target, line.subscribe()));
    }
}

async fn carry(mut inward: TcpStream, target: SocketAddr, line: watch::Receiver<Line>) {
    let _ = inward.set_nodelay(true);
    // What ends without a FIN of its own ends with a reset.
    let _ = inward.set_zero_linger();
    let mut watching = line.clone();
    let cut = async move {
        let _ = watching.wait_for(|line| *line == Line::Cut).await;
    };
    let passing = async {
        let mut line = line;
        line.wait_for(|line| *line != Line::Frozen).await.ok()?;
        let socket = TcpSocket::new_v4().ok()?;
        let _ = socket.set_nodelay(true);
        // Before connecting: the line may be cut while we do.
        let _ = socket.set_zero_linger();
        let mut outward = socket.connect(target).await.ok()?;
        // Borrowed halves: the owned ones say FIN when dropped, which would hide the reset.
        let (inward_read, inward_write) = inward.split();
        let (outward_read, outward_write) = outward.split();
        let there = pump(inward_read, outward_write, line.clone());
        let back = pump(outward_read, inward_write, line);
        // A FIN goes through as one, each way for itself; an error ends both with a reset.
        tokio::try_join!(there, back).ok()
    };
    tokio::select! {
        biased;
        () = cut => {}
        _ = passing => {}
    }
}

async fn pump(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut line: watch::Receiver<Line>,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 32_768];
    loop {
        let n = from.read(&mut buffer).await?;
        let state = *line.wait_for(|line| *line != Line::Frozen).await.map_err(std::io::Error::other)?;
        if let Line::Open(span) = state
            && !span.is_zero()
        {
            tokio::time::sleep(span).await;
        }
        if n == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..n]).await?;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::harness::upstream::{Hangup, Script, Upstream};

    async fn pair() -> (Proxy, TcpStream, TcpStream, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy::start(listener.local_addr().unwrap());
        let client = TcpStream::connect(proxy.address()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        (proxy, client, server, listener)
    }

    #[tokio::test]
    async fn it_holds_bytes_while_frozen_and_gives_them_after() {
        let (proxy, mut client, mut server, _listener) = pair().await;
        proxy.freeze();
        client.write_all(b"hello").await.unwrap();
        let mut buffer = [0; 5];
        let early = tokio::time::timeout(Duration::from_millis(100), server.read_exact(&mut buffer)).await;
        assert!(early.is_err());
        proxy.restore();
        server.read_exact(&mut buffer).await.unwrap();
        assert_eq!(&buffer, b"hello");
    }

    #[tokio::test]
    async fn it_resets_both_sides_when_cut_and_takes_new_ones_when_restored() {
        let (proxy, mut client, mut server, listener) = pair().await;
        proxy.cut();
        for side in [&mut client, &mut server] {
            assert_eq!(side.read(&mut [0; 1]).await.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
        }
        // The reset may come before connecting has come back.
        if let Ok(mut refused) = TcpStream::connect(proxy.address()).await {
            assert!(refused.read(&mut [0; 1]).await.is_err());
        }
        proxy.restore();
        let mut again = TcpStream::connect(proxy.address()).await.unwrap();
        again.write_all(b"x").await.unwrap();
        let (mut other, _) = listener.accept().await.unwrap();
        other.read_exact(&mut [0; 1]).await.unwrap();
    }

    #[tokio::test]
    async fn it_delays_each_way() {
        let (proxy, mut client, mut server, _listener) = pair().await;
        proxy.delay(Duration::from_millis(60));
        let since = Instant::now();
        client.write_all(b"x").await.unwrap();
        server.read_exact(&mut [0; 1]).await.unwrap();
        assert!(since.elapsed() >= Duration::from_millis(60));
    }

    #[tokio::test]
    async fn a_fin_passes_as_a_fin_and_a_reset_as_a_reset() {
        for how in [Hangup::Fin, Hangup::Reset] {
            let upstream = Upstream::start();
            upstream.then(Script::silent());
            let proxy = Proxy::start(upstream.address());
            let mut client = TcpStream::connect(proxy.address()).await.unwrap();
            client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
            let request = upstream.next_request().await;
            if how == Hangup::Reset {
                client.set_zero_linger().unwrap();
                drop(client);
            } else {
                client.shutdown().await.unwrap();
            }
            assert_eq!(request.wait_for_hangup().await.how, how);
        }
    }
}
