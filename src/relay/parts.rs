//! What the request path works with, one set per worker thread.

use std::{sync::Arc, time::Duration};

use crate::{
    admission::Admission,
    billing::{estimate::Calibration, funds::Funds, journal::Journal},
    catalog::Catalog,
    domain::{
        clock::{SharedClock, SharedEntropy},
        ids::ReplicaId,
    },
    telemetry::Metrics,
    upstream::Upstream,
};

/// How far the request path goes.
#[derive(Debug, Clone, Copy)]
pub struct RelayConfig {
    /// Keys tried per candidate.
    pub keys_per_candidate: usize,
    /// Attempts per request; every remaining candidate keeps one of them reserved.
    pub attempts_per_request: usize,
    /// How long the response head of a stream waits for the first content; afterwards 200 goes out
    /// with keep-alives while failover goes on.
    pub hold_headers_for: Duration,
}

impl Default for RelayConfig {
    fn default() -> Self {
        Self { keys_per_candidate: 3, attempts_per_request: 12, hold_headers_for: Duration::from_secs(10) }
    }
}

/// What the request path works with.
pub struct Parts {
    /// Providers, keys, models, routes.
    pub catalog: Arc<Catalog>,
    /// Windows, leases, cooldowns.
    pub admission: Admission,
    /// Calls to providers; this worker's own connections.
    pub upstream: Upstream,
    /// What happened, before the client knows.
    pub journal: Journal,
    /// What prepaid tenants can spend.
    pub funds: Arc<Funds>,
    /// Tokens from bytes, where nobody counted.
    pub calibration: Arc<Calibration>,
    /// Counters for operators.
    pub metrics: Arc<Metrics>,
    /// Time.
    pub clock: SharedClock,
    /// Randomness.
    pub entropy: SharedEntropy,
    /// Which copy of the server this is.
    pub replica: ReplicaId,
    /// How far to go.
    pub config: RelayConfig,
}
