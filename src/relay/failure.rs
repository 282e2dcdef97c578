//! Every way a request can fail before its answer begins.

use std::time::Duration;

use crate::{
    admission::{NoKey, Refused},
    domain::{failure::FailureClass, limits::LimitKind},
    telemetry::labels::Refusal,
    upstream::UpstreamError,
    wire::openai_chat::RequestError,
};

/// Why there is no answer. The surface turns it into status, headers and body of its dialect.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The body is not a request.
    #[error("bad request")]
    Request(RequestError),
    /// Unknown, disabled or not granted: the caller is not told which.
    #[error("model not available to the caller")]
    Model {
        /// The name as sent.
        model: String,
    },
    /// The model has no enabled route at all.
    #[error("model without a route")]
    NoRoute {
        /// The name.
        model: String,
    },
    /// The access token stands for nobody who may send requests.
    #[error("principal may not relay")]
    MayNotRelay,
    /// A limit of the tenant, member or access token is reached, or its money is spent.
    #[error("refused at the door")]
    Refused(Refused),
    /// The tenant pays in advance and its balance cannot be read.
    #[error("balance unknown")]
    FundsUnknown,
    /// The upstream calls the request wrong; its own words, redacted.
    #[error("upstream rejected the request")]
    Rejected(Box<UpstreamError>),
    /// No attempt succeeded and nothing is left to try.
    #[error("nothing left to try")]
    Exhausted {
        /// When the earliest key comes back.
        retry_after: Option<Duration>,
        /// What was tried, in order; a candidate without a usable key counts.
        tried: Vec<Tried>,
    },
    /// The journal has no room: nothing may be sent that could not be booked.
    #[error("journal full")]
    JournalFull,
}

/// One thing that was tried, without secrets or key names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// The provider's name.
    pub provider: String,
    /// What went wrong; none: it had no usable key.
    pub class: Option<FailureClass>,
    /// Whether limits alone stood in the way.
    pub is_limit: bool,
    /// What went wrong, in words.
    pub why: &'static str,
}

impl Tried {
    /// Why a provider is passed over; `some_tried`: some of its keys were tried before.
    pub(super) const fn no_key(none: &NoKey, some_tried: bool) -> &'static str {
        match (none.is_nothing(), none.failing > 0, none.retry_after.is_some(), some_tried) {
            (true, ..) => "it has no key for this caller",
            (_, true, _, false) => "its keys are cooling after failures",
            (_, true, _, true) => "its other keys are cooling after failures",
            (_, _, true, false) => "its keys are at their limits",
            (_, _, true, true) => "its other keys are at their limits",
            (_, _, false, _) => "its keys have a limit of zero",
        }
    }

    /// Whether every candidate was passed over for limits alone: the client is asked too much of, and
    /// nothing is wrong.
    #[must_use]
    pub fn are_limits(tried: &[Self]) -> bool {
        !tried.is_empty() && tried.iter().all(|one| one.is_limit)
    }

    /// What the tenant may read about what was tried: `openai: rate_limited, groq: could not connect`.
    #[must_use]
    pub fn in_words(tried: &[Self]) -> String {
        let words = tried.iter().map(|one| format!("{}: {}", one.provider, one.why));
        words.collect::<Vec<_>>().join(", ")
    }
}

impl Failure {
    /// How a request that was refused before any attempt is counted; none: there were attempts.
    #[must_use]
    pub fn refusal(&self) -> Option<Refusal> {
        Some(match self {
            Self::Request(_) => Refusal::BadRequest,
            Self::Model { .. } => Refusal::UnknownModel,
            Self::NoRoute { .. } => Refusal::NoRoute,
            Self::MayNotRelay => Refusal::NotPermitted,
            Self::JournalFull => Refusal::JournalFull,
            Self::FundsUnknown => Refusal::Unavailable,
            Self::Refused(Refused::Limit { kind, .. }) => match kind {
                LimitKind::Rpm => Refusal::Rpm,
                LimitKind::Tpm => Refusal::Tpm,
                LimitKind::Concurrency => Refusal::Concurrency,
                LimitKind::Funds => Refusal::Funds,
            },
            Self::Refused(Refused::FundsSpent | Refused::FundsHeld { .. }) => Refusal::Funds,
            Self::Refused(Refused::NoKey(_)) => Refusal::NoKey,
            Self::Exhausted { tried, .. } if tried.iter().all(|one| one.class.is_none()) => Refusal::NoKey,
            Self::Exhausted { .. } | Self::Rejected(_) => return None,
        })
    }
}
