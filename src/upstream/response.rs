//! Status, headers and body → facts for the relay, and what may go on to the client.

use std::{fmt, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::{
    domain::{clock::Timestamp, failure::Symptom},
    net::Body,
    upstream::{redact::Redactor, reset, send::Reply},
    wire::openai_chat::{decode_error, encode_error},
};

/// Of an error's body no more is read; none of a provider's own is near it.
const MAX_ERROR_BYTES: usize = 64 << 10;
/// An error that dribbles in must not hold up the next attempt.
const ERROR_WITHIN: Duration = Duration::from_secs(2);

/// Headers that go to the client under their own name; `x-ratelimit-*` too.
const FOR_CLIENT: &[&str] =
    &["content-type", "retry-after", "retry-after-ms", "openai-processing-ms", "openai-version"];
const RATE_LIMIT: &str = "x-ratelimit-";
const X_REQUEST_ID: &str = "x-request-id";
const X_UPSTREAM_REQUEST_ID: HeaderName = HeaderName::from_static("x-upstream-request-id");

/// The headers of an answer, behind an allow-list: cookies, server names, account ids and the like
/// stay here.
#[derive(Clone)]
pub struct ReplyHeaders {
    all: HeaderMap,
    redactor: Redactor,
}

impl ReplyHeaders {
    pub(in crate::upstream) const fn new(all: HeaderMap, redactor: Redactor) -> Self {
        Self { all, redactor }
    }

    /// What may go to the client; the provider's `x-request-id` as `x-upstream-request-id`. A
    /// header that holds a part of the key is left out.
    pub fn for_client(&self) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
        self.all.iter().filter_map(|(name, value)| {
            let shown = if name.as_str() == X_REQUEST_ID {
                X_UPSTREAM_REQUEST_ID
            } else if FOR_CLIENT.contains(&name.as_str())
                || (name.as_str().starts_with(RATE_LIMIT)
                    && !self.redactor.finds_in(name.as_str().as_bytes()))
            {
                name.clone()
            } else {
                return None;
            };
            let is_clean = !self.redactor.finds_in(value.as_bytes());
            is_clean.then(|| (shown, value.clone()))
        })
    }

    /// Whether the body is announced as an event stream.
    #[must_use]
    pub fn is_event_stream(&self) -> bool {
        let content_type = self.all.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        content_type.is_some_and(|value| {
            let media_type = value.split(|&byte| byte == b';').next().unwrap_or_default();
            media_type.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
        })
    }

    /// How long the provider asks to wait, by its headers alone.
    #[must_use]
    pub fn retry_after(&self, now: Timestamp) -> Option<Duration> {
        reset::from_headers(&self.all, now)
    }
}

impl fmt::Debug for ReplyHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.for_client()).finish()
    }
}

/// An error answer as facts; everything in it is redacted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamError {
    /// HTTP status.
    pub status: u16,
    /// The vendor's code, such as `insufficient_quota`.
    pub code: Option<String>,
    /// The vendor's type, such as `invalid_request_error`.
    pub kind: Option<String>,
    /// What it says; may be empty.
    pub message: String,
    /// A JSON body for the client: the provider's own where it sent JSON, else one in OpenAI's
    /// shape; at most 64 KiB of what came.
    pub body: Bytes,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
}

impl UpstreamError {
    /// What [`classify`](crate::domain::failure::classify) looks at. Where the code is only the
    /// status again, or absent, the type says more.
    #[must_use]
    pub fn symptom(&self) -> Symptom<'_> {
        let is_name = |code: &&str| code.parse::<u32>().is_err();
        let code = self.code.as_deref().filter(is_name).or(self.kind.as_deref());
        Symptom::Answer { status: self.status, code, message: &self.message }
    }
}

/// Reads an error answer. Never fails: of a body that breaks off, or takes longer than two seconds,
/// what came counts.
pub async fn read_error(reply: Reply, now: Timestamp) -> UpstreamError {
    let Reply { status, headers, body, redactor } = reply;
    let raw = read_some(body).await;
    let retry_after = headers.retry_after(now).or_else(|| reset::from_body(&raw, now));
    let text = decode_error(&raw);
    let message = redactor.redact_text(&text.message).into_owned();
    let clean = |text: Option<String>| text.map(|text| redactor.redact_text(&text).into_owned());
    let (code, kind) = (clean(text.code), clean(text.kind));
    let body = redact_json(&raw, &redactor).unwrap_or_else(|| {
        let said = if message.is_empty() { "the provider answered with an error" } else { &message };
        encode_error(said, kind.as_deref().unwrap_or("upstream_error"), None, code.as_deref())
    });
    UpstreamError { status, code, kind, message, body, retry_after }
}

async fn read_some(mut body: Body) -> Bytes {
    let deadline = Instant::now() + ERROR_WITHIN;
    let mut read = BytesMut::new();
    while let Ok(Some(Ok(piece))) = timeout_at(deadline, body.chunk()).await {
        let room = MAX_ERROR_BYTES - read.len();
        read.extend_from_slice(&piece[..piece.len().min(room)]);
        if piece.len() >= room {
            break;
        }
    }
    read.freeze()
}

/// The body with the key masked, if it is a JSON object. Strings are looked at unescaped, so that
/// no way of escaping hides a key.
fn redact_json(raw: &Bytes, redactor: &Redactor) -> Option<Bytes> {
    let mut value: Value = serde_json::from_slice(raw).ok()?;
    if !value.is_object() {
        return None;
    }
    if !redact_value(&mut value, redactor) && !redactor.finds_in(raw) {
        return Some(raw.clone());
    }
    let masked = serde_json::to_vec(&value).ok()?;
    (!redactor.finds_in(&masked)).then(|| masked.into())
}

/// Masks in every string and name; whether anything was masked.
fn redact_value(value: &mut Value, redactor: &Redactor) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => {
            let is_hit = redactor.finds_in(text.as_bytes());
            if is_hit {
                *text = redactor.redact_text(text).into_owned();
            }
            is_hit
        }
        Value::Array(items) => items.iter_mut().fold(false, |hit, item| redact_value(item, redactor) | hit),
        Value::Object(fields) => {
            let is_named = fields.keys().any(|name| redactor.finds_in(name.as_bytes()));
            if is_named {
                *fields = std::mem::take(fields)
                    .into_iter()
                    .map(|(name, field)| (redactor.redact_text(&name).into_owned(), field))
                    .collect();
            }
            fields.values_mut().fold(is_named, |hit, field| redact_value(field, redactor) | hit)
        }
    }
}
