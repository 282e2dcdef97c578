//! One document, one pass, no tree.

use super::{
    MAX_DEPTH, ScanError, Span, reason,
    text::{Text, string_end},
};

/// What a value is, by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `{`
    Object,
    /// `[`
    Array,
    /// `"`
    String,
    /// A digit or a minus.
    Number,
    /// `true`
    True,
    /// `false`
    False,
    /// `null`
    Null,
}

/// A member of an object, its value not yet read.
#[derive(Debug, Clone, Copy)]
pub struct Member<'a> {
    /// The name.
    pub key: Text<'a>,
    /// The comma before it; none for the first.
    comma: Option<usize>,
}

/// A strict reader over one document.
///
/// The caller leads: at each value it asks what comes ([`Scanner::kind`]) and takes it with one of the
/// other functions, each of which consumes exactly one value, or fails. [`Scanner::end`] then makes sure
/// that nothing follows. What a caller skips is checked as strictly as what it reads. After an error the
/// scanner is of no further use.
#[derive(Debug)]
pub struct Scanner<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
}

impl<'a> Scanner<'a> {
    /// A scanner at the start of a document.
    ///
    /// # Errors
    /// The bytes are not UTF-8.
    pub fn new(document: &'a [u8]) -> Result<Self, ScanError> {
        let text = std::str::from_utf8(document)
            .map_err(|error| ScanError { offset: error.valid_up_to(), reason: reason::UTF8 })?;
        Ok(Self { text, at: 0, depth: 0 })
    }

    /// What the next value is.
    pub fn kind(&mut self) -> Result<Kind, ScanError> {
        match self.next_byte()? {
            b'{' => Ok(Kind::Object),
            b'[' => Ok(Kind::Array),
            b'"' => Ok(Kind::String),
            b'-' | b'0'..=b'9' => Ok(Kind::Number),
            b't' => Ok(Kind::True),
            b'f' => Ok(Kind::False),
            b'n' => Ok(Kind::Null),
            _ => Err(self.error(reason::VALUE)),
        }
    }

