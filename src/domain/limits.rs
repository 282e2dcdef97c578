//! Rate limits and the sliding minute they are counted in.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Limits of a tenant, member, access token or key. Absent: no limit; zero: nothing passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Requests in any 60 s.
    pub rpm: Option<u32>,
    /// Tokens, input and output, in any 60 s.
    pub tpm: Option<u64>,
    /// Requests in flight at once.
    pub concurrency: Option<u32>,
}

impl Limits {
    /// Whether nothing is limited.
    #[must_use]
    pub const fn is_unlimited(&self) -> bool {
        self.rpm.is_none() && self.tpm.is_none() && self.concurrency.is_none()
    }

    /// The tighter of both in every class: a narrower token cannot widen its tenant.
    #[must_use]
    pub fn narrowed_by(self, other: Self) -> Self {
        fn tighter<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
            match (a, b) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            }
        }
        Self {
            rpm: tighter(self.rpm, other.rpm),
            tpm: tighter(self.tpm, other.tpm),
            concurrency: tighter(self.concurrency, other.concurrency),
        }
    }
}

/// The span that rpm and tpm are counted over.
pub const WINDOW: Duration = Duration::from_secs(60);
/// Windows slide in buckets of this size; the oldest bucket counts whole.
pub const BUCKET: Duration = Duration::from_secs(1);

/// Which limit stood in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// Requests per minute.
    Rpm,
    /// Tokens per minute.
    Tpm,
    /// Requests in flight.
    Concurrency,
    /// Money left.
    Funds,
}

impl LimitKind {
    /// The name in metrics and messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rpm => "rpm",
            Self::Tpm => "tpm",
            Self::Concurrency => "concurrency",
            Self::Funds => "funds",
        }
    }
}
