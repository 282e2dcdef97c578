//! JSON without a tree (RFC 8259): find spans in a document, change them, copy the rest.
//!
//! - [`Scanner`] reads a whole document in one pass, strictly, and hands its caller members and spans;
//! - [`Feed`] checks a document that arrives in pieces and remembers nothing of it but where it is;
//! - [`splice`] copies a document once with some spans replaced;
//! - [`Text`] is a string of a document, still escaped; [`write_string`] writes one.
//!
//! Both readers accept exactly the documents of the RFC, nested at most [`MAX_DEPTH`] deep.

mod feed;
mod scan;
mod splice;
mod text;
mod utf8;

pub use feed::{Event, Feed, FeedError};
pub use scan::{Kind, Member, Scanner};
pub use splice::{Edit, splice, splice_into};
pub use text::{Text, encode_string, write_string};
pub use utf8::{NotUtf8, Utf8Gate};

/// Deepest nesting taken, levels; serde and most vendors draw the line at the same place.
pub const MAX_DEPTH: u32 = 128;

/// A range of bytes in a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// The empty range before byte `at`.
    #[must_use]
    pub const fn empty(at: usize) -> Self {
        Self { start: at, end: at }
    }

    /// The bytes it holds.
    #[must_use]
    pub const fn len(self) -> usize {
        self.end - self.start
    }

    /// Whether it holds none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// A document that is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at byte {offset}")]
pub struct ScanError {
    /// Where, bytes from the start.
    pub offset: usize,
    /// What is wrong there, without a trailing stop.
    pub reason: &'static str,
}

/// The reasons both readers give.
mod reason {
    pub(super) const EOF: &str = "unexpected end";
    pub(super) const UTF8: &str = "invalid UTF-8";
    pub(super) const VALUE: &str = "a value was expected";
    pub(super) const LITERAL: &str = "unknown literal";
    pub(super) const NUMBER: &str = "malformed number";
    pub(super) const CONTROL: &str = "unescaped control character in a string";
    pub(super) const ESCAPE: &str = "unknown escape in a string";
    pub(super) const HEX: &str = "four hexadecimal digits were expected";
    pub(super) const KEY: &str = "a member name was expected";
    pub(super) const COLON: &str = "a colon was expected";
    pub(super) const COMMA: &str = "a comma or the closing bracket was expected";
    pub(super) const DEPTH: &str = "nested too deep";
    pub(super) const TRAILING: &str = "data after the document";
    pub(super) const STRING: &str = "a string was expected";
    pub(super) const OBJECT: &str = "an object was expected";
    pub(super) const ARRAY: &str = "an array was expected";
}
