//! Identity against a real store, each test on Postgres and on SQLite with one body.

#[macro_use]
mod world;

mod forgery;
mod issue;
mod outage;
mod verify;
