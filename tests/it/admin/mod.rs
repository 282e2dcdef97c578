//! The admin surface over HTTP, on both databases.

#[macro_use]
mod world;

mod access;
mod conditions;
mod document;
mod idempotency;
mod life;
mod lists;
mod money;
mod problems;
mod replicas;
mod secrets;
mod served;
