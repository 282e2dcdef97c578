//! Where a body ends: by length, by chunks, or with the connection (RFC 9112 §6 and §7).

use bytes::{BufMut, BytesMut};

use crate::net::error::NetError;

/// Longest line that announces a chunk, extensions included; none in use is near it.
const MAX_CHUNK_LINE: usize = 1_024;
/// Trailers are read over and dropped; this many bytes of them.
const MAX_TRAILERS: usize = 16 << 10;

/// How much of a body is still to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::net) enum Framing {
    /// This many bytes.
    Length(u64),
    /// Chunks up to an empty one.
    Chunked(Dechunker),
    /// All until the connection is closed.
    UntilClose,
}

impl Framing {
    /// A chunked body at its start.
    pub(in crate::net) const fn chunked() -> Self {
        Self::Chunked(Dechunker { state: State::Size, size: 0, line: 0, trailers: 0 })
    }

    /// Whether nothing more is to come.
    pub(in crate::net) const fn is_done(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunked(chunks) => matches!(chunks.state, State::Done),
            Self::UntilClose => false,
        }
    }

    /// Puts the body's part of `input` into `out` and returns how many bytes of `input` belonged
    /// to the body: fewer than all only when it is done.
    pub(in crate::net) fn take(&mut self, input: &[u8], out: &mut BytesMut) -> Result<usize, NetError> {
        match self {
            Self::Length(left) => {
                let taken = at_most(input.len(), *left);
                out.put_slice(&input[..taken]);
                *left -= taken as u64;
                Ok(taken)
            }
            Self::Chunked(chunks) => chunks.take(input, out),
            Self::UntilClose => {
                out.put_slice(input);
                Ok(input.len())
            }
        }
    }
}

fn at_most(available: usize, wanted: u64) -> usize {
    usize::try_from(wanted).map_or(available, |wanted| wanted.min(available))
}

/// Takes chunks apart; keeps its place between any two bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::net) struct Dechunker {
    state: State,
    /// Bytes of the current chunk still to come, or its size as far as read.
    size: u64,
    /// Bytes of the current chunk's line.
    line: usize,
    /// Bytes of trailers.
    trailers: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In the hexadecimal size.
    Size,
    /// Behind it: white space and extensions, which mean nothing to us.
    Extension,
    /// After the CR of a size line.
    SizeEnd,
    Data,
    /// After a chunk's data.
    DataCr,
    DataLf,
    /// At the start of a trailer line, or of the empty line that ends all.
    TrailerStart,
    Trailer,
    TrailerLf,
    LastLf,
    Done,
}

impl Dechunker {
    fn take(&mut self, input: &[u8], out: &mut BytesMut) -> Result<usize, NetError> {
        let mut at = 0;
        while at < input.len() && self.state != State::Done {
            if self.state == State::Data {
                let taken = at_most(input.len() - at, self.size);
                out.put_slice(&input[at..at + taken]);
                self.size -= taken as u64;
                at += taken;
                if self.size == 0 {
                    self.state = State::DataCr;
                }
                continue;
            }
            self.state = self.step(input[at])?;
            at += 1;
        }
        Ok(at)
    }

    fn step(&mut self, byte: u8) -> Result<State, NetError> {
        match (self.state, byte) {
            (State::Size | State::Extension, _) => self.step_line(byte),
            (State::SizeEnd, b'\n') => {
                self.line = 0;
                Ok(if self.size == 0 { State::TrailerStart } else { State::Data })
            }
            (State::DataCr, b'\r') => Ok(State::DataLf),
            (State::DataLf, b'\n') => Ok(State::Size),
            (State::TrailerStart, b'\r') => Ok(State::LastLf),
            (State::LastLf, b'\n') => Ok(State::Done),
            (State::TrailerLf, b'\n') => Ok(State::TrailerStart),
            (State::TrailerStart | State::Trailer, _) => self.step_trailer(byte),
            (State::Data | State::Done, _) => Ok(self.state),
            (State::SizeEnd | State::DataCr | State::DataLf | State::LastLf | State::TrailerLf, _) => {
                Err(NetError::Protocol("a chunk does not end where it should"))
            }
        }
    }

    fn step_line(&mut self, byte: u8) -> Result<State, NetError> {
        self.line += 1;
        if self.line > MAX_CHUNK_LINE {
            return Err(NetError::Protocol("a chunk's line is too long"));
        }
        let digit = char::from(byte).to_digit(16);
        match (self.state, digit, byte) {
            (State::Size, Some(digit), _) => {
                if self.size >> 60 != 0 {
                    return Err(NetError::Protocol("a chunk's size is too large"));
                }
                self.size = self.size << 4 | u64::from(digit);
                Ok(State::Size)
            }
            // The first byte of a line must be a digit.
            (State::Size, None, _) if self.line == 1 => Err(NetError::Protocol("a chunk has no size")),
            (_, _, b'\r') => Ok(State::SizeEnd),
            (State::Size, None, b';' | b' ' | b'\t')
            | (State::Extension, _, b'\t' | b' '..=b'~' | 0x80..) => Ok(State::Extension),
            _ => Err(NetError::Protocol("a chunk's size is no number")),
        }
    }

