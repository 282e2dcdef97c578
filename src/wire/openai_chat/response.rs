//! Answers in one JSON body, passed through piece by piece.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::{
    chunk::says_something,
    error::{UpstreamErrorText, decode_error},
    place::Place,
    usage::{ChatUsage, UsageFields},
};
use crate::wire::json::{Event, Feed, FeedError, Kind, NotUtf8, Scanner, Utf8Gate, encode_string};

/// Most bytes of `usage` or `error` held to be read; real ones are below 4 KiB.
const MAX_HELD_BYTES: usize = 64 << 10;

/// The upstream's body is not JSON; what was written before stands, nothing after passes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyFault {
    /// A byte that JSON does not allow there.
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
    /// The JSON document is whole.
    Complete,
    /// The body stopped inside the document, or was empty.
    Truncated,
    /// The object has a top-level `error`; see [`BodyFacts::error`].
    Failed,
    /// The document is whole and no answer: it has no `choices`.
    NoAnswer,
}

/// What was seen so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BodyFacts {
    /// Usage of the answer.
    pub usage: Option<ChatUsage>,
    /// Bytes of text in the messages (UTF-8, unescaped): content, reasoning, refusals, call arguments.
    pub output_text_bytes: u64,
    /// What a top-level `error` said, unless it said nothing (null, false, empty). From its value on
    /// nothing is written, so what was is no whole document: drop it, or cut the answer off.
    pub error: Option<UpstreamErrorText>,
}

/// Passes an answer on with the public model name, and gathers facts.
///
/// Any split of the same bytes gives the same output; memory does not grow with the body.
#[derive(Debug)]
pub struct BodyFilter {
    gate: Utf8Gate,
    feed: Feed,
    fault: Option<BodyFault>,
    pass: Pass,
}

/// What is done to the bytes between two events.
#[derive(Debug, Default)]
struct Pass {
    /// The public name as a JSON string.
    model: Bytes,
    /// The values that are open, and whether each is an array.
    open: Vec<(Place, bool)>,
    /// Where the value of the last member named stands.
    next: Place,
    flow: Flow,
    held: Vec<u8>,
    has_choices: bool,
    usage: UsageFields,
    facts: BodyFacts,
}

/// Where bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Flow {
    /// To the client.
    #[default]
    Out,
    /// To the client, and a copy is held: usage.
    OutAndHeld,
    /// Held until it is clear what they are: an error, or a member that says there is none.
    Held,
    /// Nowhere.
    Dropped,
}

impl BodyFilter {
    /// A filter for one answer.
    #[must_use]
    pub fn new(public_model: &str) -> Self {
        Self {
            gate: Utf8Gate::default(),
            feed: Feed::default(),
            fault: None,
            pass: Pass { model: encode_string(public_model), ..Pass::default() },
        }
    }

    /// Takes the next bytes and appends to `out` what the client gets.
    ///
    /// # Errors
    /// The upstream broke the format; what came before that is in `out`. Further calls fail alike.
    pub fn push(&mut self, chunk: &[u8], out: &mut BytesMut) -> Result<(), BodyFault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let (feed, pass) = (&mut self.feed, &mut self.pass);
        out.reserve(chunk.len() + pass.model.len());
        let result = self.gate.push(chunk, |piece| {
            let mut from = 0;
            let taken = feed.push(piece, |event| from = pass.event(&event, piece, from, out));
            let until = taken.as_ref().map_or_else(|error| error.at, |()| piece.len());
            pass.flow(&piece[from..until], out);
            taken.map_err(Stop::Json)
        });
        self.fault = result.err().map(|stop| match stop {
            Stop::Json(error) => BodyFault::BrokenJson { offset: error.offset, reason: error.reason },
            Stop::Utf8 => BodyFault::BrokenJson { offset: self.feed.taken(), reason: "invalid UTF-8" },
        });
        self.fault.clone().map_or(Ok(()), Err)
    }

    /// Says how the body ended.
    pub fn finish(&mut self) -> BodyEnd {
        if self.pass.facts.error.is_some() {
            BodyEnd::Failed
        } else if self.fault.is_none() && self.feed.is_done() && !self.gate.holds() {
            if self.pass.has_choices { BodyEnd::Complete } else { BodyEnd::NoAnswer }
        } else {
            BodyEnd::Truncated
        }
    }

    /// What was seen so far.
    #[must_use]
    pub const fn facts(&self) -> &BodyFacts {
        &self.pass.facts
    }
}

