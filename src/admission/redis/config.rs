//! What the Redis backend must be told.

use std::time::Duration;

use crate::domain::ids::ReplicaId;

/// How the servers are laid out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Layout {
    /// One server.
    #[default]
    Single,
    /// Sentinels at the given URLs, watching a master of this name. User, password and TLS of the
    /// URLs hold for sentinels and servers alike.
    Sentinel {
        /// The master's name.
        master: String,
    },
    /// A cluster; the URLs are any of its nodes.
    Cluster,
}

/// Settings of the Redis backend.
#[derive(Clone)]
pub struct RedisConfig {
    /// `redis://` or, with TLS, `rediss://`; user and password in the URL.
    pub urls: Vec<String>,
    /// How the servers are laid out.
    pub layout: Layout,
    /// No operation waits longer; 50 ms unless set.
    pub op_timeout: Duration,
    /// No connection attempt waits longer; 500 ms unless set.
    pub connect_timeout: Duration,
    /// This replica, as its heartbeat names it.
    pub replica: ReplicaId,
    /// How many replicas to share the limits among while Redis is away, until a heartbeat said
    /// better; at least 1.
    pub replicas_expected: u32,
}

impl RedisConfig {
    /// One server with the usual bounds.
    #[must_use]
    pub fn single(url: impl Into<String>, replica: ReplicaId) -> Self {
        Self {
            urls: vec![url.into()],
            layout: Layout::Single,
            op_timeout: Duration::from_millis(50),
            connect_timeout: Duration::from_millis(500),
            replica,
            replicas_expected: 1,
        }
    }
}

/// Leaves out the URLs: they may hold a password.
impl std::fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisConfig")
            .field("layout", &self.layout)
            .field("op_timeout", &self.op_timeout)
            .field("replica", &self.replica)
            .field("replicas_expected", &self.replicas_expected)
            .finish_non_exhaustive()
    }
}

/// Why the backend cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum RedisError {
    /// No URL was given.
    #[error("no Redis URL given")]
    NoUrl,
    /// A URL is not one of a Redis server.
    #[error("not a Redis URL (number {place})")]
    Url {
        /// Which of the URLs, from 1.
        place: usize,
        /// What is wrong with it.
        #[source]
        source: redis::RedisError,
    },
    /// The client cannot be built from the URLs.
    #[error("Redis client")]
    Client(#[source] redis::RedisError),
}
