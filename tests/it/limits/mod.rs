//! Limits that replicas share, seen from the upstream.
//!
//! Redis gets time to answer here: what a replica does alone when the machine is so busy that it does not is the
//! matter of `outage`.

mod fairness;
mod windows;

use crate::harness::server::{Production, Setup};

/// A replica that waits for Redis however busy the machine is.
fn replica(production: &Production) -> Setup {
    production.replica().set("TOLLWAY_REDIS_TIMEOUT", "2s")
}
