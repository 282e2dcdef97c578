//! Server-sent events from bytes (WHATWG HTML, «Interpreting an event stream»).
//!
//! [`Decoder`] cuts a byte stream into [`Frame`]s at blank lines. Any split of the same bytes gives the
//! same frames. Lines end in LF, CRLF or CR; a frame that is all in one chunk is not copied.

use std::borrow::Cow;

use memchr::memchr2;

use super::json::Span;

/// Largest event taken when nothing else is set: 16 MiB.
pub const DEFAULT_MAX_EVENT_BYTES: usize = 16 << 20;

/// Buffers that grew beyond this are given back once empty; an open stream then costs next to nothing.
const KEPT_BUFFER_BYTES: usize = 8 << 10;

/// An event larger than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event is larger than {limit} bytes")]
pub struct EventTooLarge {
    /// The limit, bytes.
    pub limit: usize,
}

/// One event, or comments alone, with the bytes it was written in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame<'a> {
    /// All its bytes, the blank line that ends it included.
    pub raw: &'a [u8],
    /// The value of the last `event:` line.
    pub event: Option<&'a [u8]>,
    /// The values of the `data:` lines, joined by line feeds; none when there is no such line.
    pub data: Option<Cow<'a, [u8]>>,
    /// Whether its blank line came; only the last frame of a stream can lack it.
    pub is_terminated: bool,
    data_at: usize,
}

impl Frame<'_> {
    /// Where a span of `data` stands in `raw`. Of a span over several lines the line starts between are
    /// part.
    #[must_use]
    pub fn raw_span(&self, span: Span) -> Span {
        if let Some(Cow::Owned(_)) = &self.data {
            let start = self.raw_offset(span.start);
            let end = if span.is_empty() { start } else { self.raw_offset(span.end - 1) + 1 };
            return Span { start, end };
        }
        Span { start: self.data_at + span.start, end: self.data_at + span.end }
    }

    fn raw_offset(&self, at: usize) -> usize {
        let mut before = 0;
        for value in data_values(self.raw) {
            if at <= before + value.len() {
                return value.start + at - before;
            }
            before += value.len() + 1;
        }
        self.raw.len()
    }
}

/// Cuts bytes into frames. Memory is bounded by the largest event.
#[derive(Debug)]
pub struct Decoder {
    held: Vec<u8>,
    lines: Lines,
    is_first: bool,
    limit: usize,
}

/// What is known of the lines of the frame at hand; places count from its start.
#[derive(Debug, Default)]
struct Lines {
    line_start: usize,
    /// No line ends before this place.
    searched: usize,
    /// The line before ended in a lone CR.
    after_cr: bool,
    data: Option<Span>,
    /// `data:` lines so far.
    count: usize,
    event: Option<Span>,
}

impl Decoder {
    /// A decoder for one stream.
    #[must_use]
    pub const fn new(max_event_bytes: usize) -> Self {
        let lines = Lines { line_start: 0, searched: 0, after_cr: false, data: None, count: 0, event: None };
        Self { held: Vec::new(), lines, is_first: true, limit: max_event_bytes }
    }

