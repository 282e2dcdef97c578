//! What the journal writes.

use serde::{Deserialize, Serialize};

use crate::domain::{
    clock::Timestamp,
    event::{Attempt, UsageEvent},
    ids::{AccessTokenId, KeyId, MemberId, ModelId, ProviderId, RequestId, RouteId, TenantId},
    money::Nanos,
    price::Prices,
    provider::ApiFormat,
    usage::Usage,
};

/// A request that was admitted, as known before the first upstream call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begin {
    /// The request; the billing id.
    pub request: RequestId,
    /// Who pays.
    pub tenant: TenantId,
    /// Which person.
    pub member: Option<MemberId>,
    /// Which access token.
    pub token: AccessTokenId,
    /// Which model.
    pub model_id: ModelId,
    /// The model's public name, at most [`MAX_NAME_BYTES`] as a JSON string.
    pub model: String,
    /// The format that the client speaks.
    pub format: ApiFormat,
    /// Whether the client asked for a stream.
    pub stream: bool,
    /// When the request came.
    pub started_at: Timestamp,
    /// Money that admission holds for it.
    pub hold: Nanos,
    /// Input tokens as estimated at the door.
    pub input_tokens_estimate: u64,
    /// Selling prices in force when it came.
    pub prices: Prices,
}

/// A try that is about to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptStart {
    /// Which route.
    pub route_id: RouteId,
    /// Which provider.
    pub provider_id: ProviderId,
    /// Which key.
    pub key_id: KeyId,
    /// The model name sent upstream, at most [`MAX_NAME_BYTES`] as a JSON string.
    pub upstream_model: String,
    /// When it is sent.
    pub started_at: Timestamp,
    /// Cost prices of its route.
    pub cost: Prices,
}

/// All that the journal knows of a request without an end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRequest {
    /// As it was admitted.
    pub begin: Begin,
    /// The tries that have ended.
    pub ended: Vec<Attempt>,
    /// The try in flight.
    pub current: AttemptStart,
    /// What was metered so far, from the latest progress.
    pub progress: Option<Usage>,
    /// The latest time that one of its records speaks of.
    pub last_at: Timestamp,
}

/// One record of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A request begins, with its first try.
    Begin(Box<(Begin, AttemptStart)>),
    /// The try before ended as told, and another one begins.
    Attempt(Box<(Attempt, AttemptStart)>),
    /// What was metered so far.
    Progress(Usage),
    /// The request ended; everything there is to know of it.
    End(Box<UsageEvent>),
    /// An open request, copied forward so that the segment it stood in can go.
    Carried(Box<OpenRequest>),
}

/// A model name, public or upstream, may take this many bytes as a JSON string, quotes included.
pub const MAX_NAME_BYTES: usize = 512;
/// A request has at most this many attempts.
pub const MAX_ATTEMPTS: usize = 12;

/// A record to be written, borrowed from where it lives.
#[derive(Debug, Clone, Copy)]
pub enum RecordRef<'a> {
    /// See [`Record::Begin`].
    Begin(&'a Begin, &'a AttemptStart),
    /// See [`Record::Attempt`].
    Attempt(&'a Attempt, &'a AttemptStart),
    /// See [`Record::Progress`].
    Progress(&'a Usage),
    /// See [`Record::End`].
    End(&'a UsageEvent),
    /// See [`Record::Carried`].
    Carried(&'a OpenRequest),
}

const BEGIN: u8 = 1;
const ATTEMPT: u8 = 2;
const PROGRESS: u8 = 3;
const CARRIED: u8 = 5;
/// The kind of an end, which start-up tells apart without parsing.
pub const END: u8 = 4;

impl RecordRef<'_> {
    /// The number of its kind, never reused.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Begin(..) => BEGIN,
            Self::Attempt(..) => ATTEMPT,
            Self::Progress(_) => PROGRESS,
            Self::End(_) => END,
            Self::Carried(_) => CARRIED,
        }
    }

    /// Appends its JSON to `out`.
    ///
    /// # Errors
    ///
    /// Serialization failed, which no record of ours does.
    pub fn write_payload(&self, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        match self {
            Self::Begin(begin, first) => serde_json::to_writer(out, &(begin, first)),
            Self::Attempt(previous, next) => serde_json::to_writer(out, &(previous, next)),
            Self::Progress(usage) => serde_json::to_writer(out, usage),
            Self::End(event) => serde_json::to_writer(out, event),
            Self::Carried(open) => serde_json::to_writer(out, open),
        }
    }
}

impl Record {
    /// Reads the JSON of a record of the given kind.
    ///
    /// # Errors
    ///
    /// The kind is unknown or the JSON is not of its shape.
    pub fn from_payload(kind: u8, payload: &[u8]) -> Result<Self, serde_json::Error> {
        match kind {
            BEGIN => serde_json::from_slice(payload).map(Self::Begin),
            ATTEMPT => serde_json::from_slice(payload).map(Self::Attempt),
            PROGRESS => serde_json::from_slice(payload).map(Self::Progress),
            END => serde_json::from_slice(payload).map(Self::End),
            CARRIED => serde_json::from_slice(payload).map(Self::Carried),
            unknown => Err(serde::de::Error::custom(format_args!("unknown kind of record {unknown}"))),
        }
    }
}

/// Bytes that an end takes besides its names and attempts: every number at its longest.
const END_BYTES: usize = 1_300;
/// Bytes that one attempt adds to an end besides its name.
const ATTEMPT_BYTES: usize = 420;

/// Room to keep for the end of a request that begins.
#[must_use]
pub fn end_reserve(begin: &Begin, first: &AttemptStart) -> usize {
    END_BYTES + json_bytes(&begin.model) + attempt_reserve(first)
}

/// Room to keep in the end for one more attempt.
#[must_use]
pub fn attempt_reserve(attempt: &AttemptStart) -> usize {
    ATTEMPT_BYTES + json_bytes(&attempt.upstream_model)
}

/// Bytes of `text` as a JSON string, quotes included.
#[must_use]
pub fn json_bytes(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0C => 2,
        0..=0x1F => 6,
        _ => 1,
    };
    2 + text.bytes().map(escaped).sum::<usize>()
}