    /// Reads a string.
    pub fn string(&mut self) -> Result<Text<'a>, ScanError> {
        if self.next_byte()? != b'"' {
            return Err(self.error(reason::STRING));
        }
        let start = self.at;
        let end = string_end(self.text.as_bytes(), start + 1)?;
        self.at = end.quote + 1;
        Ok(Text::new(Span { start, end: self.at }, &self.text[start + 1..end.quote], &end))
    }

    /// Reads an object. `on_member` gets each member in turn and must take its value.
    pub fn object<E: From<ScanError>>(
        &mut self,
        mut on_member: impl FnMut(&mut Self, Member<'a>) -> Result<(), E>,
    ) -> Result<Span, E> {
        let start = self.open(b'{', reason::OBJECT)?;
        if self.next_byte()? == b'}' {
            return Ok(self.close(start));
        }
        let mut comma = None;
        loop {
            let key = self.key()?;
            on_member(self, Member { key, comma })?;
            match self.next_byte()? {
                b',' => comma = Some(self.at),
                b'}' => return Ok(self.close(start)),
                _ => return Err(self.error(reason::COMMA).into()),
            }
            self.at += 1;
        }
    }

    /// Reads an array. `on_element` is called before each element and must take it.
    pub fn array<E: From<ScanError>>(
        &mut self,
        mut on_element: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<Span, E> {
        let start = self.open(b'[', reason::ARRAY)?;
        if self.next_byte()? == b']' {
            return Ok(self.close(start));
        }
        loop {
            on_element(self)?;
            match self.next_byte()? {
                b',' => self.at += 1,
                b']' => return Ok(self.close(start)),
                _ => return Err(self.error(reason::COMMA).into()),
            }
        }
    }

    /// Passes over one value of any kind.
    pub fn skip(&mut self) -> Result<Span, ScanError> {
        self.next_byte()?;
        let start = self.at;
        let outer = self.depth;
        // One bit per open level, set for an object: no stack, no recursion.
        let mut objects = 0_u128;
        'value: loop {
            match self.kind()? {
                Kind::String => self.pass_string()?,
                Kind::Number => self.pass_number()?,
                Kind::True => self.pass_literal("true")?,
                Kind::False => self.pass_literal("false")?,
                Kind::Null => self.pass_literal("null")?,
                kind => {
                    let is_object = kind == Kind::Object;
                    self.deepen()?;
                    objects = objects << 1 | u128::from(is_object);
                    if self.next_byte()? != if is_object { b'}' } else { b']' } {
                        if is_object {
                            self.key()?;
                        }
                        continue 'value;
                    }
                    self.at += 1;
                    self.depth -= 1;
                    objects >>= 1;
                }
            }
            while self.depth > outer {
                let is_object = objects & 1 == 1;
                match self.next_byte()? {
                    b',' => {
                        self.at += 1;
                        if is_object {
                            self.key()?;
                        }
                        continue 'value;
                    }
                    b'}' if is_object => {}
                    b']' if !is_object => {}
                    _ => return Err(self.error(reason::COMMA)),
                }
                self.at += 1;
                self.depth -= 1;
                objects >>= 1;
            }
            return Ok(Span { start, end: self.at });
        }
    }

    /// Where the scanner is: after [`Scanner::kind`] the first byte of the value, after a value its end.
    #[must_use]
    pub const fn at(&self) -> usize {
        self.at
    }

    /// Makes sure that only white space follows.
    pub fn end(&mut self) -> Result<(), ScanError> {
        self.pass_blanks();
        if self.at == self.text.len() { Ok(()) } else { Err(self.error(reason::TRAILING)) }
    }

    /// The text of a span.
    #[must_use]
    pub fn slice(&self, span: Span) -> &'a str {
        &self.text[span.start..span.end]
    }

    /// What to cut so that a member goes and a valid object stays: the member and the comma before it, or,
    /// for the first one, the comma after. Two neighbours cannot be cut this way at once.
    #[must_use]
    pub fn removal(&self, member: &Member<'a>, value: Span) -> Span {
        if let Some(comma) = member.comma {
            return Span { start: comma, end: value.end };
        }
        let start = member.key.span.start;
        let rest = &self.text.as_bytes()[value.end..];
        let blanks = |bytes: &[u8]| bytes.iter().take_while(|byte| is_blank(**byte)).count();
        let comma = blanks(rest);
        if rest.get(comma) != Some(&b',') {
            return Span { start, end: value.end };
        }
        let end = value.end + comma + 1 + blanks(&rest[comma + 1..]);
        Span { start, end }
    }

    fn key(&mut self) -> Result<Text<'a>, ScanError> {
        if self.next_byte()? != b'"' {
            return Err(self.error(reason::KEY));
        }
        let key = self.string()?;
        if self.next_byte()? != b':' {
            return Err(self.error(reason::COLON));
        }
        self.at += 1;
        Ok(key)
    }

    fn open(&mut self, bracket: u8, otherwise: &'static str) -> Result<usize, ScanError> {
        if self.next_byte()? != bracket {
            return Err(self.error(otherwise));
        }
        let start = self.at;
        self.deepen()?;
        Ok(start)
    }

    fn deepen(&mut self) -> Result<(), ScanError> {
        if self.depth == MAX_DEPTH {
            return Err(self.error(reason::DEPTH));
        }
        self.depth += 1;
        self.at += 1;
        Ok(())
    }

    const fn close(&mut self, start: usize) -> Span {
        self.depth -= 1;
        self.at += 1;
        Span { start, end: self.at }
    }

    fn pass_string(&mut self) -> Result<(), ScanError> {
        self.at = string_end(self.text.as_bytes(), self.at + 1)?.quote + 1;
        Ok(())
    }

    fn pass_literal(&mut self, literal: &str) -> Result<(), ScanError> {
        if !self.text.as_bytes()[self.at..].starts_with(literal.as_bytes()) {
            return Err(self.error(reason::LITERAL));
        }
        self.at += literal.len();
        Ok(())
    }

    fn pass_number(&mut self) -> Result<(), ScanError> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.pass_digits()?,
            _ => return Err(self.error(reason::NUMBER)),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.pass_digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.pass_digits()?;
        }
        Ok(())
    }

    fn pass_digits(&mut self) -> Result<(), ScanError> {
        let from = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == from { Err(self.error(reason::NUMBER)) } else { Ok(()) }
    }

    fn pass_blanks(&mut self) {
        while self.peek().is_some_and(is_blank) {
            self.at += 1;
        }
    }

    /// The next byte that is not white space, not consumed.
    fn next_byte(&mut self) -> Result<u8, ScanError> {
        self.pass_blanks();
        self.peek().ok_or_else(|| self.error(reason::EOF))
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    const fn error(&self, reason: &'static str) -> ScanError {
        ScanError { offset: self.at, reason }
    }
}

pub(super) const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

#[cfg(test)]
pub(super) mod tests;
