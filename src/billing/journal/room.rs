//! Which bytes are promised to whom.
//!
//! Every open request has room promised for its end, so appending an end never waits for space:
//! frames of T bytes in all always fit as long as T ≤ Σ [`Segment::room`] over the segments ahead,
//! because a segment left behind wastes less than the longest frame. One segment more is kept
//! ahead for requests carried forward, without which old segments could not go.

use std::{
    collections::{BTreeMap, VecDeque},
    fs::File,
    io,
    sync::Arc,
};

use super::{frame::MAX_FRAME_BYTES, read::Position, record::MAX_ATTEMPTS, segment::Segment};
use crate::domain::{
    clock::Timestamp,
    ids::{IdMap, RequestId},
};

/// The state of the journal, guarded by its one lock.
#[derive(Debug)]
pub struct Room {
    /// Written into.
    pub current: Segment,
    /// Frames that come next in it and are still to be written.
    unwritten: Vec<u8>,
    /// Preallocated, in order, all zeros.
    pub spares: VecDeque<Segment>,
    /// Full segments still on disk: bytes written and bytes of the file.
    pub sealed: BTreeMap<u64, Sealed>,
    /// Bytes of all segment files.
    pub total_bytes: u64,
    /// Files with bytes that are not synced yet.
    pub dirty: Vec<Arc<File>>,
    /// A further segment cannot be had: the disk is full or the bound reached.
    pub is_full: bool,
    /// The last sync failed: nothing new is promised until one succeeds.
    pub sync_failed: bool,
    /// What the store does not have yet.
    pub undrained: Undrained,
    open: IdMap<RequestId, Promise>,
    promised_bytes: u64,
    segment_bytes: u64,
}

/// A segment that is no longer written into.
#[derive(Debug, Clone, Copy)]
pub struct Sealed {
    /// Bytes up to the end of its last frame.
    pub written: u64,
    /// Bytes of the file.
    pub size: u64,
}

/// Ends that the store does not have yet.
#[derive(Debug, Clone, Copy, Default)]
pub struct Undrained {
    /// How many.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When the oldest of them ended; exact to one batch of the recorder.
    pub oldest_at: Option<Timestamp>,
}

#[derive(Debug, Default)]
struct Promise {
    bytes: u64,
    attempts: usize,
    /// Where its latest record ends.
    appended_to: Position,
}

/// Why an append was not made.
#[derive(Debug)]
pub enum Refused {
    /// There is no room that is not promised.
    NoRoom,
    /// The frame is longer than any may be, or the request has had all its attempts.
    TooLarge,
    /// The system's answer.
    Io(io::Error),
}

impl Room {
    /// Around the segments that writing goes on in.
    pub fn new(current: Segment, spares: VecDeque<Segment>, segment_bytes: u64) -> Self {
        let total_bytes = current.size + spares.iter().map(|spare| spare.size).sum::<u64>();
        Self {
            current,
            unwritten: Vec::new(),
            spares,
            sealed: BTreeMap::new(),
            total_bytes,
            dirty: Vec::new(),
            is_full: false,
            sync_failed: false,
            undrained: Undrained::default(),
            open: IdMap::default(),
            promised_bytes: 0,
            segment_bytes,
        }
    }

