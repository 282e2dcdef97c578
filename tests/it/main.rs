//! The one integration test binary.
#![allow(
    clippy::disallowed_methods,
    reason = "tests stand outside the floors: they spawn, read the clock and the environment"
)]

mod harness;
