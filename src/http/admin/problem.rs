//! Refusals of the admin surface as problem details (RFC 9457): what is wrong, in which fields, and
//! what to do. Causes go to the log, never into the answer.

use std::{error::Error, fmt, time::Duration};

use actix_web::{
    HttpResponse, ResponseError,
    http::{StatusCode, header},
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    domain::faults::Fault,
    http::{admin::etag, failure::Refusal},
    identity::IdentityError,
    store::StoreError,
    vault::VaultError,
};

/// How long to wait for a store that is away.
const STORE_RETRY: Duration = Duration::from_secs(2);

/// A refusal.
pub struct Problem(Box<Parts>);

struct Parts {
    status: StatusCode,
    code: String,
    title: &'static str,
    detail: String,
    faults: Vec<Fault>,
    retry_after: Option<Duration>,
    /// The version that the object has, where another was expected.
    version: Option<i64>,
    /// The methods of the path, where another was used.
    allow: Option<String>,
    cause: Option<Box<dyn Error>>,
}

/// A refusal as it is sent.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemDetails<'a> {
    /// A name of the kind of problem, as a URI.
    #[serde(rename = "type")]
    #[schema(example = "urn:tollway:problem:invalid_fields")]
    kind: String,
    /// The kind of problem in words.
    title: &'a str,
    /// The status of the answer.
    status: u16,
    /// What is wrong here and what to do.
    detail: &'a str,
    /// A stable name of the kind of problem.
    code: &'a str,
    /// The fields that are wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError<'a>>,
}

/// A field that is wrong.
#[derive(Serialize, ToSchema)]
pub struct FieldError<'a> {
    /// Its path.
    #[schema(example = "timeouts.connect_ms")]
    field: &'a str,
    /// What is expected instead.
    reason: &'a str,
}

impl Problem {
    fn new(status: StatusCode, code: &str, title: &'static str, detail: impl Into<String>) -> Self {
        Self(Box::new(Parts {
            status,
            code: code.to_owned(),
            title,
            detail: detail.into(),
            faults: Vec::new(),
            retry_after: None,
            version: None,
            allow: None,
            cause: None,
        }))
    }

    /// The body is no JSON.
    pub(super) fn invalid_json(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_json", "The body is not JSON", detail)
    }

    /// The body is something else than JSON.
    pub(super) fn unsupported_media_type() -> Self {
        let detail = "send application/json; a PATCH may be application/merge-patch+json";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", "Not JSON", detail)
    }

    /// Fields of the body or the query are wrong.
    pub(super) fn invalid_fields(faults: Vec<Fault>) -> Self {
        let detail = faults
            .iter()
            .map(|fault| format!("{}: {}", fault.field, fault.reason))
            .collect::<Vec<_>>()
            .join("; ");
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        let mut problem = Self::new(status, "invalid_fields", "Some fields are wrong", detail);
        problem.0.faults = faults;
        problem
    }

    /// One field is wrong.
    pub(super) fn invalid_field(field: &str, reason: &str) -> Self {
        Self::invalid_fields(vec![Fault::new(field, reason)])
    }

