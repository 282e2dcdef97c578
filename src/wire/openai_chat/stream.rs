//! Streamed answers, passed through frame by frame.

use bytes::{Bytes, BytesMut};

use super::{
    chunk::{Choices, Chunk},
    error::{UpstreamErrorText, decode_error},
    usage::{ChatUsage, UsageFields},
};
use crate::wire::{
    json::{Edit, Kind, ScanError, encode_string, splice_into},
    sse::{DEFAULT_MAX_EVENT_BYTES, Decoder, EventTooLarge, Frame},
};

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
            max_event_bytes: DEFAULT_MAX_EVENT_BYTES,
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
    /// Frames passed on that are more or less than a chunk with choices: comments, further fields,
    /// objects of the vendor's own. What an upstream says there may hold what it must not.
    pub foreign_frames: u64,
}

impl From<EventTooLarge> for StreamFault {
    fn from(error: EventTooLarge) -> Self {
        Self::EventTooLarge { limit: error.limit }
    }
}

impl From<ScanError> for StreamFault {
    fn from(error: ScanError) -> Self {
        Self::BrokenJson { offset: error.offset, reason: error.reason }
    }
}

/// Passes a streamed answer on with the public model name, and gathers facts.
///
/// Any split of the same bytes gives the same output; memory is bounded by the largest event. After an
/// error event, `[DONE]` or a fault nothing more is written.
#[derive(Debug)]
pub struct StreamFilter {
    decoder: Decoder,
    has_begun: bool,
    fault: Option<StreamFault>,
    pass: Pass,
}

/// What is done to each frame.
#[derive(Debug)]
struct Pass {
    /// The public name as a JSON string.
    model: Bytes,
    client_wants_usage: bool,
    usage: UsageFields,
    choices: Choices,
    facts: StreamFacts,
}

impl StreamFilter {
    /// A filter for one answer.
    #[must_use]
    pub fn new(config: FilterConfig) -> Self {
        let FilterConfig { public_model, client_wants_usage, max_event_bytes } = config;
        Self {
            decoder: Decoder::new(max_event_bytes),
            has_begun: false,
            fault: None,
            pass: Pass {
                model: encode_string(&public_model),
                client_wants_usage,
                usage: UsageFields::default(),
                choices: Choices::default(),
                facts: StreamFacts::default(),
            },
        }
    }

    /// Takes the next bytes and appends to `out` what the client gets. An error event is not written: it
    /// is in the facts, and the caller decides what becomes of it.
    ///
    /// # Errors
    /// The upstream broke the format; what came before that is in `out`. Further calls fail alike.
    pub fn push(&mut self, chunk: &[u8], out: &mut BytesMut) -> Result<(), StreamFault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        if self.pass.facts.terminal {
            return Ok(());
        }
        let result = self.read(chunk, out);
        // What follows `[DONE]` is nobody's business, broken or not.
        let result = if self.pass.facts.terminal { Ok(()) } else { result };
        self.fault = result.clone().err();
        result
    }

    /// Says how the stream ended, and appends to `out` what is still due: the last event and the blank
    /// line it lacks, and `[DONE]` where a complete answer came without it. A last event cut in its
    /// middle is not written.
    pub fn finish(&mut self, out: &mut BytesMut) -> StreamEnd {
        if self.fault.is_none() {
            let pass = &mut self.pass;
            let last = self.decoder.finish(|frame| {
                let before = out.len();
                pass.frame(&frame, out)?;
                if !frame.is_terminated && out.len() > before {
                    let ends_in_line_break = frame.raw.ends_with(b"\n") || frame.raw.ends_with(b"\r");
                    out.extend_from_slice(if ends_in_line_break { b"\n" } else { b"\n\n" });
                }
                Ok::<_, StreamFault>(())
            });
            self.fault = last.err();
        }
        let facts = &self.pass.facts;
        if facts.error.is_some() {
            StreamEnd::Failed
        } else if facts.terminal {
            StreamEnd::Complete
        } else if self.fault.is_none() && facts.finish_seen {
            out.extend_from_slice(b"data: [DONE]\n\n");
            StreamEnd::Complete
        } else {
            StreamEnd::Truncated
        }
    }

    /// What was seen so far.
    #[must_use]
    pub const fn facts(&self) -> &StreamFacts {
        &self.pass.facts
    }

    /// Servers that ignore `stream`, and proxies with a page of their own, answer 200 as well: the first
    /// byte that is no blank must begin a field or a comment.
    fn read(&mut self, chunk: &[u8], out: &mut BytesMut) -> Result<(), StreamFault> {
        let pass = &mut self.pass;
        let mut on_frame = |frame: Frame<'_>| pass.frame(&frame, out);
        if self.has_begun {
            return self.decoder.push(chunk, on_frame);
        }
        let is_nothing = |byte: &u8| byte.is_ascii_whitespace() || "\u{feff}".as_bytes().contains(byte);
        let lead = chunk.iter().take_while(|byte| is_nothing(byte)).count();
        let (lead, rest) = chunk.split_at(lead);
        self.decoder.push(lead, &mut on_frame)?;
        match rest.first() {
            None => Ok(()),
            // data, event, id, retry, comment
            Some(b'd' | b'e' | b'i' | b'r' | b':') => {
                self.has_begun = true;
                self.decoder.push(rest, on_frame)
            }
            Some(_) => Err(StreamFault::NotAStream),
        }
    }
}

