//! Public models and the routes that serve them.

use serde::{Deserialize, Serialize};

use crate::domain::{
    clock::Timestamp,
    ids::{ModelId, ProviderId, RouteId},
    price::Prices,
};

/// A public model name, matched exactly, with what it can do and what tenants pay for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// Its id.
    pub id: ModelId,
    /// The name that clients send.
    pub name: String,
    /// What it can do.
    pub capabilities: Capabilities,
    /// Context window, tokens.
    pub context_tokens: Option<u64>,
    /// Most output it gives, tokens.
    pub max_output_tokens: Option<u64>,
    /// Selling prices.
    pub prices: Prices,
    /// Switched off by an admin when false.
    pub enabled: bool,
    /// Rises with each change; the `ETag`.
    pub version: i64,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// One way to serve a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Its id.
    pub id: RouteId,
    /// The model it serves.
    pub model_id: ModelId,
    /// The provider that serves it.
    pub provider_id: ProviderId,
    /// The name sent upstream.
    pub upstream_model: String,
    /// Lower is tried first.
    pub priority: i32,
    /// Share among equals under weighted routing, at least 1.
    pub weight: u32,
    /// Cost prices, what the provider takes.
    pub cost: Prices,
    /// Replaces the model's capabilities on this route where set.
    pub capabilities: Option<Capabilities>,
    /// Switched off by an admin when false.
    pub enabled: bool,
    /// Rises with each change; the `ETag`.
    pub version: i64,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// What a model can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "a set of independent facts, named as in REST")]
pub struct Capabilities {
    /// Tool calls.
    pub tools: bool,
    /// Images in the input.
    pub vision: bool,
    /// PDFs in the input.
    pub pdf: bool,
    /// Audio in the input.
    pub audio: bool,
    /// Video in the input.
    pub video: bool,
    /// Answers that follow a JSON schema.
    pub json_schema: bool,
    /// Reasoning.
    pub reasoning: bool,
    /// Web search by the provider.
    pub search: bool,
}
