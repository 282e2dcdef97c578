//! The one integration test binary.
#![allow(
    clippy::disallowed_methods,
    reason = "tests stand outside the floors: they spawn, read the clock and the environment"
)]
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a test that cannot go on says so by panicking, its helpers too"
)]

mod admin;
mod admission;
mod apply;
mod attack;
mod billing;
mod cli;
mod crash;
mod demo;
mod docs;
mod floors;
mod harness;
mod http;
mod identity;
mod limits;
mod net;
mod outage;
mod relay;
mod sdk;
mod secrets;
mod store;
mod upstream;
mod wire;
