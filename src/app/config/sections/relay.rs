//! `[relay]`: the request path.

use std::time::Duration;

use crate::app::config::section::section;

section! {
    /// How hard the relay tries.
    "relay" RelaySection {
        /// Keys tried for each route.
        keys_per_candidate: usize = "3";
        /// Attempts for each request, all routes together.
        attempts_per_request: usize = "12";
        /// How long a stream's response headers are held for the first content; after it 200 goes out with
        /// keep-alives, and failing over stays possible until content comes.
        header_hold: Duration = "10s";
    }
    |relay, check| {
        check.that(relay.keys_per_candidate >= 1, "keys_per_candidate", "expected at least 1");
        check.that(
            (1..=64).contains(&relay.attempts_per_request),
            "attempts_per_request",
            "expected 1 to 64",
        );
        check.that(relay.header_hold <= Duration::from_secs(300), "header_hold", "expected at most 5m");
    }
}
