//! The reading side: frames of a file, and a reader that follows a journal being written.

use std::{collections::BTreeMap, fs::File, io, ops::ControlFlow, os::unix::fs::FileExt, path::Path};

use serde::{Deserialize, Serialize};

use super::{
    Journal, JournalError,
    frame::{Found, Frame, Frames, MAX_FRAME_BYTES},
    record::{OpenRequest, Record},
    replay::{Applied, Replay},
    segment,
};
use crate::domain::{clock::Timestamp, event::UsageEvent};

/// Bytes read at once; several frames of the longest kind.
const PIECE_BYTES: usize = 16 * MAX_FRAME_BYTES;
const CURSOR: &str = "cursor";

/// A place in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Position {
    /// Number of the segment.
    pub segment: u64,
    /// Bytes into it.
    pub offset: u64,
}

impl Position {
    /// Up to where the store has everything, as saved in `dir`. None was saved, or it cannot be
    /// read: the start, which is safe because the store knows what it has.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn load(dir: &Path) -> io::Result<Self> {
        match std::fs::read(dir.join(CURSOR)) {
            Ok(saved) => Ok(serde_json::from_slice(&saved).unwrap_or_else(|error| {
                tracing::warn!(%error, "the journal's cursor cannot be read; draining from the start");
                Self::default()
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    /// Saves it, whole or not at all.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn save(self, dir: &Path) -> io::Result<()> {
        segment::replace(dir, CURSOR, &serde_json::to_vec(&self)?)
    }
}

/// Calls `each` with every frame of a file between two offsets and where it ends, and with the
/// bytes of every damage between frames. Gives the end of the last frame; what follows it up to
/// `to` is no frame.
///
/// # Errors
///
/// The system's.
pub fn read_frames(
    file: &File,
    from: u64,
    to: u64,
    buffer: &mut Vec<u8>,
    mut each: impl FnMut(u64, Found<'_>) -> ControlFlow<()>,
) -> io::Result<u64> {
    let mut position = from;
    let mut last_end = from;
    while position < to {
        let piece_bytes = usize::try_from(to - position).unwrap_or(usize::MAX).min(PIECE_BYTES);
        buffer.resize(piece_bytes, 0);
        file.read_exact_at(buffer, position)?;
        let more_follows = position + (piece_bytes as u64) < to;
        let mut frames = Frames::new(buffer, more_follows);
        while let Some(found) = frames.next_found() {
            // Damage counts once a frame follows it; until then it may be the unwritten rest.
            let Found::Frame(frame) = found else { continue };
            let end = position + frames.position() as u64;
            let damaged = end - frame.size() as u64 - last_end;
            if damaged > 0 {
                let damaged = usize::try_from(damaged).unwrap_or(usize::MAX);
                if each(last_end, Found::Damage(damaged)).is_break() {
                    return Ok(last_end);
                }
            }
            let go_on = each(end, Found::Frame(frame));
            last_end = end;
            if go_on.is_break() {
                return Ok(last_end);
            }
        }
        if !more_follows {
            break;
        }
        position += frames.position() as u64;
    }
    Ok(last_end)
}

/// What one reading gave.
#[derive(Debug, Default)]
pub struct Chunk {
    /// The ends, in order.
    pub events: Vec<UsageEvent>,
    /// Bytes of their frames, and of the unreadable ones.
    pub bytes: u64,
    /// Payloads of ends that have a right checksum and yet cannot be parsed.
    pub unreadable: Vec<Vec<u8>>,
    /// Bytes that are no frames although frames should stand there.
    pub damaged_bytes: u64,
    /// When the last end was.
    pub last_at: Timestamp,
    /// Up to where it reaches.
    pub to: Position,
}

impl Chunk {
    /// How many ends it holds, readable or not.
    #[must_use]
    pub fn ends(&self) -> usize {
        self.events.len() + self.unreadable.len()
    }

    /// Joins what was read next.
    pub fn append(&mut self, next: Self) {
        self.events.extend(next.events);
        self.unreadable.extend(next.unreadable);
        self.bytes += next.bytes;
        self.damaged_bytes += next.damaged_bytes;
        self.last_at = self.last_at.max(next.last_at);
        self.to = next.to;
    }

    fn take(&mut self, replay: &mut Replay, segment: u64, found: &Found<'_>) {
        let frame = match found {
            Found::Frame(frame) => frame,
            Found::Damage(bytes) => {
                self.damaged_bytes += *bytes as u64;
                return;
            }
        };
        match replay.apply(segment, frame) {
            Ok(Applied::Ended) => self.take_end(frame),
            // An orphan is a request of a former life that start-up has settled.
            Ok(Applied::Open | Applied::Orphan) => {}
            Err(_) => self.damaged_bytes += frame.size() as u64,
        }
    }

    fn take_end(&mut self, frame: &Frame<'_>) {
        self.bytes += frame.size() as u64;
        self.last_at = frame.at;
        match frame.parse() {
            Ok(Record::End(event)) => self.events.push(*event),
            Ok(_) | Err(_) => self.unreadable.push(frame.payload().to_vec()),
        }
    }
}

/// Follows a journal that is being written, from its files.
#[derive(Debug)]
pub struct Reader {
    journal: Journal,
    position: Position,
    replay: Replay,
    /// The latest instant that any frame of a segment speaks of.
    last_at: BTreeMap<u64, Timestamp>,
    buffer: Vec<u8>,
}

impl Reader {
    /// Reads on from `stored`, before which the store has everything. What stands before it is
    /// looked at for requests still open. Blocks on the disk.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn starting_at(journal: Journal, stored: Position) -> io::Result<Self> {
        let mut reader = Self {
            journal,
            position: Position::default(),
            replay: Replay::default(),
            last_at: BTreeMap::new(),
            buffer: Vec::new(),
        };
        while let Some(extent) = reader.journal.extent_from(reader.position.segment)
            && extent.number <= stored.segment
        {
            reader.position = Position { segment: extent.number, offset: 0 };
            if extent.number == stored.segment {
                reader.read_segment(stored.offset.min(extent.written), usize::MAX, None)?;
                return Ok(reader);
            }
            reader.read_segment(extent.written, usize::MAX, None)?;
            if !extent.is_sealed {
                return Ok(reader);
            }
            reader.position.segment += 1;
        }
        reader.position.offset = 0;
        Ok(reader)
    }

    /// Where reading goes on.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// Reads on until `max_events` ends, or all that is written. Blocks on the disk.
    ///
    /// # Errors
    ///
    /// The system's; what was read before is lost to this reader, so make a new one.
    pub fn read(&mut self, max_events: usize) -> io::Result<Chunk> {
        let mut chunk = Chunk::default();
        while let Some(extent) = self.journal.extent_from(self.position.segment) {
            if extent.number != self.position.segment {
                self.position = Position { segment: extent.number, offset: 0 };
            }
            let is_filled = self.read_segment(extent.written, max_events, Some(&mut chunk))?;
            if is_filled || !extent.is_sealed {
                break;
            }
            let damaged_end = extent.written - self.position.offset;
            chunk.damaged_bytes += damaged_end;
            self.position = Position { segment: extent.number + 1, offset: 0 };
        }
        chunk.to = self.position;
        Ok(chunk)
    }

    /// Reads on up to offset `written`. True: the chunk has all it may have.
    fn read_segment(
        &mut self,
        written: u64,
        max_events: usize,
        mut chunk: Option<&mut Chunk>,
    ) -> io::Result<bool> {
        if self.position.offset >= written {
            return Ok(false);
        }
        let segment = self.position.segment;
        let file = File::open(segment::path(self.journal.dir(), segment))?;
        let (replay, last_at) = (&mut self.replay, self.last_at.entry(segment).or_default());
        let mut is_filled = false;
        let end = read_frames(&file, self.position.offset, written, &mut self.buffer, |_, found| {
            if let Found::Frame(frame) = found {
                *last_at = frame.at.max(*last_at);
            }
            match chunk.as_deref_mut() {
                Some(chunk) => {
                    chunk.take(replay, segment, &found);
                    is_filled = chunk.ends() >= max_events;
                }
                None => replay_only(replay, segment, &found),
            }
            if is_filled { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        self.position.offset = end;
        let unreadable = self.replay.take_unreadable();
        if let Some(chunk) = chunk {
            chunk.damaged_bytes += unreadable.iter().map(|begin| begin.bytes as u64).sum::<u64>();
        }
        Ok(is_filled)
    }

    /// Lets go of every segment that nothing needs any more: read, stored up to `stored`, and past
    /// `keep_since`. Requests still open in it are copied forward first.
    ///
    /// # Errors
    ///
    /// The journal's; what could not go is tried again next time.
    pub fn release(&mut self, stored: Position, keep_since: Timestamp) -> Result<(), JournalError> {
        while let Some(extent) = self.journal.extent_from(0) {
            let number = extent.number;
            let last_at = self.last_at.get(&number).copied().unwrap_or_default();
            if !extent.is_sealed || number >= stored.segment || last_at > keep_since {
                return Ok(());
            }
            if !self.carry_out_of(number)? {
                return Ok(());
            }
            self.journal.remove_segment(number)?;
            self.last_at.remove(&number);
        }
        Ok(())
    }

    /// False: some could not be copied yet.
    fn carry_out_of(&mut self, segment: u64) -> Result<bool, JournalError> {
        let pinning: Vec<&OpenRequest> = self.replay.pinning(segment).collect();
        if pinning.is_empty() {
            return Ok(true);
        }
        for open in pinning {
            if !self.journal.carry(open, self.position)? {
                return Ok(false);
            }
        }
        // The copies must be as durable as what they stand for before that goes.
        self.journal.sync()?;
        self.replay.carried(segment, self.position.segment);
        Ok(true)
    }
}

fn replay_only(replay: &mut Replay, segment: u64, found: &Found<'_>) {
    if let Found::Frame(frame) = found {
        // What cannot be read was reported when the store was given what it could read.
        let _ = replay.apply(segment, frame);
    }
}
