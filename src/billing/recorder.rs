//! Drains the journal into the store: every end exactly once, in batches, for as long as it takes.
//!
//! The recorder reads the journal's files with the code that start-up reads them with, so what it
//! stores is what a crash would have left. The store knows an event by its id: a batch may come
//! twice. While the store is away the journal grows; nothing is dropped, nobody waits. An event
//! that the store refuses for what it says is set aside in a file (see `rejected`),
//! so that one does not hold up the rest.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;

use super::{
    funds::Funds,
    journal::{Chunk, Journal, JournalError, Position, Reader},
    rejected::Rejected,
};
use crate::{
    domain::{clock::SharedClock, event::UsageEvent, limits::WINDOW},
    store::{Store, StoreError},
    telemetry::Metrics,
};

/// Events in one transaction of the store; a multiple of its largest insert. Nearly all work is per
/// row: four times as many would save 2 % of what an event costs SQLite, and hold four times the
/// memory and the only writer four times as long.
const BATCH: usize = 512;
/// How long an event waits for others to come along.
const GATHER: Duration = Duration::from_millis(100);
/// The wait after a first failure, doubled up to the last.
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(5);
/// How often the cursor is saved and old segments go.
const TIDY_EVERY: Duration = Duration::from_secs(1);

/// Why a round did not succeed; the next one may.
#[derive(Debug, thiserror::Error)]
pub enum RecorderError {
    /// The store did not take a batch.
    #[error("the store does not take usage events")]
    Store(#[from] StoreError),
    /// The journal's files cannot be read or written.
    #[error("the journal's files cannot be used")]
    Files(#[from] io::Error),
    /// The journal did not let go of a segment.
    #[error("the journal cannot be tidied")]
    Journal(#[from] JournalError),
}

/// Drains one journal into one store.
#[derive(Debug)]
pub struct Recorder {
    journal: Journal,
    store: Store,
    clock: SharedClock,
    metrics: Arc<Metrics>,
    rejected: Rejected,
    funds: Option<Arc<Funds>>,
    /// None until the first round, and after a failure to read.
    reader: Option<Reader>,
    /// Read, not yet stored.
    pending: Chunk,
    /// The store has everything before.
    stored: Position,
    saved: Position,
    tidied_at: Option<Instant>,
}

impl Recorder {
    /// Goes on where the saved cursor of the journal stands.
    ///
    /// # Errors
    ///
    /// The cursor's file cannot be read.
    pub fn new(
        journal: Journal,
        store: Store,
        clock: SharedClock,
        metrics: Arc<Metrics>,
    ) -> Result<Self, RecorderError> {
        let stored = Position::load(journal.dir())?;
        let rejected = Rejected::in_dir(journal.dir());
        Ok(Self {
            journal,
            store,
            clock,
            metrics,
            rejected,
            funds: None,
            reader: None,
            pending: Chunk::default(),
            stored,
            saved: stored,
            tidied_at: None,
        })
    }

    /// Tells `funds` what is stored, each charge once, whichever recorder of this process stores it.
    #[must_use]
    pub fn telling(mut self, funds: Arc<Funds>) -> Self {
        self.stored = self.stored.max(funds.booked_to().unwrap_or_default());
        self.funds = Some(funds);
        self
    }

    /// Drains until `shutdown`; then call [`drain`](Self::drain).
    ///
    /// # Cancellation
    ///
    /// May be dropped at any point: what was not stored is read again by the next recorder.
    pub async fn run(&mut self, shutdown: &CancellationToken) {
        let mut retry = FIRST_RETRY;
        loop {
            let pause = match self.round().await {
                Ok(is_more) => {
                    retry = FIRST_RETRY;
                    if is_more { Duration::ZERO } else { GATHER }
                }
                Err(error) => {
                    self.failed(&error);
                    let pause = retry;
                    retry = (retry * 2).min(LAST_RETRY);
                    pause
                }
            };
            self.report();
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Drains what is there, for at most `within`. True: the store has everything.
    ///
    /// # Cancellation
    ///
    /// As [`run`](Self::run).
    pub async fn drain(&mut self, within: Duration) -> bool {
        let drained = tokio::time::timeout(within, self.drain_all()).await.is_ok();
        if let Err(error) = self.save_cursor() {
            self.failed(&error.into());
        }
        self.report();
        drained
    }

    async fn drain_all(&mut self) {
        loop {
            match self.round().await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    self.failed(&error);
                    tokio::time::sleep(FIRST_RETRY).await;
                }
            }
        }
    }

    /// Reads, stores and tidies once. True: there is more.
    async fn round(&mut self) -> Result<bool, RecorderError> {
        self.read().await?;
        let is_full = self.pending.ends() >= BATCH;
        self.store_pending().await?;
        if self.tidied_at.is_none_or(|at| at.elapsed() >= TIDY_EVERY) {
            self.tidy().await?;
            self.tidied_at = Some(Instant::now());
        }
        Ok(is_full)
    }

    /// Fills the batch from the files, on a thread that may block.
    async fn read(&mut self) -> Result<(), RecorderError> {
        let room = BATCH.saturating_sub(self.pending.ends());
        if room == 0 {
            return Ok(());
        }
        if self.reader.is_none() {
            // A reader that failed takes what it had read with it.
            self.pending = Chunk { to: self.stored, ..Chunk::default() };
        }
        let reader = self.reader.take();
        let (journal, stored) = (self.journal.clone(), self.stored);
        let (reader, chunk) = blocking(move || {
            let mut reader = match reader {
                Some(reader) => reader,
                None => Reader::starting_at(journal, stored)?,
            };
            let chunk = reader.read(room)?;
            Ok((reader, chunk))
        })
        .await?;
        self.reader = Some(reader);
        if chunk.damaged_bytes > 0 {
            tracing::error!(bytes = chunk.damaged_bytes, "the journal is damaged; records were lost");
            self.metrics.journal_damaged(chunk.damaged_bytes);
        }
        self.pending.append(chunk);
        Ok(())
    }

    async fn store_pending(&mut self) -> Result<(), RecorderError> {
        let records = self.pending.ends() as u64;
        if !self.pending.events.is_empty() {
            match self.store.record_events(&self.pending.events).await {
                Ok(_) => {}
                Err(error) if error.is_unavailable() => return Err(error.into()),
                Err(error) => self.store_one_by_one(error).await?,
            }
        }
        for payload in &self.pending.unreadable {
            self.rejected.add_unreadable(payload)?;
            self.metrics.recorder_rejected();
        }
        self.stored = self.pending.to;
        if let Some(funds) = &self.funds {
            let charges = self.pending.events.iter().map(|event| (event.tenant_id, event.charge));
            funds.booked(charges, self.stored);
        }
        self.journal.drained(records, self.pending.bytes, self.pending.last_at);
        self.metrics.recorded(records);
        self.pending = Chunk { to: self.stored, ..Chunk::default() };
        Ok(())
    }

    /// After a refusal of the batch: finds the events that are refused by themselves and sets them
    /// aside. A store that refuses all of them for no reason of theirs is broken, not they; then
    /// the batch is kept.
    async fn store_one_by_one(&mut self, of_batch: StoreError) -> Result<(), RecorderError> {
        let mut refused: Vec<(&UsageEvent, StoreError)> = Vec::new();
        for event in &self.pending.events {
            match self.store.record_events(std::slice::from_ref(event)).await {
                Ok(_) => {}
                Err(error) if error.is_unavailable() => return Err(error.into()),
                Err(error) => refused.push((event, error)),
            }
        }
        let some_were_taken = refused.len() < self.pending.events.len();
        if !some_were_taken && !refused.iter().all(|(_, error)| is_about_the_event(error)) {
            return Err(of_batch.into());
        }
        for (event, error) in refused {
            tracing::error!(request.id = %event.id, %error, "a usage event was refused and set aside");
            self.rejected.add(event, &error)?;
            self.metrics.recorder_rejected();
        }
        Ok(())
    }

    /// Saves the cursor and lets go of segments that nothing needs.
    async fn tidy(&mut self) -> Result<(), RecorderError> {
        self.save_cursor()?;
        let health = self.journal.health();
        // A restart seeds windows from the last minute, unless space is what is short.
        let keep_for = if health.total_bytes > health.max_bytes / 2 { Duration::ZERO } else { WINDOW };
        let keep_since = self.clock.now().minus(keep_for);
        if let Some(mut reader) = self.reader.take() {
            let stored = self.stored;
            let (reader, released) = blocking(move || {
                let released = reader.release(stored, keep_since);
                Ok((reader, released))
            })
            .await?;
            self.reader = Some(reader);
            released?;
        }
        Ok(())
    }

    fn save_cursor(&mut self) -> io::Result<()> {
        if self.saved != self.stored {
            self.stored.save(self.journal.dir())?;
            self.saved = self.stored;
        }
        Ok(())
    }

    fn failed(&self, error: &RecorderError) {
        self.metrics.recorder_failed();
        let undrained = self.journal.health().undrained_records;
        tracing::warn!(
            error = error as &dyn std::error::Error,
            undrained,
            "usage events wait in the journal; trying again"
        );
    }

    fn report(&self) {
        let health = self.journal.health();
        let age = health.oldest_undrained_at.map_or(Duration::ZERO, |at| self.clock.now().since(at));
        self.metrics.journal(health.undrained_records, health.undrained_bytes, age);
    }
}

/// Whether an event is refused for what it says, whatever the state of the store.
const fn is_about_the_event(error: &StoreError) -> bool {
    matches!(error, StoreError::Conflict { .. } | StoreError::Reference | StoreError::BadRow { .. })
}

/// Runs `work` where it may block on the disk.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
