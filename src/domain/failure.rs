//! What kind of failure an attempt met, and what follows from it.
//!
//! [`classify`] looks at the format's error code first, then at text rules, then at the status;
//! all three are tables below. [`FailureClass`] says what happens to the key and what is tried
//! next.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What an attempt's failure is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symptom<'a> {
    /// The upstream answered with an error.
    Answer {
        /// HTTP status.
        status: u16,
        /// The format's error code or type, such as `insufficient_quota`.
        code: Option<&'a str>,
        /// The error's text.
        message: &'a str,
    },
    /// No connection came about.
    Connect,
    /// Nothing came for too long.
    Timeout,
    /// The connection broke, or the stream ended before it was complete.
    Broken,
}

/// The classes of DESIGN §5; each has one treatment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// The request itself is wrong: no key would serve it.
    ClientFault,
    /// Too many requests on this key.
    RateLimited,
    /// The key's quota is spent.
    QuotaOut,
    /// The provider does not take the key.
    RefusedCredential,
    /// The provider does not take this request on this key.
    RefusedRequest,
    /// The provider does not have the model.
    ModelMissing,
    /// The provider has no room.
    Overloaded,
    /// Anything else: 5xx, connection, timeout, truncated stream.
    Broken,
}

/// What is tried after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Next {
    /// Nothing: the answer goes to the client.
    Return,
    /// Another key of the same candidate.
    NextKey,
    /// Another candidate.
    NextCandidate,
}

/// What becomes of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cooling {
    /// Nothing.
    Untouched,
    /// Out for this model until the provider's own reset, else by back-off.
    KeyModelBackoff,
    /// Out for this model for a fixed time.
    KeyModelFor(Duration),
    /// Out for all models until the provider's own reset, at least for this long.
    KeyFor(Duration),
    /// First failure free, then out for this model for 30 s, then by back-off.
    KeyModelLenient,
}

impl FailureClass {
    /// The name in metrics, events and the attempts header.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClientFault => "client_fault",
            Self::RateLimited => "rate_limited",
            Self::QuotaOut => "quota_out",
            Self::RefusedCredential => "refused_credential",
            Self::RefusedRequest => "refused_request",
            Self::ModelMissing => "model_missing",
            Self::Overloaded => "overloaded",
            Self::Broken => "broken",
        }
    }

    /// Whether the provider's limit stands in the way and nothing is wrong: who comes back later is
    /// served.
    #[must_use]
    pub const fn is_limit(self) -> bool {
        matches!(self, Self::RateLimited)
    }

    /// What is tried next.
    #[must_use]
    pub const fn next(self) -> Next {
        match self {
            Self::ClientFault => Next::Return,
            Self::RateLimited
            | Self::QuotaOut
            | Self::RefusedCredential
            | Self::RefusedRequest
            | Self::ModelMissing => Next::NextKey,
            Self::Overloaded | Self::Broken => Next::NextCandidate,
        }
    }

    /// What becomes of the key.
    #[must_use]
    pub const fn cooling(self) -> Cooling {
        match self {
            Self::ClientFault => Cooling::Untouched,
            Self::RateLimited | Self::Overloaded => Cooling::KeyModelBackoff,
            Self::QuotaOut | Self::RefusedCredential => Cooling::KeyFor(Duration::from_secs(120)),
            Self::RefusedRequest => Cooling::KeyModelFor(Duration::from_secs(5)),
            Self::ModelMissing => Cooling::KeyModelFor(Duration::from_secs(120)),
            Self::Broken => Cooling::KeyModelLenient,
        }
    }
}

/// Error codes that decide alone, whatever the status.
const CODES: &[(&str, FailureClass)] = &[
    ("insufficient_quota", FailureClass::QuotaOut),
    ("billing_hard_limit_reached", FailureClass::QuotaOut),
    ("rate_limit_exceeded", FailureClass::RateLimited),
    ("rate_limit_error", FailureClass::RateLimited),
    ("too_many_requests", FailureClass::RateLimited),
    ("invalid_api_key", FailureClass::RefusedCredential),
    ("authentication_error", FailureClass::RefusedCredential),
    ("account_deactivated", FailureClass::RefusedCredential),
    ("model_not_found", FailureClass::ModelMissing),
    ("context_length_exceeded", FailureClass::ClientFault),
    ("content_policy_violation", FailureClass::ClientFault),
    ("content_filter", FailureClass::ClientFault),
    ("overloaded_error", FailureClass::Overloaded),
    ("server_overloaded", FailureClass::Overloaded),
];

