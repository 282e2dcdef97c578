//! Connections kept for the next request.

use std::{
    cell::RefCell,
    collections::VecDeque,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, ReadBuf},
    time::Instant,
};

use crate::{
    domain::ids::IdMap,
    net::{dial::Connection, target::Target},
};

/// How long a connection is kept unused: below the 60 to 75 s after which common servers close.
pub(in crate::net) const IDLE_FOR: Duration = Duration::from_secs(55);
/// Connections kept unused per origin and worker.
pub(in crate::net) const MAX_IDLE: usize = 256;
/// How often origins that are no longer called are looked through.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// A worker's idle connections by origin; cloning shares them.
#[derive(Clone)]
pub(in crate::net) struct Pool(Rc<RefCell<Shelves>>);

struct Shelves {
    by_origin: IdMap<Arc<str>, VecDeque<Idle>>,
    swept_at: Instant,
}

struct Idle {
    connection: Connection,
    since: Instant,
}

impl Pool {
    pub(in crate::net) fn new() -> Self {
        let shelves = Shelves { by_origin: IdMap::default(), swept_at: Instant::now() };
        Self(Rc::new(RefCell::new(shelves)))
    }

    /// The connection used last that is still alive.
    pub(in crate::net) fn take(&self, target: &Target) -> Option<Connection> {
        let mut shelves = self.0.borrow_mut();
        let idle = shelves.by_origin.get_mut(target.origin())?;
        let now = Instant::now();
        while let Some(mut last) = idle.pop_back() {
            if now.duration_since(last.since) >= IDLE_FOR {
                // Those before it have waited longer still.
                idle.clear();
            } else if is_alive(&mut last.connection) {
                return Some(last.connection);
            }
        }
        None
    }

    /// Where a connection to `target` goes when its answer is complete.
    pub(in crate::net) fn home(&self, target: &Target) -> Home {
        Home { pool: self.clone(), origin: Arc::clone(target.origin()) }
    }

    fn put(&self, origin: Arc<str>, connection: Connection) {
        let mut shelves = self.0.borrow_mut();
        let now = Instant::now();
        shelves.sweep(now);
        let idle = shelves.by_origin.entry(origin).or_default();
        if idle.len() >= MAX_IDLE {
            idle.pop_front();
        }
        idle.push_back(Idle { connection, since: now });
    }
}

impl Shelves {
    fn sweep(&mut self, now: Instant) {
        if now.duration_since(self.swept_at) < SWEEP_EVERY {
            return;
        }
        self.swept_at = now;
        self.by_origin.retain(|_, idle| {
            idle.retain_mut(|kept| {
                now.duration_since(kept.since) < IDLE_FOR && is_alive(&mut kept.connection)
            });
            !idle.is_empty()
        });
    }
}

/// The way back to a pool.
pub(in crate::net) struct Home {
    pool: Pool,
    origin: Arc<str>,
}

impl Home {
    /// Keeps a connection on which nothing is under way.
    pub(in crate::net) fn take_back(self, connection: Connection) {
        self.pool.put(self.origin, connection);
    }
}

/// Whether an idle connection is open and silent: an end, an error and unasked-for bytes all rule
/// it out. Costs no system call as long as the socket has reported nothing.
fn is_alive(connection: &mut Connection) -> bool {
    let mut byte = [0; 1];
    let mut context = Context::from_waker(Waker::noop());
    Pin::new(connection).poll_read(&mut context, &mut ReadBuf::new(&mut byte)).is_pending()
}
