//! Answers that come compressed although we ask for `identity`.
//!
//! Each piece gives at once all it holds, so that events of a compressed stream are not kept back.

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
pub(in crate::net) struct Decoder {
    coding: Coding,
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
        Ok(coding.map(|coding| Self { coding, taken: 0, given: 0 }))
    }

    /// All that is known once `input` has come; may be empty.
    pub(in crate::net) fn push(&mut self, input: &[u8]) -> Result<Bytes, NetError> {
        self.taken += input.len() as u64;
        let room = FREE.saturating_add(self.taken.saturating_mul(RATIO)) - self.given;
        let decoded = self.coding.decode(input, room).map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull => NetError::Decode("it expands too far"),
            _ => NetError::Decode("its compression is damaged"),
        })?;
        self.given += decoded.len() as u64;
        Ok(decoded.into())
    }

    /// At the end of the body: whether the compressed data had its end, too.
    pub(in crate::net) fn finish(&mut self) -> Result<(), NetError> {
        let is_ended = self.taken == 0
            || match &mut self.coding {
                Coding::Gzip(gzip) => gzip.try_finish().is_ok(),
                Coding::Brotli(brotli) => brotli.close().is_ok(),
                Coding::Deflate { is_ended, .. } | Coding::Zstd { is_ended, .. } => *is_ended,
            };
        if is_ended { Ok(()) } else { Err(NetError::Truncated) }
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
mod tests {
    use flate2::{
        Compression,
        write::{DeflateEncoder, GzEncoder, ZlibEncoder},
    };
    use proptest::prelude::*;

    use super::*;

    const NAMES: [&str; 5] = ["gzip", "deflate", "raw", "br", "zstd"];

    /// Compresses pieces, flushing after each, so that each can be decoded as it comes.
    fn encode(name: &str, pieces: &[&[u8]]) -> Vec<Vec<u8>> {
        fn run<W: Write>(
            mut encoder: W,
            pieces: &[&[u8]],
            sent: impl Fn(&mut W) -> &mut Vec<u8>,
            finish: impl Fn(W) -> Vec<u8>,
        ) -> Vec<Vec<u8>> {
            let mut sent_so_far: Vec<Vec<u8>> = pieces
                .iter()
                .map(|piece| {
                    encoder.write_all(piece).unwrap();
                    encoder.flush().unwrap();
                    std::mem::take(sent(&mut encoder))
                })
                .collect();
            sent_so_far.push(finish(encoder));
            sent_so_far
        }
        let level = Compression::default();
        match name {
            "gzip" => run(GzEncoder::new(vec![], level), pieces, GzEncoder::get_mut, |e| e.finish().unwrap()),
            "deflate" => {
                run(ZlibEncoder::new(vec![], level), pieces, ZlibEncoder::get_mut, |e| e.finish().unwrap())
            }
            "raw" => run(DeflateEncoder::new(vec![], level), pieces, DeflateEncoder::get_mut, |e| {
                e.finish().unwrap()
            }),
            "br" => run(
                brotli::CompressorWriter::new(vec![], 4096, 5, 20),
                pieces,
                brotli::CompressorWriter::get_mut,
                brotli::CompressorWriter::into_inner,
            ),
            "zstd" => run(
                zstd::stream::write::Encoder::new(vec![], 3).unwrap(),
                pieces,
                zstd::stream::write::Encoder::get_mut,
                |e| e.finish().unwrap(),
            ),
            _ => unreachable!(),
        }
    }

    fn decoder_of(name: &str) -> Decoder {
        let name = if name == "raw" { "deflate" } else { name };
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_ENCODING, name.parse().unwrap());
        headers.insert(header::CONTENT_LENGTH, "7".parse().unwrap());
        let decoder = Decoder::for_headers(&mut headers).unwrap().unwrap();
        assert!(headers.is_empty(), "they are no longer true");
        decoder
    }

    #[test]
    fn each_piece_is_decoded_as_it_comes() {
        let pieces: [&[u8]; 3] = [b"data: {\"a\":1}\n\n", b"data: {\"a\":2}\n\n", b"data: [DONE]\n\n"];
        for name in NAMES {
            let mut decoder = decoder_of(name);
            let sent = encode(name, &pieces);
            for (piece, compressed) in pieces.iter().zip(&sent) {
                assert_eq!(decoder.push(compressed).unwrap(), *piece, "{name}");
            }
            assert_eq!(decoder.push(&sent[3]).unwrap(), "", "{name}");
            decoder.finish().unwrap();
        }
    }

    #[test]
    fn a_body_that_lacks_its_end_is_truncated() {
        for name in NAMES {
            let whole = encode(name, &[b"some text that is long enough"]).concat();
            for cut in 1..whole.len() {
                let mut decoder = decoder_of(name);
                let read = decoder.push(&whole[..cut]).and_then(|_| decoder.finish());
                assert!(matches!(read, Err(NetError::Truncated)), "{name} cut at {cut}: {read:?}");
            }
        }
    }

    #[test]
    fn an_empty_body_is_fine_under_any_encoding() {
        for name in NAMES {
            decoder_of(name).finish().unwrap();
        }
    }

    #[test]
    fn bombs_are_stopped_before_they_unfold() {
        let zeros = vec![0; 64 << 20];
        for name in NAMES {
            let bomb = encode(name, &[&zeros]).concat();
            let mut decoder = decoder_of(name);
            let mut given = 0;
            let failed = bomb.chunks(16 << 10).find_map(|piece| match decoder.push(piece) {
                Ok(text) => {
                    given += text.len();
                    None
                }
                Err(error) => Some(error),
            });
            assert!(
                matches!(failed, Some(NetError::Decode("it expands too far"))),
                "{name}: {failed:?} after {given} of {} bytes",
                bomb.len()
            );
        }
    }

    #[test]
    fn only_known_encodings_are_taken() {
        let coding = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::CONTENT_ENCODING, value.parse().unwrap());
            }
            Decoder::for_headers(&mut headers).map(|decoder| decoder.is_some())
        };
        assert!(matches!(coding(&[]), Ok(false)));
        assert!(matches!(coding(&["identity"]), Ok(false)));
        assert!(matches!(coding(&["GZIP"]), Ok(true)));
        assert!(matches!(coding(&["identity, br"]), Ok(true)));
        assert!(coding(&["compress"]).is_err());
        assert!(coding(&["gzip, gzip"]).is_err());
        assert!(coding(&["gzip", "br"]).is_err());
    }

    proptest! {
        #[test]
        fn any_split_decodes_to_the_same(
            name in prop::sample::select(NAMES.as_slice()),
            body in prop::collection::vec(any::<u8>(), 0..2_000),
            size in 1_usize..200,
        ) {
            let encoded = encode(name, &[&body]).concat();
            let mut decoder = decoder_of(name);
            let mut decoded = Vec::new();
            for piece in encoded.chunks(size) {
                decoded.extend_from_slice(&decoder.push(piece).unwrap());
            }
            decoder.finish().unwrap();
            prop_assert_eq!(decoded, body);
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            name in prop::sample::select(NAMES.as_slice()),
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 0..4),
        ) {
            let mut decoder = decoder_of(name);
            for piece in pieces {
                if decoder.push(&piece).is_err() {
                    return Ok(());
                }
            }
            let _ = decoder.finish();
        }

        #[test]
        fn a_damaged_byte_never_panics(
            name in prop::sample::select(NAMES.as_slice()),
            body in prop::collection::vec(any::<u8>(), 1..500),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let mut encoded = encode(name, &[&body]).concat();
            let at = at.index(encoded.len());
            encoded[at] = byte;
            let mut decoder = decoder_of(name);
            let _ = decoder.push(&encoded).and_then(|_| decoder.finish());
        }
    }
}
