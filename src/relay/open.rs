//! From a response head to the first content: the last point at which another key can serve.

use std::time::Duration;

use bytes::BytesMut;
use futures_util::FutureExt;
use tokio::time::{Instant, timeout_at};

use crate::{
    domain::{
        event::Outcome,
        failure::{FailureClass, Symptom, classify},
    },
    net,
    relay::{filter::Filter, flight::Flight},
    upstream::{Redactor, ReplyHeaders, UpstreamError},
    wire::openai_chat::encode_error,
};

/// An answer that is not a stream is collected up to this size, bytes: so far it can still be
/// retried and is sent with its length; a larger one passes in pieces.
const COLLECTED: usize = 64 * 1024;

/// What an error inside a successful answer counts as, unless its code is a status.
const BAD_GATEWAY: u16 = 502;

/// An answer whose first content is here.
pub(super) struct Opened {
    pub headers: ReplyHeaders,
    pub answering: Answering,
}

/// An answer on its way, its headers gone ahead.
pub(super) struct Answering {
    pub flight: Flight,
    pub status: u16,
    pub rest: Rest,
}

/// The part of an answer that is still to come.
pub(super) struct Rest {
    /// What may go out already.
    pub held: BytesMut,
    /// What comes: of an answer that is settled only its body's own end; none: nothing.
    pub body: Option<net::Body>,
    pub filter: Box<Filter>,
    pub redactor: Redactor,
    /// Longest silence between two pieces of content.
    pub idle: Duration,
    /// The end of the request's time.
    pub deadline: Instant,
}

/// Why an attempt did not open.
pub(super) struct NotOpened {
    pub class: FailureClass,
    pub status: Option<u16>,
    /// The upstream's own error, redacted, where it gave one.
    pub error: Option<UpstreamError>,
    /// When the provider says it is worth another try.
    pub retry_after: Option<Duration>,
    /// What the network said, for the log; nothing secret is in it.
    pub cause: Option<String>,
    /// The same in two words, for the client.
    pub why: Option<&'static str>,
}

impl NotOpened {
    /// A failure of the connection or of time.
    pub(super) fn broken(symptom: Symptom<'_>, status: Option<u16>) -> Self {
        let why = match symptom {
            Symptom::Connect => Some("could not connect"),
            Symptom::Timeout => Some("no answer in time"),
            Symptom::Broken => Some("the answer broke off"),
            Symptom::Answer { .. } => None,
        };
        Self { class: classify(symptom), status, error: None, retry_after: None, cause: None, why }
    }

    /// An error answer.
    pub(super) fn refused(error: UpstreamError) -> Self {
        let class = classify(error.symptom());
        let (status, retry_after) = (Some(error.status), error.retry_after);
        Self { class, status, retry_after, error: Some(error), cause: None, why: None }
    }
}

impl Answering {
    /// Whether everything is held: the answer is settled and its connection done with.
    pub(super) fn is_whole(&self) -> bool {
        self.rest.body.is_none()
    }
}

/// Reads the body of an answer until its first content, or to its end.
///
/// # Cancellation
/// Dropping the future closes the upstream connection; the flight stays with the caller.
pub(super) async fn read_to_content(
    flight: &mut Flight,
    status: u16,
    mut body: net::Body,
    redactor: Redactor,
    idle: Duration,
    deadline: Instant,
) -> Result<Rest, NotOpened> {
    let filter = Box::new(Filter::new(flight.asked, &flight.served.model.name, &redactor));
    let silent = (Instant::now() + idle).min(deadline);
    let mut rest = Rest { held: BytesMut::new(), body: None, filter, redactor, idle, deadline };
    loop {
        let broken = |symptom| NotOpened::broken(symptom, Some(status));
        let chunk = match timeout_at(silent, body.chunk()).await {
            Err(_) => return Err(broken(Symptom::Timeout)),
            Ok(Some(Err(_))) => return Err(broken(Symptom::Broken)),
            Ok(Some(Ok(chunk))) => chunk,
            Ok(None) => {
                rest.filter.finish(&mut rest.held).map_err(|_| broken(Symptom::Broken))?;
                return match rest.filter.seen().error {
                    Some(_) => Err(in_answer(&rest, status)),
                    None => Ok(complete(flight, rest, status).await),
                };
            }
        };
        rest.filter.push(&chunk, &mut rest.held).map_err(|_| broken(Symptom::Broken))?;
        let seen = rest.filter.seen();
        if seen.error.is_some() {
            return Err(in_answer(&rest, status));
        }
        flight.meter.note(seen);
        if seen.terminal {
            let rest = complete(flight, rest, status).await;
            return Ok(Rest { body: unless_over(body), ..rest });
        }
        if seen.first_content {
            flight.content_began();
            rest.body = Some(body);
            return Ok(rest);
        }
        if !flight.asked.stream && rest.held.len() > COLLECTED {
            flight.content_began();
            rest.body = Some(body);
            return Ok(rest);
        }
    }
}

/// A body, unless its own end has come with the answer's.
fn unless_over(mut body: net::Body) -> Option<net::Body> {
    match body.chunk().now_or_never() {
        Some(None | Some(Err(_))) => None,
        Some(Some(Ok(_))) | None => Some(body),
    }
}

/// The answer is all here: settle it before the client has any of it.
async fn complete(flight: &mut Flight, rest: Rest, status: u16) -> Rest {
    flight.meter.note(rest.filter.seen());
    flight.content_began();
    flight.finish_in_turn(Outcome::Completed, status).await;
    Rest { body: None, ..rest }
}

/// An error inside an answer that began with success. Its status says nothing, its text does.
fn in_answer(rest: &Rest, status: u16) -> NotOpened {
    let Some(error) = rest.filter.seen().error else {
        return NotOpened::broken(Symptom::Broken, Some(status));
    };
    let clean =
        |text: &Option<String>| text.as_ref().map(|text| rest.redactor.redact_text(text).into_owned());
    let message = rest.redactor.redact_text(&error.message).into_owned();
    let (code, kind, param) = (clean(&error.code), clean(&error.kind), clean(&error.param));
    let kind_or_ours = kind.as_deref().unwrap_or("upstream_error");
    let body = encode_error(&message, kind_or_ours, param.as_deref(), code.as_deref());
    NotOpened::refused(UpstreamError {
        status: code.as_deref().and_then(|code| code.parse().ok()).unwrap_or(BAD_GATEWAY),
        code,
        kind,
        message,
        body,
        retry_after: None,
    })
}
