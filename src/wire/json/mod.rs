//! JSON without a tree: scanning and splicing byte spans.

/// A range of bytes in a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}
