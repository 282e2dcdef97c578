//! A clock that never goes back.

use parking_lot::Mutex;

use super::MICROS;
use crate::domain::clock::{SharedClock, Timestamp};

/// Steps back smaller than this are waited out; two threads reading the clock at once look like one.
const WAITED_OUT: i64 = MICROS;

/// The wall clock without its steps back: after one, time goes on from where it was.
#[derive(Debug)]
pub struct Steady {
    clock: SharedClock,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    latest: i64,
    ahead: i64,
}

/// One reading.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Microseconds that never go back.
    pub us: i64,
    ahead: i64,
}

impl Steady {
    pub fn new(clock: SharedClock) -> Self {
        Self { clock, seen: Mutex::default() }
    }

    pub fn now(&self) -> Now {
        let mut seen = self.seen.lock();
        // Read under the lock, so that readings come in the order of time.
        let us = self.clock.now().unix_us() + seen.ahead;
        if us < seen.latest - WAITED_OUT {
            seen.ahead += seen.latest - us;
        }
        seen.latest = seen.latest.max(us);
        Now { us: seen.latest, ahead: seen.ahead }
    }
}

impl Now {
    pub const fn second(self) -> i64 {
        self.us.div_euclid(MICROS)
    }

    /// The wall clock's name for a steady instant.
    pub const fn wall(self, us: i64) -> Timestamp {
        Timestamp::from_unix_us(us - self.ahead)
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::domain::clock::ManualClock;

    #[test]
    fn time_goes_on_after_a_step_back() {
        let clock = Arc::new(ManualClock::starting_at(Timestamp::from_unix_s(1_000)));
        let steady = Steady::new(clock.clone());
        let before = steady.now().us;
        clock.set(Timestamp::from_unix_s(400));
        assert_eq!(steady.now().us, before);
        clock.advance(Duration::from_secs(5));
        let now = steady.now();
        assert_eq!(now.us, before + 5 * MICROS);
        assert_eq!(now.wall(now.us), Timestamp::from_unix_s(405));
    }
}
