//! One chunk of a stream, read in one scan.

use super::{place::Place, usage::UsageFields};
use crate::wire::json::{Kind, Member, ScanError, Scanner, Span, Text};

/// What a chunk holds, as far as it matters on the way through.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(super) struct Chunk<'a> {
    /// The value of `model`, when it is a string.
    pub(super) model: Option<Text<'a>>,
    /// `usage`, and what to cut to take it out.
    pub(super) usage: Option<(Kind, Span)>,
    /// `choices` is an array, with elements or without.
    pub(super) has_choices: bool,
    /// `choices` is an array without elements.
    pub(super) has_no_choices: bool,
    /// Something worth passing on besides choices and usage.
    pub(super) has_extras: bool,
    /// `error` says something.
    pub(super) is_error: bool,
    /// Content or a finish reason.
    pub(super) has_content: bool,
    /// Bytes of text.
    pub(super) text_bytes: usize,
}

/// Which choices of a stream started and which finished. Indexes beyond the width share the last bit.
#[derive(Debug, Default)]
pub(super) struct Choices {
    started: u128,
    finished: u128,
}

impl Choices {
    /// At least one started and none is open.
    pub(super) const fn all_finished(&self) -> bool {
        self.started != 0 && self.started & !self.finished == 0
    }
}

impl<'a> Chunk<'a> {
    /// Reads the data of an event, adding its usage and choices to those of the stream.
    ///
    /// # Errors
    /// It is not a JSON object.
    pub(super) fn read(
        data: &'a [u8],
        usage: &mut UsageFields,
        choices: &mut Choices,
    ) -> Result<Self, ScanError> {
        let mut chunk = Self::default();
        let mut scanner = Scanner::new(data)?;
        scanner.object(|scanner, member| chunk.member(scanner, &member, usage, choices))?;
        scanner.end()?;
        Ok(chunk)
    }

    fn member(
        &mut self,
        scanner: &mut Scanner<'a>,
        member: &Member<'a>,
        usage: &mut UsageFields,
        choices: &mut Choices,
    ) -> Result<(), ScanError> {
        let kind = scanner.kind()?;
        match &*member.key.decode() {
            "model" if kind == Kind::String => {
                self.model = Some(scanner.string()?);
                Ok(())
            }
            "choices" if kind == Kind::Array => {
                (self.has_choices, self.has_no_choices) = (true, true);
                scanner
                    .array(|scanner| {
                        self.has_no_choices = false;
                        self.choice(scanner, choices)
                    })
                    .map(drop)
            }
            "usage" => {
                let start = scanner.at();
                usage.read(scanner)?;
                let value = Span { start, end: scanner.at() };
                self.usage = Some((kind, scanner.removal(member, value)));
                Ok(())
            }
            "x_groq" if kind == Kind::Object => scanner
                .object(|scanner, member| match &*member.key.decode() {
                    "usage" => usage.read(scanner),
                    _ => scanner.skip().map(drop),
                })
                .map(drop),
            "error" => {
                let value = scanner.skip()?;
                self.is_error = says_something(scanner.slice(value));
                Ok(())
            }
            name => {
                self.has_extras |= kind != Kind::Null && !is_padding(name);
                scanner.skip().map(drop)
            }
        }
    }

    fn choice(&mut self, scanner: &mut Scanner<'a>, choices: &mut Choices) -> Result<(), ScanError> {
        if scanner.kind()? != Kind::Object {
            return scanner.skip().map(drop);
        }
        let mut index = 0;
        let mut is_finished = false;
        scanner.object(|scanner, member| match &*member.key.decode() {
            "index" => {
                let value = scanner.skip()?;
                index = scanner.slice(value).parse().unwrap_or(0);
                Ok(())
            }
            "delta" => self.walk(scanner, Place::Message),
            "finish_reason" => {
                let value = scanner.skip()?;
                is_finished = says_something(scanner.slice(value));
                Ok(())
            }
            _ => scanner.skip().map(drop),
        })?;
        let bit = 1_u128 << u32::min(index, 127);
        choices.started |= bit;
        if is_finished {
            choices.finished |= bit;
            self.has_content = true;
        }
        Ok(())
    }

    /// Counts the text of a value. The depth is bounded by the table of places.
    fn walk(&mut self, scanner: &mut Scanner<'a>, place: Place) -> Result<(), ScanError> {
        match scanner.kind()? {
            Kind::String if place.counts() => {
                let text_bytes = scanner.string()?.text_bytes;
                self.text_bytes += text_bytes;
                self.has_content |= text_bytes > 0;
                Ok(())
            }
            Kind::Object if place != Place::Other => scanner
                .object(|scanner, member| {
                    self.has_content |= place.is_content();
                    self.walk(scanner, place.member(&member.key.decode()))
                })
                .map(drop),
            Kind::Array if place != Place::Other => scanner
                .array(|scanner| {
                    self.has_content |= place.is_content();
                    self.walk(scanner, place.element())
                })
                .map(drop),
            _ => scanner.skip().map(drop),
        }
    }
}

/// Members that are no reason to keep a chunk whose only purpose was usage: the frame every chunk has,
/// padding, and what vendors say about serving it.
fn is_padding(name: &str) -> bool {
    matches!(
        name,
        "id" | "object"
            | "created"
            | "model"
            | "choices"
            | "system_fingerprint"
            | "service_tier"
            | "obfuscation"
            | "provider"
            | "x_groq"
            | "latency_checkpoint"
            | "sla_metrics"
            | "time_info"
            | "timings"
    )
}

/// Whether a value is more than `null`, `false`, `""` or `{}`: clients take an error by its truth.
pub(super) fn says_something(value: &str) -> bool {
    !matches!(value, "null" | "false" | "\"\"" | "{}")
}
