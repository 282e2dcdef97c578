//! The head of an answer: status, headers, and how its body is framed.

use std::mem::MaybeUninit;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use httparse::{ParserConfig, Response, Status};

use crate::net::{error::NetError, http1::framing::Framing};

/// Longest head, interim answers included.
const MAX_HEAD: usize = 64 << 10;
/// Headers of one head.
const MAX_HEADERS: usize = 100;

/// A head that has been read.
#[derive(Debug)]
pub(in crate::net) struct Head {
    pub(in crate::net) status: u16,
    pub(in crate::net) headers: HeaderMap,
    pub(in crate::net) framing: Framing,
    /// Whether another request may follow on the connection.
    pub(in crate::net) is_kept_alive: bool,
}

/// Finds the head in what the network gives, however it is split.
#[derive(Debug, Default)]
pub(in crate::net) struct HeadReader {
    /// A head of which the end has not come.
    held: BytesMut,
    /// Bytes of interim answers before it.
    interim: usize,
}

impl HeadReader {
    /// Whether not one byte of an answer has come.
    pub(in crate::net) fn is_untouched(&self) -> bool {
        self.held.is_empty() && self.interim == 0
    }

    /// Takes what was read; once the final head is complete, gives it and how many bytes of
    /// `input` it ended at.
    pub(in crate::net) fn push(
        &mut self,
        input: &[u8],
        is_bodiless: bool,
    ) -> Result<Option<(Head, usize)>, NetError> {
        let mut used = 0;
        loop {
            let before = self.held.len();
            let rest = &input[used..];
            // What follows a head is not copied in the common case that one read gives it whole.
            let whole = if before == 0 { head_end(rest, 0) } else { None };
            self.held.extend_from_slice(&rest[..whole.unwrap_or(rest.len())]);
            let end = whole.or_else(|| head_end(&self.held, before));
            if self.interim + end.unwrap_or(self.held.len()) > MAX_HEAD {
                return Err(NetError::TooLarge { limit: MAX_HEAD });
            }
            let Some(end) = end else {
                return Ok(None);
            };
            used += end - before;
            let mut bytes = std::mem::take(&mut self.held);
            bytes.truncate(end);
            if let Some(head) = parse(&bytes.freeze(), is_bodiless)? {
                return Ok(Some((head, used)));
            }
            // An interim answer (1xx) says nothing that we asked for. It counts, so that a server
            // cannot send them for ever.
            self.interim += end;
        }
    }
}

/// Behind the first empty line; of the bytes before `seen` it is known that none ends there.
fn head_end(bytes: &[u8], seen: usize) -> Option<usize> {
    memchr::memchr_iter(b'\n', &bytes[seen..]).map(|at| seen + at).find_map(|at| {
        let before = bytes[..at].strip_suffix(b"\r").unwrap_or(&bytes[..at]);
        before.ends_with(b"\n").then_some(at + 1)
    })
}

/// Reads a complete head; none for an interim one.
fn parse(bytes: &Bytes, is_bodiless: bool) -> Result<Option<Head>, NetError> {
    let mut slots = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut parsed = Response::new(&mut []);
    let status = ParserConfig::default()
        .parse_response_with_uninit_headers(&mut parsed, bytes, &mut slots)
        .map_err(|error| match error {
        httparse::Error::TooManyHeaders => NetError::Protocol("too many headers"),
        _ => NetError::Protocol("the head of the answer is malformed"),
    })?;
    let (Status::Complete(_), Some(code), Some(minor)) = (status, parsed.code, parsed.version) else {
        return Err(NetError::Protocol("the head of the answer is malformed"));
    };
    match code {
        101 => return Err(NetError::Protocol("the server switched protocols")),
        100..200 => return Ok(None),
        200..600 => {}
        _ => return Err(NetError::Protocol("the status is none")),
    }
    let mut headers = HeaderMap::with_capacity(parsed.headers.len());
    for field in &*parsed.headers {
        let name = HeaderName::from_bytes(field.name.as_bytes())
            .map_err(|_| NetError::Protocol("a header's name is malformed"))?;
        // Shares the head's one allocation.
        let value = HeaderValue::from_maybe_shared(bytes.slice_ref(field.value))
            .map_err(|_| NetError::Protocol("a header's value is malformed"))?;
        headers.append(name, value);
    }
    let framing = framing(code, minor, &headers, is_bodiless)?;
    let is_kept_alive = framing != Framing::UntilClose
        && !has_token(&headers, "close")
        && (minor == 1 || has_token(&headers, "keep-alive"));
    Ok(Some(Head { status: code, headers, framing, is_kept_alive }))
}

