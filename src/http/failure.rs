//! The one place that chooses the status of our own answers, and words them for the client.
//!
//! A refusal becomes a `Face`: status, kind, stable code, the field it is about, and a text that
//! says what to do next. The dialect's encoder makes bytes of it. Causes stay in the log.

use std::time::Duration;

use actix_web::{
    HttpResponse,
    http::{StatusCode, header},
};

use crate::{
    admission::{Refused, Subject},
    domain::limits::LimitKind,
    http::{arrival::Arrival, openai::Door, room::NoRoom},
    identity::Denied,
    relay::{Failure, Tried},
    wire::openai_chat::encode_error,
};

/// Why a request is refused.
#[derive(Debug)]
pub enum Refusal {
    /// The access token is not let in.
    Denied(Denied),
    /// The relay has no answer.
    Relay(Failure),
    /// The body is larger than allowed.
    TooLarge {
        /// The limit, bytes, after decoding.
        limit: usize,
    },
    /// The body's content coding is not understood.
    UnknownCoding,
    /// The body does not decode, or broke off.
    UnreadableBody,
    /// The body comes too slowly.
    SlowBody,
    /// The bodies under way leave it no room.
    NoRoom(NoRoom),
    /// The path is for the platform's own people.
    NotAnOperator,
    /// No such path.
    NotFound,
    /// The path exists, the method does not.
    MethodNotAllowed {
        /// The method that it answers to.
        allow: &'static str,
    },
    /// A part of the server is not wired; never seen outside a broken build.
    NotHere,
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Relay(failure)
    }
}

impl From<NoRoom> for Refusal {
    fn from(no_room: NoRoom) -> Self {
        Self::NoRoom(no_room)
    }
}

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        Self::Denied(denied)
    }
}

impl Refusal {
    /// What the client sees, where no model is spoken of.
    pub(super) fn face(&self) -> Face {
        face(self, Door::OpenAi)
    }
}

/// What the client sees of a refusal.
pub(super) struct Face {
    pub status: StatusCode,
    /// The broad kind, as OpenAI names them.
    pub kind: &'static str,
    /// The stable code.
    pub code: String,
    /// The field it is about.
    pub param: Option<String>,
    /// What is wrong and what to do.
    pub message: String,
    /// When it is worth another try.
    pub retry_after: Option<Duration>,
}

impl Face {
    fn new(status: StatusCode, kind: &'static str, code: &str, message: impl Into<String>) -> Self {
        Self { status, kind, code: code.to_owned(), param: None, message: message.into(), retry_after: None }
    }

    fn about(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    fn retry_after(mut self, span: Option<Duration>) -> Self {
        self.retry_after = span;
        self
    }

    /// A request that came to nothing for our part is worth a line; what its client has to change is not,
    /// unless somebody asks.
    fn log(&self, arrival: &Arrival) {
        let (status, code, message) = (self.status.as_u16(), &*self.code, &*self.message);
        if self.status.is_server_error() {
            tracing::info!(request.id = %arrival.request, http.status = status, code, reason = message, "refused");
        } else {
            tracing::debug!(request.id = %arrival.request, http.status = status, code, reason = message, "refused");
        }
    }
}

/// An upstream's status as ours; one that is no HTTP status becomes 502.
#[must_use]
pub fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_GATEWAY)
}

/// The answer to a refused request, in OpenAI's shape.
#[must_use]
pub fn render(refusal: &Refusal, door: Door, arrival: &Arrival) -> HttpResponse {
    if let Refusal::Relay(Failure::Rejected(error)) = refusal {
        let mut response = HttpResponse::build(status(error.status));
        response.insert_header((header::CONTENT_TYPE, "application/json"));
        arrival.stamp(&mut response);
        return response.body(error.body.clone());
    }
    let face = face(refusal, door);
    face.log(arrival);
    let mut response = HttpResponse::build(face.status);
    response.insert_header((header::CONTENT_TYPE, "application/json"));
    arrival.stamp(&mut response);
    if let Some(span) = face.retry_after {
        response.insert_header((header::RETRY_AFTER, whole_seconds(span).to_string()));
    }
    if let Refusal::MethodNotAllowed { allow } = refusal {
        response.insert_header((header::ALLOW, *allow));
    }
    if face.status == StatusCode::UNAUTHORIZED {
        response.insert_header((header::WWW_AUTHENTICATE, "Bearer"));
    }
    response.body(encode_error(&face.message, face.kind, face.param.as_deref(), Some(&face.code)))
}

