//! Hostile clients and hostile upstreams against the running server: it stays up, answers in shape and in time,
//! and goes on serving everybody else.

mod addresses;
mod bodies;
mod crowd;
mod requests;
mod upstreams;
