//! The immutable record of a request and its attempts.

use serde::{Deserialize, Serialize};

use crate::domain::{
    clock::Timestamp,
    failure::FailureClass,
    ids::{AccessTokenId, KeyId, MemberId, ModelId, ProviderId, ReplicaId, RequestId, RouteId, TenantId},
    money::Nanos,
    provider::ApiFormat,
    usage::Usage,
};

/// What happened, what it consumed and what it costs. Written to the journal before the client
/// has the last byte, to the store some time later, exactly once by its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageEvent {
    /// The request; the billing id, ours and never a client's header.
    pub id: RequestId,
    /// Who pays.
    pub tenant_id: TenantId,
    /// Which person.
    pub member_id: Option<MemberId>,
    /// Which access token.
    pub token_id: AccessTokenId,
    /// Which model.
    pub model_id: ModelId,
    /// The model's public name at the time.
    pub model: String,
    /// The format that the client speaks.
    pub format: ApiFormat,
    /// Whether the client asked for a stream.
    pub stream: bool,
    /// How it ended.
    pub outcome: Outcome,
    /// The status that the client was given; 0 when it left before one was.
    pub status: u16,
    /// What was consumed.
    pub usage: Usage,
    /// What the tenant pays.
    pub charge: Nanos,
    /// What the provider takes.
    pub cost: Nanos,
    /// When the request came.
    pub started_at: Timestamp,
    /// From there to the first content, ms.
    pub first_content_ms: Option<u32>,
    /// From there to the end, ms.
    pub duration_ms: u32,
    /// Which replica served it.
    pub replica_id: ReplicaId,
    /// Every try, in order; the last one is the one that answered.
    pub attempts: Vec<Attempt>,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The client has the whole answer.
    Completed,
    /// The client left first.
    Aborted,
    /// The upstream called the request wrong.
    Rejected,
    /// No attempt succeeded, or the answer broke off.
    Failed,
    /// The replica died; settled at its next start.
    Interrupted,
}

impl Outcome {
    /// The name in tables, metrics and REST.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Aborted => "aborted",
            Self::Rejected => "rejected",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }
}

/// One try of one route with one key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Which route.
    pub route_id: RouteId,
    /// Which provider.
    pub provider_id: ProviderId,
    /// Which key.
    pub key_id: KeyId,
    /// The model name sent upstream.
    pub upstream_model: String,
    /// When it was sent.
    pub started_at: Timestamp,
    /// From there to its end, ms.
    pub duration_ms: u32,
    /// The upstream's status, if it gave one.
    pub status: Option<u16>,
    /// What went wrong; none: nothing.
    pub class: Option<FailureClass>,
}
