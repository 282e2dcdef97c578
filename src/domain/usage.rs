//! What a request consumed, in disjoint classes: each token stands in exactly one of them.

use serde::{Deserialize, Serialize};

/// How much, and who says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Input tokens neither read from nor written to a cache, text and images.
    pub input_tokens: u64,
    /// Input tokens read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Input tokens written to a cache that lives five minutes.
    pub cache_write_5m_tokens: u64,
    /// Input tokens written to a cache that lives one hour.
    pub cache_write_1h_tokens: u64,
    /// Output tokens, reasoning included, audio not.
    pub output_tokens: u64,
    /// The part of `output_tokens` that was reasoning.
    pub reasoning_tokens: u64,
    /// Audio tokens in the input.
    pub audio_input_tokens: u64,
    /// Audio tokens in the output.
    pub audio_output_tokens: u64,
    /// Images made.
    pub images: u64,
    /// 1 once an upstream has begun to answer.
    pub requests: u64,
    /// Who counted.
    pub source: UsageSource,
}

impl Usage {
    /// All tokens that went in, of every class.
    #[must_use]
    pub const fn total_input_tokens(&self) -> u64 {
        self.input_tokens
            .saturating_add(self.cache_read_tokens)
            .saturating_add(self.cache_write_5m_tokens)
            .saturating_add(self.cache_write_1h_tokens)
            .saturating_add(self.audio_input_tokens)
    }

    /// All tokens that came out, of every class.
    #[must_use]
    pub const fn total_output_tokens(&self) -> u64 {
        self.output_tokens.saturating_add(self.audio_output_tokens)
    }

    /// All tokens, what a tpm window counts.
    #[must_use]
    pub const fn total_tokens(&self) -> u64 {
        self.total_input_tokens().saturating_add(self.total_output_tokens())
    }
}

/// Who counted the tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageSource {
    /// The provider's own figures.
    Upstream,
    /// The provider gave some classes, the rest is estimated.
    Partial,
    /// Counted by us from byte lengths.
    Estimated,
    /// Nothing was consumed, or nothing is known.
    #[default]
    None,
}

impl UsageSource {
    /// The name in tables, metrics and REST.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Upstream => "upstream",
            Self::Partial => "partial",
            Self::Estimated => "estimated",
            Self::None => "none",
        }
    }
}
