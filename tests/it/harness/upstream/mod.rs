//! The scripted upstream: real HTTP/1.1 over TCP, written by hand so that every byte and every instant is ours.
//!
//! Which script a request gets: the next of [`Upstream::then`], else the first fitting [`Upstream::when`] (latest
//! said first), else what [`Upstream::otherwise`] makes, which at first is a small chat answer in the form asked for.
//! It runs on threads of its own, so a blocked test does not bend its timing.

mod chat;
mod connection;
mod received;
mod script;
#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{net::TcpSocket, runtime::Runtime, sync::mpsc};

pub use self::{
    chat::{UPSTREAM_MODEL, Usage, chat_chunk, chat_json, chat_stream, error},
    received::{Hangup, HungUp, Outcome, Received},
    script::{Gate, Head, Script},
};

/// How long a test waits for something that must come.
const PATIENCE: Duration = Duration::from_secs(20);

type Rule = (Box<dyn Fn(&Received) -> bool + Send + Sync>, Script);
type Fallback = Box<dyn Fn(&Received) -> Script + Send + Sync>;

/// A scripted upstream on a loopback port; it ends with this value.
pub struct Upstream {
    address: SocketAddr,
    state: Arc<State>,
    arrivals: tokio::sync::Mutex<mpsc::UnboundedReceiver<Arc<Received>>>,
    runtime: Option<Runtime>,
}

struct State {
    queue: Mutex<VecDeque<Script>>,
    rules: Mutex<Vec<Rule>>,
    fallback: Mutex<Fallback>,
    received: Mutex<Vec<Arc<Received>>>,
    arrivals: mpsc::UnboundedSender<Arc<Received>>,
    accepted: AtomicUsize,
    open: AtomicUsize,
    peak: AtomicUsize,
}

impl Upstream {
    /// Starts one that answers every chat request with a short text.
    #[must_use]
    pub fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("upstream")
            .enable_all()
            .build()
            .expect("build a runtime");
        let (arrivals, receiver) = mpsc::unbounded_channel();
        let state = Arc::new(State {
            queue: Mutex::default(),
            rules: Mutex::default(),
            fallback: Mutex::new(Box::new(chat::plain_answer)),
            received: Mutex::default(),
            arrivals,
            accepted: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        });
        let guard = runtime.enter();
        let socket = TcpSocket::new_v4().expect("make a socket");
        socket.bind(([127, 0, 0, 1], 0).into()).expect("bind the upstream");
        let listener = socket.listen(8_192).expect("listen");
        let address = listener.local_addr().expect("know the address");
        let accepting = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = accepting.accepted.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(connection::serve(stream, number, Arc::clone(&accepting)));
            }
        });
        drop(guard);
        Self { address, state, arrivals: tokio::sync::Mutex::new(receiver), runtime: Some(runtime) }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:port/v1`, an OpenAI-compatible base URL.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Answers the next request that no earlier `then` took, whoever sends it.
    pub fn then(&self, script: Script) -> &Self {
        self.state.queue.lock().push_back(script);
        self
    }

    /// Answers every request that `fits`, from now on.
    pub fn when(&self, fits: impl Fn(&Received) -> bool + Send + Sync + 'static, script: Script) -> &Self {
        self.state.rules.lock().push((Box::new(fits), script));
        self
    }

    /// Answers what nothing else answers.
    pub fn otherwise(&self, answer: impl Fn(&Received) -> Script + Send + Sync + 'static) -> &Self {
        *self.state.fallback.lock() = Box::new(answer);
        self
    }

    /// The next request in order of arrival, each handed out once.
    ///
    /// # Panics
    /// When none arrives in time.
    pub async fn next_request(&self) -> Arc<Received> {
        tokio::time::timeout(PATIENCE, async { self.arrivals.lock().await.recv().await })
            .await
            .expect("the upstream is called")
            .expect("the upstream runs")
    }

    /// All requests so far, in order of arrival.
    #[must_use]
    pub fn requests(&self) -> Vec<Arc<Received>> {
        self.state.received.lock().clone()
    }

    /// How many requests arrived so far.
    #[must_use]
    pub fn request_count(&self) -> usize {
        self.state.received.lock().len()
    }

    /// Connections open now.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.state.open.load(Ordering::Relaxed)
    }

    /// The most connections that were open at once.
    #[must_use]
    pub fn peak_connections(&self) -> usize {
        self.state.peak.load(Ordering::Relaxed)
    }

    /// Connections accepted since the start.
    #[must_use]
    pub fn accepted_connections(&self) -> usize {
        self.state.accepted.load(Ordering::Relaxed)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl State {
    fn script_for(&self, request: &Received) -> Script {
        if let Some(script) = self.queue.lock().pop_front() {
            return script;
        }
        if let Some((_, script)) = self.rules.lock().iter().rev().find(|(fits, _)| fits(request)) {
            return script.clone();
        }
        (self.fallback.lock())(request)
    }

    fn record(&self, request: &Arc<Received>) {
        self.received.lock().push(Arc::clone(request));
        let _ = self.arrivals.send(Arc::clone(request));
    }
}

/// Requests that carry this upstream key.
pub fn bearer(key: &str) -> impl Fn(&Received) -> bool + Send + Sync + use<> {
    let wanted = format!("Bearer {key}");
    move |request| request.header("authorization") == Some(&wanted)
}

/// Requests whose path ends so.
pub fn path_ends(end: &str) -> impl Fn(&Received) -> bool + Send + Sync + use<> {
    let end = end.to_owned();
    move |request| request.path.ends_with(&end)
}

/// Requests whose body holds this text.
pub fn body_has(text: &str) -> impl Fn(&Received) -> bool + Send + Sync + use<> {
    let text = text.to_owned();
    move |request| memchr::memmem::find(&request.body, text.as_bytes()).is_some()
}
