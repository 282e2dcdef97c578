//! The store, each test on Postgres and on SQLite with one body.

#[macro_use]
pub mod both;
mod fixtures;

mod access_tokens;
mod catalog;
mod configuration;
mod deployment;
mod dimensions;
mod events;
mod failures;
mod grants;
mod indexes;
mod partitions;
mod raw;
mod reconcile;
mod replicas;
mod schema;
mod transactions;
