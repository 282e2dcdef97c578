//! What the journal writes.
//!
//! Payloads are MessagePack with structs as arrays: a field may be added at the end of its struct,
//! with a default for records that do not have it, and none may be removed or moved.

use rmp_serde::{
    decode::Error as DecodeError,
    encode::{self, Error as EncodeError},
};
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
    /// The model's public name, at most [`MAX_NAME_BYTES`].
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
    /// The model name sent upstream, at most [`MAX_NAME_BYTES`].
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

/// A model name, public or upstream, may have this many bytes.
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

/// The kinds of a begin and an end, which are told apart without parsing.
pub const BEGIN: u8 = 1;
/// See [`BEGIN`].
pub const END: u8 = 4;
const ATTEMPT: u8 = 2;
const PROGRESS: u8 = 3;
const CARRIED: u8 = 5;

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

    /// Appends its MessagePack to `out`.
    ///
    /// # Errors
    ///
    /// Serialization failed, which no record of ours does.
    pub fn write_payload(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match self {
            Self::Begin(begin, first) => encode::write(out, &(begin, first)),
            Self::Attempt(previous, next) => encode::write(out, &(previous, next)),
            Self::Progress(usage) => encode::write(out, usage),
            Self::End(event) => encode::write(out, event),
            Self::Carried(open) => encode::write(out, open),
        }
    }
}

impl Record {
    /// Reads the MessagePack of a record of the given kind.
    ///
    /// # Errors
    ///
    /// The kind is unknown or the payload is not of its shape.
    pub fn from_payload(kind: u8, payload: &[u8]) -> Result<Self, DecodeError> {
        match kind {
            BEGIN => rmp_serde::from_slice(payload).map(Self::Begin),
            ATTEMPT => rmp_serde::from_slice(payload).map(Self::Attempt),
            PROGRESS => rmp_serde::from_slice(payload).map(Self::Progress),
            END => rmp_serde::from_slice(payload).map(Self::End),
            CARRIED => rmp_serde::from_slice(payload).map(Self::Carried),
            unknown => Err(serde::de::Error::custom(format_args!("unknown kind of record {unknown}"))),
        }
    }
}

/// Bytes that an end takes besides its names and attempts: every number at its longest.
const END_BYTES: usize = 330;
/// Bytes that one attempt adds to an end besides its name.
const ATTEMPT_BYTES: usize = 110;

/// Room to keep for the end of a request that begins.
#[must_use]
pub fn end_reserve(begin: &Begin, first: &AttemptStart) -> usize {
    END_BYTES + begin.model.len() + attempt_reserve(first)
}

