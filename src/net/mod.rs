//! The one HTTP client for everything a tenant or admin can influence (floor 2).
//!
//! Guarded: addresses are checked when dialled (literals and resolved names), no proxies from the
//! environment, no redirects, answers decoded here and nowhere else. A [`Client`] belongs to one
//! worker thread and shares nothing on the path; nothing is spawned per request, and dropping a
//! future or a [`Body`] closes its connection.
//!
//! Two transports stand behind the same types: HTTP/1.1, a lean reader of our own for plain and
//! TLS connections, and HTTP/2, which is reqwest.

mod body;
mod client;
mod decode;
mod dial;
mod error;
mod guard;
mod http1;
mod http2;
mod message;
mod pool;
mod resolve;
mod target;
mod tls;

pub use body::Body;
pub use client::Client;
pub use decode::Decoder;
pub use error::NetError;
pub use guard::{Forbidden, Guard, GuardConfig};
pub use message::{Request, Response};
pub use target::{InvalidTarget, Target, base_url_fault};
pub use tls::Tls;
