//! The answer on its way to the client: metered as it passes, settled before its last byte.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use crate::{
    domain::{event::Outcome, failure::FailureClass},
    net,
    relay::{
        Failure, Tried,
        attempt::cool,
        open::{Answering, Opened, Rest},
    },
    wire::openai_chat::{KEEP_ALIVE, encode_error_event},
};

/// Pieces handed out are cut at about this size, bytes: enough to make writes rare, small enough
/// that an open stream stays cheap.
const PIECE: usize = 24 * 1024;
/// Silence after which a stream without content yet gets a keep-alive.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(10);
/// Once every choice has its finish reason, usage and end mark must follow within this.
const AFTER_FINISH: Duration = Duration::from_secs(2);
/// How long the connection is read on for its own end after the answer's, so that it can be used
/// again; many servers send `[DONE]` and the end of the body in two writes.
const DRAIN_FOR: Duration = Duration::from_millis(100);
/// Progress of a long stream is journaled this often.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// Attempts that have not opened yet.
pub(super) type Opening = Pin<Box<dyn Future<Output = Result<Opened, Failure>>>>;

/// The answer broke off and its format has no way to say so: the connection must be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the upstream's answer broke off")]
pub struct Cut;

/// An answer in pieces. Dropping it closes the upstream connection and settles the request as
/// aborted, unless it has ended.
pub struct Flow {
    state: State,
}

enum State {
    Opening {
        opening: Opening,
        beat: Pin<Box<Sleep>>,
    },
    Passing(Box<Passing>),
    /// The client has everything; the connection is read to its end.
    Draining {
        body: net::Body,
        timer: Pin<Box<Sleep>>,
    },
    /// The last piece, given when the key of a broken answer has been cooled.
    Closing {
        cooling: Pin<Box<dyn Future<Output = ()>>>,
        last: Result<Bytes, Cut>,
    },
    Ended,
}

struct Passing {
    answering: Answering,
    timer: Pin<Box<Sleep>>,
    content_seq: u64,
    progress_due: Instant,
}

/// Waits for the first content, at most `span`; afterwards gives the attempts back to go on.
pub(super) async fn first_content(
    mut opening: Opening,
    span: Duration,
) -> Result<Result<Opened, Failure>, Opening> {
    match timeout(span, &mut opening).await {
        Ok(result) => Ok(result),
        Err(_) => Err(opening),
    }
}

impl Flow {
    /// An answer whose first content is here.
    pub(super) fn answering(answering: Answering) -> Self {
        Self { state: State::passing(answering) }
    }

    /// An answer whose head goes out before its first content is here.
    pub(super) fn opening(opening: Opening) -> Self {
        let beat = Box::pin(sleep_until(Instant::now()));
        Self { state: State::Opening { opening, beat } }
    }

    /// The next piece. `None` is the end; an error means that the connection must be cut.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> {
        loop {
            match &mut self.state {
                State::Opening { opening, beat } => {
                    if let Poll::Ready(result) = opening.as_mut().poll(cx) {
                        match result {
                            Ok(opened) => self.state = State::passing(opened.answering),
                            Err(failure) => {
                                self.state = State::Ended;
                                return Poll::Ready(Some(Ok(failure_event(&failure))));
                            }
                        }
                        continue;
                    }
                    ready!(beat.as_mut().poll(cx));
                    beat.as_mut().reset(Instant::now() + KEEP_ALIVE_EVERY);
                    return Poll::Ready(Some(Ok(Bytes::from_static(KEEP_ALIVE))));
                }
                State::Passing(passing) => match ready!(passing.poll(cx)) {
                    Step::Piece(piece) => return Poll::Ready(Some(Ok(piece))),
                    Step::End(last) => {
                        self.state = passing.drained();
                        if !last.is_empty() {
                            return Poll::Ready(Some(Ok(last)));
                        }
                    }
                    Step::Broken(class) => {
                        let State::Passing(passing) = std::mem::replace(&mut self.state, State::Ended) else {
                            return Poll::Ready(None);
                        };
                        self.state = passing.broken(class);
                    }
                },
                State::Draining { body, timer } => {
                    match body.poll_chunk(cx) {
                        Poll::Ready(Some(Ok(_))) => continue,
                        Poll::Ready(_) => {}
                        Poll::Pending => ready!(timer.as_mut().poll(cx)),
                    }
                    self.state = State::Ended;
                }
                State::Closing { cooling, last } => {
                    ready!(cooling.as_mut().poll(cx));
                    let last = last.clone();
                    self.state = State::Ended;
                    return Poll::Ready(Some(last));
                }
                State::Ended => return Poll::Ready(None),
            }
        }
    }
}

impl State {
    fn passing(answering: Answering) -> Self {
        let now = Instant::now();
        let seen = answering.rest.filter.seen();
        Self::Passing(Box::new(Passing {
            content_seq: seen.content_seq,
            timer: Box::pin(sleep_until(silent_at(&answering.rest, now, seen.finished))),
            progress_due: now + PROGRESS_EVERY,
            answering,
        }))
    }
}

/// When an answer that has just brought content has been silent for too long.
fn silent_at(rest: &Rest, now: Instant, finished: bool) -> Instant {
    let silence = if finished { AFTER_FINISH.min(rest.idle) } else { rest.idle };
    (now + silence).min(rest.deadline)
}

