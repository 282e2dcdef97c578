//! Calls to providers (floor 4): what is sent, and what came back as facts.
//!
//! [`Upstream::send`] unseals the key, builds the one request in which it is plain, and returns at
//! the head of the answer. [`ReplyHeaders`] are what may go on to the client, [`read_error`] makes
//! facts of an error answer, [`reset`](mod@reset) finds when a provider will take requests again,
//! and a [`Redactor`] masks a key that an upstream echoes.
//!
//! Uses `net`, `vault`, `wire` and `domain`. A provider that speaks a known format needs nothing
//! here.

mod redact;
mod request;
pub mod reset;
mod response;
mod send;

pub use redact::Redactor;
pub use response::{ReplyHeaders, UpstreamError, read_error};
pub use send::{Call, CallError, Reply, Upstream, key_purpose};
