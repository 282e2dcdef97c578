//! Keeping the snapshot in step with the store.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    admission::Admission,
    catalog::{mended::Mended, snapshot::Snapshot},
    domain::clock::{SharedClock, Timestamp},
    store::{Changes, Store, StoreError, Versions},
};

/// How often the version is polled, NOTIFY or not: half of the promised 2 s.
const POLL: Duration = Duration::from_secs(1);

/// Why the catalog could not be read.
#[derive(Debug, thiserror::Error)]
#[error("the catalog cannot be read from the store")]
pub struct CatalogError(#[from] StoreError);

/// The current snapshot and who waits for the next.
#[derive(Debug)]
pub struct Catalog {
    store: Store,
    admission: Admission,
    clock: SharedClock,
    current: ArcSwap<Snapshot>,
    /// Held by whoever reads it again: what a change has mended is given one more chance, not two.
    refreshing: tokio::sync::Mutex<()>,
    checked_at: ArcSwap<Timestamp>,
    versions: watch::Sender<Versions>,
}

impl Catalog {
    /// Reads the first snapshot.
    ///
    /// # Errors
    /// When the store cannot be read: a replica does not start without a catalog.
    pub async fn load(store: Store, admission: Admission, clock: SharedClock) -> Result<Self, CatalogError> {
        let versions = store.versions().await?;
        let snapshot = Snapshot::build(store.load_catalog().await?, &Snapshot::default());
        let checked_at = ArcSwap::from_pointee(clock.now());
        let (versions, _) = watch::channel(versions);
        Ok(Self {
            store,
            admission,
            clock,
            current: ArcSwap::from_pointee(snapshot),
            refreshing: tokio::sync::Mutex::default(),
            checked_at,
            versions,
        })
    }

    /// The snapshot in force; keep it for the length of a request.
    #[must_use]
    pub fn current(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Sees each new pair of versions, the catalog's after its snapshot is in force. What depends on
    /// tenants and access tokens reads them anew when `access` rises.
    #[must_use]
    pub fn versions(&self) -> watch::Receiver<Versions> {
        self.versions.subscribe()
    }

    /// When the store last confirmed that the snapshot is current.
    #[must_use]
    pub fn checked_at(&self) -> Timestamp {
        **self.checked_at.load()
    }

    /// Reads the catalog again if the store has another version, and gives keys that failed before it another
    /// chance where it may have mended the reason.
    ///
    /// # Errors
    /// When the store cannot be read; the snapshot in force stays.
    pub async fn refresh(&self) -> Result<(), CatalogError> {
        let _turn = self.refreshing.lock().await;
        let now = self.clock.now();
        let current = self.current();
        let versions = self.store.versions().await?;
        if versions.catalog != current.version {
            let snapshot = Snapshot::build(self.store.load_catalog().await?, &current);
            tracing::info!(catalog.version = snapshot.version, "catalog changed");
            let mended = Mended::between(&current, &snapshot);
            self.current.store(Arc::new(snapshot));
            for mended in mended {
                mended.give_another_chance(&self.admission).await;
            }
        }
        self.versions.send_if_modified(|known| std::mem::replace(known, versions) != versions);
        self.checked_at.store(Arc::new(now));
        Ok(())
    }

    /// Follows the store until `shutdown`: a notification or `POLL`, whichever comes first. An
    /// absent store is retried for ever; the snapshot in force goes on serving.
    pub async fn watch(&self, shutdown: CancellationToken) {
        let mut changes = self.listen().await;
        let mut away = false;
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(POLL) => {}
                heard = heard(&mut changes) => if !heard { changes = None },
            }
            match self.refresh().await {
                Ok(()) => {
                    away = false;
                    if changes.is_none() {
                        changes = self.listen().await;
                    }
                }
                Err(error) if !away => {
                    away = true;
                    tracing::warn!(%error, cause = %error.0, "catalog stays as it was until the store is back");
                }
                Err(_) => {}
            }
        }
    }

    /// Notifications, where the store has them and is there.
    async fn listen(&self) -> Option<Changes> {
        self.store.listen().await.ok().flatten()
    }
}

/// Waits for a notification: true, or false when there will be none until somebody listens anew.
/// Where there are no notifications it waits for ever.
async fn heard(changes: &mut Option<Changes>) -> bool {
    match changes {
        Some(changes) => changes.next().await.is_ok(),
        None => std::future::pending().await,
    }
}
