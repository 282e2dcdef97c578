//! One document that arrives in pieces.

use std::borrow::Cow;

use super::{
    MAX_DEPTH, Span, reason,
    scan::{Kind, is_blank},
    text::{StringEnd, Text, hex, plain_run, unit_bytes},
};

/// Longest member name told apart, bytes as written; a longer one is reported as an empty name.
const MAX_KEY_BYTES: usize = 128;

/// What was met. `at` is a place in the piece given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'a> {
    /// The name of a member whose value follows.
    Key(Cow<'a, str>),
    /// A value begins.
    Start {
        /// What it is.
        kind: Kind,
        /// Its first byte.
        at: usize,
    },
    /// Text inside a string value, this many bytes of UTF-8 once unescaped.
    Text(usize),
    /// The value begun last and not ended yet ends.
    End {
        /// One past its last byte.
        at: usize,
    },
    /// A value that holds no others and stands whole in the piece: its start, its text and its end at once.
    Whole {
        /// What it is.
        kind: Kind,
        /// Where it stands.
        span: Span,
        /// What a string says, bytes of UTF-8.
        text: usize,
    },
}

/// A document that is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedError {
    /// The byte in the piece given.
    pub at: usize,
    /// The byte in the document.
    pub offset: u64,
    /// What is wrong there.
    pub reason: &'static str,
}

/// A strict reader over a document that comes in pieces, cut anywhere between characters. It holds where
/// it is and the name of one member, nothing else.
#[derive(Debug)]
pub struct Feed {
    state: State,
    /// One bit per open level, set for an object.
    objects: u128,
    depth: u32,
    /// Bytes of the pieces before this one.
    before: u64,
    key: String,
    key_escaped: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Value,
    FirstElement,
    FirstKey,
    NextKey,
    Colon,
    After,
    String { is_key: bool },
    Escape { is_key: bool },
    Unit { is_key: bool, digits: u8, unit: u32 },
    Literal { rest: &'static [u8] },
    Number(Part),
    Done,
}

/// Where in a number the reader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    Exponent,
    Sign,
    Power,
}

impl Default for Feed {
    fn default() -> Self {
        Self { state: State::Value, objects: 0, depth: 0, before: 0, key: String::new(), key_escaped: false }
    }
}