    /// Takes the next bytes and calls `on_frame` for each frame that is now whole.
    ///
    /// # Errors
    /// What `on_frame` fails with, and [`EventTooLarge`]; the stream cannot be read on after either.
    pub fn push<E: From<EventTooLarge>>(
        &mut self,
        chunk: &[u8],
        mut on_frame: impl FnMut(Frame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.held.is_empty() {
            let taken = self.cut(chunk, &mut on_frame)?;
            self.held.extend_from_slice(&chunk[taken..]);
            return Ok(());
        }
        let mut held = std::mem::take(&mut self.held);
        held.extend_from_slice(chunk);
        let taken = self.cut(&held, &mut on_frame)?;
        held.drain(..taken);
        if !held.is_empty() || held.capacity() <= KEPT_BUFFER_BYTES {
            self.held = held;
        }
        Ok(())
    }

    /// The stream is over: calls `on_frame` for what is held, as if its blank line had come.
    ///
    /// # Errors
    /// What `on_frame` fails with.
    pub fn finish<E: From<EventTooLarge>>(
        &mut self,
        mut on_frame: impl FnMut(Frame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let held = std::mem::take(&mut self.held);
        let mut rest = &held[..];
        while !rest.is_empty() {
            let end = self.lines.frame_end(rest, self.is_first, true);
            let frame = self.frame(&rest[..end.unwrap_or(rest.len())], end.is_some());
            rest = &rest[frame.raw.len()..];
            on_frame(frame)?;
        }
        Ok(())
    }

    /// Gives all frames that are whole; says how many bytes they took.
    fn cut<E: From<EventTooLarge>>(
        &mut self,
        bytes: &[u8],
        on_frame: &mut impl FnMut(Frame<'_>) -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut taken = 0;
        loop {
            let rest = &bytes[taken..];
            let end = self.lines.frame_end(rest, self.is_first, false);
            if end.unwrap_or(rest.len()) > self.limit {
                return Err(EventTooLarge { limit: self.limit }.into());
            }
            let Some(end) = end else { return Ok(taken) };
            let frame = self.frame(&rest[..end], true);
            on_frame(frame)?;
            taken += end;
        }
    }

    fn frame<'a>(&mut self, raw: &'a [u8], is_terminated: bool) -> Frame<'a> {
        let lines = std::mem::take(&mut self.lines);
        self.is_first = false;
        let slice = |span: Span| &raw[span.start..span.end];
        let data = lines.data.map(|first| match lines.count {
            1 => Cow::Borrowed(slice(first)),
            _ => Cow::Owned(data_values(raw).map(slice).collect::<Vec<_>>().join(&b'\n')),
        });
        let data_at = lines.data.map_or(0, |first| first.start);
        Frame { raw, event: lines.event.map(slice), data, is_terminated, data_at }
    }
}

impl Lines {
    /// Looks at the lines not yet seen; gives the frame's end if its blank line is among them. With
    /// `is_last` nothing follows these bytes.
    fn frame_end(&mut self, bytes: &[u8], is_first: bool, is_last: bool) -> Option<usize> {
        loop {
            let Some(found) = memchr2(b'\n', b'\r', &bytes[self.searched..]) else {
                self.searched = bytes.len();
                if is_last && self.line_start < bytes.len() {
                    self.take(bytes, bytes.len(), is_first);
                    self.line_start = bytes.len();
                }
                return None;
            };
            let at = self.searched + found;
            let is_blank = at == self.line_start;
            let is_cr = bytes[at] == b'\r';
            // Where lines end in a lone CR a blank line does too, and must not wait for what follows it; an
            // LF after that is then a blank line of its own, which says nothing.
            let may_be_crlf = is_cr && !(is_blank && self.after_cr);
            let next = bytes.get(at + 1);
            if may_be_crlf && next.is_none() && !is_last {
                self.searched = at;
                return None;
            }
            let is_crlf = may_be_crlf && next == Some(&b'\n');
            if !is_blank {
                self.take(bytes, at, is_first);
            }
            self.after_cr = is_cr && !is_crlf;
            self.line_start = at + 1 + usize::from(is_crlf);
            self.searched = self.line_start;
            if is_blank {
                return Some(self.line_start);
            }
        }
    }