/// RFC 9112 §6.3, refusing what it lets a recipient repair.
fn framing(code: u16, minor: u8, headers: &HeaderMap, is_bodiless: bool) -> Result<Framing, NetError> {
    let length = content_length(headers)?;
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let is_chunked = match (codings.next(), codings.next()) {
        (None, _) => false,
        (Some(only), None) if minor == 1 && only.as_bytes().eq_ignore_ascii_case(b"chunked") => true,
        _ => return Err(NetError::Protocol("the transfer encoding is not chunked")),
    };
    if is_chunked && length.is_some() {
        return Err(NetError::Protocol("both a length and chunks are announced"));
    }
    if is_bodiless || matches!(code, 204 | 304) {
        return Ok(Framing::Length(0));
    }
    Ok(match length {
        Some(length) => Framing::Length(length),
        None if is_chunked => Framing::chunked(),
        None => Framing::UntilClose,
    })
}

/// The announced length; said more than once it must be the same.
fn content_length(headers: &HeaderMap) -> Result<Option<u64>, NetError> {
    let mut length = None;
    for value in headers.get_all(header::CONTENT_LENGTH) {
        for text in value.as_bytes().split(|&byte| byte == b',') {
            let said =
                digits(text.trim_ascii()).ok_or(NetError::Protocol("the announced length is no number"))?;
            if length.is_some_and(|known| known != said) {
                return Err(NetError::Protocol("two lengths are announced"));
            }
            length = Some(said);
        }
    }
    Ok(length)
}

