//! Whether Redis is worth asking.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use crate::domain::clock::Timestamp;

/// So many failures in a row, of any threads together, and nobody waits for Redis any more. One
/// slow operation is a hiccup; three times the bound of 50 ms is still far below a second.
const PATIENCE: u32 = 3;

/// Opens after a few failures, closes when `maintain` found Redis well again.
#[derive(Debug, Default)]
pub struct Breaker {
    failures: AtomicU32,
    /// Microseconds; zero: closed.
    opened_at: AtomicI64,
}

impl Breaker {
    /// Since when it is open.
    pub fn open_since(&self) -> Option<Timestamp> {
        let us = self.opened_at.load(Ordering::Acquire);
        (us != 0).then(|| Timestamp::from_unix_us(us))
    }

    pub fn succeeded(&self) {
        // Read first: a store on every call would move the line between the workers' caches.
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
    }

    /// Counts a failure; true for the one that opens it.
    pub fn failed(&self, now: Timestamp) -> bool {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        failures >= PATIENCE
            && self
                .opened_at
                .compare_exchange(0, now.unix_us().max(1), Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    pub fn close(&self) {
        self.failures.store(0, Ordering::Relaxed);
        self.opened_at.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_once_after_failures_in_a_row_and_closes_when_told() {
        let breaker = Breaker::default();
        let now = Timestamp::from_unix_s(5);
        assert!(!breaker.failed(now) && !breaker.failed(now));
        breaker.succeeded();
        assert!(!breaker.failed(now) && !breaker.failed(now) && breaker.failed(now));
        assert!(!breaker.failed(now), "the second to see it open is not the one that opened it");
        assert_eq!(breaker.open_since(), Some(now));
        breaker.close();
        assert_eq!(breaker.open_since(), None);
    }
}
