//! Stopping, in an order in which nothing is lost.
//!
//! 1. `/readyz` says 503, for a while where one is set, so that the balancer sends nobody any more.
//! 2. The server stops accepting; answers may finish within the grace period, then they are cut and
//!    settle as aborted.
//! 3. Watching tasks stop.
//! 4. Passes and leases are given back.
//! 5. The journal is synced and drained into the store, within a bound; what is left waits on its
//!    volume for the next start.
//! 6. The replica takes leave of the others. Traces and log lines that still wait are sent by the
//!    command that started the server.

use std::{sync::atomic::Ordering, time::Duration};

use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep, timeout},
};

use super::{build::Running, tasks::Stage};

/// After the grace period cut answers settle themselves; that takes moments.
const CUT_ANSWERS: Duration = Duration::from_secs(2);
/// Tasks that only watch have nothing to finish.
const WATCHING: Duration = Duration::from_secs(1);
/// Giving leases back is a few round trips.
const SETTLING: Duration = Duration::from_secs(3);
/// Draining the journal into a store that is there takes less; one that is away is not waited for.
const RECORDING: Duration = Duration::from_secs(10);
/// Two statements.
const LEAVING: Duration = Duration::from_secs(2);

/// Waits for the request to stop: SIGTERM, or Ctrl-C.
///
/// # Errors
/// When signals cannot be listened to.
pub async fn requested() -> std::io::Result<&'static str> {
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = term.recv() => Ok("SIGTERM"),
        _ = int.recv() => Ok("SIGINT"),
    }
}

/// Waits as [`requested`] does, or for the terminal to be closed. Not for a server, which may have been
/// told by `nohup` to outlive its terminal.
///
/// # Errors
/// As [`requested`].
pub async fn left() -> std::io::Result<&'static str> {
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::select! {
        asked = requested() => asked,
        _ = hang_up.recv() => Ok("SIGHUP"),
    }
}

impl Running {
    /// Stops, and returns when everything is in its place or its time is up.
    ///
    /// # Cancellation
    /// Dropped half-way it is as if the process was killed: what is in the journal is not lost.
    pub async fn stop(self) {
        let began = Instant::now();
        self.draining.store(true, Ordering::Relaxed);
        sleep(self.drain_delay).await;
        self.server.stop().await;
        if !self.answers_settled().await {
            tracing::warn!(
                open = self.metrics.in_flight(),
                "some answers did not settle; the next start does that"
            );
        }
        for (stage, within) in [
            (Stage::Watching, WATCHING),
            (Stage::Settling, SETTLING),
            (Stage::Recording, RECORDING),
            (Stage::Present, LEAVING),
        ] {
            if !self.tasks.stop(stage, within).await {
                tracing::warn!(?stage, "some tasks were still busy when the server stopped");
            }
        }
        let journal = self.journal.clone();
        // A disk may take its time, and this thread still has a log to write.
        match tokio::task::spawn_blocking(move || journal.sync()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "the journal is not on disk"),
            Err(error) => tracing::error!(%error, "the journal is not on disk"),
        }
        let left = self.journal.health().undrained_records;
        if left > 0 {
            tracing::warn!(records = left, dir = %self.journal.dir().display(),
                "the journal keeps what the store does not have yet; start again on this directory, or run \
                 `tollway journal adopt` on it");
        }
        if timeout(WATCHING, self.store.close()).await.is_err() {
            tracing::warn!("the database did not take leave in time");
        }
        tracing::info!(took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX), "stopped");
    }

    /// Waits for answers that were cut to settle; false when they have not after [`CUT_ANSWERS`].
    async fn answers_settled(&self) -> bool {
        // Workers end after the server has said so, and nothing tells when; this is not a busy path.
        let until = Instant::now() + CUT_ANSWERS;
        while self.metrics.in_flight() > 0 {
            if Instant::now() >= until {
                return false;
            }
            sleep(Duration::from_millis(5)).await;
        }
        true
    }
}
