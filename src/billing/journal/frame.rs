//! Records as bytes, and back.
//!
//! | bytes | what |
//! |---|---|
//! | 2 | marker; its first byte never occurs in UTF-8 |
//! | 1 | version of the payload |
//! | 1 | kind of record |
//! | 4 | length of the payload, little endian, like all numbers here |
//! | 4 | CRC-32 of everything else, marker excepted |
//! | 16 | the request |
//! | 8 | the instant that the record speaks of, µs since the epoch |
//! | … | the payload, MessagePack |
//!
//! A segment is preallocated, so behind its last frame there are zeros. Where a frame should be
//! and none is, the next one is looked for by its marker; bytes skipped on the way are damage.

use memchr::memmem;
use uuid::Uuid;

use super::record::{BEGIN, END, Record, RecordRef};
use crate::domain::{clock::Timestamp, ids::RequestId};

/// Bytes before the payload.
pub const HEADER_BYTES: usize = 36;
/// No frame is longer. A carried request with twelve attempts, every name and number at its
/// longest, takes less; the bound is what makes room computable, see `room`.
pub const MAX_FRAME_BYTES: usize = 16 * 1024;

const MARKER: [u8; 2] = [0xF7, b'J'];
const VERSION: u8 = 1;

/// A whole frame with a right checksum, its payload not yet parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Which kind of record, see [`RecordRef::kind`].
    pub kind: u8,
    /// The request that it is about.
    pub request: RequestId,
    /// The instant that it speaks of.
    pub at: Timestamp,
    payload: &'a [u8],
}

impl Frame<'_> {
    /// Bytes of the whole frame.
    #[must_use]
    pub const fn size(&self) -> usize {
        HEADER_BYTES + self.payload.len()
    }

    /// Whether its request begins with it.
    #[must_use]
    pub const fn is_begin(&self) -> bool {
        self.kind == BEGIN
    }

    /// Whether it ends its request.
    #[must_use]
    pub const fn is_end(&self) -> bool {
        self.kind == END
    }

    /// The MessagePack.
    #[must_use]
    pub const fn payload(&self) -> &[u8] {
        self.payload
    }

    /// The record.
    ///
    /// # Errors
    ///
    /// The payload is not what its kind should be: written by a newer version, or by mistake.
    pub fn parse(&self) -> Result<Record, rmp_serde::decode::Error> {
        Record::from_payload(self.kind, self.payload)
    }
}

/// Writes one frame into `out`, which is cleared first.
///
/// # Errors
///
/// Serialization failed, which no record of ours does.
pub fn encode(
    out: &mut Vec<u8>,
    request: RequestId,
    at: Timestamp,
    record: &RecordRef<'_>,
) -> Result<(), rmp_serde::encode::Error> {
    out.clear();
    out.extend_from_slice(&MARKER);
    out.extend_from_slice(&[VERSION, record.kind()]);
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(request.uuid().as_bytes());
    out.extend_from_slice(&at.unix_us().to_le_bytes());
    record.write_payload(out)?;
    let payload_bytes = u32::try_from(out.len() - HEADER_BYTES).unwrap_or(u32::MAX);
    out[4..8].copy_from_slice(&payload_bytes.to_le_bytes());
    let crc = checksum(out);
    out[8..12].copy_from_slice(&crc.to_le_bytes());
    Ok(())
}

fn checksum(frame: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&frame[2..8]);
    hasher.update(&frame[12..]);
    hasher.finalize()
}

/// What stands at some place.
enum Here<'a> {
    Frame(Frame<'a>),
    /// It may be a frame, but the bytes end before it does.
    Short,
    Nothing,
}