/// Why reading stopped.
enum Stop {
    Json(FeedError),
    Utf8,
}

impl From<NotUtf8> for Stop {
    fn from(_: NotUtf8) -> Self {
        Self::Utf8
    }
}

impl Pass {
    /// Takes what was met in `piece`, of which everything before `from` has gone its way; gives the new
    /// such place.
    fn event(&mut self, event: &Event<'_>, piece: &str, from: usize, out: &mut BytesMut) -> usize {
        match *event {
            Event::Key(ref name) => {
                self.next = self.open.last().map_or(Place::Other, |(place, _)| place.member(name));
                from
            }
            Event::Text(bytes) => {
                let counts = self.open.last().is_some_and(|(place, _)| place.counts());
                self.facts.output_text_bytes += if counts { bytes as u64 } else { 0 };
                from
            }
            Event::Start { kind, at } => {
                let place = self.place();
                self.open.push((place, kind == Kind::Array));
                self.has_choices |= place == Place::Choices && kind == Kind::Array;
                self.begins(place, kind, piece, from..at, out)
            }
            Event::End { at } => {
                let ended = self.open.pop().map(|(place, _)| place);
                self.ends(ended.unwrap_or_default(), piece, from..at, out)
            }
            Event::Whole { kind, span, text } => {
                let place = self.place();
                self.facts.output_text_bytes += if place.counts() { text as u64 } else { 0 };
                let from = self.begins(place, kind, piece, from..span.start, out);
                self.ends(place, piece, from..span.end, out)
            }
        }
    }

    /// Where a value that begins now stands.
    fn place(&self) -> Place {
        match self.open.last() {
            None => Place::Root,
            Some((array, true)) => array.element(),
            Some((_, false)) => self.next,
        }
    }

    /// A value begins behind `before`, which has not gone its way; gives where what has not begins now.
    fn begins(
        &mut self,
        place: Place,
        kind: Kind,
        piece: &str,
        before: Range<usize>,
        out: &mut BytesMut,
    ) -> usize {
        let flow = match place {
            Place::Model if kind == Kind::String => Flow::Dropped,
            Place::Usage => Flow::OutAndHeld,
            Place::Error => Flow::Held,
            _ => return before.start,
        };
        let at = before.end;
        self.flow(&piece[before], out);
        // After an error nothing is written, and usage is still read.
        let has_failed = self.facts.error.is_some();
        if flow == Flow::Dropped && !has_failed {
            out.extend_from_slice(&self.model);
        }
        self.flow = if has_failed && flow == Flow::OutAndHeld { Flow::Held } else { flow };
        at
    }

    /// The same where a value ends behind `rest`.
    fn ends(&mut self, place: Place, piece: &str, rest: Range<usize>, out: &mut BytesMut) -> usize {
        if !matches!(place, Place::Model | Place::Usage | Place::Error) {
            return rest.start;
        }
        let at = rest.end;
        self.flow(&piece[rest], out);
        self.ended(place, out);
        at
    }

    /// A value that was looked after ends.
    fn ended(&mut self, place: Place, out: &mut BytesMut) {
        let held = std::mem::take(&mut self.held);
        if place == Place::Usage {
            if let Ok(mut scanner) = Scanner::new(&held) {
                // A value too large to be usage was cut and does not scan; it then says nothing.
                let mut usage = self.usage;
                if usage.read(&mut scanner).is_ok() {
                    self.usage = usage;
                    self.facts.usage = usage.classes();
                }
            }
        } else if place == Place::Error && self.facts.error.is_none() {
            if std::str::from_utf8(&held).is_ok_and(says_something) {
                self.facts.error = Some(decode_error(&[b"{\"error\":", &held[..], b"}"].concat()));
            } else {
                out.extend_from_slice(&held);
            }
        }
        self.flow = if self.facts.error.is_some() { Flow::Dropped } else { Flow::Out };
    }

    fn flow(&mut self, text: &str, out: &mut BytesMut) {
        if matches!(self.flow, Flow::Out | Flow::OutAndHeld) {
            out.extend_from_slice(text.as_bytes());
        }
        if matches!(self.flow, Flow::OutAndHeld | Flow::Held) {
            let room = MAX_HELD_BYTES - self.held.len();
            self.held.extend_from_slice(&text.as_bytes()[..text.len().min(room)]);
        }
    }
}

#[cfg(test)]
mod tests;
