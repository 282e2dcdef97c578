//! Until when somebody waits for a call, by the clock of the server that gets it.
//!
//! A call that waits in the socket of a server that stands still is made when it goes on, and what it counts
//! then nobody gives back. So calls that count carry the instant at which their asker gives up.

use std::time::{Duration, Instant};

use parking_lot::RwLock;

use super::calls::us;
use crate::{admission::local::Owner, domain::ids::IdMap};

/// More owners than this are found anew.
const MOST: usize = 100_000;
/// An answer shows a clock earlier by as much as it took to come, so the latest reading counts; it gives way by
/// so much with each answer, for clocks that drift, in microseconds.
const GIVES_WAY_US: i64 = 200;

/// How far the clocks of servers are ahead of ours, in microseconds. By owner: those of a cluster live on
/// several servers.
#[derive(Debug)]
pub struct Clocks {
    born: Instant,
    ahead: RwLock<IdMap<Owner, i64>>,
}

impl Default for Clocks {
    fn default() -> Self {
        Self { born: Instant::now(), ahead: RwLock::default() }
    }
}

impl Clocks {
    /// When `patience` from now is by the clock of an owner's server; zero while nothing is known of it.
    pub fn awaited_until(&self, owner: Owner, patience: Duration) -> i64 {
        let ahead = self.ahead.read().get(&owner).copied();
        ahead.map_or(0, |ahead| us(self.born.elapsed()) + ahead + us(patience))
    }

    /// An owner's server has just said what time it is.
    pub fn heard(&self, owner: Owner, server_us: i64) {
        let seen = server_us - us(self.born.elapsed());
        let known = self.ahead.read().get(&owner).copied();
        let ahead = match known {
            // Another server, or a clock that was set.
            Some(known) if seen < known - 1_000_000 => seen,
            Some(known) => seen.max(known - GIVES_WAY_US),
            None => seen,
        };
        if known != Some(ahead) {
            let mut all = self.ahead.write();
            if all.len() >= MOST {
                all.clear();
            }
            all.insert(owner, ahead);
        }
    }
}
