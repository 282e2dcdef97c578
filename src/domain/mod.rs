//! Plain types and pure rules (floor 1): ids, money, tokens, usage, windows, prices, failure
//! classes, back-off, grants, and the objects an operator sets up.
//!
//! Nothing here does I/O or reads a clock: a rule takes its facts and `now` and returns a
//! decision. The floor builds for wasm32, knows no other module of ours, and is what two
//! neighbours use to talk about the same thing.
//!
//! To add a concept: one file, its types on top, its rules below, its tests at the end.

pub mod backoff;
pub mod clock;
pub mod event;
pub mod failure;
pub mod faults;
pub mod grant;
pub mod ids;
pub mod key;
pub mod ledger;
pub mod limits;
pub mod model;
pub mod money;
pub mod order;
pub mod price;
pub mod principal;
pub mod provider;
pub mod replica;
pub mod secret;
pub mod shape;
pub mod signing_key;
pub mod tenant;
pub mod usage;
