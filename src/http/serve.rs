//! The listener and its workers.

use std::{
    future::ready,
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use actix_http::{HttpService, error::DispatchError};
use actix_server::{Server, ServerHandle};
use actix_service::{IntoServiceFactory, ServiceFactoryExt, fn_service, map_config};
use actix_web::{App, dev::AppConfig};
use tokio::net::{TcpSocket, TcpStream};

use super::{
    Surfaces, configure,
    connection::Connection,
    cors,
    ops::{self, Ops},
};
use crate::telemetry::{Metrics, labels::Refusal};

/// Connections that may wait to be accepted; the kernel's own limit may be lower.
const BACKLOG: u32 = 8_192;
/// A client that takes nothing of its answer for so long is cut; without this it would hold its
/// upstream call and its slot for ever. Accepted connections inherit it from the listener.
#[cfg(target_os = "linux")]
const STALLED_READER_MS: u32 = 60_000;
/// Threads of each worker for blocking work; the request path has none of it.
const BLOCKING_THREADS: usize = 2;
/// How long a connection that is to be closed may go on with what its client still sends.
const CLOSES_WITHIN: Duration = Duration::from_secs(1);

/// How the server treats its clients.
#[derive(Debug, Clone)]
pub struct ServeConfig {
    /// Worker threads; 0: one for each core.
    pub workers: usize,
    /// How long an idle connection is kept.
    pub keep_alive: Duration,
    /// How long a client may take for a request's head.
    pub header_timeout: Duration,
    /// Connections at once, for each worker.
    pub max_connections: usize,
    /// How long a stopping server waits for answers.
    pub grace_period: Duration,
    /// Origins whose browsers may call; `*`: all.
    pub cors_origins: Arc<[String]>,
}

/// Stops a server.
#[derive(Debug, Clone)]
pub struct ServeHandle(ServerHandle);

impl ServeHandle {
    /// Stops accepting, lets answers finish within the grace period, cuts what is left. Returns when
    /// the workers have ended or are about to.
    pub async fn stop(&self) {
        self.0.stop(true).await;
    }
}

/// Binds before anything else is built: a port in use is told at once, and clients that come during
/// the start wait in line instead of being refused.
///
/// # Errors
/// When the address cannot be bound.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    #[cfg(target_os = "linux")]
    rustix::net::sockopt::set_tcp_user_timeout(&socket, STALLED_READER_MS)?;
    socket.listen(BACKLOG)?.into_std()
}

/// Starts the workers; each makes its own surfaces, on its own thread. What is returned with the
/// handle ends when the server has stopped, and is to be spawned.
///
/// # Errors
/// When the listener cannot be used.
pub fn serve<F>(
    listener: TcpListener,
    config: &ServeConfig,
    ops: Arc<Ops>,
    surfaces: F,
) -> io::Result<(ServeHandle, Server)>
where
    F: Fn() -> Surfaces + Clone + Send + 'static,
{
    let mut builder = Server::build()
        .max_concurrent_connections(config.max_connections)
        .worker_max_blocking_threads(BLOCKING_THREADS)
        .shutdown_timeout(config.grace_period.as_secs().max(1))
        .disable_signals();
    if config.workers > 0 {
        builder = builder.workers(config.workers);
    }
    let stopping = builder.graceful_shutdown_signal();
    let config = config.clone();
    // Put together by hand, since actix's own server drives no connection but its own.
    let server = builder.listen("http", listener, move || {
        let surfaces = surfaces();
        let metrics = Arc::clone(&surfaces.metrics);
        let app = App::new()
            .configure(ops::configure(Arc::clone(&ops)))
            .configure(configure(surfaces))
            .wrap(cors::allowing(&config.cors_origins))
            .into_factory()
            .map_err(|error| error.error_response());
        let stopping = stopping.clone();
        let http = HttpService::build()
            // A client that has gone must be noticed while its answer is still awaited.
            .h1_allow_half_closed(false)
            .keep_alive(config.keep_alive)
            .client_request_timeout(config.header_timeout)
            .client_disconnect_timeout(CLOSES_WITHIN)
            .graceful_shutdown_signal(move || {
                let stopping = stopping.clone();
                async move { stopping.notified().await }
            })
            .h1(map_config(app, |()| AppConfig::default()));
        fn_service(|stream: TcpStream| ready(Connection::accepted(stream).map_err(DispatchError::Io)))
            .and_then(http)
            .map_err(move |error| ended_early(&error, &metrics))
    })?;
    let server = server.run();
    Ok((ServeHandle(server.handle()), server))
}

/// What a connection ends of is the client's doing: a scanner must not be able to flood the log.
fn ended_early(error: &DispatchError, metrics: &Metrics) {
    if matches!(error, DispatchError::Parse(_)) {
        metrics.refused(Refusal::BadRequest);
    }
    tracing::debug!(%error, "a client's connection ended early");
}
