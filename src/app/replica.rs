//! This copy of the server among others: its lock, its row, and the refusal to count apart.

use std::time::Duration;

use anyhow::Context;
use parking_lot::Mutex;
use tokio::time::{Instant, interval, sleep};
use tokio_util::sync::CancellationToken;

use crate::{
    billing::journal::Journal,
    domain::{
        clock::{SharedClock, Timestamp},
        replica::Replica,
    },
    store::{Counting, ReplicaLock, Store, StoreError},
};

/// How long a start waits for the lock of its own previous life: the database notices a machine
/// that vanished after about 25 s.
const LOCK_PATIENCE: Duration = Duration::from_secs(40);
/// Between two tries for the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(250);
/// Between two reports.
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// A replica that has looked for others and reports itself.
pub struct Presence {
    store: Store,
    journal: Journal,
    clock: SharedClock,
    started_at: Timestamp,
    /// Taken by the task that keeps it; none once the database has lost it.
    lock: Mutex<Option<ReplicaLock>>,
    counting: Counting,
}

impl Presence {
    /// Takes the lock and looks for others.
    ///
    /// # Errors
    /// When another process lives under the same id, or another replica lives and not both count together.
    pub async fn announce(
        store: Store,
        journal: Journal,
        clock: SharedClock,
        counting: Counting,
    ) -> anyhow::Result<Self> {
        let mut lock = take_lock(&store, &journal, counting).await?;
        match counting {
            Counting::ByItself => anyhow::ensure!(
                lock.others().await? == 0,
                "another replica serves this database, and without Redis each would count limits on its own: set \
                 REDIS_URL on every replica, or stop the other one first"
            ),
            Counting::Together => anyhow::ensure!(
                lock.loners().await? == 0,
                "a replica without Redis serves this database and counts limits on its own: stop it first, and set \
                 REDIS_URL on every replica"
            ),
        }
        let started_at = clock.now();
        let presence = Self { store, journal, clock, started_at, lock: Mutex::new(Some(lock)), counting };
        presence.report().await.context("this replica cannot report itself")?;
        Ok(presence)
    }

    /// Reports until `stop`, taking the lock again when the database has lost it; then takes leave:
    /// a replica whose journal is drained leaves no row behind.
    ///
    /// # Errors
    /// When it cannot take leave. A store that is away before is told once and waited out.
    pub async fn keep(&self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut lock = self.lock.lock().take();
        let mut ticks = interval(REPORT_EVERY);
        let mut is_away = false;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = stop.cancelled() => break,
            }
            match self.report().await {
                Ok(()) => {
                    is_away = false;
                    lock = self.mended(lock).await;
                }
                Err(error) if !is_away => {
                    is_away = true;
                    tracing::warn!(%error, "this replica cannot report itself; it goes on trying");
                }
                Err(_) => {}
            }
        }
        self.leave().await?;
        if let Some(lock) = lock {
            lock.release().await;
        }
        Ok(())
    }

    /// The lock if it is still held, else taken anew.
    async fn mended(&self, lock: Option<ReplicaLock>) -> Option<ReplicaLock> {
        if let Some(mut held) = lock
            && held.is_held().await
        {
            return Some(held);
        }
        match self.store.lock_replica(self.journal.replica(), self.counting).await {
            Ok(Some(taken)) => Some(taken),
            Ok(None) => {
                tracing::error!("another process has taken this replica's lock");
                None
            }
            Err(error) => {
                tracing::warn!(%error, "the replica's lock cannot be taken again yet");
                None
            }
        }
    }

    async fn leave(&self) -> Result<(), StoreError> {
        if self.journal.health().undrained_records > 0 {
            return self.report().await;
        }
        let mut tx = self.store.begin().await?;
        tx.remove_replica(self.journal.replica()).await?;
        tx.commit().await
    }

    async fn report(&self) -> Result<(), StoreError> {
        let health = self.journal.health();
        let replica = Replica {
            id: self.journal.replica(),
            build: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: self.started_at,
            heartbeat_at: self.clock.now(),
            journal_records: health.undrained_records,
            journal_bytes: health.undrained_bytes,
        };
        let mut tx = self.store.begin().await?;
        tx.put_replica(&replica).await?;
        tx.commit().await
    }
}

/// The replica's own lock; its previous life may take a while to be seen as gone.
async fn take_lock(store: &Store, journal: &Journal, counting: Counting) -> anyhow::Result<ReplicaLock> {
    let since = Instant::now();
    let mut has_told = false;
    loop {
        if let Some(lock) = store.lock_replica(journal.replica(), counting).await? {
            return Ok(lock);
        }
        anyhow::ensure!(
            since.elapsed() < LOCK_PATIENCE,
            "another live process has this replica's id ({}): was the journal directory {} copied? Each replica \
             needs its own; remove the copy's `replica` file while its journal is drained",
            journal.replica(),
            journal.dir().display()
        );
        if !has_told {
            has_told = true;
            tracing::info!("waiting for the database to notice that this replica's previous process is gone");
        }
        sleep(LOCK_PAUSE).await;
    }
}
