//! Strings: finding their end, what they say, writing one.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};

use super::{ScanError, Span, reason};

/// A string of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text<'a> {
    /// Where it stands, quotes included.
    pub span: Span,
    /// How many bytes of UTF-8 it says once unescaped.
    pub text_bytes: usize,
    /// What stands between the quotes.
    raw: &'a str,
    escaped: bool,
}

impl<'a> Text<'a> {
    pub(super) const fn new(span: Span, raw: &'a str, end: &StringEnd) -> Self {
        Self { span, text_bytes: end.text_bytes, raw, escaped: end.escaped }
    }

    /// What it says. Half a surrogate pair, which the grammar allows and no text can hold, reads as
    /// U+FFFD.
    #[must_use]
    pub fn decode(&self) -> Cow<'a, str> {
        if self.escaped { Cow::Owned(unescape(self.raw)) } else { Cow::Borrowed(self.raw) }
    }

    /// Whether it is written exactly like this string, which is given with its quotes.
    #[must_use]
    pub fn is_written(&self, encoded: &[u8]) -> bool {
        matches!(encoded, [b'"', inner @ .., b'"'] if inner == self.raw.as_bytes())
    }
}

/// Where a string ends and what was met on the way.
pub(super) struct StringEnd {
    /// The closing quote.
    pub(super) quote: usize,
    pub(super) text_bytes: usize,
    pub(super) escaped: bool,
}

/// Finds the end of the string whose first byte after the opening quote is at `from`.
pub(super) fn string_end(bytes: &[u8], from: usize) -> Result<StringEnd, ScanError> {
    let mut at = from;
    let mut text_bytes = 0;
    let mut escaped = false;
    loop {
        let stop = plain_run(bytes, at);
        text_bytes += stop - at;
        match bytes.get(stop) {
            Some(b'"') => return Ok(StringEnd { quote: stop, text_bytes, escaped }),
            Some(b'\\') => {
                escaped = true;
                let (next, said) = escape_end(bytes, stop)?;
                text_bytes += said;
                at = next;
            }
            Some(_) => return Err(ScanError { offset: stop, reason: reason::CONTROL }),
            None => return Err(ScanError { offset: stop, reason: reason::EOF }),
        }
    }
}

/// The end of the escape that begins at `at`, and how many bytes of UTF-8 it stands for.
fn escape_end(bytes: &[u8], at: usize) -> Result<(usize, usize), ScanError> {
    match bytes.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok((at + 2, 1)),
        Some(b'u') => {
            let mut unit = 0;
            for offset in at + 2..at + 6 {
                let byte = *bytes.get(offset).ok_or(ScanError { offset, reason: reason::EOF })?;
                let digit = hex(byte).ok_or(ScanError { offset, reason: reason::HEX })?;
                unit = unit << 4 | digit;
            }
            Ok((at + 6, unit_bytes(unit)))
        }
        Some(_) => Err(ScanError { offset: at + 1, reason: reason::ESCAPE }),
        None => Err(ScanError { offset: at + 1, reason: reason::EOF }),
    }
}

/// Bytes of UTF-8 that one `\u` escape adds; a surrogate is half of a four-byte character.
pub(super) const fn unit_bytes(unit: u32) -> usize {
    match unit {
        0..0x80 => 1,
        0x80..0x800 | 0xd800..0xe000 => 2,
        _ => 3,
    }
}

pub(super) const fn hex(byte: u8) -> Option<u32> {
    match byte {
        b'0'..=b'9' => Some((byte - b'0') as u32),
        b'a'..=b'f' => Some((byte - b'a') as u32 + 10),
        b'A'..=b'F' => Some((byte - b'A') as u32 + 10),
        _ => None,
    }
}

/// The first byte from `from` on that ends a run of plain text: a quote, a backslash or a control
/// character; the length when there is none.
///
/// Eight bytes at a time: each term has its lowest set bit at the first byte it is about, and is wrong,
/// by borrowing, only above that one.
pub(super) fn plain_run(bytes: &[u8], from: usize) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    const QUOTES: u64 = ONES * b'"' as u64;
    const BACKSLASHES: u64 = ONES * b'\\' as u64;
    const BLANKS: u64 = ONES * 0x20;

    let mut at = from;
    while let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*word);
        let quote = word ^ QUOTES;
        let backslash = word ^ BACKSLASHES;
        let found = (quote.wrapping_sub(ONES) & !quote
            | backslash.wrapping_sub(ONES) & !backslash
            | word.wrapping_sub(BLANKS) & !word)
            & HIGH;
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while let Some(&byte) = bytes.get(at) {
        if byte == b'"' || byte == b'\\' || byte < 0x20 {
            break;
        }
        at += 1;
    }
    at
}

