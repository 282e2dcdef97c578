//! Connections kept for the next request.

use std::time::Duration;

/// How long a connection is kept unused: below the 60 to 75 s after which common servers close.
pub(in crate::net) const IDLE_FOR: Duration = Duration::from_secs(55);
/// Connections kept unused per origin and worker.
pub(in crate::net) const MAX_IDLE: usize = 256;
