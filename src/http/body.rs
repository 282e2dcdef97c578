//! Bodies in and out: a bounded, decompressed read, and an answer in pieces.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use actix_web::{
    FromRequest, HttpRequest,
    body::{BodySize, MessageBody},
    error::PayloadError,
    http::header,
    web,
};
use bytes::Bytes;

use crate::{
    http::failure::Refusal,
    relay::{Cut, Flow},
    telemetry::InFlight,
};

/// The largest decoded body that is read, bytes; part of the app's data.
#[derive(Debug, Clone, Copy)]
pub struct BodyLimit(pub usize);

/// Content codings of a request body that are understood.
const CODINGS: [&str; 6] = ["identity", "gzip", "x-gzip", "deflate", "br", "zstd"];

/// Reads a whole body, decoded, up to the limit.
///
/// # Errors
/// Too large, an unknown coding, or bytes that do not decode.
pub async fn read(request: &HttpRequest, payload: web::Payload) -> Result<Bytes, Refusal> {
    if let Some(coding) = request.headers().get(header::CONTENT_ENCODING) {
        let known =
            coding.to_str().is_ok_and(|text| CODINGS.contains(&text.trim().to_ascii_lowercase().as_str()));
        if !known {
            return Err(Refusal::UnknownCoding);
        }
    }
    let limit = request.app_data::<BodyLimit>().map_or(usize::MAX, |limit| limit.0);
    let mut payload = payload.into_inner();
    web::Bytes::from_request(request, &mut payload).await.map_err(|error| {
        match error.as_error::<PayloadError>() {
            Some(PayloadError::Overflow) => Refusal::TooLarge { limit },
            _ => Refusal::UnreadableBody,
        }
    })
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