impl Pass {
    fn frame(&mut self, frame: &Frame<'_>, out: &mut BytesMut) -> Result<(), StreamFault> {
        if self.facts.terminal {
            return Ok(());
        }
        let data = frame.data.as_deref().unwrap_or_default();
        if data == b"[DONE]" {
            self.facts.terminal = true;
            self.write(frame, &[], out);
            return Ok(());
        }
        // Some vendors answer a failure with an array of errors.
        if frame.event == Some(b"error") || data.first() == Some(&b'[') {
            self.facts.error.get_or_insert_with(|| decode_error(data));
            return Ok(());
        }
        if data.trim_ascii().is_empty() {
            self.facts.foreign_frames += 1;
            self.write(frame, &[], out);
            return Ok(());
        }
        let chunk = Chunk::read(data, &mut self.usage, &mut self.choices)?;
        self.facts.foreign_frames += u64::from(!chunk.has_choices || !frame.raw.starts_with(b"data:"));
        self.note(&chunk, data);
        self.pass_on(frame, &chunk, out);
        Ok(())
    }

    fn note(&mut self, chunk: &Chunk<'_>, data: &[u8]) {
        let facts = &mut self.facts;
        facts.first_content |= chunk.has_content;
        facts.content_seq += u64::from(chunk.has_content);
        facts.finish_seen = self.choices.all_finished();
        facts.usage = self.usage.classes();
        facts.output_text_bytes += chunk.text_bytes as u64;
        if chunk.is_error {
            facts.error.get_or_insert_with(|| decode_error(data));
        }
    }

    fn pass_on(&self, frame: &Frame<'_>, chunk: &Chunk<'_>, out: &mut BytesMut) {
        let mut cut = None;
        if let (false, Some((kind, removal))) = (self.client_wants_usage, chunk.usage) {
            let is_object = kind == Kind::Object;
            if is_object && chunk.has_no_choices && !chunk.has_extras {
                return;
            }
            if kind == Kind::Null || (is_object && chunk.has_no_choices) {
                cut = Some(Edit { span: frame.raw_span(removal), with: b"" });
            }
        }
        let renamed = chunk.model.filter(|model| !model.is_written(&self.model));
        let rename = renamed.map(|model| Edit { span: frame.raw_span(model.span), with: &self.model });
        match (cut, rename) {
            (None, None) => self.write(frame, &[], out),
            (Some(edit), None) | (None, Some(edit)) => self.write(frame, &[edit], out),
            (Some(a), Some(b)) if a.span.start < b.span.start => self.write(frame, &[a, b], out),
            (Some(a), Some(b)) => self.write(frame, &[b, a], out),
        }
    }

    fn write(&self, frame: &Frame<'_>, edits: &[Edit<'_>], out: &mut BytesMut) {
        if self.facts.error.is_none() {
            splice_into(frame.raw, edits, out);
        }
    }
}

#[cfg(test)]
mod tests;
