//! Copying a document with some spans replaced.

use bytes::{Bytes, BytesMut};

use super::Span;

/// One change: `with` in place of `span`. An empty span inserts, an empty `with` removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edit<'a> {
    /// What goes.
    pub span: Span,
    /// What comes.
    pub with: &'a [u8],
}

/// Appends `source` with `edits` to `out`, each byte copied once. Edits stand in order of their start and
/// do not overlap.
pub fn splice_into(source: &[u8], edits: &[Edit<'_>], out: &mut BytesMut) {
    let added: usize = edits.iter().map(|edit| edit.with.len()).sum();
    out.reserve(source.len() + added);
    let mut copied = 0;
    for edit in edits {
        debug_assert!(copied <= edit.span.start && edit.span.start <= edit.span.end, "edits in order");
        out.extend_from_slice(&source[copied..edit.span.start]);
        out.extend_from_slice(edit.with);
        copied = edit.span.end;
    }
    out.extend_from_slice(&source[copied..]);
}

/// `source` with `edits`, as [`splice_into`].
#[must_use]
pub fn splice(source: &[u8], edits: &[Edit<'_>]) -> Bytes {
    let mut out = BytesMut::new();
    splice_into(source, edits, &mut out);
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_inserts_and_removes_in_one_copy() {
        let edits = [
            Edit { span: Span { start: 0, end: 1 }, with: b"xyz" },
            Edit { span: Span::empty(3), with: b"-" },
            Edit { span: Span { start: 4, end: 6 }, with: b"" },
        ];
        assert_eq!(splice(b"abcdef", &edits), "xyzbc-d");
        assert_eq!(splice(b"abc", &[]), "abc");
    }
}
