//! The only spawner: named background tasks, restarted when they end early, stopped in stages.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::telemetry::Metrics;

/// When a task is stopped. A later stage needs what an earlier one may still produce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Watches, refreshes, reports: nothing depends on them once no request is served.
    Watching,
    /// Gives back passes and leases, and keeps live ones alive until then.
    Settling,
    /// Brings the journal into the store.
    Recording,
    /// Tells the others that this replica is here, until nothing of it is left.
    Present,
}

/// Every stage in stopping order.
pub const STAGES: [Stage; 4] = [Stage::Watching, Stage::Settling, Stage::Recording, Stage::Present];

/// The first pause before a task is started again; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A task that ran this long begins anew with the first pause.
const STEADY: Duration = Duration::from_secs(60);

/// The background tasks of one server.
#[derive(Debug)]
pub struct Tasks {
    stages: [(CancellationToken, TaskTracker); STAGES.len()],
    metrics: Arc<Metrics>,
    first_pause: Duration,
}

/// Runs `work` once, beside everything else, and tells when it has ended.
#[expect(clippy::disallowed_methods, reason = "this is the one place that spawns")]
pub fn run_once<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(work)
}

impl Tasks {
    /// No task yet.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>) -> Self {
        let stages = STAGES.map(|_| (CancellationToken::new(), TaskTracker::new()));
        Self { stages, metrics, first_pause: FIRST_PAUSE }
    }

    /// Runs `task` until its stage stops. The token tells it to finish what it has and return; a
    /// task that returns, fails or panics before that is logged, counted and started again.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that spawns")]
    pub fn spawn<F, Fut>(&self, stage: Stage, name: &'static str, task: F)
    where
        F: Fn(CancellationToken) -> Fut + Send + 'static,
        Fut: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let (stop, tracker) = &self.stages[stage as usize];
        let supervised = keep_running(name, task, stop.clone(), Arc::clone(&self.metrics), self.first_pause);
        tokio::spawn(tracker.track_future(supervised));
    }

    /// Stops a stage and waits for its tasks; false when some were still busy after `within`.
    pub async fn stop(&self, stage: Stage, within: Duration) -> bool {
        let (stop, tracker) = &self.stages[stage as usize];
        stop.cancel();
        tracker.close();
        timeout(within, tracker.wait()).await.is_ok()
    }
}

/// Told to stop, whoever forgot to: a dropped server leaves no task behind.
impl Drop for Tasks {
    fn drop(&mut self) {
        for (stop, _) in &self.stages {
            stop.cancel();
        }
    }
}

async fn keep_running<F, Fut>(
    name: &'static str,
    task: F,
    stop: CancellationToken,
    metrics: Arc<Metrics>,
    first_pause: Duration,
) where
    F: Fn(CancellationToken) -> Fut + Send + 'static,
    Fut: Future<Output = anyhow::Result<()>> + Send,
{
    let mut pause = first_pause;
    loop {
        let started = Instant::now();
        let ended = AssertUnwindSafe(task(stop.clone())).catch_unwind().await;
        let why = match ended {
            Ok(Err(error)) => format!("{error:#}"),
            _ if stop.is_cancelled() => return,
            Ok(Ok(())) => "it returned".to_owned(),
            Err(_) => "it panicked".to_owned(),
        };
        if stop.is_cancelled() {
            tracing::warn!(task = name, why, "a background task did not end well");
            return;
        }
        if started.elapsed() >= STEADY {
            pause = first_pause;
        }
        metrics.task_restarted(name);
        tracing::error!(
            task = name,
            why,
            pause_ms = ms(pause),
            "a background task ended early; it starts again"
        );
        tokio::select! {
            () = sleep(pause) => {}
            () = stop.cancelled() => return,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_task_that_ends_early_is_started_again_after_growing_pauses() {
        let metrics = Arc::new(Metrics::new());
        let mut tasks = Tasks::new(Arc::clone(&metrics));
        tasks.first_pause = Duration::from_millis(4);
        let (seen, mut starts) = mpsc::unbounded_channel();
        let runs = AtomicU32::new(0);
        tasks.spawn(Stage::Watching, "shaky", move |stop| {
            let run = runs.fetch_add(1, Ordering::SeqCst);
            seen.send(Instant::now()).unwrap();
            async move {
                match run {
                    0 => anyhow::bail!("no luck"),
                    1 => panic!("worse"),
                    2 => Ok(()),
                    _ => {
                        stop.cancelled().await;
                        Ok(())
                    }
                }
            }
        });
        let mut instants = Vec::new();
        for _ in 0..4 {
            instants.push(starts.recv().await.unwrap());
        }
        for (pair, least) in instants.windows(2).zip([4, 8, 16]) {
            assert!(pair[1] - pair[0] >= Duration::from_millis(least));
        }
        assert!(tasks.stop(Stage::Watching, Duration::from_secs(1)).await);
        assert!(metrics.render().unwrap().contains(r#"tollway_task_restarts_total{task="shaky"} 3"#));
    }

    #[tokio::test]
    async fn stages_stop_one_by_one_and_a_busy_task_is_told() {
        let tasks = Tasks::new(Arc::new(Metrics::new()));
        let (done, mut ended) = mpsc::unbounded_channel();
        for stage in STAGES {
            let done = done.clone();
            tasks.spawn(stage, "task", move |stop| {
                let done = done.clone();
                async move {
                    stop.cancelled().await;
                    done.send(stage)?;
                    Ok(())
                }
            });
        }
        tasks.spawn(Stage::Recording, "busy", |_| async {
            std::future::pending::<()>().await;
            Ok(())
        });
        assert!(tasks.stop(Stage::Watching, Duration::from_secs(1)).await);
        assert_eq!(ended.try_recv(), Ok(Stage::Watching));
        assert!(ended.try_recv().is_err());
        assert!(tasks.stop(Stage::Settling, Duration::from_secs(1)).await);
        assert!(!tasks.stop(Stage::Recording, Duration::from_millis(50)).await);
    }
}