impl Feed {
    /// Whether the document is whole.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let number_ended =
            matches!(self.state, State::Number(Part::Zero | Part::Whole | Part::Fraction | Part::Power));
        self.state == State::Done || (self.depth == 0 && number_ended)
    }

    /// Bytes of the pieces taken whole.
    #[must_use]
    pub const fn taken(&self) -> u64 {
        self.before
    }

    /// Takes the next piece and tells `on_event` what was met in it.
    pub fn push(&mut self, piece: &str, mut on_event: impl FnMut(Event<'_>)) -> Result<(), FeedError> {
        let bytes = piece.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            at = self.step(piece, at, &mut on_event).map_err(|(at, reason)| FeedError {
                at,
                offset: self.before + at as u64,
                reason,
            })?;
        }
        self.before += bytes.len() as u64;
        Ok(())
    }

    /// Takes what begins at `at`, at least one byte unless a number ends there; gives the place after it.
    fn step(
        &mut self,
        piece: &str,
        at: usize,
        on_event: &mut impl FnMut(Event<'_>),
    ) -> Result<usize, (usize, &'static str)> {
        let bytes = piece.as_bytes();
        let byte = bytes[at];
        match self.state {
            State::String { is_key } => return self.string(piece, at, is_key, on_event),
            State::Escape { is_key } => self.escape(byte, is_key, on_event).map_err(|why| (at, why))?,
            State::Unit { is_key, digits, unit } => {
                let unit = unit << 4 | hex(byte).ok_or((at, reason::HEX))?;
                self.keep_key(is_key, char::from(byte).encode_utf8(&mut [0; 4]));
                self.state = State::Unit { is_key, digits: digits + 1, unit };
                if digits == 3 {
                    self.state = State::String { is_key };
                    if !is_key {
                        on_event(Event::Text(unit_bytes(unit)));
                    }
                }
            }
            State::Literal { rest } if bytes[at..].starts_with(rest) => {
                self.value_ended(at + rest.len(), on_event);
                return Ok(at + rest.len());
            }
            State::Literal { rest } => {
                let (first, rest) = rest.split_first().unwrap_or((&0, &[]));
                if byte != *first {
                    return Err((at, reason::LITERAL));
                }
                self.state = State::Literal { rest };
                if rest.is_empty() {
                    self.value_ended(at + 1, on_event);
                }
            }
            State::Number(part) => match part.next(byte) {
                Some(part) => self.state = State::Number(part),
                None if part.may_end() => {
                    self.value_ended(at, on_event);
                    return Ok(at);
                }
                None => return Err((at, reason::NUMBER)),
            },
            _ if is_blank(byte) => {}
            State::FirstElement if byte == b']' => self.close(at, on_event),
            State::Value | State::FirstElement => {
                if let Some(next) = self.whole_value(bytes, at, on_event) {
                    return Ok(next);
                }
                self.value(byte, at, on_event)?;
            }
            State::FirstKey if byte == b'}' => self.close(at, on_event),
            State::FirstKey | State::NextKey if byte == b'"' => {
                if let Some(next) = self.whole_key(piece, at + 1, on_event) {
                    return Ok(next);
                }
                self.key.clear();
                self.key_escaped = false;
                self.state = State::String { is_key: true };
            }
            State::FirstKey | State::NextKey => return Err((at, reason::KEY)),
            State::Colon if byte == b':' => self.state = State::Value,
            State::Colon => return Err((at, reason::COLON)),
            State::After => match (byte, self.objects & 1 == 1) {
                (b',', true) => {
                    if bytes.get(at + 1) == Some(&b'"')
                        && let Some(next) = self.whole_key(piece, at + 2, on_event)
                    {
                        return Ok(next);
                    }
                    self.state = State::NextKey;
                }
                (b',', false) => self.state = State::Value,
                (b'}', true) | (b']', false) => self.close(at, on_event),
                _ => return Err((at, reason::COMMA)),
            },
            State::Done => return Err((at, reason::TRAILING)),
        }
        Ok(at + 1)
    }

    /// A value at `at` that stands whole in the piece and is plainly written, as nearly all are: a string
    /// without escapes, a whole number, a word. Gives the place after it.
    fn whole_value(
        &mut self,
        bytes: &[u8],
        at: usize,
        on_event: &mut impl FnMut(Event<'_>),
    ) -> Option<usize> {
        let (kind, end) = match bytes[at] {
            b'"' => {
                let quote = plain_run(bytes, at + 1);
                (Kind::String, (bytes.get(quote) == Some(&b'"')).then_some(quote + 1)?)
            }
            b'1'..=b'9' => {
                let end = at + bytes[at..].iter().position(|byte| !byte.is_ascii_digit())?;
                (Kind::Number, matches!(bytes[end], b',' | b'}' | b']').then_some(end)?)
            }
            b't' => (Kind::True, bytes[at..].starts_with(b"true").then_some(at + 4)?),
            b'f' => (Kind::False, bytes[at..].starts_with(b"false").then_some(at + 5)?),
            b'n' => (Kind::Null, bytes[at..].starts_with(b"null").then_some(at + 4)?),
            _ => return None,
        };
        let text = if kind == Kind::String { end - at - 2 } else { 0 };
        self.state = if self.depth == 0 { State::Done } else { State::After };
        on_event(Event::Whole { kind, span: Span { start: at, end }, text });
        Some(end)
    }

    fn value(
        &mut self,
        byte: u8,
        at: usize,
        on_event: &mut impl FnMut(Event<'_>),
    ) -> Result<(), (usize, &'static str)> {
        let (kind, state) = match byte {
            b'{' => (Kind::Object, State::FirstKey),
            b'[' => (Kind::Array, State::FirstElement),
            b'"' => (Kind::String, State::String { is_key: false }),
            b'-' => (Kind::Number, State::Number(Part::Minus)),
            b'0' => (Kind::Number, State::Number(Part::Zero)),
            b'1'..=b'9' => (Kind::Number, State::Number(Part::Whole)),
            b't' => (Kind::True, State::Literal { rest: b"rue" }),
            b'f' => (Kind::False, State::Literal { rest: b"alse" }),
            b'n' => (Kind::Null, State::Literal { rest: b"ull" }),
            _ => return Err((at, reason::VALUE)),
        };
        if let Kind::Object | Kind::Array = kind {
            if self.depth == MAX_DEPTH {
                return Err((at, reason::DEPTH));
            }
            self.depth += 1;
            self.objects = self.objects << 1 | u128::from(kind == Kind::Object);
        }
        self.state = state;
        on_event(Event::Start { kind, at });
        Ok(())
    }

    fn close(&mut self, at: usize, on_event: &mut impl FnMut(Event<'_>)) {
        self.depth -= 1;
        self.objects >>= 1;
        self.value_ended(at + 1, on_event);
    }

    fn value_ended(&mut self, at: usize, on_event: &mut impl FnMut(Event<'_>)) {
        self.state = if self.depth == 0 { State::Done } else { State::After };
        on_event(Event::End { at });
    }

    fn string(
        &mut self,
        piece: &str,
        at: usize,
        is_key: bool,
        on_event: &mut impl FnMut(Event<'_>),
    ) -> Result<usize, (usize, &'static str)> {
        let stop = plain_run(piece.as_bytes(), at);
        self.keep_key(is_key, &piece[at..stop]);
        if stop > at && !is_key {
            on_event(Event::Text(stop - at));
        }
        match piece.as_bytes().get(stop) {
            None => return Ok(stop),
            Some(b'"') if is_key => {
                on_event(Event::Key(self.decoded_key()));
                self.state = State::Colon;
            }
            Some(b'"') => self.value_ended(stop + 1, on_event),
            Some(b'\\') => {
                self.keep_key(is_key, "\\");
                self.key_escaped = true;
                self.state = State::Escape { is_key };
            }
            Some(_) => return Err((stop, reason::CONTROL)),
        }
        Ok(stop + 1)
    }

    /// A member's name that stands whole in the piece, without escapes, with the colon behind it: as nearly
    /// all do. It need not be kept. Gives the place after the colon.
    fn whole_key(&mut self, piece: &str, from: usize, on_event: &mut impl FnMut(Event<'_>)) -> Option<usize> {
        let end = plain_run(piece.as_bytes(), from);
        if end - from > MAX_KEY_BYTES || !piece.as_bytes()[end..].starts_with(b"\":") {
            return None;
        }
        on_event(Event::Key(Cow::Borrowed(&piece[from..end])));
        self.state = State::Value;
        Some(end + 2)
    }

    fn escape(
        &mut self,
        byte: u8,
        is_key: bool,
        on_event: &mut impl FnMut(Event<'_>),
    ) -> Result<(), &'static str> {
        self.state = match byte {
            b'u' => State::Unit { is_key, digits: 0, unit: 0 },
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => State::String { is_key },
            _ => return Err(reason::ESCAPE),
        };
        self.keep_key(is_key, char::from(byte).encode_utf8(&mut [0; 4]));
        if byte != b'u' && !is_key {
            on_event(Event::Text(1));
        }
        Ok(())
    }

    /// Keeps one byte more than the longest name told apart, so that a cut one is never taken for whole.
    fn keep_key(&mut self, is_key: bool, part: &str) {
        if is_key && self.key.len() <= MAX_KEY_BYTES {
            if part.len() + self.key.len() > MAX_KEY_BYTES {
                self.key = " ".repeat(MAX_KEY_BYTES + 1);
            } else {
                self.key.push_str(part);
            }
        }
    }

    fn decoded_key(&self) -> Cow<'_, str> {
        if self.key.len() > MAX_KEY_BYTES {
            return Cow::Borrowed("");
        }
        let end = StringEnd { quote: self.key.len(), text_bytes: 0, escaped: self.key_escaped };
        Text::new(Span::default(), &self.key, &end).decode()
    }
}

impl Part {
    const fn may_end(self) -> bool {
        matches!(self, Self::Zero | Self::Whole | Self::Fraction | Self::Power)
    }

    const fn next(self, byte: u8) -> Option<Self> {
        Some(match (self, byte) {
            (Self::Minus, b'0') => Self::Zero,
            (Self::Minus | Self::Whole, b'0'..=b'9') => Self::Whole,
            (Self::Zero | Self::Whole, b'.') => Self::Point,
            (Self::Point | Self::Fraction, b'0'..=b'9') => Self::Fraction,
            (Self::Zero | Self::Whole | Self::Fraction, b'e' | b'E') => Self::Exponent,
            (Self::Exponent, b'+' | b'-') => Self::Sign,
            (Self::Exponent | Self::Sign | Self::Power, b'0'..=b'9') => Self::Power,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests;
