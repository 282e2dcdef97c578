//! Log lines to standard error, pretty or JSON, written by a thread of their own.
//!
//! A worker never waits for the log: a line goes into a bounded queue, and when the reader of
//! standard error is too slow for it the line is dropped and counted. Request lines carry their
//! `request.id` as a field. Secrets have types that print nothing; bodies are never logged.

use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, sync_channel},
    },
    thread,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

use tracing::Subscriber;
use tracing_subscriber::{
    Layer, Registry,
    filter::{LevelFilter, Targets, filter_fn},
    fmt::{self, MakeWriter},
    layer::SubscriberExt,
};

use super::{
    json::JsonLine,
    traces::{TRACE_TARGET, Traces},
};

/// Bytes that may wait: some eight thousand lines.
const WAITING_BYTES: usize = 2 << 20;
/// The thread lets lines gather for so long before it writes them in one go: waking it and writing for
/// each line would cost a request more than all its counters.
const GATHER: Duration = Duration::from_millis(5);
/// How long the end of the process waits for lines not yet written.
const LAST_LINES: Duration = Duration::from_secs(1);

/// What log lines look like and which there are.
#[derive(Debug, Clone)]
pub struct LogConfig {
    /// One JSON object a line, else for eyes.
    pub json: bool,
    /// A level, or modules with levels.
    pub levels: Targets,
    /// Colours, for terminals; without meaning in JSON.
    pub colours: bool,
}

/// Keeps the log's thread; dropped last, it writes what still waits.
#[derive(Debug)]
pub struct LogGuard {
    dropped: Arc<AtomicU64>,
    waiting: Arc<Waiting>,
    ended: Receiver<()>,
}

/// Lines on their way to the thread.
#[derive(Debug, Default)]
struct Waiting {
    lines: Mutex<Lines>,
    /// The first line after none, or the end.
    come: Condvar,
}

#[derive(Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
    is_ending: bool,
}

impl LogGuard {
    /// Lines dropped since the start because nobody read them in time.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The same count, for whoever reports it.
    #[must_use]
    pub fn dropped_counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.dropped)
    }
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        // A reader that is stuck must not keep the process.
        self.waiting.lines.lock().is_ending = true;
        self.waiting.come.notify_one();
        let _ = self.ended.recv_timeout(LAST_LINES);
    }
}

/// Installs the log, and traces where they are on, for the whole process.
///
/// # Errors
/// When one is installed already, or the thread cannot be started.
pub fn install(config: &LogConfig, traces: Option<&Traces>) -> io::Result<LogGuard> {
    let (writer, guard) = background(io::stderr())?;
    tracing::subscriber::set_global_default(subscriber(config, writer, traces)).map_err(io::Error::other)?;
    Ok(guard)
}

/// The layers: lines of the wanted levels, spans of [`TRACE_TARGET`] to the collector.
fn subscriber<W>(
    config: &LogConfig,
    writer: W,
    traces: Option<&Traces>,
) -> impl Subscriber + Send + Sync + use<W>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    // Without a collector spans are filtered before anything else: one nobody wants costs one load.
    let spans = if traces.is_some() { LevelFilter::INFO } else { LevelFilter::OFF };
    let wanted = config.levels.clone().with_target(TRACE_TARGET, spans);
    let no_spans = filter_fn(|metadata| metadata.target() != TRACE_TARGET);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = if config.json {
        fmt::layer().event_format(JsonLine).with_writer(writer).with_filter(no_spans).boxed()
    } else {
        fmt::layer().with_ansi(config.colours).with_writer(writer).with_filter(no_spans).boxed()
    };
    Registry::default().with(lines).with(traces.map(Traces::layer)).with(wanted)
}

/// A writer that never blocks, and the thread behind it.
fn background(mut out: impl Write + Send + 'static) -> io::Result<(LineWriter, LogGuard)> {
    let (ending, ended) = sync_channel(1);
    let dropped = Arc::new(AtomicU64::new(0));
    let waiting = Arc::new(Waiting::default());
    let queue = Arc::clone(&waiting);
    thread::Builder::new().name("log".to_owned()).stack_size(64 << 10).spawn(move || {
        let mut batch = Vec::new();
        while queue.take(&mut batch) {
            // Nowhere is left to tell that standard error cannot be written.
            let _ = out.write_all(&batch);
            batch.clear();
        }
        let _ = out.flush();
        let _ = ending.send(());
    })?;
    let guard = LogGuard { dropped: Arc::clone(&dropped), waiting: Arc::clone(&waiting), ended };
    Ok((LineWriter { waiting, dropped }, guard))
}