/// Texts, lower case, that decide where no code did, for the statuses they are seen with.
const TEXTS: &[(&str, FailureClass)] = &[
    ("quota exceeded", FailureClass::QuotaOut),
    ("exceeded your current quota", FailureClass::QuotaOut),
    ("rate limit", FailureClass::RateLimited),
    ("too many requests", FailureClass::RateLimited),
    ("no credentials", FailureClass::RefusedCredential),
    ("api key not valid", FailureClass::RefusedCredential),
    ("incorrect api key", FailureClass::RefusedCredential),
    ("request not allowed", FailureClass::RefusedRequest),
    ("model not found", FailureClass::ModelMissing),
    ("maximum context length", FailureClass::ClientFault),
    ("context length exceeded", FailureClass::ClientFault),
    ("overloaded", FailureClass::Overloaded),
    ("at capacity", FailureClass::Overloaded),
];

/// The class of a failure.
#[must_use]
pub fn classify(symptom: Symptom<'_>) -> FailureClass {
    let Symptom::Answer { status, code, message } = symptom else {
        return FailureClass::Broken;
    };
    let by_code = code.and_then(|code| {
        CODES.iter().find(|(known, _)| known.eq_ignore_ascii_case(code)).map(|&(_, class)| class)
    });
    if let Some(class) = by_code {
        return class;
    }
    let message = message.to_ascii_lowercase();
    // Many upstreams quote the request in what they say about it: a tenant could write «rate limit»
    // into a parameter and have everybody's keys cooled. Where the status blames the request, only a
    // text that begins so is the upstream's own.
    let says = |text: &str| match status {
        400 | 413 | 422 => message.starts_with(text),
        _ => message.contains(text),
    };
    let by_text = TEXTS.iter().find(|(text, _)| says(text)).map(|&(_, class)| class);
    by_text.unwrap_or_else(|| by_status(status))
}

/// The class that a status alone speaks for.
const fn by_status(status: u16) -> FailureClass {
    match status {
        401 | 403 => FailureClass::RefusedCredential,
        402 => FailureClass::QuotaOut,
        404 => FailureClass::ModelMissing,
        429 => FailureClass::RateLimited,
        503 | 529 => FailureClass::Overloaded,
        400..=499 => FailureClass::ClientFault,
        _ => FailureClass::Broken,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer<'a>(status: u16, code: Option<&'a str>, message: &'a str) -> FailureClass {
        classify(Symptom::Answer { status, code, message })
    }

    #[test]
    fn the_code_beats_the_text_and_the_text_beats_the_status() {
        assert_eq!(answer(429, Some("insufficient_quota"), "rate limit"), FailureClass::QuotaOut);
        assert_eq!(answer(400, None, "Rate limit reached"), FailureClass::RateLimited);
        assert_eq!(answer(429, None, ""), FailureClass::RateLimited);
    }

    #[test]
    fn a_request_quoted_in_an_error_blames_no_key() {
        let quoted = "Invalid value for 'user': 'rate limit, quota exceeded, api key not valid'";
        assert_eq!(answer(400, None, quoted), FailureClass::ClientFault);
        assert_eq!(answer(400, None, "API key not valid. Pass another."), FailureClass::RefusedCredential);
        assert_eq!(answer(500, None, "upstream: rate limit"), FailureClass::RateLimited);
    }

    #[test]
    fn every_status_has_its_class() {
        for (status, class) in [
            (400, FailureClass::ClientFault),
            (401, FailureClass::RefusedCredential),
            (402, FailureClass::QuotaOut),
            (404, FailureClass::ModelMissing),
            (413, FailureClass::ClientFault),
            (422, FailureClass::ClientFault),
            (500, FailureClass::Broken),
            (503, FailureClass::Overloaded),
            (529, FailureClass::Overloaded),
        ] {
            assert_eq!(answer(status, None, ""), class, "{status}");
        }
        assert_eq!(classify(Symptom::Timeout), FailureClass::Broken);
    }
}
