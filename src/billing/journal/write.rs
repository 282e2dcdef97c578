//! The appending side of the journal, shared by all threads.

use std::{cell::RefCell, path::Path, sync::Arc, time::Duration};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::{
    JournalConfig, JournalError, JournalHealth, frame,
    read::Position,
    record::{AttemptStart, Begin, MAX_NAME_BYTES, OpenRequest, RecordRef, attempt_reserve, end_reserve},
    room::{Refused, Room},
    segment,
    sync::SyncThread,
};
use crate::domain::{
    clock::Timestamp,
    event::{Attempt, UsageEvent},
    ids::{ReplicaId, RequestId},
    usage::Usage,
};

/// How long a begin waits for a segment that is being made; longer than any healthy disk takes.
const SEGMENT_WAIT: Duration = Duration::from_millis(500);

thread_local! {
    static FRAME: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The journal of this replica. Clones share it; every function may be called from any thread and
/// blocks for microseconds: at most one `write(2)` into preallocated space. What they append counts
/// once it is written, see [`Queued`].
///
/// Order of records of one request: [`begin`](Self::begin), then any of
/// [`attempt`](Self::attempt) and [`progress`](Self::progress), then [`end`](Self::end).
#[derive(Debug, Clone)]
pub struct Journal {
    pub(super) shared: Arc<Shared>,
    /// Ends the thread when the last clone goes.
    _thread: Arc<SyncThread>,
}

/// A record that is next in line to be written. Dropped, it is written at once;
/// [`in_turn`](Self::in_turn) writes it together with those of others.
pub struct Queued {
    shared: Arc<Shared>,
    /// Where it ends.
    to: Position,
    /// No other request is under way, so that nobody would come along.
    is_alone: bool,
}

/// A segment, as far as it is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    pub(super) number: u64,
    pub(super) written: u64,
    pub(super) is_sealed: bool,
}

/// What the threads of a journal share.
#[derive(Debug)]
pub struct Shared {
    /// Locked for as long as it lives.
    pub(super) _lock: std::fs::File,
    pub(super) config: JournalConfig,
    pub(super) replica: ReplicaId,
    pub(super) room: Mutex<Room>,
    /// Something to sync, a segment to make, or the end: wakes the thread.
    pub(super) work: Condvar,
    /// A segment was made, or cannot be.
    pub(super) segment_made: Condvar,
}

impl Journal {
    pub(super) fn start(
        shared: Shared,
        thread: impl FnOnce(Arc<Shared>) -> std::io::Result<SyncThread>,
    ) -> Result<Self, JournalError> {
        let shared = Arc::new(shared);
        let thread = thread(Arc::clone(&shared)).map_err(JournalError::io("start its thread"))?;
        Ok(Self { shared, _thread: Arc::new(thread) })
    }