/// Digits alone: `parse` would take a plus sign.
fn digits(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn has_token(headers: &HeaderMap, token: &str) -> bool {
    let values = headers.get_all(header::CONNECTION).iter();
    values
        .flat_map(|value| value.as_bytes().split(|&byte| byte == b','))
        .any(|said| said.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Option<(Head, usize)>, NetError> {
        HeadReader::default().push(text.as_bytes(), false)
    }

    fn framed(headers: &str) -> Result<Framing, NetError> {
        let (head, _) = read(&format!("HTTP/1.1 200 OK\r\n{headers}\r\n"))?.unwrap();
        Ok(head.framing)
    }

    #[test]
    fn a_head_is_read_and_the_rest_left() {
        let text = "HTTP/1.1 429 Too Many\r\nRetry-After: 3\r\nContent-Length: 4\r\n\r\nbody";
        let (head, used) = read(text).unwrap().unwrap();
        assert_eq!((head.status, head.framing, &text[used..]), (429, Framing::Length(4), "body"));
        assert_eq!(head.headers["retry-after"], "3");
        assert!(head.is_kept_alive);
    }

    #[test]
    fn framing_follows_the_headers() {
        assert_eq!(framed("content-length: 5\r\n").unwrap(), Framing::Length(5));
        assert_eq!(framed("content-length: 5, 5\r\n").unwrap(), Framing::Length(5));
        assert_eq!(framed("transfer-encoding: Chunked\r\n").unwrap(), Framing::chunked());
        assert_eq!(framed("").unwrap(), Framing::UntilClose);
        let (head, _) = read("HTTP/1.1 204 No\r\ncontent-length: 5\r\n\r\n").unwrap().unwrap();
        assert_eq!(head.framing, Framing::Length(0));
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for headers in [
            "content-length: 5\r\ncontent-length: 6\r\n",
            "content-length: 5, 6\r\n",
            "content-length: +5\r\n",
            "content-length: -5\r\n",
            "content-length: 0x5\r\n",
            "content-length: \r\n",
            "content-length: 5,\r\n",
            "content-length: 99999999999999999999\r\n",
            "content-length: 5\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding: gzip, chunked\r\n",
            "transfer-encoding: chunked, identity\r\n",
            "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding: xchunked\r\n",
            "transfer-encoding : chunked\r\n",
            "x-a: b\r\n folded\r\n",
            "x a: b\r\n",
            "x-a: b\0c\r\n",
            ": b\r\n",
        ] {
            assert!(framed(headers).is_err(), "{headers:?}");
        }
        assert!(read("HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
    }

    #[test]
    fn a_connection_is_kept_only_when_both_may() {
        let kept = |text| read(text).unwrap().unwrap().0.is_kept_alive;
        assert!(kept("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"));
        assert!(!kept("HTTP/1.1 200 OK\r\nconnection: x, Close\r\ncontent-length: 0\r\n\r\n"));
        assert!(!kept("HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n"));
        assert!(kept("HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 0\r\n\r\n"));
        assert!(!kept("HTTP/1.1 200 OK\r\n\r\n"));
    }

    #[test]
    fn interim_answers_are_skipped_but_not_for_ever() {
        let text = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nlink: x\r\n\r\n\
                    HTTP/1.1 200 OK\r\n\r\n";
        assert_eq!(read(text).unwrap().unwrap().0.status, 200);
        assert!(read("HTTP/1.1 101 Switching\r\n\r\n").is_err());
        let mut reader = HeadReader::default();
        let failed = (0..10_000).find_map(|_| reader.push(b"HTTP/1.1 100 Continue\r\n\r\n", false).err());
        assert!(matches!(failed, Some(NetError::TooLarge { .. })));
    }

    #[test]
    fn heads_are_bounded() {
        let large = format!("HTTP/1.1 200 OK\r\nx-a: {}\r\n\r\n", "a".repeat(MAX_HEAD));
        assert!(matches!(read(&large), Err(NetError::TooLarge { .. })));
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(MAX_HEADERS + 1));
        assert!(matches!(read(&many), Err(NetError::Protocol(_))));
    }

    proptest! {
        #[test]
        fn any_split_of_a_head_gives_the_same(
            cuts in prop::collection::vec(0_usize..90, 0..6),
        ) {
            let text = b"HTTP/1.1 100 C\r\n\r\nHTTP/1.1 200 OK\r\nX-Long: value\r\ncontent-length: 3\r\n\r\nabc";
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let mut reader = HeadReader::default();
            let mut found = None;
            let mut body = Vec::new();
            for cut in cuts.windows(2) {
                let piece = &text[cut[0]..cut[1]];
                if found.is_some() {
                    body.extend_from_slice(piece);
                } else if let Some((head, used)) = reader.push(piece, false).unwrap() {
                    body.extend_from_slice(&piece[used..]);
                    found = Some(head);
                }
            }
            let head = found.unwrap();
            prop_assert_eq!((head.status, head.framing), (200, Framing::Length(3)));
            prop_assert_eq!(&head.headers["x-long"], "value");
            prop_assert_eq!(body, b"abc");
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..6),
            is_led_in in any::<bool>(),
        ) {
            let mut reader = HeadReader::default();
            if is_led_in {
                prop_assert!(reader.push(b"HTTP/1.1 200 OK\r\n", false).unwrap().is_none());
            }
            for piece in pieces {
                if !matches!(reader.push(&piece, false), Ok(None)) {
                    break;
                }
            }
        }
    }
}
