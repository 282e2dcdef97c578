//! Bodies that come compressed: answers, although we ask for `identity`, and requests of clients.
//!
//! Each piece gives at once all it holds, so that events of a compressed stream are not kept back. What
//! a piece may unfold to is bounded before it does.

use std::io::{self, Write};

use brotli::DecompressorWriter;
use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status, write::MultiGzDecoder};
use http::{HeaderMap, header};
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder, InBuffer, Operation, OutBuffer};

use crate::net::error::NetError;

/// What an answer may expand to: this much, and this many times what came. JSON and event streams
/// stay below fifty; gzip can reach a thousand, and brotli and zstd have no bound.
const FREE: u64 = 1 << 20;
const RATIO: u64 = 128;
/// Room that is decoded into at a time.
const STEP: usize = 32 << 10;
/// RFC 9659: a decoder of `zstd` needs no larger window than 8 MB.
const ZSTD_WINDOW_LOG: u32 = 23;

/// Undoes a content encoding piece by piece.
pub struct Decoder {
    coding: Coding,
    /// What all may expand to; none: [`RATIO`] times what came.
    limit: Option<usize>,
    taken: u64,
    given: u64,
}

enum Coding {
    Gzip(Box<MultiGzDecoder<Sink>>),
    /// zlib or raw deflate: servers mean either, the first byte tells.
    Deflate {
        inflate: Option<Box<Decompress>>,
        is_ended: bool,
    },
    Brotli(Box<DecompressorWriter<Sink>>),
    Zstd {
        decoder: Box<ZstdDecoder<'static>>,
        is_ended: bool,
    },
}

impl Decoder {
    /// The decoder that the headers ask for, if any; those that no longer hold are taken out.
    ///
    /// # Errors
    /// [`NetError::Decode`] for an encoding we do not know, and for more than one.
    pub(in crate::net) fn for_headers(headers: &mut HeaderMap) -> Result<Option<Self>, NetError> {
        if !headers.contains_key(header::CONTENT_ENCODING) {
            return Ok(None);
        }
        let mut names = headers.get_all(header::CONTENT_ENCODING).iter().flat_map(|value| {
            let names = value.as_bytes().split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
            names.filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case(b"identity"))
        });
        let (first, second) = (names.next(), names.next());
        if second.is_some() {
            return Err(NetError::Decode("more than one content encoding"));
        }
        let coding = first.map(Coding::named).transpose()?;
        headers.remove(header::CONTENT_ENCODING);
        if coding.is_some() {
            headers.remove(header::CONTENT_LENGTH);
        }
        Ok(coding.map(|coding| Self { coding, limit: None, taken: 0, given: 0 }))
    }

    /// The decoder of one encoding by its name, for a body of at most `limit` bytes.
    ///
    /// # Errors
    /// [`NetError::Decode`] for an encoding we do not know.
    pub fn named(name: &str, limit: usize) -> Result<Self, NetError> {
        Ok(Self { coding: Coding::named(name.as_bytes())?, limit: Some(limit), taken: 0, given: 0 })
    }

    /// All that is known once `input` has come; may be empty.
    ///
    /// # Errors
    /// [`NetError::TooLarge`] beyond the limit, [`NetError::Decode`] for what does not decode or, without a
    /// limit, expands too far.
    pub fn push(&mut self, input: &[u8]) -> Result<Bytes, NetError> {
        self.taken += input.len() as u64;
        let bound = self
            .limit
            .map_or_else(|| FREE.saturating_add(self.taken.saturating_mul(RATIO)), |limit| limit as u64);
        let decoded = self.coding.decode(input, bound - self.given).map_err(|error| {
            match (error.kind(), self.limit) {
                (io::ErrorKind::StorageFull, Some(limit)) => NetError::TooLarge { limit },
                (io::ErrorKind::StorageFull, None) => NetError::Decode("it expands too far"),
                _ => NetError::Decode("its compression is damaged"),
            }
        })?;
        self.given += decoded.len() as u64;
        Ok(decoded.into())
    }

    /// At the end of the body: whether the compressed data had its end, too.
    ///
    /// # Errors
    /// [`NetError::Truncated`] when it had not.
    pub fn finish(&mut self) -> Result<(), NetError> {
        let is_ended = self.taken == 0
            || match &mut self.coding {
                Coding::Gzip(gzip) => gzip.try_finish().is_ok(),
                Coding::Brotli(brotli) => brotli.close().is_ok(),
                Coding::Deflate { is_ended, .. } | Coding::Zstd { is_ended, .. } => *is_ended,
            };
        if is_ended { Ok(()) } else { Err(NetError::Truncated) }
    }
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decoder(…)")
    }
}