impl Waiting {
    /// Waits for lines, lets more gather, and moves all into the empty `batch`. False: the end has come
    /// and nothing is left.
    fn take(&self, batch: &mut Vec<u8>) -> bool {
        let mut lines = self.lines.lock();
        while lines.bytes.is_empty() && !lines.is_ending {
            self.come.wait(&mut lines);
        }
        if !lines.is_ending {
            drop(lines);
            thread::sleep(GATHER);
            lines = self.lines.lock();
        }
        std::mem::swap(&mut lines.bytes, batch);
        !batch.is_empty()
    }
}

/// Hands each line to the log's thread.
#[derive(Clone)]
struct LineWriter {
    waiting: Arc<Waiting>,
    dropped: Arc<AtomicU64>,
}

impl Write for LineWriter {
    /// One call is one line: the formatter writes an event whole.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut lines = self.waiting.lines.lock();
        if lines.bytes.len() + line.len() > WAITING_BYTES {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        } else {
            let was_empty = lines.bytes.is_empty();
            lines.bytes.extend_from_slice(line);
            if was_empty {
                self.waiting.come.notify_one();
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for LineWriter {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{domain::secret::Secret, telemetry::span};

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(json: bool, levels: &str, speak: impl FnOnce()) -> String {
        let kept = Kept::default();
        let (writer, guard) = background(kept.clone()).unwrap();
        let config = LogConfig { json, levels: levels.parse().unwrap(), colours: false };
        tracing::subscriber::with_default(subscriber(&config, writer, None), speak);
        drop(guard);
        String::from_utf8(kept.0.lock().clone()).unwrap()
    }

    #[test]
    fn a_json_line_is_one_object_with_the_request_id() {
        let text = logged(true, "info", || {
            tracing::info!(request.id = "req_1", status = 200, "request ended");
            tracing::debug!("not wanted");
        });
        assert_eq!(text.lines().count(), 1, "{text}");
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["request.id"], "req_1");
        assert_eq!(line["status"], 200);
        assert_eq!(line["message"], "request ended");
        assert_eq!(line["level"], "INFO");
        assert!(line["timestamp"].is_string());
    }

    #[test]
    fn pretty_lines_name_level_and_fields_and_modules_have_their_own_level() {
        let text = logged(false, "warn,tollway::telemetry=debug", || {
            tracing::debug!(request.id = "req_1", "seen");
            tracing::info!(target: "other", "unseen");
        });
        assert!(text.contains("DEBUG") && text.contains("seen request.id=\"req_1\""), "{text}");
        assert!(!text.contains("unseen"));
    }

    #[test]
    fn a_secret_in_a_field_is_not_printed() {
        let secret = Secret::new("mark-of-a-secret".to_owned());
        let text = logged(true, "info", || tracing::info!(?secret, "kept"));
        assert!(text.contains("kept") && !text.contains("mark-of-a-secret"), "{text}");
    }

    #[test]
    fn spans_are_not_made_while_traces_are_off() {
        let text = logged(true, "trace", || {
            assert!(span!("relay.request", request.id = "req_1").is_disabled());
        });
        assert_eq!(text, "");
    }

    #[test]
    fn a_stuck_reader_costs_lines_and_no_time() {
        struct Stuck(std::sync::mpsc::Receiver<()>);
        impl Write for Stuck {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let _ = self.0.recv();
                Ok(bytes.len())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (release, held) = sync_channel(0);
        let (mut writer, guard) = background(Stuck(held)).unwrap();
        let line = [b'x'; 1024];
        let room = (WAITING_BYTES / line.len()) as u64;
        for _ in 0..3 * room {
            writer.write_all(&line).unwrap();
        }
        // One batch may be in the stuck reader's hands and one waits.
        assert!((room..=2 * room).contains(&guard.dropped()), "{}", guard.dropped());
        drop(release);
    }
}
