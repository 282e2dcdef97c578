//! How long something is out, and at what back-off level.

use std::time::Duration;

use super::{HOUR, micros, view::Parked};
use crate::{
    admission::CoolFor,
    domain::{
        backoff::{TOP_LEVEL, UNPROBED, backoff},
        failure::FailureClass,
    },
};

/// The second failure in a row under [`CoolFor::Lenient`].
const SECOND_FAILURE: Duration = Duration::from_secs(30);
/// The third follows at the first back-off that is not shorter: 32 s.
const LENIENT_LEVELS: u32 = 2;

/// The span after 0, 1, 2 … failures in a row, the last one for all that follow; none: free.
pub fn ladder(span: CoolFor) -> Vec<Option<Duration>> {
    match span {
        CoolFor::Span(span) => vec![Some(span.min(UNPROBED))],
        CoolFor::Backoff { jitter } => (0..=TOP_LEVEL).map(|level| Some(backoff(level, jitter))).collect(),
        CoolFor::Lenient { jitter } => [None, Some(SECOND_FAILURE)]
            .into_iter()
            .chain((2..=TOP_LEVEL).map(|level| Some(backoff(level + LENIENT_LEVELS, jitter))))
            .collect(),
    }
}

/// A cooldown of one scope.
#[derive(Debug, Clone, Default)]
pub struct Cooldown {
    /// Until when, in steady microseconds; zero: never set.
    pub until: i64,
    /// Failures in a row.
    pub level: u32,
    /// The failure that set the deadline; none: never set.
    pub reason: Option<FailureClass>,
    touched: i64,
}

impl Cooldown {
    /// Counts a failure; returns the deadline in force, none if it is free.
    pub fn extend(&mut self, now: i64, span: CoolFor, reason: FailureClass) -> Option<i64> {
        // Requests that were under way when the cooldown began fail together; they are one failure.
        let level = if self.until > now { self.level.saturating_sub(1) } else { self.level };
        let ladder = ladder(span);
        let span = ladder.get(level as usize).or(ladder.last()).copied().flatten();
        self.touched = now;
        self.level = (level + 1).min(TOP_LEVEL);
        if let Some(span) = span {
            let until = now + micros(span);
            if until > self.until {
                self.until = until;
                self.reason = Some(reason);
            }
        }
        (self.until > now).then_some(self.until)
    }

    pub fn in_force(&self, now: i64) -> Option<i64> {
        (self.until > now).then_some(self.until)
    }

    /// Until when it keeps a key parked, and as what.
    pub fn parks(&self, now: i64) -> Option<(i64, Parked)> {
        let is_limit = self.reason.is_some_and(FailureClass::is_limit);
        Some((self.in_force(now)?, if is_limit { Parked::Limited } else { Parked::Failing }))
    }

    /// Whether nobody would miss it: lapsed, and the last failure long ago.
    pub fn is_stale(&self, now: i64) -> bool {
        self.until <= now && self.touched + HOUR <= now
    }
}