fn look(bytes: &[u8]) -> Here<'_> {
    if bytes.len() < HEADER_BYTES {
        let as_far_as_known = bytes.len().min(MARKER.len());
        return if bytes[..as_far_as_known] == MARKER[..as_far_as_known] {
            Here::Short
        } else {
            Here::Nothing
        };
    }
    let payload_bytes = u32_at(bytes, 4) as usize;
    let size = HEADER_BYTES.saturating_add(payload_bytes);
    if bytes[..2] != MARKER || bytes[2] != VERSION || size > MAX_FRAME_BYTES {
        return Here::Nothing;
    }
    let Some(frame) = bytes.get(..size) else { return Here::Short };
    if checksum(frame) != u32_at(frame, 8) {
        return Here::Nothing;
    }
    let mut id = [0; 16];
    id.copy_from_slice(&frame[12..28]);
    let mut at = [0; 8];
    at.copy_from_slice(&frame[28..36]);
    Here::Frame(Frame {
        kind: frame[3],
        request: RequestId::from_uuid(Uuid::from_bytes(id)),
        at: Timestamp::from_unix_us(i64::from_le_bytes(at)),
        payload: &frame[HEADER_BYTES..],
    })
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

/// What reading finds, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found<'a> {
    /// A frame.
    Frame(Frame<'a>),
    /// So many bytes that are no frame although frames follow, or must have.
    Damage(usize),
}

/// The frames of a piece of a segment.
///
/// Ends where no further frame stands; [`Frames::position`] is then where reading goes on once
/// there is more, or where writing may.
#[derive(Debug)]
pub struct Frames<'a> {
    bytes: &'a [u8],
    position: usize,
    more_follows: bool,
}

impl<'a> Frames<'a> {
    /// Reads `bytes`. `more_follows`: the piece ends in the middle of what is known to be written,
    /// so a frame cut off at its end is no damage. Such a piece is longer than [`MAX_FRAME_BYTES`]:
    /// in a shorter one damage at its start could not be told from a frame that is cut.
    #[must_use]
    pub const fn new(bytes: &'a [u8], more_follows: bool) -> Self {
        Self { bytes, position: 0, more_follows }
    }

