//! What tests stand on: private services, a scripted upstream, a cuttable network, the real server as a child.
//!
//! Nothing here knows a rule of the product; a test says what it expects, the harness makes it happen.
//!
//! A test that takes longer than some seconds lives in a module named `long` and starts with
//! `if harness::is_quick() { return; }`; `scripts/test --long` runs it. Where only the number of rounds is long,
//! [`rounds`] scales it.
#![allow(dead_code, unused_imports, reason = "each floor's tests use their own part of the harness")]

pub mod client;
pub mod load;
pub mod proxy;
pub mod scene;
pub mod server;
pub mod services;
pub mod upstream;

use std::time::{Duration, Instant};

/// Whether this is the quick part of the suite, in which long tests do nothing.
pub fn is_quick() -> bool {
    std::env::var_os("TOLLWAY_TEST_LONG").is_none()
}

/// How many rounds to play in the quick part and in the long one.
pub fn rounds(quick: usize, long: usize) -> usize {
    if is_quick() { quick } else { long }
}

/// Waits until `is_so`, for what has no event to wait for; gives up loudly after `patience`.
pub async fn eventually(what: &str, patience: Duration, mut is_so: impl AsyncFnMut() -> bool) {
    let since = Instant::now();
    while !is_so().await {
        assert!(since.elapsed() < patience, "waited {patience:?} in vain: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
