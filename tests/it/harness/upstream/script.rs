//! What an upstream does with a request, step by step.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::sync::Semaphore;

/// Long enough that the reader has taken what was written before, so the next write is a read of its own.
const BETWEEN_WRITES: Duration = Duration::from_millis(3);

/// Holds scripts until the test opens it; one that is open stays open.
#[derive(Debug, Clone)]
pub struct Gate(Arc<Semaphore>);

impl Default for Gate {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }
}

impl Gate {
    /// Lets everybody through, those to come as well.
    pub fn open(&self) {
        self.0.close();
    }

    /// Lets one step through.
    pub fn let_one_pass(&self) {
        self.0.add_permits(1);
    }

    pub(super) async fn pass(&self) {
        // A closed semaphore is an open gate.
        if let Ok(permit) = self.0.acquire().await {
            permit.forget();
        }
    }
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    /// One write of its own.
    Write(Bytes),
    Sleep(Duration),
    Wait(Gate),
    /// Nothing more, until the other side leaves.
    Hang,
    /// FIN.
    Close,
    /// RST, with whatever was not yet delivered lost.
    Reset,
}

#[derive(Debug, Clone, Copy)]
enum Framing {
    Plain,
    Chunked,
}

/// Steps in order; after the last the connection serves the next request unless closed.
#[derive(Debug, Clone)]
pub struct Script {
    pub(super) steps: Vec<Step>,
    framing: Framing,
}

impl Script {
    /// An answer with this status.
    #[must_use]
    pub fn status(status: u16) -> Head {
        Head { status, headers: Vec::new(), delay: None }
    }

    /// Never answers.
    #[must_use]
    pub fn silent() -> Self {
        Self::empty().hang()
    }

    /// Resets the connection instead of answering.
    #[must_use]
    pub fn refuse() -> Self {
        Self::empty().reset()
    }

    /// No step yet: the head comes by [`Script::raw`], perhaps in pieces.
    #[must_use]
    pub fn empty() -> Self {
        Self { steps: Vec::new(), framing: Framing::Plain }
    }

    /// Writes body bytes at once, as a chunk of their own where the answer is chunked.
    #[must_use]
    pub fn body(self, bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        match self.framing {
            Framing::Plain => self.raw(bytes),
            Framing::Chunked => {
                let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
                chunk.extend_from_slice(&bytes);
                chunk.extend_from_slice(b"\r\n");
                self.raw(chunk)
            }
        }
    }

    /// Writes these bytes as they are.
    #[must_use]
    pub fn raw(mut self, bytes: impl Into<Bytes>) -> Self {
        self.steps.push(Step::Write(bytes.into()));
        self
    }

    /// Ends a chunked body; nothing to do for the others.
    #[must_use]
    pub fn end(self) -> Self {
        match self.framing {
            Framing::Plain => self,
            Framing::Chunked => self.raw("0\r\n\r\n"),
        }
    }

    /// Sleeps.
    #[must_use]
    pub fn sleep(mut self, span: Duration) -> Self {
        self.steps.push(Step::Sleep(span));
        self
    }

    /// Waits for the test.
    #[must_use]
    pub fn wait(mut self, gate: &Gate) -> Self {
        self.steps.push(Step::Wait(gate.clone()));
        self
    }

    /// Says nothing more until the other side leaves.
    #[must_use]
    pub fn hang(mut self) -> Self {
        self.steps.push(Step::Hang);
        self
    }

    /// Closes the connection.
    #[must_use]
    pub fn close(mut self) -> Self {
        self.steps.push(Step::Close);
        self
    }

    /// Resets the connection.
    #[must_use]
    pub fn reset(mut self) -> Self {
        self.steps.push(Step::Reset);
        self
    }

    /// The same with this wait before its first step.
    #[must_use]
    pub fn held_by(mut self, gate: &Gate) -> Self {
        self.steps.insert(0, Step::Wait(gate.clone()));
        self
    }

    /// The steps of `more` after these.
    #[must_use]
    pub fn append(mut self, more: Self) -> Self {
        self.steps.extend(more.steps);
        Self { steps: self.steps, framing: more.framing }
    }

