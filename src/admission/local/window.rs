//! The sliding minute of one subject or key.

use super::{MICROS, WHOLE};
use crate::domain::limits::WINDOW;

/// How long a counted second stays in the window. An attempt may leave up to `SEND_GUARD` (1 s)
/// after it was counted, so 61 s of counting cover any 60 s upstream; the oldest bucket counts
/// whole, which is one more. 60 of 62 is 96.8 % of the limit usable.
pub const SPAN_S: i64 = 62;
const BUCKETS: usize = 62;

/// What was counted in one second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    pub second: i64,
    pub requests: u32,
    pub tokens: u64,
}

/// Requests and tokens by the second in which they were counted.
#[derive(Debug, Clone)]
pub struct Window {
    requests: [u32; BUCKETS],
    tokens: [u64; BUCKETS],
    newest: i64,
    request_sum: u32,
    token_sum: u64,
}

impl Window {
    pub const fn starting_at(second: i64) -> Self {
        Self { requests: [0; BUCKETS], tokens: [0; BUCKETS], newest: second, request_sum: 0, token_sum: 0 }
    }

    /// Lets go of what has left by `second`.
    pub fn advance(&mut self, second: i64) {
        if second - self.newest >= SPAN_S {
            *self = Self::starting_at(second);
        }
        while self.newest < second {
            self.newest += 1;
            let at = slot(self.newest);
            self.request_sum -= std::mem::take(&mut self.requests[at]);
            self.token_sum -= std::mem::take(&mut self.tokens[at]);
        }
    }

    pub fn add(&mut self, second: i64, requests: u32, tokens: u64) {
        self.advance(second);
        if second <= self.newest - SPAN_S {
            return;
        }
        let at = slot(second);
        self.requests[at] = self.requests[at].saturating_add(requests);
        self.request_sum = self.request_sum.saturating_add(requests);
        // Kept far from the end of u64, so that the sum of all buckets cannot overflow.
        let tokens = tokens.min(u64::MAX / 128 - self.tokens[at].min(u64::MAX / 128));
        self.tokens[at] += tokens;
        self.token_sum += tokens;
    }

    /// Takes back what was added in `second`, if it has not left by itself.
    pub fn take_back(&mut self, second: i64, requests: u32, tokens: u64) {
        if second > self.newest || second <= self.newest - SPAN_S {
            return;
        }
        let at = slot(second);
        let requests = requests.min(self.requests[at]);
        let tokens = tokens.min(self.tokens[at]);
        self.requests[at] -= requests;
        self.request_sum -= requests;
        self.tokens[at] -= tokens;
        self.token_sum -= tokens;
    }

    /// Every second in which something was counted, oldest first.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> {
        (self.newest - SPAN_S + 1..=self.newest)
            .map(|second| {
                let at = slot(second);
                Bucket { second, requests: self.requests[at], tokens: self.tokens[at] }
            })
            .filter(|bucket| bucket.requests > 0 || bucket.tokens > 0)
    }

    pub const fn request_sum(&self) -> u32 {
        self.request_sum
    }

    pub const fn token_sum(&self) -> u64 {
        self.token_sum
    }

    /// When another request has room, in microseconds; none: now.
    pub fn room_for_request(&self, now: i64, limit: u32) -> Option<i64> {
        if limit == 0 {
            return Some(now + WHOLE);
        }
        (self.request_sum >= limit).then(|| self.left_when(|requests, _| requests < limit))
    }

    /// When `tokens` more have room, in microseconds; none: now. An empty window has room for any
    /// number: a request larger than the limit would else never pass.
    pub fn room_for_tokens(&self, now: i64, limit: u64, tokens: u64) -> Option<i64> {
        if limit == 0 {
            return Some(now + WHOLE);
        }
        let fits = |sum: u64| sum == 0 || sum.saturating_add(tokens) <= limit;
        (!fits(self.token_sum)).then(|| self.left_when(|_, sum| fits(sum)))
    }

    /// The instant at which enough of the oldest buckets have left.
    fn left_when(&self, enough: impl Fn(u32, u64) -> bool) -> i64 {
        let (mut requests, mut tokens) = (self.request_sum, self.token_sum);
        for second in self.newest - SPAN_S + 1..=self.newest {
            requests -= self.requests[slot(second)];
            tokens -= self.tokens[slot(second)];
            if enough(requests, tokens) {
                return (second + SPAN_S) * MICROS;
            }
        }
        (self.newest + SPAN_S) * MICROS
    }
}

fn slot(second: i64) -> usize {
    usize::try_from(second.rem_euclid(SPAN_S)).unwrap_or(0)
}

/// One replica's part of a limit: `limit ÷ share`. A part below one request is spread over time.
#[derive(Debug, Clone, Copy)]
pub struct Share(pub u32);

impl Share {
    pub const ALL: Self = Self(1);

    pub fn of_tokens(self, limit: u64) -> u64 {
        if limit == 0 { 0 } else { (limit / u64::from(self.0)).max(1) }
    }

    /// At least one: a slot cannot be spread over time without knowing how long a request takes.
    pub fn of_slots(self, limit: u32) -> u32 {
        if limit == 0 { 0 } else { (limit / self.0).max(1) }
    }

    /// When another request has room under a share of `limit`; none: now.
    pub fn room_for_request(self, window: &Window, last_at: i64, now: i64, limit: u32) -> Option<i64> {
        let part = limit / self.0;
        if limit == 0 || part > 0 {
            return window.room_for_request(now, part);
        }
        let apart =
            i64::try_from(WINDOW.as_micros()).unwrap_or(i64::MAX) * i64::from(self.0) / i64::from(limit);
        (last_at > 0 && now < last_at + apart).then_some(last_at + apart)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_counts_whole_until_its_last_request_may_have_left_every_minute() {
        let mut window = Window::starting_at(0);
        window.add(10, 3, 0);
        window.advance(10 + SPAN_S - 1);
        assert_eq!(window.room_for_request(71 * MICROS, 3), Some((10 + SPAN_S) * MICROS));
        window.advance(10 + SPAN_S);
        assert_eq!(window.room_for_request(72 * MICROS, 3), None);
    }

    #[test]
    fn a_request_larger_than_the_limit_passes_an_empty_window_only() {
        let mut window = Window::starting_at(0);
        assert_eq!(window.room_for_tokens(0, 10, 50), None);
        window.add(0, 1, 1);
        assert_eq!(window.room_for_tokens(0, 10, 50), Some(SPAN_S * MICROS));
        assert_eq!(window.room_for_tokens(0, 10, 9), None);
    }

    #[test]
    fn what_is_taken_back_was_never_there() {
        let mut window = Window::starting_at(0);
        window.add(5, 2, 100);
        window.add(6, 1, 10);
        window.take_back(5, 1, 90);
        assert_eq!((window.request_sum(), window.token_sum()), (2, 20));
        window.advance(5 + SPAN_S);
        window.take_back(5, 1, 10);
        assert_eq!((window.request_sum(), window.token_sum()), (1, 10));
    }

    #[test]
    fn a_share_below_one_request_is_spread_over_time() {
        let mut window = Window::starting_at(0);
        let now = 100 * MICROS;
        assert_eq!(Share(3).room_for_request(&window, 0, now, 1), None);
        window.add(100, 1, 0);
        assert_eq!(Share(3).room_for_request(&window, now, now, 1), Some(now + 180 * MICROS));
    }
}
