//! The thread that syncs in groups and makes segments ready ahead of their use.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use super::{segment, write::Shared};

/// How often a full disk is tried again; a freed segment is tried at once.
const RETRY_FULL: Duration = Duration::from_millis(500);
/// The shortest wait for more to sync along; keeps a slow disk from being synced without pause.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// Owns the thread: dropping it syncs once more and ends it.
#[derive(Debug)]
pub struct SyncThread {
    shared: Arc<Shared>,
    is_stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SyncThread {
    /// Starts the thread; `next_number` is the number of the next segment to make.
    ///
    /// # Errors
    ///
    /// The system has no thread to give.
    pub fn start(shared: Arc<Shared>, next_number: u64) -> io::Result<Self> {
        let is_stopping = Arc::new(AtomicBool::new(false));
        let worker =
            Worker { shared: Arc::clone(&shared), is_stopping: Arc::clone(&is_stopping), next_number };
        let thread = std::thread::Builder::new().name("journal".into()).spawn(move || worker.run())?;
        Ok(Self { shared, is_stopping, thread: Some(thread) })
    }
}

impl Drop for SyncThread {
    fn drop(&mut self) {
        {
            let _room = self.shared.room.lock();
            self.is_stopping.store(true, Ordering::SeqCst);
            self.shared.work.notify_one();
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Worker {
    shared: Arc<Shared>,
    is_stopping: Arc<AtomicBool>,
    next_number: u64,
}

impl Worker {
    fn run(mut self) {
        let mut last_sync = Duration::ZERO;
        while !self.is_stopping.load(Ordering::SeqCst) {
            self.make_segments();
            if !self.await_work() {
                continue;
            }
            // The promise is from a write to its sync's end, so the sync's own time comes off.
            std::thread::sleep(self.shared.config.fsync_every.saturating_sub(last_sync).max(SHORTEST_WAIT));
            let started = Instant::now();
            // A failure is logged and remembered where it happens.
            let _ = self.shared.sync();
            last_sync = started.elapsed();
        }
        let _ = self.shared.sync();
    }

    /// Waits; true when there is something to sync.
    fn await_work(&self) -> bool {
        let mut room = self.shared.room.lock();
        let waits_for_space = room.wants_segment() && room.is_full;
        let has_work = !room.dirty.is_empty() || (room.wants_segment() && !room.is_full);
        if has_work || self.is_stopping.load(Ordering::SeqCst) {
            return !room.dirty.is_empty();
        }
        if waits_for_space {
            self.shared.work.wait_for(&mut room, RETRY_FULL);
        } else {
            self.shared.work.wait(&mut room);
        }
        !room.dirty.is_empty()
    }

    /// Makes as many segments as should be ready; the lock is not held while the disk works.
    fn make_segments(&mut self) {
        loop {
            let config = &self.shared.config;
            let within_bound = {
                let room = self.shared.room.lock();
                if !room.wants_segment() {
                    return;
                }
                room.total_bytes + config.segment_bytes <= config.max_bytes
            };
            let made = if within_bound {
                segment::create(&config.dir, self.next_number, config.segment_bytes)
            } else {
                Err(io::ErrorKind::QuotaExceeded.into())
            };
            let mut room = self.shared.room.lock();
            let was_full = room.is_full;
            room.is_full = made.is_err();
            match made {
                Ok(segment) => {
                    self.next_number += 1;
                    room.total_bytes += segment.size;
                    room.spares.push_back(segment);
                }
                Err(error) if !was_full => {
                    tracing::error!(
                        %error,
                        journal.total_bytes = room.total_bytes,
                        journal.max_bytes = config.max_bytes,
                        journal.undrained_bytes = room.undrained.bytes,
                        "the journal cannot grow; when the room left is used up, requests get 503"
                    );
                }
                Err(_) => {}
            }
            self.shared.segment_made.notify_all();
            if room.is_full {
                return;
            }
        }
    }
}
