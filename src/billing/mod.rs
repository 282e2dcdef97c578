//! Prices, the journal, the recorder and the books (floor 4).
//!
//! | file | what |
//! |---|---|
//! | [`settlement`] | usage, prices and outcome → charge and cost, one documented table |
//! | [`estimate`] | tokens from byte lengths, calibrated per model |
//! | [`funds`] | what prepaid tenants can spend now |
//! | [`journal`] | the local append-only record of every request, written before the world hears of it |
//! | [`recovery`] | what a request without an end is settled as |
//! | [`recorder`] | drains the journal's files into the store |
//! | [`adopt`] | takes over the journal of a dead replica |
//! | [`reconcile`] | proves that events, ledger and balances agree |
//!
//! Uses `domain`, `store` and `telemetry`. To add a kind of journal record: a variant of
//! [`journal::Record`] with its number, an arm in `journal::Replay`, and a line in the tests of
//! both.

pub mod adopt;
pub mod estimate;
pub mod funds;
pub mod journal;
pub mod reconcile;
pub mod recorder;
pub mod recovery;
mod rejected;
pub mod settlement;