impl Coding {
    fn named(name: &[u8]) -> Result<Self, NetError> {
        let name = name.to_ascii_lowercase();
        match &*name {
            b"gzip" | b"x-gzip" => Ok(Self::Gzip(Box::new(MultiGzDecoder::new(Sink::default())))),
            b"deflate" => Ok(Self::Deflate { inflate: None, is_ended: false }),
            b"br" => Ok(Self::Brotli(Box::new(DecompressorWriter::new(Sink::default(), STEP)))),
            b"zstd" => {
                let no_decoder = |_| NetError::Decode("zstd cannot be set up");
                let mut decoder = ZstdDecoder::new().map_err(no_decoder)?;
                let window = DParameter::WindowLogMax(ZSTD_WINDOW_LOG);
                decoder.set_parameter(window).map_err(no_decoder)?;
                Ok(Self::Zstd { decoder: Box::new(decoder), is_ended: false })
            }
            _ => Err(NetError::Decode("its content encoding is unknown")),
        }
    }

    fn decode(&mut self, input: &[u8], room: u64) -> io::Result<Vec<u8>> {
        let mut sink = Sink { decoded: Vec::new(), room };
        match self {
            Self::Gzip(gzip) => {
                *gzip.get_mut() = sink;
                gzip.write_all(input)?;
                gzip.flush()?;
                sink = std::mem::take(gzip.get_mut());
            }
            Self::Brotli(brotli) => {
                *brotli.get_mut() = sink;
                brotli.write_all(input)?;
                sink = std::mem::take(brotli.get_mut());
            }
            Self::Deflate { inflate, is_ended } => {
                let Some(first) = input.first() else { return Ok(Vec::new()) };
                let is_zlib = first & 0x0f == 8 && first >> 4 <= 7;
                let inflate = inflate.get_or_insert_with(|| Box::new(Decompress::new(is_zlib)));
                inflate_into(inflate, is_ended, input, &mut sink)?;
            }
            Self::Zstd { decoder, is_ended } => unzstd_into(decoder, is_ended, input, &mut sink)?,
        }
        Ok(sink.decoded)
    }
}

fn inflate_into(
    inflate: &mut Decompress,
    is_ended: &mut bool,
    input: &[u8],
    sink: &mut Sink,
) -> io::Result<()> {
    let mut step = vec![0; STEP];
    let mut rest = input;
    while !*is_ended {
        let before = (inflate.total_in(), inflate.total_out());
        let status = inflate.decompress(rest, &mut step, FlushDecompress::None)?;
        let used = to_usize(inflate.total_in() - before.0);
        let written = to_usize(inflate.total_out() - before.1);
        sink.write_all(&step[..written])?;
        rest = &rest[used..];
        *is_ended = status == Status::StreamEnd;
        let wants_more = rest.is_empty() && written < step.len();
        if wants_more || (used, written) == (0, 0) {
            break;
        }
    }
    if rest.is_empty() { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

fn unzstd_into(
    decoder: &mut ZstdDecoder<'static>,
    is_ended: &mut bool,
    input: &[u8],
    sink: &mut Sink,
) -> io::Result<()> {
    let mut step = vec![0; STEP];
    let mut rest = InBuffer::around(input);
    while rest.pos() < input.len() || !*is_ended {
        let before = rest.pos();
        let mut out = OutBuffer::around(&mut step[..]);
        *is_ended = decoder.run(&mut rest, &mut out)? == 0;
        let written = out.pos();
        sink.write_all(&step[..written])?;
        let wants_more = rest.pos() == input.len() && written < STEP;
        if wants_more || (rest.pos() == before && written == 0) {
            break;
        }
    }
    Ok(())
}

/// Within one call in-memory sizes fit.
fn to_usize(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Where decoded bytes go, up to a bound.
#[derive(Default)]
struct Sink {
    decoded: Vec<u8>,
    room: u64,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.room = self.room.checked_sub(bytes.len() as u64).ok_or(io::ErrorKind::StorageFull)?;
        self.decoded.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
