//! Connections: one for each thread, made when it first asks, inside its own runtime, so that no
//! call wakes another thread.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering},
    thread::{self, ThreadId},
};

use ::redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionInfo, IntoConnectionInfo, RedisResult, TlsMode, Value,
    aio::{ConnectionLike, MultiplexedConnection},
    cluster::ClusterClient,
    cluster_async::ClusterConnection,
    sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType},
};
use parking_lot::RwLock;
use tokio::time::timeout;

use super::{
    LATE,
    config::{Layout, RedisConfig, RedisError},
};

/// One thread's connection; clones share the socket.
#[derive(Clone)]
pub enum Connection {
    Server(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Connection {
    pub async fn send(&mut self, cmd: &Cmd) -> RedisResult<Value> {
        let answer = match self {
            Self::Server(connection) => connection.req_packed_command(cmd).await,
            Self::Cluster(connection) => connection.req_packed_command(cmd).await,
        };
        // An error that the server answers with comes as a value.
        answer?.extract_error()
    }
}

#[expect(clippy::large_enum_variant, reason = "one for each process")]
enum Dial {
    Single(Client),
    Sentinel { sentinels: Vec<ConnectionInfo>, master: String },
    Cluster(ClusterClient),
}

pub struct Connections {
    dial: Dial,
    config: RedisConfig,
    open: RwLock<HashMap<ThreadId, Connection>>,
    /// Rises when all are dropped, so that one being made meanwhile is not kept.
    generation: AtomicU64,
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connections").field("open", &self.open.read().len()).finish_non_exhaustive()
    }
}

impl Connections {
    pub fn new(config: RedisConfig) -> Result<Self, RedisError> {
        let infos = config
            .urls
            .iter()
            .enumerate()
            .map(|(at, url)| {
                url.as_str()
                    .into_connection_info()
                    .map_err(|source| RedisError::Url { place: at + 1, source })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let first = infos.first().cloned().ok_or(RedisError::NoUrl)?;
        let dial = match &config.layout {
            Layout::Single => Dial::Single(Client::open(first).map_err(RedisError::Client)?),
            Layout::Sentinel { master } => Dial::Sentinel { sentinels: infos, master: master.clone() },
            Layout::Cluster => Dial::Cluster(
                ClusterClient::builder(infos)
                    .connection_timeout(config.connect_timeout)
                    .response_timeout(config.op_timeout * 4)
                    // The breaker is in front of it: what fails is not worth repeating.
                    .retries(1)
                    .build()
                    .map_err(RedisError::Client)?,
            ),
        };
        Ok(Self { dial, config, open: RwLock::default(), generation: AtomicU64::new(0) })
    }

    /// This thread's connection.
    pub async fn get(&self) -> RedisResult<Connection> {
        let thread = thread::current().id();
        if let Some(open) = self.open.read().get(&thread) {
            return Ok(open.clone());
        }
        let generation = self.generation.load(Ordering::Acquire);
        let made = timeout(self.config.connect_timeout, self.connect()).await.map_err(timed_out)??;
        let mut open = self.open.write();
        if self.generation.load(Ordering::Acquire) == generation {
            open.insert(thread, made.clone());
        }
        Ok(made)
    }

    async fn connect(&self) -> RedisResult<Connection> {
        match &self.dial {
            Dial::Single(client) => {
                let connection =
                    client.get_multiplexed_async_connection_with_config(&self.settings()).await?;
                Ok(Connection::Server(connection))
            }
            Dial::Sentinel { sentinels, master } => {
                let mut client = SentinelClient::build(
                    sentinels.clone(),
                    master.clone(),
                    sentinels.first().map(as_node),
                    SentinelServerType::Master,
                )?;
                client.get_async_connection_with_config(&self.settings()).await.map(Connection::Server)
            }
            Dial::Cluster(client) => client.get_async_connection().await.map(Connection::Cluster),
        }
    }

    fn settings(&self) -> AsyncConnectionConfig {
        AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.config.connect_timeout))
            // Operations are bounded by the caller; this only clears what nobody listens for.
            .set_response_timeout(Some(LATE))
    }

    /// Closes every connection: the next call makes its own.
    pub fn drop_all(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.open.write().clear();
    }

    /// Closes this thread's connection.
    pub fn drop_own(&self) {
        self.open.write().remove(&thread::current().id());
    }
}

/// The servers behind the sentinels take the credentials and TLS of the sentinels' URL.
fn as_node(sentinel: &ConnectionInfo) -> SentinelNodeConnectionInfo {
    let node =
        SentinelNodeConnectionInfo::default().set_redis_connection_info(sentinel.redis_settings().clone());
    match sentinel.addr() {
        redis::ConnectionAddr::TcpTls { insecure: false, .. } => node.set_tls_mode(TlsMode::Secure),
        redis::ConnectionAddr::TcpTls { insecure: true, .. } => node.set_tls_mode(TlsMode::Insecure),
        _ => node,
    }
}

pub fn timed_out(_: tokio::time::error::Elapsed) -> redis::RedisError {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}