/// Most who come here have set a base URL that lacks its `/v1`, or ends in one path too many.
const UNKNOWN_PATH: &str = "there is nothing at this path; OpenAI clients take this server's address and /v1 as their \
                            base URL and call /v1/chat/completions and /v1/models (both also under \
                            /api/v1/relay); operators find their API under /admin/v1";

const INVALID: &str = "invalid_request_error";

fn face(refusal: &Refusal, door: Door) -> Face {
    match refusal {
        Refusal::Denied(denied) => denied_face(denied),
        Refusal::Relay(failure) => failure_face(failure, door),
        Refusal::TooLarge { limit } => Face::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            INVALID,
            "request_too_large",
            format!("the request body is larger than {limit} bytes, the limit of this server"),
        ),
        Refusal::UnknownCoding => Face::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            INVALID,
            "unsupported_content_encoding",
            "send the body plain, or compressed with gzip, deflate, br or zstd",
        ),
        Refusal::UnreadableBody => Face::new(
            StatusCode::BAD_REQUEST,
            INVALID,
            "unreadable_body",
            "the request body broke off or does not match its content-encoding",
        ),
        Refusal::SlowBody => Face::new(
            StatusCode::REQUEST_TIMEOUT,
            INVALID,
            "slow_body",
            "the request body did not come in time",
        ),
        Refusal::NoRoom(no_room) => no_room_face(*no_room),
        Refusal::NotAnOperator => Face::new(
            StatusCode::FORBIDDEN,
            INVALID,
            "not_an_operator",
            "this path is for operators of this relay; the access token is a tenant's",
        ),
        Refusal::NotFound => Face::new(StatusCode::NOT_FOUND, INVALID, "unknown_path", UNKNOWN_PATH),
        Refusal::MethodNotAllowed { allow } => Face::new(
            StatusCode::METHOD_NOT_ALLOWED,
            INVALID,
            "method_not_allowed",
            format!("this path answers to {allow}"),
        ),
        Refusal::NotHere => {
            Face::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", "internal_error", "internal error")
        }
    }
}

fn no_room_face(no_room: NoRoom) -> Face {
    let face = match no_room {
        NoRoom::OfTenant(share) => Face::new(
            StatusCode::TOO_MANY_REQUESTS,
            "rate_limit_error",
            "too_many_large_requests",
            format!(
                "the large requests of this tenant that wait for an answer take {share} bytes, its share of this \
                 server's memory; send fewer of them at once"
            ),
        ),
        NoRoom::OfAll => Face::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "server_error",
            "overloaded",
            "the large requests that wait for an answer take all the memory that this server has for them; try \
             again shortly",
        ),
    };
    face.retry_after(Some(Duration::from_secs(1)))
}

fn denied_face(denied: &Denied) -> Face {
    let status = match denied {
        Denied::StoreAway => StatusCode::SERVICE_UNAVAILABLE,
        Denied::Throttled { .. } => StatusCode::TOO_MANY_REQUESTS,
        Denied::TenantDisabled | Denied::MemberDisabled => StatusCode::FORBIDDEN,
        _ => StatusCode::UNAUTHORIZED,
    };
    let kind = if status == StatusCode::SERVICE_UNAVAILABLE { "server_error" } else { INVALID };
    Face::new(status, kind, denied.code(), denied.to_string()).retry_after(denied.retry_after())
}