    /// Notes what the line that ends at `end` says.
    fn take(&mut self, bytes: &[u8], end: usize, is_first: bool) {
        let mut start = self.line_start;
        if is_first && start == 0 && bytes[..end].starts_with("\u{feff}".as_bytes()) {
            start = 3;
        }
        match field(&bytes[start..end]) {
            Some((b"data", value)) => {
                self.count += 1;
                self.data.get_or_insert(Span { start: start + value, end });
            }
            Some((b"event", value)) => self.event = Some(Span { start: start + value, end }),
            Some(_) | None => {}
        }
    }
}

/// Splits a line into its field and the place of its value; none for a comment.
fn field(line: &[u8]) -> Option<(&[u8], usize)> {
    let colon = line.iter().take(6).position(|&byte| byte == b':');
    match colon {
        Some(0) => None,
        Some(colon) => Some((&line[..colon], colon + 1 + usize::from(line.get(colon + 1) == Some(&b' ')))),
        None => Some((line, line.len())),
    }
}

/// Where the values of the `data:` lines of a frame stand. Walks it again: frames of several data lines
/// are rare.
fn data_values(raw: &[u8]) -> impl Iterator<Item = Span> {
    let mut at = if raw.starts_with("\u{feff}".as_bytes()) { 3 } else { 0 };
    std::iter::from_fn(move || {
        while at < raw.len() {
            let start = at;
            let end = memchr2(b'\n', b'\r', &raw[start..]).map_or(raw.len(), |found| start + found);
            at = end + if raw[end..].starts_with(b"\r\n") { 2 } else { 1 };
            if let Some((b"data", value)) = field(&raw[start..end]) {
                return Some(Span { start: start + value, end });
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Seen = (Vec<u8>, Option<Vec<u8>>, Option<Vec<u8>>, bool);

    fn frames(pieces: &[&[u8]]) -> Vec<Seen> {
        let mut decoder = Decoder::new(DEFAULT_MAX_EVENT_BYTES);
        let mut seen: Vec<Seen> = Vec::new();
        let mut keep = |frame: Frame<'_>| {
            let data = frame.data.map(Cow::into_owned);
            seen.push((frame.raw.to_vec(), frame.event.map(<[u8]>::to_vec), data, frame.is_terminated));
            Ok::<_, EventTooLarge>(())
        };
        for piece in pieces {
            decoder.push(piece, &mut keep).unwrap();
        }
        decoder.finish(&mut keep).unwrap();
        seen
    }

    fn said(stream: &str) -> Vec<(Option<String>, Option<String>)> {
        let text = |bytes: Option<Vec<u8>>| bytes.map(|bytes| String::from_utf8(bytes).unwrap());
        frames(&[stream.as_bytes()])
            .into_iter()
            .map(|(_, event, data, _)| (text(event), text(data)))
            .collect()
    }

    #[test]
    fn reads_fields_in_any_order_and_style() {
        for (stream, event, data) in [
            ("data: a\n\n", None, Some("a")),
            ("data:a\r\n\r\n", None, Some("a")),
            ("data:  a\r\r", None, Some(" a")),
            ("event: e\ndata: a\n\n", Some("e"), Some("a")),
            ("data: a\nevent:e\n\n", Some("e"), Some("a")),
            ("data: a\ndata: b\n: c\ndata\n\n", None, Some("a\nb\n")),
            ("\u{feff}data: a\n\n", None, Some("a")),
            ("\u{feff}data: a\r\ndata: b\r\n\r\n", None, Some("a\nb")),
            (": comment\n\n", None, None),
            ("database: x\nid: 7\nretry: 1\n\n", None, None),
            ("data: a\n", None, Some("a")),
            ("data: a", None, Some("a")),
        ] {
            assert_eq!(said(stream), [(event.map(str::to_owned), data.map(str::to_owned))], "{stream:?}");
        }
    }

    #[test]
    fn a_frame_without_its_blank_line_says_so() {
        for (stream, terminated) in [("data: a\n", false), ("data: a", false), ("data: a\r\n\r", true)] {
            assert_eq!(frames(&[stream.as_bytes()])[0].3, terminated, "{stream:?}");
        }
    }

    #[test]
    fn a_stream_of_lone_crs_does_not_wait_for_the_next_event() {
        let mut decoder = Decoder::new(100);
        let mut count = 0;
        decoder
            .push(b"data: a\r\r", |_| {
                count += 1;
                Ok::<_, EventTooLarge>(())
            })
            .unwrap();
        assert_eq!(count, 1);
    }

    #[test]
    fn an_event_over_the_limit_is_refused_at_any_split() {
        let stream = b"data: 1\n\ndata: 234567\n\n";
        for cut in 0..=stream.len() {
            let mut decoder = Decoder::new(12);
            let mut count = 0;
            let mut keep = |_: Frame<'_>| {
                count += 1;
                Ok::<_, EventTooLarge>(())
            };
            let first = decoder.push(&stream[..cut], &mut keep);
            let result = first.and_then(|()| decoder.push(&stream[cut..], &mut keep));
            assert_eq!((result, count), (Err(EventTooLarge { limit: 12 }), 1), "{cut}");
        }
    }

    #[test]
    fn a_span_of_joined_data_is_found_in_the_raw_bytes() {
        let mut decoder = Decoder::new(100);
        decoder
            .push(b": c\ndata: ab\r\nevent: x\r\ndata:cd\r\n\r\n", |frame| {
                let data = frame.data.clone().unwrap();
                for (at, byte) in data.iter().enumerate().filter(|(_, byte)| **byte != b'\n') {
                    let span = frame.raw_span(Span { start: at, end: at + 1 });
                    assert_eq!(&frame.raw[span.start..span.end], &[*byte]);
                }
                Ok::<_, EventTooLarge>(())
            })
            .unwrap();
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_frames_and_no_byte_is_lost(
            stream in "(data: ?|event: |: |\u{feff}|\r|\n|\r\n|\n\n|\r\r|[a-z漢😀 ]|\\PC){0,24}",
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let bytes = stream.as_bytes();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            let whole = frames(&[bytes]);
            prop_assert_eq!(&frames(&pieces), &whole);
            let raw: Vec<u8> = whole.into_iter().flat_map(|frame| frame.0).collect();
            prop_assert_eq!(raw, bytes);
        }
    }
}
