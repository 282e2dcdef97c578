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
        "raw" => {
            run(DeflateEncoder::new(vec![], level), pieces, DeflateEncoder::get_mut, |e| e.finish().unwrap())
        }
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
fn a_limit_stops_a_bomb_in_its_first_piece_and_lets_dense_bodies_pass() {
    let zeros = vec![0; 64 << 20];
    for name in NAMES {
        let encoding = if name == "raw" { "deflate" } else { name };
        let bomb = encode(name, &[&zeros]).concat();
        let mut decoder = Decoder::named(encoding, zeros.len() - 1).unwrap();
        assert!(matches!(decoder.push(&bomb), Err(NetError::TooLarge { .. })), "{name}");
        let mut decoder = Decoder::named(encoding, zeros.len()).unwrap();
        assert_eq!(decoder.push(&bomb).unwrap().len(), zeros.len(), "{name}");
        decoder.finish().unwrap();
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
