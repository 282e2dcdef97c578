//! The request path, end to end: the real server, a scripted upstream, real sockets.

pub mod events;
mod failover;
mod funds;
mod hangup;
mod passthrough;
mod refusals;