/// Room to keep in the end for one more attempt.
#[must_use]
pub fn attempt_reserve(attempt: &AttemptStart) -> usize {
    ATTEMPT_BYTES + attempt.upstream_model.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        billing::journal::frame::{self, HEADER_BYTES, MAX_FRAME_BYTES},
        domain::{event::Outcome, failure::FailureClass, ids::ReplicaId, usage::UsageSource},
    };

    const LATEST: Timestamp = Timestamp::from_unix_us(i64::MAX);

    fn longest_name() -> String {
        "x".repeat(MAX_NAME_BYTES)
    }

    fn highest_prices() -> Prices {
        let price = Some(Nanos::new(i64::MIN));
        Prices {
            input: price,
            cache_read: price,
            cache_write_5m: price,
            cache_write_1h: price,
            output: price,
            reasoning: price,
            audio_input: price,
            audio_output: price,
            image: price,
            request: price,
        }
    }

    fn highest_usage() -> Usage {
        Usage {
            input_tokens: u64::MAX,
            cache_read_tokens: u64::MAX,
            cache_write_5m_tokens: u64::MAX,
            cache_write_1h_tokens: u64::MAX,
            output_tokens: u64::MAX,
            reasoning_tokens: u64::MAX,
            audio_input_tokens: u64::MAX,
            audio_output_tokens: u64::MAX,
            images: u64::MAX,
            requests: u64::MAX,
            source: UsageSource::Estimated,
        }
    }

    fn longest_begin() -> Begin {
        Begin {
            request: RequestId::generate(LATEST, [255; 10]),
            tenant: TenantId::generate(LATEST, [255; 10]),
            member: Some(MemberId::generate(LATEST, [255; 10])),
            token: AccessTokenId::generate(LATEST, [255; 10]),
            model_id: ModelId::generate(LATEST, [255; 10]),
            model: longest_name(),
            format: ApiFormat::OpenAiChat,
            stream: false,
            started_at: LATEST,
            hold: Nanos::new(i64::MIN),
            input_tokens_estimate: u64::MAX,
            prices: highest_prices(),
        }
    }

    fn longest_start() -> AttemptStart {
        AttemptStart {
            route_id: RouteId::generate(LATEST, [255; 10]),
            provider_id: ProviderId::generate(LATEST, [255; 10]),
            key_id: KeyId::generate(LATEST, [255; 10]),
            upstream_model: longest_name(),
            started_at: LATEST,
            cost: highest_prices(),
        }
    }

    fn longest_attempt() -> Attempt {
        let start = longest_start();
        Attempt {
            route_id: start.route_id,
            provider_id: start.provider_id,
            key_id: start.key_id,
            upstream_model: start.upstream_model,
            started_at: start.started_at,
            duration_ms: u32::MAX,
            status: Some(u16::MAX),
            class: Some(FailureClass::RefusedCredential),
        }
    }

    fn longest_end(attempts: usize) -> UsageEvent {
        let begin = longest_begin();
        UsageEvent {
            id: begin.request,
            tenant_id: begin.tenant,
            member_id: begin.member,
            token_id: begin.token,
            model_id: begin.model_id,
            model: begin.model,
            format: begin.format,
            stream: false,
            outcome: Outcome::Interrupted,
            status: u16::MAX,
            usage: highest_usage(),
            charge: Nanos::new(i64::MIN),
            cost: Nanos::new(i64::MIN),
            started_at: LATEST,
            first_content_ms: Some(u32::MAX),
            duration_ms: u32::MAX,
            replica_id: ReplicaId::generate(LATEST, [255; 10]),
            attempts: vec![longest_attempt(); attempts],
        }
    }

    fn encoded(record: &RecordRef<'_>) -> usize {
        let mut bytes = Vec::new();
        frame::encode(&mut bytes, RequestId::generate(LATEST, [255; 10]), LATEST, record).unwrap();
        bytes.len()
    }

    #[test]
    fn the_room_kept_for_an_end_is_enough_for_the_longest_one() {
        let (begin, start) = (longest_begin(), longest_start());
        for attempts in 1..=MAX_ATTEMPTS {
            let kept = end_reserve(&begin, &start) + (attempts - 1) * attempt_reserve(&start);
            let taken = encoded(&RecordRef::End(&longest_end(attempts)));
            assert!(taken <= kept, "{attempts} attempts take {taken}, kept {kept}");
            assert!(kept < taken * 3 / 2, "{attempts} attempts take {taken}, kept far more: {kept}");
        }
    }

    #[test]
    fn the_longest_record_fits_a_frame() {
        let open = OpenRequest {
            begin: longest_begin(),
            ended: vec![longest_attempt(); MAX_ATTEMPTS - 1],
            current: longest_start(),
            progress: Some(highest_usage()),
            last_at: LATEST,
        };
        for record in [
            RecordRef::Carried(&open),
            RecordRef::Begin(&open.begin, &open.current),
            RecordRef::Attempt(&open.ended[0], &open.current),
            RecordRef::Progress(&highest_usage()),
            RecordRef::End(&longest_end(MAX_ATTEMPTS)),
        ] {
            let bytes = encoded(&record);
            assert!(bytes > HEADER_BYTES && bytes <= MAX_FRAME_BYTES, "kind {} takes {bytes}", record.kind());
        }
    }
}