    /// Bytes ahead that nobody was promised.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        let here = self.current.room().saturating_sub(self.unwritten.len() as u64);
        let ahead = here + self.spares.iter().map(Segment::room).sum::<u64>();
        ahead.saturating_sub(self.promised_bytes)
    }

    /// Whether another segment should be made ready.
    #[must_use]
    pub fn wants_segment(&self) -> bool {
        self.free_bytes() < self.segment_bytes + self.segment_bytes / 2
    }

    /// Requests that have begun and not ended.
    #[must_use]
    pub fn open_requests(&self) -> usize {
        self.open.len()
    }

    /// Appends a record of an open request, or its first, and promises it `reserve` bytes more.
    ///
    /// # Errors
    ///
    /// [`Refused`]; nothing has changed then.
    pub fn promise(
        &mut self,
        request: RequestId,
        frame: &[u8],
        reserve: u64,
        attempts: usize,
    ) -> Result<(), Refused> {
        let tried = self.open.get(&request).map_or(0, |promise| promise.attempts);
        if tried + attempts > MAX_ATTEMPTS {
            return Err(Refused::TooLarge);
        }
        let kept_for_carrying = self.segment_bytes;
        if self.free_bytes() < frame.len() as u64 + reserve + kept_for_carrying {
            return Err(Refused::NoRoom);
        }
        self.append(frame)?;
        let appended_to = self.appended_to();
        let promise = self.open.entry(request).or_default();
        promise.bytes += reserve;
        promise.attempts += attempts;
        promise.appended_to = appended_to;
        self.promised_bytes += reserve;
        Ok(())
    }

    /// Appends an end into the room it was promised; a request that is not open gets what is free.
    ///
    /// # Errors
    ///
    /// [`Refused`]; the request is still open then.
    pub fn redeem(&mut self, request: RequestId, frame: &[u8], at: Timestamp) -> Result<(), Refused> {
        let promised = self.open.get(&request).map_or(0, |promise| promise.bytes);
        let bytes = frame.len() as u64;
        if bytes > promised && self.free_bytes() < bytes - promised {
            return Err(Refused::NoRoom);
        }
        self.append(frame)?;
        self.open.remove(&request);
        self.promised_bytes -= promised;
        self.undrained.records += 1;
        self.undrained.bytes += bytes;
        self.undrained.oldest_at.get_or_insert(at);
        Ok(())
    }

    /// Appends an open request carried forward, out of the room kept for that. False, and nothing
    /// is done, when the copy would be older than the request's own records: they go beyond
    /// `read_to`.
    ///
    /// # Errors
    ///
    /// [`Refused`]; nothing has changed then.
    pub fn carry(&mut self, request: RequestId, frame: &[u8], read_to: Position) -> Result<bool, Refused> {
        match self.open.get(&request) {
            None => Ok(true),
            Some(promise) if promise.appended_to > read_to => Ok(false),
            Some(_) if self.free_bytes() < frame.len() as u64 => Err(Refused::NoRoom),
            Some(_) => self.append(frame).map(|()| true),
        }
    }

    /// Up to where frames are appended; those behind [`written_to`](Self::written_to) are not in the
    /// file yet.
    #[must_use]
    pub fn appended_to(&self) -> Position {
        let offset = self.current.written + self.unwritten.len() as u64;
        Position { segment: self.current.number, offset }
    }

    /// Up to where frames are written.
    #[must_use]
    pub fn written_to(&self) -> Position {
        Position { segment: self.current.number, offset: self.current.written }
    }

    /// Writes everything appended, with one `write(2)`.
    ///
    /// # Errors
    ///
    /// The system's; everything is still to be written then.
    pub fn write_out(&mut self) -> io::Result<()> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        self.current.append(&self.unwritten)?;
        self.unwritten.clear();
        if !self.dirty.iter().any(|file| Arc::ptr_eq(file, &self.current.file)) {
            self.dirty.push(Arc::clone(&self.current.file));
        }
        Ok(())
    }

    fn append(&mut self, frame: &[u8]) -> Result<(), Refused> {
        if frame.len() > MAX_FRAME_BYTES {
            return Err(Refused::TooLarge);
        }
        while !self.current.fits((self.unwritten.len() + frame.len()) as u64) {
            self.write_out().map_err(Refused::Io)?;
            let spare = self.spares.pop_front().ok_or(Refused::NoRoom)?;
            let full = std::mem::replace(&mut self.current, spare);
            self.sealed.insert(full.number, Sealed { written: full.written, size: full.size });
        }
        self.unwritten.extend_from_slice(frame);
        Ok(())
    }

    /// Takes ends off the undrained: the store has them, the last of which ended `at`.
    pub fn drained(&mut self, records: u64, bytes: u64, at: Timestamp) {
        let undrained = &mut self.undrained;
        undrained.records = undrained.records.saturating_sub(records);
        undrained.bytes = undrained.bytes.saturating_sub(bytes);
        undrained.oldest_at = (undrained.records > 0).then_some(at);
    }
}