    /// Its directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.shared.config.dir
    }

    /// The id kept in the journal's directory.
    #[must_use]
    pub fn replica(&self) -> ReplicaId {
        self.shared.replica
    }

    /// Records that a request begins and its first try is about to be sent, and keeps room for its
    /// end. It may be sent once this is written.
    ///
    /// # Errors
    ///
    /// [`JournalError::Full`] when there is no room: answer 503, nothing was sent yet. Any other
    /// error likewise means that nothing was recorded.
    pub fn begin(&self, begin: &Begin, first: &AttemptStart) -> Result<Queued, JournalError> {
        check_name(&begin.model)?;
        check_name(&first.upstream_model)?;
        let record = RecordRef::Begin(begin, first);
        self.promise(begin.request, begin.started_at, &record, end_reserve(begin, first), 1)
    }

    /// Records how the try before ended and that another one is about to be sent.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin); the try must not be sent then. A request has at most
    /// [`MAX_ATTEMPTS`](super::MAX_ATTEMPTS).
    pub fn attempt(
        &self,
        request: RequestId,
        attempt: &AttemptStart,
        previous: &Attempt,
    ) -> Result<Queued, JournalError> {
        check_name(&attempt.upstream_model)?;
        let record = RecordRef::Attempt(previous, attempt);
        self.promise(request, attempt.started_at, &record, attempt_reserve(attempt), 1)
    }

    /// Records what was metered so far, for the case that the end never comes. Coarse: every few
    /// seconds of a long stream.
    ///
    /// # Errors
    ///
    /// Not recorded; the stream may go on, only the estimate after a crash is older.
    pub fn progress(&self, request: RequestId, usage: &Usage, at: Timestamp) -> Result<Queued, JournalError> {
        self.promise(request, at, &RecordRef::Progress(usage), 0, 0)
    }

    /// Records the end of a request. The last byte goes to the client once this is written.
    ///
    /// # Errors
    ///
    /// Never for lack of space after a begin. The system may refuse to write (a broken disk).
    pub fn end(&self, event: &UsageEvent) -> Result<Queued, JournalError> {
        let at = event.started_at.plus(Duration::from_millis(event.duration_ms.into()));
        with_frame(event.id, at, &RecordRef::End(event), |bytes| {
            let mut room = self.shared.room.lock();
            loop {
                match room.redeem(event.id, bytes, at) {
                    Err(Refused::NoRoom) if !room.is_full => self.shared.await_segment(&mut room)?,
                    done => break done?,
                }
            }
            Ok(self.queued(&room))
        })
    }

    /// Copies an open request forward; does nothing once it has ended. False when it has records
    /// beyond `read_to` that the copy cannot know: read on and copy again.
    ///
    /// # Errors
    ///
    /// Not copied: the segment it stands in must stay.
    pub(super) fn carry(&self, open: &OpenRequest, read_to: Position) -> Result<bool, JournalError> {
        let request = open.begin.request;
        with_frame(request, open.last_at, &RecordRef::Carried(open), |bytes| {
            Ok(self.shared.room.lock().carry(request, bytes, read_to)?)
        })
    }

    /// Removes a sealed segment whose content is no longer needed.
    pub(super) fn remove_segment(&self, number: u64) -> Result<(), JournalError> {
        std::fs::remove_file(segment::path(self.dir(), number))
            .map_err(JournalError::io("remove a segment"))?;
        let mut room = self.shared.room.lock();
        if let Some(sealed) = room.sealed.remove(&number) {
            room.total_bytes -= sealed.size;
        }
        self.shared.work.notify_one();
        Ok(())
    }

    fn promise(
        &self,
        request: RequestId,
        at: Timestamp,
        record: &RecordRef<'_>,
        reserve: usize,
        attempts: usize,
    ) -> Result<Queued, JournalError> {
        with_frame(request, at, record, |bytes| {
            let mut room = self.shared.room.lock();
            if room.sync_failed {
                return Err(JournalError::SyncFailed);
            }
            loop {
                match room.promise(request, bytes, reserve as u64, attempts) {
                    Err(Refused::NoRoom) if !room.is_full => self.shared.await_segment(&mut room)?,
                    done => break done?,
                }
            }
            Ok(self.queued(&room))
        })
    }

    fn queued(&self, room: &Room) -> Queued {
        let is_alone = room.open_requests() <= 1;
        Queued { shared: Arc::clone(&self.shared), to: room.appended_to(), is_alone }
    }

    /// What is on disk and not yet in the store, and whether there is room.
    #[must_use]
    pub fn health(&self) -> JournalHealth {
        let room = self.shared.room.lock();
        JournalHealth {
            undrained_records: room.undrained.records,
            undrained_bytes: room.undrained.bytes,
            oldest_undrained_at: room.undrained.oldest_at,
            open_requests: room.open_requests(),
            disk_full: room.is_full,
            sync_failed: room.sync_failed,
            total_bytes: room.total_bytes,
            max_bytes: self.shared.config.max_bytes,
        }
    }

    /// Tells that the store has `records` ends of `bytes` more, the last of which was `at`.
    pub(in crate::billing) fn drained(&self, records: u64, bytes: u64, at: Timestamp) {
        self.shared.room.lock().drained(records, bytes, at);
    }

    /// The first segment numbered `number` or higher, as far as it is written.
    pub(super) fn extent_from(&self, number: u64) -> Option<Extent> {
        let room = self.shared.room.lock();
        if let Some((&number, sealed)) = room.sealed.range(number..).next() {
            return Some(Extent { number, written: sealed.written, is_sealed: true });
        }
        let current = &room.current;
        (current.number >= number).then_some(Extent {
            number: current.number,
            written: current.written,
            is_sealed: false,
        })
    }

    /// Writes and syncs everything so far, now. For shutdown; blocks for as long as the disk takes.
    ///
    /// # Errors
    ///
    /// The disk's.
    pub fn sync(&self) -> Result<(), JournalError> {
        self.shared.sync().map_err(JournalError::io("sync a segment"))
    }
}

