//! Opening a journal: lock, replica id, scan, settlement of what was interrupted.

use std::{
    collections::VecDeque,
    fs::{File, TryLockError},
    io,
    ops::ControlFlow,
    path::Path,
    sync::Arc,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

use super::{
    JournalConfig, JournalError,
    frame::{Found, Frame, MAX_FRAME_BYTES},
    read::{Position, read_frames},
    record::Record,
    replay::{Applied, Replay, Unreadable},
    room::{Room, Sealed},
    segment::{self, Segment},
    sync::SyncThread,
    write::{Journal, Shared},
};
use crate::{
    billing::recovery::interrupted_event,
    domain::{
        clock::{Clock, Entropy, Timestamp},
        event::{Attempt, UsageEvent},
        ids::{AccessTokenId, KeyId, MemberId, ProviderId, ReplicaId, RequestId, TenantId},
        limits::WINDOW,
        money::Nanos,
    },
};

const LOCK: &str = "lock";
const REPLICA: &str = "replica";
const ADOPTED: &str = "adopted";

/// What the last life of this journal left behind.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Requests that were in flight when it ended; settled, and already ended in the journal.
    pub interrupted: Vec<UsageEvent>,
    /// Their holds, to be released in admission.
    pub holds: Vec<OpenHold>,
    /// Attempts of the last minute, for the windows kept in this process.
    pub recent: Vec<RecentAttempt>,
    /// Bytes that are no records although records follow: lost by the disk, not by us.
    pub damaged_bytes: u64,
    /// Bytes of a record cut off by the end of the last life; nobody was told that it was written.
    pub torn_bytes: u64,
}

/// Money that a request in flight held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenHold {
    /// The request.
    pub request: RequestId,
    /// Whose money.
    pub tenant: TenantId,
    /// How much.
    pub hold: Nanos,
}

/// What an attempt counted in windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecentAttempt {
    /// Whose request.
    pub tenant: TenantId,
    /// Which person's.
    pub member: Option<MemberId>,
    /// Under which access token.
    pub token: AccessTokenId,
    /// Sent where.
    pub provider: ProviderId,
    /// With which key.
    pub key: KeyId,
    /// When it was sent.
    pub at: Timestamp,
    /// Tokens of the request, for its last attempt; 0 for those before.
    pub tokens: u64,
    /// Whether it is the request's last attempt, which also counts in the tenant's windows.
    pub is_last: bool,
}

/// Leaves a note for people that all of a journal is in the store. A replica that starts there after
/// all goes on with an empty journal.
///
/// # Errors
///
/// The system's.
pub fn mark_adopted(dir: &Path, at: Timestamp) -> io::Result<()> {
    segment::replace(dir, ADOPTED, format!("{at}\n").as_bytes())
}

impl Journal {
    /// Whether `dir` is a journal's directory.
    #[must_use]
    pub fn is_at(dir: &Path) -> bool {
        dir.join(REPLICA).is_file()
    }

    /// Opens the journal in `config.dir`, which is made where there is none, and settles what its
    /// last life left open.
    ///
    /// # Errors
    ///
    /// [`JournalError::Locked`] when another process has it; else what the disk says.
    pub fn open(
        config: JournalConfig,
        clock: &dyn Clock,
        entropy: &dyn Entropy,
    ) -> Result<(Self, Recovered), JournalError> {
        check(&config)?;
        std::fs::create_dir_all(&config.dir).map_err(JournalError::io("make its directory"))?;
        let lock = lock(&config.dir)?;
        let replica = replica_id(&config.dir, clock, entropy)?;
        let cursor = Position::load(&config.dir).map_err(JournalError::io("read its cursor"))?;
        let now = clock.now();
        let mut scan = Scan::new(cursor, now.minus(WINDOW));
        let (room, next_number) = scan.all(&config).map_err(JournalError::io("read its segments"))?;
        let shared = Shared {
            _lock: lock,
            config,
            replica,
            room: Mutex::new(room),
            work: Condvar::new(),
            segment_made: Condvar::new(),
        };
        let journal = Self::start(shared, |shared: Arc<Shared>| SyncThread::start(shared, next_number))?;
        let recovered = scan.settle(&journal)?;
        journal.sync()?;
        if std::fs::remove_file(journal.dir().join(ADOPTED)).is_ok() {
            tracing::warn!("this journal had been adopted; its replica is back");
        }
        Ok((journal, recovered))
    }
}

