//! The HTTP/1.1 transport: a lean client of our own, for plain and TLS connections.
//!
//! The task that waits for the answer does all the work: it writes the request, reads into one
//! buffer per thread and takes the body apart. Nothing is spawned and an idle stream holds no read
//! buffer. Pure parts ([`head`], [`framing`]) take bytes and give bytes; [`exchange`] and [`body`]
//! move them over a connection.
//!
//! Strict where leniency lets a request or an answer be read in two ways: both framings at once,
//! differing lengths, folded headers, bare line feeds in chunk lines.

mod body;
mod encode;
mod exchange;
mod framing;
mod head;

pub(in crate::net) use body::Http1Body;
pub(in crate::net) use encode::encode;
pub(in crate::net) use exchange::exchange;
pub(in crate::net) use head::Head;