impl Queued {
    /// Waits until every other task that is ready has had its turn, then writes it with all that
    /// they appended. A write wakes whoever waits for the answer, so that writing together also
    /// saves the others' waking one by one.
    ///
    /// # Errors
    ///
    /// The system's; the record is still in line then, and may be written later.
    ///
    /// # Cancellation
    ///
    /// Dropped, it writes at once.
    pub async fn in_turn(mut self) -> Result<(), JournalError> {
        if !self.is_alone {
            tokio::task::yield_now().await;
        }
        let written = self.shared.write_to(self.to);
        self.to = Position::default();
        written.map_err(JournalError::io("write a record"))
    }
}

impl std::fmt::Debug for Queued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Queued(up to {:?})", self.to)
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        if let Err(error) = self.shared.write_to(self.to) {
            tracing::error!(%error, "a record cannot be written; it is tried again with the next");
        }
    }
}

impl Shared {
    /// Makes sure that everything up to `to` is written.
    fn write_to(&self, to: Position) -> std::io::Result<()> {
        let mut room = self.room.lock();
        if room.written_to() >= to {
            return Ok(());
        }
        let was_clean = room.dirty.is_empty();
        room.write_out()?;
        self.wake(&room, was_clean);
        Ok(())
    }

    /// Wakes the thread when there is something new for it to do.
    fn wake(&self, room: &Room, was_clean: bool) {
        if was_clean || (room.wants_segment() && !room.is_full) {
            self.work.notify_one();
        }
    }

    fn await_segment(&self, room: &mut MutexGuard<'_, Room>) -> Result<(), JournalError> {
        self.work.notify_one();
        if self.segment_made.wait_for(room, SEGMENT_WAIT).timed_out() {
            return Err(JournalError::Full);
        }
        Ok(())
    }

    /// Writes what is still to be written and syncs all files written to since the last time.
    ///
    /// # Errors
    ///
    /// The disk's; the files stay marked as not synced.
    pub(super) fn sync(&self) -> std::io::Result<()> {
        let mut room = self.room.lock();
        let written = room.write_out();
        let files = std::mem::take(&mut room.dirty);
        drop(room);
        let synced = written.and_then(|()| files.iter().try_for_each(|file| file.sync_data()));
        let mut room = self.room.lock();
        if let Err(error) = &synced {
            if !room.sync_failed {
                tracing::error!(%error, "the journal cannot be synced; no request is let in until it can");
            }
            room.dirty.extend(files);
        }
        room.sync_failed = synced.is_err();
        synced
    }
}

/// Encodes into this thread's buffer, outside the lock.
fn with_frame<T>(
    request: RequestId,
    at: Timestamp,
    record: &RecordRef<'_>,
    then: impl FnOnce(&[u8]) -> Result<T, JournalError>,
) -> Result<T, JournalError> {
    FRAME.with_borrow_mut(|buffer| {
        frame::encode(buffer, request, at, record).map_err(JournalError::Encode)?;
        then(buffer)
    })
}

fn check_name(name: &str) -> Result<(), JournalError> {
    if name.len() > MAX_NAME_BYTES { Err(JournalError::TooLarge) } else { Ok(()) }
}
