//! Which tasks run beside the request path, and in which stage each stops.
//!
//! | task | stage | does |
//! |---|---|---|
//! | catalog | watching | follows the store's catalog |
//! | identity | watching | reads revocations and signing keys again when access has changed |
//! | funds | watching | reads balances of prepaid tenants |
//! | partitions | watching | makes the coming months' partitions of usage events |
//! | admission | settling | renews leases, gives back what ended, watches Redis |
//! | answers | watching | forgets old answers to repeated admin requests |
//! | recorder | recording | drains the journal into the store |
//! | presence | present | reports this replica and holds its lock |

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{
    replica::Presence,
    tasks::{Stage, Tasks},
};
use crate::{
    admission::Admission,
    billing::{
        funds::Funds,
        journal::{Journal, Recovered},
        recorder::{Recorder, RecorderError},
    },
    catalog::Catalog,
    domain::clock::SharedClock,
    http::admin,
    identity::Identity,
    store::Store,
    telemetry::Metrics,
};

/// How long the last drain may take; within what shutdown gives the stage.
const LAST_DRAIN: Duration = Duration::from_secs(8);
/// Partitions are made two months ahead, so a day early or late is nothing.
const PARTITIONS_EVERY: Duration = Duration::from_secs(24 * 60 * 60);
const PARTITIONS_RETRY: Duration = Duration::from_secs(5 * 60);
/// Between two tries to read what has changed about access.
const ACCESS_RETRY: Duration = Duration::from_millis(500);

/// What the tasks work on.
pub struct Floors {
    /// Durable facts.
    pub store: Store,
    /// Counters.
    pub admission: Admission,
    /// What is not yet in the store.
    pub journal: Journal,
    /// What prepaid tenants can spend.
    pub funds: Arc<Funds>,
    /// Providers, keys, models, routes.
    pub catalog: Arc<Catalog>,
    /// Access tokens.
    pub identity: Arc<Identity>,
    /// Counters for operators.
    pub metrics: Arc<Metrics>,
    /// Time.
    pub clock: SharedClock,
    /// This replica among others.
    pub presence: Arc<Presence>,
}

/// Starts every task.
pub fn spawn_all(tasks: &Tasks, floors: Floors) {
    let Floors { store, admission, journal, funds, catalog, identity, metrics, clock, presence } = floors;
    let followed = Arc::clone(&catalog);
    tasks.spawn(Stage::Watching, "catalog", move |stop| {
        let catalog = Arc::clone(&followed);
        async move {
            catalog.watch(stop).await;
            Ok(())
        }
    });
    tasks.spawn(Stage::Watching, "identity", move |stop| {
        follow_access(Arc::clone(&catalog), Arc::clone(&identity), stop)
    });
    let (kept, time) = (store.clone(), clock.clone());
    tasks.spawn(Stage::Watching, "answers", move |stop| {
        let forgotten = admin::forget_old_answers(kept.clone(), time.clone(), stop);
        async move {
            forgotten.await;
            Ok(())
        }
    });
    let (ahead, now) = (store.clone(), clock.clone());
    tasks.spawn(Stage::Watching, "partitions", move |stop| make_partitions(ahead.clone(), now.clone(), stop));
    let refreshed = Arc::clone(&funds);
    tasks.spawn(Stage::Watching, "funds", move |stop| {
        let funds = Arc::clone(&refreshed);
        async move {
            funds.refresh(stop).await;
            Ok(())
        }
    });
    tasks.spawn(Stage::Settling, "admission", move |stop| {
        let admission = admission.clone();
        async move {
            admission.maintain(stop).await;
            Ok(())
        }
    });
    tasks.spawn(Stage::Recording, "recorder", move |stop| {
        let recorder = Recorder::new(journal.clone(), store.clone(), clock.clone(), Arc::clone(&metrics));
        record(recorder.map(|recorder| recorder.telling(Arc::clone(&funds))), stop)
    });
    tasks.spawn(Stage::Present, "presence", move |stop| {
        let presence = Arc::clone(&presence);
        async move { presence.keep(stop).await }
    });
}

/// Makes partitions ahead, at start and then daily; sooner again when it could not.
async fn make_partitions(store: Store, clock: SharedClock, stop: CancellationToken) -> anyhow::Result<()> {
    loop {
        let pause = match store.ensure_partitions(clock.now()).await {
            Ok(report) => {
                if !report.made.is_empty() {
                    tracing::info!(made = ?report.made, "partitions made");
                }
                PARTITIONS_EVERY
            }
            Err(error) => {
                tracing::warn!(%error, "partitions cannot be made now; events go to the default one");
                PARTITIONS_RETRY
            }
        };
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = sleep(pause) => {}
        }
    }
}

/// Drains the journal until `stop`, and then once more to its end.
async fn record(recorder: Result<Recorder, RecorderError>, stop: CancellationToken) -> anyhow::Result<()> {
    let mut recorder = recorder?;
    recorder.run(&stop).await;
    recorder.drain(LAST_DRAIN).await;
    Ok(())
}

/// Has identity look again whenever the store's access version has risen.
async fn follow_access(
    catalog: Arc<Catalog>,
    identity: Arc<Identity>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut versions = catalog.versions();
    let mut seen = versions.borrow_and_update().access;
    let mut is_current = false;
    loop {
        if !is_current {
            is_current = match identity.refresh().await {
                Ok(()) => true,
                Err(error) => {
                    tracing::warn!(%error, "revocations cannot be read; what was known stays in force");
                    false
                }
            };
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = sleep(ACCESS_RETRY), if !is_current => {}
            changed = versions.changed() => {
                changed?;
                let access = versions.borrow_and_update().access;
                is_current &= access == seen;
                seen = access;
            }
        }
    }
}

/// Says what the last life of the journal left behind.
pub fn tell_recovered(recovered: &Recovered) {
    if !recovered.interrupted.is_empty() {
        let requests = recovered.interrupted.len();
        tracing::warn!(requests, "requests that the last process left open are settled as interrupted");
    }
    if recovered.damaged_bytes > 0 {
        let bytes = recovered.damaged_bytes;
        tracing::error!(bytes, "the disk has lost a part of the journal: usage in it is not billed");
    }
}