fn check(config: &JournalConfig) -> Result<(), JournalError> {
    if config.segment_bytes < 4 * MAX_FRAME_BYTES as u64 {
        return Err(JournalError::BadConfig("a journal segment has at least 64 KiB"));
    }
    if config.max_bytes / 8 < config.segment_bytes {
        return Err(JournalError::BadConfig("a journal has room for at least eight segments"));
    }
    Ok(())
}

fn lock(dir: &Path) -> Result<File, JournalError> {
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(dir.join(LOCK))
        .map_err(JournalError::io("open its lock"))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(JournalError::Locked { dir: dir.to_owned() }),
        Err(TryLockError::Error(source)) => Err(JournalError::io("take its lock")(source)),
    }
}

fn replica_id(dir: &Path, clock: &dyn Clock, entropy: &dyn Entropy) -> Result<ReplicaId, JournalError> {
    let path = dir.join(REPLICA);
    match std::fs::read_to_string(&path) {
        Ok(text) => text.trim().parse().map_err(|_| JournalError::BadFile { path, what: "replica id" }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let replica = ReplicaId::generate(clock.now(), entropy.id_bytes());
            segment::replace(dir, REPLICA, format!("{replica}\n").as_bytes())
                .map_err(JournalError::io("write its replica id"))?;
            Ok(replica)
        }
        Err(error) => Err(JournalError::io("read its replica id")(error)),
    }
}

/// One pass over all segments.
struct Scan {
    cursor: Position,
    recent_since: Timestamp,
    replay: Replay,
    recovered: Recovered,
    undrained: super::room::Undrained,
    buffer: Vec<u8>,
}

/// What a segment looked like.
struct Scanned {
    segment: Segment,
    /// It has no byte but zeros.
    is_blank: bool,
}

impl Scan {
    fn new(cursor: Position, recent_since: Timestamp) -> Self {
        Self {
            cursor,
            recent_since,
            replay: Replay::default(),
            recovered: Recovered::default(),
            undrained: super::room::Undrained::default(),
            buffer: Vec::new(),
        }
    }

    /// Reads everything; gives the state to go on from and the number of the next segment.
    fn all(&mut self, config: &JournalConfig) -> io::Result<(Room, u64)> {
        let mut used: Vec<Segment> = Vec::new();
        let mut spares = VecDeque::new();
        let mut next_number = self.cursor.segment.max(1);
        for (number, size) in segment::list(&config.dir)? {
            next_number = next_number.max(number + 1);
            let scanned = self.segment(&config.dir, number, size)?;
            if !scanned.is_blank {
                used.extend(spares.drain(..));
                used.push(scanned.segment);
            } else if size < config.segment_bytes {
                // Made when the last life ended, or with other settings.
                std::fs::remove_file(segment::path(&config.dir, number))?;
            } else {
                spares.push_back(scanned.segment);
            }
        }
        let current = if let Some(mut last) = used.pop() {
            self.recovered.torn_bytes = mend(&mut last, &mut self.buffer)?;
            last
        } else if let Some(spare) = spares.pop_front() {
            spare
        } else {
            next_number += 1;
            segment::create(&config.dir, next_number - 1, config.segment_bytes)?
        };
        let mut room = Room::new(current, spares, config.segment_bytes);
        for old in used {
            self.recovered.damaged_bytes += tail_bytes(&old, &mut self.buffer)?;
            room.total_bytes += old.size;
            room.sealed.insert(old.number, Sealed { written: old.written, size: old.size });
        }
        room.undrained = self.undrained;
        Ok((room, next_number))
    }

    fn segment(&mut self, dir: &Path, number: u64, size: u64) -> io::Result<Scanned> {
        let file = segment::open(dir, number)?;
        let mut buffer = std::mem::take(&mut self.buffer);
        let written = read_frames(&file, 0, size, &mut buffer, |end, found| {
            match found {
                Found::Frame(frame) => self.frame(Position { segment: number, offset: end }, &frame),
                Found::Damage(bytes) => {
                    tracing::error!(segment = number, offset = end, bytes, "the journal is damaged here");
                    self.recovered.damaged_bytes += bytes as u64;
                }
            }
            ControlFlow::Continue(())
        })?;
        let segment = Segment { number, file: Arc::new(file), written, size };
        let is_blank = written == 0 && tail_bytes(&segment, &mut buffer)? == 0;
        self.buffer = buffer;
        Ok(Scanned { segment, is_blank })
    }

