//! The journal: a local append-only record of every request.
//!
//! A directory holds numbered segment files, preallocated. Records are appended in memory and
//! written in groups, those of one turn of a worker with one `write(2)`; a thread owned by the
//! journal syncs them in larger groups. A killed process therefore loses nothing, a
//! power cut at most [`JournalConfig::fsync_every`]. A begin is written before the upstream is
//! called and reserves room for its end, so that an end is never refused for lack of space; the
//! end is written before the client has its last byte.
//!
//! | file | what |
//! |---|---|
//! | `record` | what is written: begin, attempt, progress, end, carried |
//! | `frame` | records as bytes: marker, length, checksum; finding the next one after damage |
//! | `segment` | the files: names, preallocation, the directory |
//! | `room` | which bytes are promised to whom |
//! | `write` | the appending side, shared by all threads |
//! | `sync` | the thread that syncs and preallocates |
//! | `read` | the reading side, same for the recorder and for start-up |
//! | `replay` | records → what is open |
//! | `inspect` | a look without owning: what waits for the store |
//! | `open` | lock, replica id, scan, settlement of what was interrupted |

mod frame;
mod inspect;
mod open;
mod read;
mod record;
mod replay;
mod room;
mod segment;
mod sync;
mod write;

use std::{io, path::PathBuf, time::Duration};

pub use inspect::{Undrained, Waiting, by_tenant, undrained};
pub(in crate::billing) use open::mark_adopted;
pub use open::{OpenHold, RecentAttempt, Recovered};
pub use read::{Chunk, Position, Reader};
pub use record::{AttemptStart, Begin, MAX_ATTEMPTS, MAX_NAME_BYTES, OpenRequest, Record};
pub use write::{Journal, Queued};

use crate::domain::clock::Timestamp;

/// Where the journal is and how large it may grow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalConfig {
    /// Its directory; one per replica, on a volume that outlives the process.
    pub dir: PathBuf,
    /// Size of one segment file.
    pub segment_bytes: u64,
    /// All segments together; at least eight of them.
    pub max_bytes: u64,
    /// What a power cut may take.
    pub fsync_every: Duration,
}

impl JournalConfig {
    /// In `dir`, with segments of 16 MiB, at most 4 GiB, synced within 10 ms.
    #[must_use]
    pub fn in_dir(dir: PathBuf) -> Self {
        Self { dir, segment_bytes: 16 << 20, max_bytes: 4 << 30, fsync_every: Duration::from_millis(10) }
    }
}

/// What an operator must know of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalHealth {
    /// Ends that the store does not have yet.
    pub undrained_records: u64,
    /// Their bytes: what a lost disk would lose.
    pub undrained_bytes: u64,
    /// When the oldest of them ended, exact to one batch of the recorder.
    pub oldest_undrained_at: Option<Timestamp>,
    /// Requests that have begun and not ended.
    pub open_requests: usize,
    /// No further segment can be had, from the disk or within the bound; once the room left is used
    /// up, begins are refused.
    pub disk_full: bool,
    /// The last sync failed; begins are refused until one succeeds.
    pub sync_failed: bool,
    /// Bytes of all segments on disk.
    pub total_bytes: u64,
    /// Their bound.
    pub max_bytes: u64,
}

/// What can go wrong with a journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// No room, in the configured bound or on the disk.
    #[error("the journal is full")]
    Full,
    /// The disk does not take what was written before.
    #[error("the journal cannot be synced to disk")]
    SyncFailed,
    /// A name is longer than [`MAX_NAME_BYTES`], or a request has more attempts than
    /// [`MAX_ATTEMPTS`].
    #[error("a name or the list of attempts is too long for the journal")]
    TooLarge,
    /// Another live process has the directory.
    #[error("{} is in use by another process", .dir.display())]
    Locked {
        /// The directory.
        dir: PathBuf,
    },
    /// The settings make no sense.
    #[error("{0}")]
    BadConfig(&'static str),
    /// A file in the directory does not hold what it should.
    #[error("{} holds no valid {what}", .path.display())]
    BadFile {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
    },
    /// A record could not be put into bytes.
    #[error("cannot encode a record")]
    Encode(#[source] rmp_serde::encode::Error),
    /// The system's error.
    #[error("the journal cannot {attempted}")]
    Io {
        /// What was attempted.
        attempted: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

impl JournalError {
    /// For `map_err`: the system refused what was attempted.
    fn io(attempted: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { attempted, source }
    }
}

impl From<room::Refused> for JournalError {
    fn from(refused: room::Refused) -> Self {
        match refused {
            room::Refused::NoRoom => Self::Full,
            room::Refused::TooLarge => Self::TooLarge,
            room::Refused::Io(source) => Self::Io { attempted: "write a record", source },
        }
    }
}