/// What a poll of the passing answer came to.
enum Step {
    Piece(Bytes),
    End(Bytes),
    Broken(FailureClass),
}

impl Passing {
    /// Gathers everything that is ready into one piece.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        if self.answering.flight.is_settled() {
            return Poll::Ready(Step::End(self.take_held()));
        }
        let span = self.answering.flight.span.clone();
        let _inside = span.enter();
        // An answer that always has more ready would never let its timer have a turn.
        if Instant::now() >= self.answering.rest.deadline {
            return Poll::Ready(self.silent());
        }
        loop {
            let Some(body) = &mut self.answering.rest.body else {
                return Poll::Ready(Step::End(self.take_held()));
            };
            match body.poll_chunk(cx) {
                Poll::Ready(Some(Ok(chunk))) => {
                    if self.answering.rest.filter.push(&chunk, &mut self.answering.rest.held).is_err() {
                        return Poll::Ready(Step::Broken(FailureClass::Broken));
                    }
                    if let Some(step) = self.after_chunk() {
                        return Poll::Ready(step);
                    }
                }
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Step::Broken(FailureClass::Broken)),
                Poll::Ready(None) => {
                    let rest = &mut self.answering.rest;
                    let whole =
                        rest.filter.finish(&mut rest.held).is_ok() && rest.filter.seen().error.is_none();
                    rest.body = None;
                    return Poll::Ready(if whole { self.end() } else { Step::Broken(FailureClass::Broken) });
                }
                Poll::Pending if !self.answering.rest.held.is_empty() => {
                    return Poll::Ready(Step::Piece(self.take_held()));
                }
                Poll::Pending => {
                    ready!(self.timer.as_mut().poll(cx));
                    return Poll::Ready(self.silent());
                }
            }
        }
    }

    /// Meters what a chunk brought; says so when there is something to do before the next.
    fn after_chunk(&mut self) -> Option<Step> {
        let seen = self.answering.rest.filter.seen();
        self.answering.flight.meter.note(seen);
        if seen.error.is_some() {
            return Some(Step::Broken(FailureClass::Broken));
        }
        if seen.terminal {
            return Some(self.end());
        }
        let (finished, full) = (seen.finished, self.answering.rest.held.len() > PIECE);
        if seen.content_seq != self.content_seq {
            self.content_seq = seen.content_seq;
            self.content_passed(finished);
        }
        full.then(|| Step::Piece(self.take_held()))
    }

    fn content_passed(&mut self, finished: bool) {
        let now = Instant::now();
        self.timer.as_mut().reset(silent_at(&self.answering.rest, now, finished));
        if now >= self.progress_due {
            self.progress_due = now + PROGRESS_EVERY;
            self.answering.flight.progress();
        }
    }

    /// Nothing came for too long. An answer that has finished is whole without its end mark.
    fn silent(&mut self) -> Step {
        let rest = &mut self.answering.rest;
        let whole = rest.filter.seen().finished && rest.filter.finish(&mut rest.held).is_ok();
        if whole { self.end() } else { Step::Broken(FailureClass::Broken) }
    }

    /// The answer is whole: settled before the client has its last byte.
    fn end(&mut self) -> Step {
        self.answering.flight.meter.note(self.answering.rest.filter.seen());
        let status = self.answering.status;
        self.answering.flight.finish(Outcome::Completed, status, None);
        Step::End(self.take_held())
    }

    /// What is left to do for the connection.
    fn drained(&mut self) -> State {
        match self.answering.rest.body.take() {
            Some(body) => State::Draining { body, timer: Box::pin(sleep_until(Instant::now() + DRAIN_FOR)) },
            None => State::Ended,
        }
    }

    /// The answer broke off after content: an error event where the format has one, settled first.
    fn broken(mut self, class: FailureClass) -> State {
        let lease = self.answering.flight.lease();
        let status = self.answering.status;
        let stream = self.answering.flight.asked.stream;
        let message = self.error_text();
        let mut last = self.answering.rest.held.split();
        last.extend_from_slice(&encode_error_event(&message, "upstream_error", None, Some("upstream_error")));
        self.answering.flight.finish(Outcome::Failed, status, Some(class));
        let last = if stream { Ok(last.freeze()) } else { Err(Cut) };
        let mut flight = self.answering.flight;
        let cooling = Box::pin(async move {
            if let Some(lease) = lease {
                cool(&mut flight, lease, class, None).await;
            }
        });
        State::Closing { cooling, last }
    }

    /// What the client may read about why its answer broke off.
    fn error_text(&self) -> String {
        match self.answering.rest.filter.seen().error {
            Some(error) => self.answering.rest.redactor.redact_text(&error.message).into_owned(),
            None => {
                "the upstream's answer broke off; what was received stays valid, the rest is lost".to_owned()
            }
        }
    }

    fn take_held(&mut self) -> Bytes {
        self.answering.rest.held.split().freeze()
    }
}

/// A failure after the head of a stream has gone out.
fn failure_event(failure: &Failure) -> Bytes {
    let (message, code) = match failure {
        Failure::Rejected(error) => (error.message.clone(), error.code.clone()),
        Failure::Exhausted { tried, .. } => {
            (format!("no provider could serve the request ({})", Tried::in_words(tried)), None)
        }
        other => (other.to_string(), None),
    };
    let code = code.unwrap_or_else(|| "upstream_error".to_owned());
    encode_error_event(&message, "upstream_error", None, Some(&code))
}
