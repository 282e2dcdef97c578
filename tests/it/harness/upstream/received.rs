//! What the upstream saw of a request, and how the request ended.

use std::time::Instant;

use bytes::Bytes;
use tokio::sync::watch;

use super::PATIENCE;

/// How the other side left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hangup {
    /// It closed its side.
    Fin,
    /// It reset the connection.
    Reset,
}

/// The other side left while the answer was under way.
#[derive(Debug, Clone, Copy)]
pub struct HungUp {
    /// How.
    pub how: Hangup,
    /// When the upstream saw it.
    pub at: Instant,
}

/// How a request ended, seen from the upstream.
#[derive(Debug, Clone, Copy)]
pub enum Outcome {
    /// The script was played to its end.
    Played {
        /// When the last step was done.
        at: Instant,
    },
    /// The other side left before.
    HungUp(HungUp),
}

/// One request as it arrived.
#[derive(Debug)]
pub struct Received {
    /// When its last byte was read.
    pub at: Instant,
    /// Which connection it came on, counted from zero.
    pub connection: usize,
    /// `POST`
    pub method: String,
    /// Path and query as sent.
    pub path: String,
    /// Names in lower case, in order, with repetitions.
    pub headers: Vec<(String, String)>,
    /// The body without its framing.
    pub body: Bytes,
    pub(super) outcome: watch::Sender<Option<Outcome>>,
}

impl Received {
    /// The first header of that name (given in lower case).
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The upstream key it came with.
    #[must_use]
    pub fn bearer(&self) -> Option<&str> {
        self.header("authorization")?.strip_prefix("Bearer ")
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }

    /// How it ended, waiting for the end.
    ///
    /// # Panics
    /// When it does not end in time.
    pub async fn outcome(&self) -> Outcome {
        let mut outcome = self.outcome.subscribe();
        let ended = tokio::time::timeout(PATIENCE, outcome.wait_for(Option::is_some)).await;
        ended.expect("the request ends").expect("its sender lives in self").expect("waited for it")
    }

    /// How it ended, if it has.
    #[must_use]
    pub fn outcome_now(&self) -> Option<Outcome> {
        *self.outcome.borrow()
    }

    /// Waits until the other side hangs up.
    ///
    /// # Panics
    /// When it takes the whole answer instead, or stays.
    pub async fn wait_for_hangup(&self) -> HungUp {
        match self.outcome().await {
            Outcome::HungUp(hangup) => hangup,
            Outcome::Played { .. } => panic!("nobody hung up: the whole answer was taken"),
        }
    }
}
