//! What a request has consumed so far: the one crossing from wire usage to domain usage.

use crate::{
    billing::estimate::{BytesPerToken, Direction},
    domain::usage::{Usage, UsageSource},
    relay::filter::Seen,
    wire::openai_chat::ChatUsage,
};

/// Fixed-size; no text is kept.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// Text bytes of the request.
    pub input_bytes: u64,
    /// Whether an upstream has taken the request and begun to answer.
    pub accepted: bool,
    /// Text bytes of the output so far.
    pub output_bytes: u64,
    /// The upstream's count, as far as given.
    pub upstream: Option<ChatUsage>,
}

impl Meter {
    /// Takes over what an answer has shown.
    pub(super) fn note(&mut self, seen: Seen<'_>) {
        self.output_bytes = seen.output_bytes;
        if let Some(usage) = seen.usage {
            self.upstream = Some(*usage);
        }
    }

    /// Forgets an attempt that came to nothing.
    pub(super) fn reset(&mut self) {
        *self = Self { input_bytes: self.input_bytes, ..Self::default() };
    }

    /// The usage so far: the upstream's figures, completed by estimates where it gave none.
    pub(super) fn usage(&self, density: BytesPerToken) -> Usage {
        if !self.accepted {
            return Usage::default();
        }
        let input_estimate = density.tokens(Direction::Input, self.input_bytes);
        let output_estimate = density.tokens(Direction::Output, self.output_bytes);
        let Some(counted) = self.upstream else {
            return Usage {
                input_tokens: input_estimate,
                output_tokens: output_estimate,
                requests: 1,
                source: UsageSource::Estimated,
                ..Usage::default()
            };
        };
        let whole = counted.has_input && counted.has_output;
        Usage {
            input_tokens: if counted.has_input { counted.input_tokens } else { input_estimate },
            cache_read_tokens: counted.cache_read_tokens,
            cache_write_5m_tokens: counted.cache_write_5m_tokens,
            cache_write_1h_tokens: counted.cache_write_1h_tokens,
            output_tokens: if counted.has_output { counted.output_tokens } else { output_estimate },
            reasoning_tokens: counted.reasoning_tokens,
            audio_input_tokens: counted.audio_input_tokens,
            audio_output_tokens: counted.audio_output_tokens,
            images: 0,
            requests: 1,
            source: if whole { UsageSource::Upstream } else { UsageSource::Partial },
        }
    }
}