    fn step_trailer(&mut self, byte: u8) -> Result<State, NetError> {
        self.trailers += 1;
        if self.trailers > MAX_TRAILERS {
            return Err(NetError::Protocol("the trailers are too long"));
        }
        match byte {
            b'\r' => Ok(State::TrailerLf),
            b'\n' | 0 => Err(NetError::Protocol("a trailer is malformed")),
            _ => Ok(State::Trailer),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All of `pieces`, and what was left over once the body was done.
    fn run(framing: &mut Framing, pieces: &[&[u8]]) -> Result<(Vec<u8>, usize), NetError> {
        let mut out = BytesMut::new();
        let mut left = 0;
        for piece in pieces {
            left += piece.len() - framing.take(piece, &mut out)?;
        }
        Ok((out.to_vec(), left))
    }

    fn dechunk(text: &str) -> Result<(String, bool), NetError> {
        let mut framing = Framing::chunked();
        let (body, _) = run(&mut framing, &[text.as_bytes()])?;
        Ok((String::from_utf8(body).unwrap(), framing.is_done()))
    }

    #[test]
    fn chunks_are_put_together() {
        let whole = |text| dechunk(text).unwrap();
        assert_eq!(whole("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"), ("hello world".into(), true));
        assert_eq!(whole("0\r\n\r\n"), (String::new(), true));
        assert!(whole("A ; x=\"y\"\r\n0123456789\r\n000\r\nt: 1\r\nu: 2\r\n\r\n").1);
        assert_eq!(whole("5\r\nhello\r\n0\r\n"), ("hello".into(), false));
        assert_eq!(whole("5\r\nhel"), ("hel".into(), false));
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for text in [
            "\r\n",
            ";a\r\n",
            " 5\r\nhello\r\n",
            "-5\r\nhello\r\n",
            "+5\r\nhello\r\n",
            "0x5\r\nhello\r\n",
            "5\nhello\r\n",
            "5;a\nb\r\nhello",
            "5\r\rhello",
            "5\r\nhelloX\n",
            "5\r\nhello\n",
            "5\r\nhello\rX",
            "g\r\n",
            "10000000000000000\r\n",
            "fffffffffffffffff\r\n",
            "0\r\nt: 1\n\r\n",
            "0\r\n\rX",
        ] {
            assert!(dechunk(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn lines_and_trailers_are_bounded() {
        assert!(dechunk(&format!("5;{}", "a".repeat(MAX_CHUNK_LINE))).is_err());
        assert!(dechunk(&format!("{}5", "0".repeat(MAX_CHUNK_LINE))).is_err());
        let trailers = "a: b\r\n".repeat(MAX_TRAILERS / 4);
        assert!(dechunk(&format!("0\r\n{trailers}\r\n")).is_err());
    }

    #[test]
    fn what_follows_a_body_is_not_taken() {
        let mut framing = Framing::Length(3);
        assert_eq!(run(&mut framing, &[b"ab", b"cdef"]).unwrap(), (b"abc".to_vec(), 3));
        let mut framing = Framing::chunked();
        let pieces: &[&[u8]] = &[b"1\r\na\r\n0\r\n\r\nHTTP"];
        assert_eq!(run(&mut framing, pieces).unwrap(), (b"a".to_vec(), 4));
        assert!(framing.is_done());
    }

    fn chunked_body() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
        let chunk = (prop::collection::vec(any::<u8>(), 1..40), "(;[a-z=\"]{0,8})?");
        (prop::collection::vec(chunk, 0..8), "([a-z]{1,5}: [a-z]{0,9}\r\n){0,3}").prop_map(
            |(chunks, trailers)| {
                let (mut wire, mut body) = (Vec::new(), Vec::new());
                for (data, extension) in chunks {
                    wire.extend(format!("{:X}{extension}\r\n", data.len()).bytes());
                    wire.extend(&data);
                    wire.extend(b"\r\n");
                    body.extend(data);
                }
                wire.extend(format!("0\r\n{trailers}\r\n").bytes());
                (wire, body)
            },
        )
    }

    proptest! {
        #[test]
        fn any_split_of_chunks_gives_the_same_body(
            (wire, body) in chunked_body(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(wire.len() + 1)).collect();
            cuts.extend([0, wire.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &wire[cut[0]..cut[1]]).collect();
            let mut framing = Framing::chunked();
            prop_assert_eq!(run(&mut framing, &pieces).unwrap(), (body, 0));
            prop_assert!(framing.is_done());
        }

        #[test]
        fn arbitrary_bytes_never_give_more_than_they_hold(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 0..8),
        ) {
            let mut framing = Framing::chunked();
            let mut out = BytesMut::new();
            for piece in &pieces {
                let Ok(taken) = framing.take(piece, &mut out) else { break };
                prop_assert!(taken == piece.len() || framing.is_done());
            }
            prop_assert!(out.len() <= pieces.iter().map(Vec::len).sum::<usize>());
        }

        #[test]
        fn a_damaged_byte_is_an_error_or_another_body_but_no_panic(
            (mut wire, _) in chunked_body(),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let at = at.index(wire.len());
            wire[at] = byte;
            let _ = run(&mut Framing::chunked(), &[&wire]);
        }
    }
}
