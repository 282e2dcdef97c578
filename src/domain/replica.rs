//! A running copy of the server.

use serde::{Deserialize, Serialize};

use crate::domain::{clock::Timestamp, ids::ReplicaId};

/// A copy of the server as it last reported itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replica {
    /// The id kept in its journal directory: a restart replaces itself.
    pub id: ReplicaId,
    /// Which build it runs.
    pub build: String,
    /// When it started.
    pub started_at: Timestamp,
    /// When it last reported.
    pub heartbeat_at: Timestamp,
    /// Records in its journal that are not in the store yet.
    pub journal_records: u64,
    /// Bytes that they take.
    pub journal_bytes: u64,
}