    fn frame(&mut self, end: Position, frame: &Frame<'_>) {
        match self.replay.apply(end.segment, frame) {
            Ok(Applied::Open) => {}
            Ok(Applied::Ended) => self.ended(end, frame),
            Ok(Applied::Orphan) => {
                tracing::error!(request.id = %frame.request, "the journal has no begin of this request");
            }
            Err(error) => {
                tracing::error!(%error, request.id = %frame.request, "a journal record cannot be read");
                self.recovered.damaged_bytes += frame.size() as u64;
            }
        }
    }

    fn ended(&mut self, end: Position, frame: &Frame<'_>) {
        if end > self.cursor {
            self.undrained.records += 1;
            self.undrained.bytes += frame.size() as u64;
            self.undrained.oldest_at.get_or_insert(frame.at);
        }
        if frame.at >= self.recent_since
            && let Ok(Record::End(event)) = frame.parse()
        {
            self.recovered.recent.extend(recent(&event));
        }
    }

    /// Ends in the journal what is open.
    fn settle(mut self, journal: &Journal) -> Result<Recovered, JournalError> {
        let mut recovered = self.recovered;
        for open in self.replay.open() {
            let begin = &open.begin;
            recovered.holds.push(OpenHold { request: begin.request, tenant: begin.tenant, hold: begin.hold });
            let event = interrupted_event(open.clone(), journal.replica());
            journal.end(&event)?;
            let last_at = event.started_at.plus(Duration::from_millis(event.duration_ms.into()));
            if last_at >= self.recent_since {
                recovered.recent.extend(recent(&event));
            }
            recovered.interrupted.push(event);
        }
        for Unreadable { request, bytes } in self.replay.take_unreadable() {
            tracing::error!(request.id = %request, "the journal's begin of this request cannot be read");
            recovered.damaged_bytes += bytes as u64;
        }
        Ok(recovered)
    }
}

fn recent(event: &UsageEvent) -> impl Iterator<Item = RecentAttempt> + '_ {
    let last = event.attempts.len().saturating_sub(1);
    event.attempts.iter().enumerate().map(move |(index, attempt): (usize, &Attempt)| RecentAttempt {
        tenant: event.tenant_id,
        member: event.member_id,
        token: event.token_id,
        provider: attempt.provider_id,
        key: attempt.key_id,
        at: attempt.started_at,
        tokens: if index == last { event.usage.total_tokens() } else { 0 },
        is_last: index == last,
    })
}

/// Bytes behind the last frame up to the last that is not zero.
fn tail_bytes(segment: &Segment, buffer: &mut Vec<u8>) -> io::Result<u64> {
    use std::os::unix::fs::FileExt;
    let mut used_to = segment.written;
    let mut position = segment.written;
    while position < segment.size {
        let piece_bytes = usize::try_from(segment.size - position).unwrap_or(usize::MAX).min(1 << 18);
        buffer.resize(piece_bytes, 0);
        segment.file.read_exact_at(buffer, position)?;
        if let Some(last) = buffer.iter().rposition(|&byte| byte != 0) {
            used_to = position + last as u64 + 1;
        }
        position += piece_bytes as u64;
    }
    Ok(used_to - segment.written)
}

/// Makes the last segment fit to be written on: a record that was cut off becomes zeros again.
/// More than one record's worth of unknown bytes is no torn tail; it stays, and writing goes on
/// behind it. Gives the bytes in either case.
fn mend(last: &mut Segment, buffer: &mut Vec<u8>) -> io::Result<u64> {
    use std::os::unix::fs::FileExt;
    let torn = tail_bytes(last, buffer)?;
    if torn > MAX_FRAME_BYTES as u64 {
        tracing::error!(
            segment = last.number,
            offset = last.written,
            bytes = torn,
            "the journal is damaged here"
        );
        last.written += torn;
    } else if torn > 0 {
        let zeros = vec![0; usize::try_from(torn).unwrap_or(MAX_FRAME_BYTES)];
        last.file.write_all_at(&zeros, last.written)?;
    }
    Ok(torn)
}
