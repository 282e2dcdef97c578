//! Whether Redis is worth asking.

use std::{
    sync::atomic::{AtomicI64, AtomicU32, Ordering},
    time::Duration,
};

use crate::domain::clock::Timestamp;

/// So many failures in a row, of any threads together, and nobody waits for Redis any more. One
/// slow operation is a hiccup; three times the bound of 50 ms is still far below a second.
const PATIENCE: u32 = 3;
/// Failures no further apart than this are one: calls that were under way together in one slow
/// moment all run out of time together, and whoever asks next may find everything well.
const HICCUP: Duration = Duration::from_millis(100);

/// Opens after a few failures, closes when `maintain` found Redis well again.
#[derive(Debug, Default)]
pub struct Breaker {
    failures: AtomicU32,
    /// When the first of them was, in microseconds; zero: there is none.
    failing_since: AtomicI64,
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
            self.forget();
        }
    }

    /// Counts a failure; true for the one that opens it.
    pub fn failed(&self, now: Timestamp) -> bool {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        let now_us = now.unix_us().max(1);
        let first =
            self.failing_since.compare_exchange(0, now_us, Ordering::Relaxed, Ordering::Relaxed).err();
        failures >= PATIENCE
            // Either way: a clock that is set back does not keep it closed.
            && first.is_some_and(|us| u128::from(us.abs_diff(now_us)) >= HICCUP.as_micros())
            && self.open(now)
    }

    /// Opens it at once; true for the one that did.
    pub fn open(&self, now: Timestamp) -> bool {
        let now_us = now.unix_us().max(1);
        self.opened_at.compare_exchange(0, now_us, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn forget(&self) {
        self.failures.store(0, Ordering::Relaxed);
        self.failing_since.store(0, Ordering::Relaxed);
    }

    pub fn close(&self) {
        self.forget();
        self.opened_at.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_once_after_failures_in_a_row_and_closes_when_told() {
        let breaker = Breaker::default();
        let (first, now) = (Timestamp::from_unix_s(5), Timestamp::from_unix_s(6));
        assert!(!breaker.failed(first) && !breaker.failed(now));
        breaker.succeeded();
        assert!(!breaker.failed(first) && !breaker.failed(now) && breaker.failed(now));
        assert!(!breaker.failed(now), "the second to see it open is not the one that opened it");
        assert_eq!(breaker.open_since(), Some(now));
        breaker.close();
        assert_eq!(breaker.open_since(), None);
        assert!(!breaker.failed(first) && !breaker.failed(now));
    }

    #[test]
    fn calls_that_run_out_of_time_together_are_one_hiccup() {
        let breaker = Breaker::default();
        let moment = Timestamp::from_unix_s(5);
        for n in 0..200 {
            assert!(!breaker.failed(moment.plus(Duration::from_micros(400 * n))), "failure {n}");
        }
        assert!(breaker.failed(moment.plus(HICCUP)), "it goes on for longer than a moment");
    }

    #[test]
    fn a_clock_set_back_does_not_keep_it_closed() {
        let breaker = Breaker::default();
        assert!(!breaker.failed(Timestamp::from_unix_s(3_600)) && !breaker.failed(Timestamp::from_unix_s(5)));
        assert!(breaker.failed(Timestamp::from_unix_s(5)));
    }
}