/// Undoes the escapes of text known to be well formed.
fn unescape(raw: &str) -> String {
    let mut said = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        said.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let kind = rest.as_bytes().first().copied().unwrap_or(b'\\');
        rest = rest.get(1..).unwrap_or_default();
        match kind {
            b'b' => said.push('\u{8}'),
            b'f' => said.push('\u{c}'),
            b'n' => said.push('\n'),
            b'r' => said.push('\r'),
            b't' => said.push('\t'),
            b'u' => rest = unescape_unit(rest, &mut said),
            other => said.push(char::from(other)),
        }
    }
    said.push_str(rest);
    said
}

/// Takes four digits, and the low half where they are a high surrogate; gives what follows.
fn unescape_unit<'a>(rest: &'a str, said: &mut String) -> &'a str {
    let unit = |text: &str| text.get(..4).and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let high = unit(rest).unwrap_or(0xfffd);
    let rest = rest.get(4..).unwrap_or_default();
    if let 0xd800..0xdc00 = high
        && let Some(after) = rest.strip_prefix("\\u")
        && let Some(low @ 0xdc00..0xe000) = unit(after)
    {
        let scalar = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
        said.push(char::from_u32(scalar).unwrap_or(char::REPLACEMENT_CHARACTER));
        return &after[4..];
    }
    said.push(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER));
    rest
}

/// Appends `text` as a JSON string, quotes included.
pub fn write_string(text: &str, out: &mut BytesMut) {
    out.reserve(text.len() + 2);
    out.extend_from_slice(b"\"");
    let bytes = text.as_bytes();
    let mut at = 0;
    loop {
        let stop = plain_run(bytes, at);
        out.extend_from_slice(&bytes[at..stop]);
        let Some(&byte) = bytes.get(stop) else { break };
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                let digit = b"0123456789abcdef"[usize::from(byte & 15)];
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', b'0' + (byte >> 4), digit]);
            }
        }
        at = stop + 1;
    }
    out.extend_from_slice(b"\"");
}

/// `text` as a JSON string, quotes included.
#[must_use]
pub fn encode_string(text: &str) -> Bytes {
    let mut out = BytesMut::new();
    write_string(text, &mut out);
    out.freeze()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text_of(document: &str) -> (String, usize) {
        let end = string_end(document.as_bytes(), 1).unwrap();
        let span = Span { start: 0, end: end.quote + 1 };
        let text = Text::new(span, &document[1..end.quote], &end);
        (text.decode().into_owned(), text.text_bytes)
    }

    #[test]
    fn half_a_surrogate_pair_reads_as_a_replacement_character() {
        assert_eq!(text_of(r#""a\ud83dz""#).0, "a\u{fffd}z");
        assert_eq!(text_of(r#""\udc00\ud83d\u0041""#).0, "\u{fffd}\u{fffd}A");
    }

    proptest! {
        #[test]
        fn a_written_string_reads_back_and_serde_agrees(text in any::<String>()) {
            let written = encode_string(&text);
            let written = std::str::from_utf8(&written).unwrap();
            prop_assert_eq!(&serde_json::from_str::<String>(written).unwrap(), &text);
            prop_assert_eq!(text_of(written), (text.clone(), text.len()));
        }

        #[test]
        fn escaped_units_read_back_with_their_length(text in any::<String>()) {
            let escaped: Vec<String> = text.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect();
            let escaped = escaped.concat();
            prop_assert_eq!(text_of(&format!("\"{escaped}\"")), (text.clone(), text.len()));
        }

        #[test]
        fn a_plain_run_stops_where_a_byte_by_byte_search_does(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let slow = bytes.iter().position(|&b| b == b'"' || b == b'\\' || b < 0x20).unwrap_or(bytes.len());
            prop_assert_eq!(plain_run(&bytes, 0), slow);
        }
    }
}
