//! Takes over the journal of a replica that will not come back.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{
    journal::{Journal, JournalConfig, JournalError, Recovered, mark_adopted},
    recorder::{Recorder, RecorderError},
};
use crate::{
    domain::{
        clock::{Entropy, SharedClock},
        ids::ReplicaId,
    },
    store::Store,
    telemetry::Metrics,
};

/// What was taken over.
#[derive(Debug)]
pub struct Adopted {
    /// Whose journal it was.
    pub replica: ReplicaId,
    /// What was in flight when it died: settled; its holds are still to be released.
    pub recovered: Recovered,
    /// Ends that the store did not have.
    pub drained: u64,
}

/// Why a journal was not taken over.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// The directory is not a journal's.
    #[error("{} is not a journal: it has no replica id", .0.display())]
    NoJournal(PathBuf),
    /// Its replica lives, or its files cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Its cursor cannot be read.
    #[error(transparent)]
    Recorder(#[from] RecorderError),
    /// The store did not take everything in time; run it again.
    #[error("the store did not take everything: {left} events are left")]
    NotDrained {
        /// Ends that are still only in the journal.
        left: u64,
    },
    /// All is in the store, but the directory could not be marked.
    #[error("cannot mark the journal as adopted")]
    Mark(#[source] io::Error),
}

/// Settles what the dead replica left open by the rule of [`recovery`](super::recovery), drains its
/// journal into the store for at most `within`, and marks the directory. May be run again at any
/// point: the store knows what it has.
///
/// # Errors
///
/// [`AdoptError`]; nothing is lost by any of them.
pub async fn adopt(
    dir: &Path,
    store: Store,
    clock: SharedClock,
    entropy: &dyn Entropy,
    metrics: Arc<Metrics>,
    within: Duration,
) -> Result<Adopted, AdoptError> {
    if !Journal::is_at(dir) {
        return Err(AdoptError::NoJournal(dir.to_owned()));
    }
    let (journal, recovered) = Journal::open(JournalConfig::in_dir(dir.to_owned()), &*clock, entropy)?;
    let replica = journal.replica();
    let undrained = journal.health().undrained_records;
    let mut recorder = Recorder::new(journal.clone(), store, Arc::clone(&clock), metrics)?;
    recorder.drain(within).await;
    let left = journal.health().undrained_records;
    if left > 0 {
        return Err(AdoptError::NotDrained { left });
    }
    mark_adopted(dir, clock.now()).map_err(AdoptError::Mark)?;
    Ok(Adopted { replica, recovered, drained: undrained })
}