    /// There is no such object.
    pub(super) fn missing(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "Not found", format!("there is no such {what}"))
    }

    /// There is nothing at this path.
    pub(super) fn unknown_path() -> Self {
        let detail = "there is nothing at this path; GET /admin/v1/openapi.json lists what there is";
        Self::new(StatusCode::NOT_FOUND, "unknown_path", "Unknown path", detail)
    }

    /// The path answers to other methods.
    pub(super) fn method_not_allowed(allow: &str) -> Self {
        let detail = format!("this path answers to {allow}");
        let status = StatusCode::METHOD_NOT_ALLOWED;
        let mut problem = Self::new(status, "method_not_allowed", "Method not allowed", detail);
        problem.0.allow = Some(allow.to_owned());
        problem
    }

    /// Another object has the value of `field` already.
    pub(super) fn taken(field: &str, reason: &str) -> Self {
        let detail = format!("{field}: {reason}");
        let mut problem = Self::new(StatusCode::CONFLICT, "already_exists", "It exists already", detail);
        problem.0.faults = vec![Fault::new(field, reason)];
        problem
    }

    /// Others still refer to the object.
    pub(super) fn referenced(by: &str) -> Self {
        Self::new(StatusCode::CONFLICT, "still_in_use", "Still in use", format!("remove {by} first"))
    }

    /// The object has another version than the caller knows.
    pub(super) fn stale(current: i64) -> Self {
        let detail = "somebody changed it since you read it: read it again and repeat with its new ETag";
        let status = StatusCode::PRECONDITION_FAILED;
        let mut problem = Self::new(status, "precondition_failed", "It was changed meanwhile", detail);
        problem.0.version = Some(current);
        problem
    }

    /// A change without If-Match.
    pub(super) fn precondition_required() -> Self {
        let detail = "send If-Match with the ETag that you read, or * to change it whatever it is now";
        let status = StatusCode::PRECONDITION_REQUIRED;
        Self::new(status, "precondition_required", "If-Match is missing", detail)
    }

    /// The idempotency key cannot be used.
    pub(super) fn idempotency_key(code: &'static str, detail: &str) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, "The idempotency key cannot be used", detail)
    }

    /// The set-up token makes no operator.
    fn setup_refused(code: &str, detail: String) -> Self {
        Self::new(StatusCode::FORBIDDEN, code, "The set-up token is not taken", detail)
    }

    /// A defect of ours or a broken part.
    pub(super) fn internal(cause: impl Into<Box<dyn Error>>) -> Self {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        let mut problem = Self::new(status, "internal_error", "Internal error", "the log has the cause");
        problem.0.cause = Some(cause.into());
        problem
    }

    /// What only the log is told.
    pub(super) fn cause(&self) -> Option<&(dyn Error + 'static)> {
        self.0.cause.as_deref()
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let face = refusal.face();
        let title = face.status.canonical_reason().unwrap_or("Refused");
        let mut problem = Self::new(face.status, &face.code, title, face.message);
        problem.0.retry_after = face.retry_after;
        problem
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable { .. } => {
                let detail =
                    "the database is not available, nothing was changed as far as is known; try again";
                let status = StatusCode::SERVICE_UNAVAILABLE;
                let mut problem = Self::new(status, "store_unavailable", "The database is away", detail);
                problem.0.retry_after = Some(STORE_RETRY);
                problem.0.cause = Some(Box::new(error));
                problem
            }
            StoreError::Conflict { field, .. } => Self::taken(&field, "another one has this already"),
            StoreError::Reference => {
                let detail = "what it refers to is gone, or others still refer to it";
                Self::new(StatusCode::CONFLICT, "still_in_use", "Still in use", detail)
            }
            error => Self::internal(error),
        }
    }
}

impl From<IdentityError> for Problem {
    fn from(error: IdentityError) -> Self {
        let text = error.to_string();
        match error {
            IdentityError::Store(error) => error.into(),
            IdentityError::NoExpiry => Self::invalid_field("expires_at", &text),
            IdentityError::NoSuchMember => Self::invalid_field("member_id", &text),
            IdentityError::WrongRole => Self::invalid_field("role", &text),
            IdentityError::SetupTokenSpent => Self::setup_refused("setup_token_spent", text),
            IdentityError::OperatorExists => Self::setup_refused("operator_exists", text),
            error => Self::internal(error),
        }
    }
}

impl From<VaultError> for Problem {
    fn from(error: VaultError) -> Self {
        Self::internal(error)
    }
}

impl From<serde_json::Error> for Problem {
    fn from(error: serde_json::Error) -> Self {
        Self::internal(error)
    }
}

impl fmt::Debug for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Problem({})", self.0.code)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.code)
    }
}

impl ResponseError for Problem {
    fn status_code(&self) -> StatusCode {
        self.0.status
    }

    fn error_response(&self) -> HttpResponse {
        let parts = &*self.0;
        let mut response = HttpResponse::build(parts.status);
        if let Some(span) = parts.retry_after {
            let seconds = span.as_secs() + u64::from(span.subsec_nanos() > 0);
            response.insert_header((header::RETRY_AFTER, seconds.to_string()));
        }
        if let Some(version) = parts.version {
            response.insert_header((header::ETAG, etag::of(version)));
        }
        if let Some(allow) = &parts.allow {
            response.insert_header((header::ALLOW, allow.as_str()));
        }
        if parts.status == StatusCode::UNAUTHORIZED {
            response.insert_header((header::WWW_AUTHENTICATE, "Bearer"));
        }
        let errors = parts
            .faults
            .iter()
            .map(|fault| FieldError { field: &fault.field, reason: &fault.reason })
            .collect();
        let details = ProblemDetails {
            kind: format!("urn:tollway:problem:{}", parts.code),
            title: parts.title,
            status: parts.status.as_u16(),
            detail: &parts.detail,
            code: &parts.code,
            errors,
        };
        response.content_type("application/problem+json");
        response.body(serde_json::to_vec(&details).unwrap_or_default())
    }
}