    /// The same without its first write.
    #[must_use]
    pub fn without_head(mut self) -> Self {
        self.steps.remove(0);
        self
    }

    /// The same with `span` spread evenly over the gaps before its writes.
    #[must_use]
    pub fn spread_over(self, span: Duration) -> Self {
        let gap = span / u32::try_from(self.steps.len().max(1)).unwrap_or(u32::MAX);
        let steps = self.steps.into_iter().flat_map(|step| [Step::Sleep(gap), step]).collect();
        Self { steps, framing: self.framing }
    }

    /// How many bytes it writes in all.
    #[must_use]
    pub fn wire_len(&self) -> usize {
        self.wire().len()
    }

    /// The same bytes, cut in two writes after the first `offset` on the wire, head and framing counted; other
    /// waits are left out, the ending stays.
    #[must_use]
    pub fn cut_at(self, offset: usize) -> Self {
        let wire = self.wire();
        let ending =
            self.steps.into_iter().filter(|step| matches!(step, Step::Hang | Step::Close | Step::Reset));
        let mut steps = vec![
            Step::Write(wire.slice(..offset)),
            Step::Sleep(BETWEEN_WRITES),
            Step::Write(wire.slice(offset..)),
        ];
        steps.extend(ending);
        Self { steps, framing: Framing::Plain }
    }

    fn wire(&self) -> Bytes {
        let writes = self.steps.iter().filter_map(|step| match step {
            Step::Write(bytes) => Some(bytes.as_ref()),
            Step::Sleep(_) | Step::Wait(_) | Step::Hang | Step::Close | Step::Reset => None,
        });
        Bytes::from(writes.collect::<Vec<_>>().concat())
    }
}

/// Status and headers of an answer; the framing makes it a [`Script`].
#[derive(Debug, Clone)]
pub struct Head {
    status: u16,
    headers: Vec<(String, String)>,
    delay: Option<Duration>,
}

impl Head {
    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sleeps before the head.
    #[must_use]
    pub fn after(mut self, span: Duration) -> Self {
        self.delay = Some(span);
        self
    }

    /// A whole JSON body with its length, in one write with the head.
    #[must_use]
    pub fn json(self, body: &serde_json::Value) -> Script {
        self.header("content-type", "application/json").whole(body.to_string())
    }

    /// A whole body with its length, in one write with the head.
    #[must_use]
    pub fn whole(self, body: impl Into<Bytes>) -> Script {
        let body = body.into();
        let mut script = self.length(body.len());
        if let Some(Step::Write(head)) = script.steps.pop() {
            script.steps.push(Step::Write([head, body].concat().into()));
        }
        script
    }

    /// A body of this length, to be written by [`Script::body`]; less and [`Script::close`] make it truncated.
    #[must_use]
    pub fn length(self, length: usize) -> Script {
        self.header("content-length", &length.to_string()).write(Framing::Plain)
    }

    /// A chunked body.
    #[must_use]
    pub fn chunked(self) -> Script {
        self.header("transfer-encoding", "chunked").write(Framing::Chunked)
    }

    /// A chunked event stream.
    #[must_use]
    pub fn sse(self) -> Script {
        self.header("content-type", "text/event-stream").chunked()
    }

    /// A body that ends where the connection does; finish it by [`Script::close`].
    #[must_use]
    pub fn until_close(self) -> Script {
        self.header("connection", "close").write(Framing::Plain)
    }

    fn write(self, framing: Framing) -> Script {
        let reason = http::StatusCode::from_u16(self.status).ok().and_then(|s| s.canonical_reason());
        let mut text = format!("HTTP/1.1 {} {}\r\n", self.status, reason.unwrap_or("Unknown"));
        for (name, value) in &self.headers {
            write!(text, "{name}: {value}\r\n").expect("writing to a string");
        }
        text.push_str("\r\n");
        let mut script = Script::empty();
        if let Some(span) = self.delay {
            script = script.sleep(span);
        }
        script = script.raw(text);
        script.framing = framing;
        script
    }
}