    /// Bytes taken so far: just behind the last frame found.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.position
    }

    /// The next frame, or the damage before it.
    pub fn next_found(&mut self) -> Option<Found<'a>> {
        let rest = &self.bytes[self.position..];
        match look(rest) {
            Here::Frame(frame) => {
                self.position += frame.size();
                Some(Found::Frame(frame))
            }
            Here::Short if self.more_follows && rest.len() < MAX_FRAME_BYTES => None,
            Here::Short | Here::Nothing => {
                let skipped = self.damaged_bytes(rest)?;
                self.position += skipped;
                Some(Found::Damage(skipped))
            }
        }
    }

    /// How far the next frame is; none: nothing follows.
    fn damaged_bytes(&self, rest: &[u8]) -> Option<usize> {
        let next = memmem::find_iter(rest, &MARKER)
            .filter(|&at| at > 0)
            .find(|&at| matches!(look(&rest[at..]), Here::Frame(_)));
        // A frame may begin in the last bytes of the piece: they are looked at again with the next.
        let or_in_the_next_piece = || rest.len().checked_sub(MAX_FRAME_BYTES).filter(|&at| at > 0);
        next.or_else(|| if self.more_follows { or_in_the_next_piece() } else { None })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::usage::Usage;

    fn request(n: u64) -> RequestId {
        let mut random = [0; 10];
        random[..8].copy_from_slice(&n.to_le_bytes());
        RequestId::generate(Timestamp::from_unix_ms(1), random)
    }

    fn usage(n: u64) -> Usage {
        Usage { input_tokens: n, ..Usage::default() }
    }

    /// Frames one behind the other, and where each ends.
    fn frames(count: u64) -> (Vec<u8>, Vec<usize>) {
        let (mut all, mut ends, mut one) = (Vec::new(), Vec::new(), Vec::new());
        for n in 0..count {
            let usage = usage(n * n * n);
            encode(&mut one, request(n), Timestamp::from_unix_us(7), &RecordRef::Progress(&usage)).unwrap();
            all.extend_from_slice(&one);
            ends.push(all.len());
        }
        (all, ends)
    }

    /// Requests found, bytes of damage, and the position at the end.
    fn read(bytes: &[u8]) -> (Vec<RequestId>, usize, usize) {
        let mut frames = Frames::new(bytes, false);
        let (mut requests, mut damaged) = (Vec::new(), 0);
        while let Some(found) = frames.next_found() {
            match found {
                Found::Frame(frame) => requests.push(frame.request),
                Found::Damage(bytes) => damaged += bytes,
            }
        }
        (requests, damaged, frames.position())
    }

    #[test]
    fn a_frame_gives_back_what_was_put_in() {
        let mut bytes = Vec::new();
        let at = Timestamp::from_unix_us(1_234_567);
        encode(&mut bytes, request(1), at, &RecordRef::Progress(&usage(99))).unwrap();
        let mut frames = Frames::new(&bytes, false);
        let Some(Found::Frame(frame)) = frames.next_found() else { panic!("no frame") };
        assert_eq!((frame.request, frame.at, frame.size()), (request(1), at, bytes.len()));
        assert_eq!(frame.parse().unwrap(), Record::Progress(usage(99)));
        assert_eq!(frames.next_found(), None);
    }

    #[test]
    fn cut_anywhere_what_was_whole_is_read_and_nothing_else() {
        let (bytes, ends) = frames(5);
        for cut in 0..=bytes.len() {
            let whole = ends.iter().filter(|&&end| end <= cut).count();
            let mut torn = bytes[..cut].to_vec();
            torn.resize(bytes.len() + 100, 0);
            for read in [read(&bytes[..cut]), read(&torn)] {
                let expected: Vec<_> = (0..whole as u64).map(request).collect();
                let end = whole.checked_sub(1).map_or(0, |last| ends[last]);
                assert_eq!(read, (expected, 0, end), "cut at {cut}");
            }
        }
    }

    #[test]
    fn one_damaged_byte_costs_one_record_and_is_noticed() {
        let (bytes, ends) = frames(4);
        for at in 0..ends[2] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x40;
            let hit = ends.iter().filter(|&&end| end <= at).count() as u64;
            let expected: Vec<_> = (0..4).filter(|&n| n != hit).map(request).collect();
            let start = hit.checked_sub(1).map_or(0, |last| ends[usize::try_from(last).unwrap()]);
            let lost = ends[usize::try_from(hit).unwrap()] - start;
            assert_eq!(read(&damaged), (expected, lost, bytes.len()), "byte {at}");
        }
    }

    proptest! {
        #[test]
        fn reading_in_pieces_gives_the_same_as_reading_at_once(
            count in 0u64..400, hole in any::<prop::sample::Index>(), hole_bytes in 0usize..60_000, piece in 0usize..40_000,
        ) {
            let (mut bytes, _) = frames(count);
            if !bytes.is_empty() {
                let from = hole.index(bytes.len());
                let to = (from + hole_bytes).min(bytes.len());
                bytes[from..to].fill(0);
            }
            let (at_once, ..) = read(&bytes);
            let piece = MAX_FRAME_BYTES + 1 + piece;
            let (mut in_pieces, mut position) = (Vec::new(), 0);
            loop {
                let to = (position + piece).min(bytes.len());
                let mut frames = Frames::new(&bytes[position..to], to < bytes.len());
                while let Some(found) = frames.next_found() {
                    if let Found::Frame(frame) = found {
                        in_pieces.push(frame.request);
                    }
                }
                if to == bytes.len() {
                    break;
                }
                prop_assert!(frames.position() > 0, "no progress at {}", position);
                position += frames.position();
            }
            prop_assert_eq!(in_pieces, at_once);
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
            let (requests, ..) = read(&bytes);
            prop_assert!(requests.is_empty());
        }
    }
}
