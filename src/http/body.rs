//! Bodies in and out: a bounded, decompressed read, and an answer in pieces.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use actix_web::{
    HttpRequest,
    body::{BodySize, MessageBody},
    http::header::{self, HeaderMap},
    web,
};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use tokio::time::{Instant, timeout_at};

use crate::{
    http::{failure::Refusal, room::Place},
    net::{Decoder, NetError},
    relay::{Cut, Flow},
    telemetry::InFlight,
};

/// The largest decoded body that is read, bytes; part of the app's data.
#[derive(Debug, Clone, Copy)]
pub struct BodyLimit(pub usize);

/// How long a body may take, besides the time that its bytes earn; part of the app's data.
#[derive(Debug, Clone, Copy)]
pub struct BodyPatience(pub Duration);

impl Default for BodyPatience {
    fn default() -> Self {
        Self(Duration::from_secs(10))
    }
}

/// Bytes that earn a body one more second: slower than any network that can be worked with.
const BYTES_PER_SECOND: u64 = 64 << 10;

/// Reads a whole body, decoded, up to the limit, and as long as its place has room where it needs one. A
/// body that comes too slowly is given up, so that connections cannot be held for nothing.
///
/// # Errors
/// Too large, too slow, no room, an unknown coding, or bytes that do not decode.
pub async fn read(
    request: &HttpRequest,
    mut payload: web::Payload,
    mut place: Option<Place>,
) -> Result<Bytes, Refusal> {
    let BodyLimit(limit) = *request.app_data().ok_or(Refusal::NotHere)?;
    let BodyPatience(within) = request.app_data().copied().unwrap_or_default();
    let mut decoder = decoder(request.headers(), limit)?;
    // How long a body is when decoded is not known.
    let length = announced(request.headers()).filter(|_| decoder.is_none()).unwrap_or(0);
    if length > limit {
        return Err(Refusal::TooLarge { limit });
    }
    let mut due = Instant::now() + within;
    let mut body = Gathered { length, ..Gathered::default() };
    while let Some(piece) = timeout_at(due, payload.next()).await.map_err(|_| Refusal::SlowBody)? {
        let piece = piece.map_err(|_| Refusal::UnreadableBody)?;
        due += Duration::from_millis(piece.len() as u64 * 1_000 / BYTES_PER_SECOND);
        let piece = match &mut decoder {
            Some(decoder) => decoder.push(&piece).map_err(|error| undecoded(&error, limit))?,
            None => piece,
        };
        if piece.len() > limit - body.len() {
            return Err(Refusal::TooLarge { limit });
        }
        if let Some(place) = &mut place {
            place.grow(body.len() + piece.len())?;
        }
        body.add(piece);
    }
    if let Some(mut decoder) = decoder {
        decoder.finish().map_err(|error| undecoded(&error, limit))?;
    }
    let body = body.whole();
    Ok(match place {
        Some(place) => place.hold(body),
        None => body,
    })
}

/// The decoder that the headers ask for, if any.
fn decoder(headers: &HeaderMap, limit: usize) -> Result<Option<Box<Decoder>>, Refusal> {
    let mut codings = headers.get_all(header::CONTENT_ENCODING);
    let coding = match (codings.next(), codings.next()) {
        (None, _) => return Ok(None),
        (Some(only), None) => only.to_str().map_err(|_| Refusal::UnknownCoding)?.trim(),
        (Some(_), Some(_)) => return Err(Refusal::UnknownCoding),
    };
    if coding.eq_ignore_ascii_case("identity") {
        return Ok(None);
    }
    Decoder::named(coding, limit).map(Box::new).map(Some).map_err(|_| Refusal::UnknownCoding)
}

fn undecoded(error: &NetError, limit: usize) -> Refusal {
    match error {
        NetError::TooLarge { .. } => Refusal::TooLarge { limit },
        _ => Refusal::UnreadableBody,
    }
}

fn announced(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The pieces of a body; a body that comes in one is not copied.
#[derive(Default)]
struct Gathered {
    only: Bytes,
    more: BytesMut,
    /// How long the body will be, where that is known.
    length: usize,
}

impl Gathered {
    fn len(&self) -> usize {
        self.only.len() + self.more.len()
    }

    fn add(&mut self, piece: Bytes) {
        if self.len() == 0 {
            self.only = piece;
            return;
        }
        if self.more.is_empty() {
            // Memory that is not written to is not taken yet; a buffer that grows is copied again and again.
            self.more.reserve(self.length);
            self.more.extend_from_slice(&std::mem::take(&mut self.only));
        }
        self.more.extend_from_slice(&piece);
    }

    fn whole(self) -> Bytes {
        if self.more.is_empty() { self.only } else { self.more.freeze() }
    }
}

/// An answer in pieces, for actix. Dropping it settles the request.
pub struct AnswerStream {
    flow: Box<Flow>,
    _counted: Option<InFlight>,
}

impl AnswerStream {
    /// Passes `flow` on; `counted` lives as long as it.
    #[must_use]
    pub const fn new(flow: Box<Flow>, counted: Option<InFlight>) -> Self {
        Self { flow, _counted: counted }
    }
}

impl MessageBody for AnswerStream {
    type Error = Cut;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> {
        self.flow.poll_piece(cx)
    }
}