fn failure_face(failure: &Failure, door: Door) -> Face {
    match failure {
        Failure::Request(error) => {
            let face = Face::new(StatusCode::BAD_REQUEST, INVALID, "invalid_request", error.to_string());
            match &error.field {
                Some(field) => face.about(field),
                None => face,
            }
        }
        Failure::Model { model } => {
            let (status, list) = match door {
                Door::OpenAi => (StatusCode::NOT_FOUND, "GET /v1/models"),
                Door::Relay => (StatusCode::BAD_REQUEST, "GET /api/v1/relay/models"),
            };
            let message = format!(
                "the model {model:?} does not exist or this access token may not use it; {list} lists what it may use"
            );
            Face::new(status, INVALID, "model_not_found", message).about("model")
        }
        Failure::NoRoute { model } => Face::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "server_error",
            "no_route",
            format!("no enabled provider serves the model {model:?}; ask the operator of this relay"),
        ),
        Failure::MayNotRelay => Face::new(
            StatusCode::FORBIDDEN,
            INVALID,
            "may_not_relay",
            "this access token may not send requests; use one of a tenant's owner, admin or member",
        ),
        Failure::Refused(refused) => refused_face(refused),
        Failure::Rejected(error) => {
            Face::new(status(error.status), INVALID, "rejected", error.message.clone())
        }
        Failure::Exhausted { retry_after, tried } => {
            let words = Tried::in_words(tried);
            let message = format!("no provider could serve the request now ({words}); try again later");
            nothing_serves(Tried::are_limits(tried), *retry_after, message)
        }
        Failure::FundsUnknown => Face::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "server_error",
            "balance_unknown",
            "the balance of the tenant cannot be read at the moment; try again shortly",
        )
        .retry_after(Some(Duration::from_secs(1))),
        Failure::JournalFull => Face::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "server_error",
            "journal_full",
            "the relay cannot record requests at the moment; try again later",
        )
        .retry_after(Some(Duration::from_secs(5))),
    }
}

fn refused_face(refused: &Refused) -> Face {
    let limited = StatusCode::TOO_MANY_REQUESTS;
    match refused {
        Refused::Limit { subject, kind, retry_after } => {
            let whose = match subject {
                Subject::Tenant => "tenant",
                Subject::Member(_) => "member",
                Subject::AccessToken(_) => "access token",
            };
            let what = match kind {
                LimitKind::Rpm => "requests per minute",
                LimitKind::Tpm => "tokens per minute",
                LimitKind::Concurrency => "requests in flight",
                LimitKind::Funds => "money",
            };
            let message = format!("the limit of the {whose} on {what} is reached");
            let face = Face::new(limited, "rate_limit_error", "rate_limit_exceeded", message);
            face.retry_after(Some(*retry_after))
        }
        Refused::FundsSpent => Face::new(
            StatusCode::PAYMENT_REQUIRED,
            "insufficient_quota",
            "insufficient_quota",
            "the balance of the tenant is spent; top it up to go on",
        ),
        Refused::FundsHeld { retry_after } => Face::new(
            limited,
            "rate_limit_error",
            "balance_held",
            "requests in flight hold what is left of the tenant's balance; try again when they have ended",
        )
        .retry_after(Some(*retry_after)),
        Refused::NoKey(none) => {
            nothing_serves(none.is_limit(), none.retry_after, "no key can serve now; try again later")
        }
    }
}

/// Nothing is left that could serve: for limits alone the client is asked to slow down, for anything
/// else to come back.
fn nothing_serves(is_limit: bool, retry_after: Option<Duration>, message: impl Into<String>) -> Face {
    let (status, kind, code) = if is_limit {
        (StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", "all_keys_limited")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "server_error", "no_provider_available")
    };
    Face::new(status, kind, code, message).retry_after(retry_after)
}

/// Rounded up: a client that comes back a little late is served, one that comes early is not.
fn whole_seconds(span: Duration) -> u64 {
    span.as_secs() + u64::from(span.subsec_nanos() > 0)
}
