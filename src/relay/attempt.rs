//! Keys and routes until one opens: acquire, send, classify; next key, next candidate; one deadline.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

use crate::{
    admission::{Cool, CoolFor, CoolScope, Lease, NoKey, Refused, SEND_GUARD},
    catalog::Candidate,
    domain::{
        event::Outcome,
        failure::{Cooling, FailureClass, Next, Symptom},
    },
    relay::{
        Failure, Tried,
        flight::Flight,
        open::{Answering, NotOpened, Opened, Rest, read_to_content},
    },
    telemetry,
    upstream::{Call, Reply, ReplyHeaders, read_error},
    wire::openai_chat::{Head, prepare},
};

/// Characters of an upstream's error that are logged.
const LOGGED: usize = 200;
/// Where a chat request goes below a provider's base URL.
const CHAT_PATH: &str = "/chat/completions";

/// The attempts of one request.
pub(super) struct Attempts {
    flight: Flight,
    body: Bytes,
    head: Head,
    deadline: Instant,
    tried: Vec<Tried>,
    retry_after: Option<Duration>,
}

/// How an attempt that did not open leaves the request.
enum Verdict {
    Try(Next),
    Stop(Failure),
}

impl Attempts {
    /// All attempts share the first candidate's total time.
    pub(super) fn new(flight: Flight, body: Bytes, head: Head) -> Self {
        let total = flight
            .served
            .candidates
            .first()
            .map_or(Duration::ZERO, |first| first.provider.provider.timeouts.total());
        let deadline = Instant::from_std(flight.started) + total;
        Self { flight, body, head, deadline, tried: Vec::new(), retry_after: None }
    }

    /// Tries candidates in order until one opens.
    ///
    /// # Errors
    /// The upstream's verdict when the request itself is wrong, the door's refusal, or that nothing
    /// is left to try.
    ///
    /// # Cancellation
    /// Dropping the future settles the flight as aborted.
    pub(super) async fn run(mut self) -> Result<Opened, Failure> {
        let candidates = std::sync::Arc::clone(&self.flight.served);
        let candidates = &candidates.candidates;
        for (at, candidate) in candidates.iter().enumerate() {
            let config = self.flight.parts.config;
            let reserved = candidates.len() - at - 1;
            let left = config.attempts_per_request.saturating_sub(self.flight.attempts_made() + reserved);
            for _ in 0..left.min(config.keys_per_candidate) {
                match self.attempt(candidate).await {
                    Ok(opened) => return Ok(self.opened(opened)),
                    Err(Verdict::Stop(failure)) => return Err(self.stopped(failure)),
                    Err(Verdict::Try(Next::NextKey)) => {}
                    Err(Verdict::Try(Next::NextCandidate | Next::Return)) => break,
                }
            }
            if Instant::now() >= self.deadline {
                break;
            }
        }
        let failure =
            Failure::Exhausted { retry_after: self.retry_after, tried: std::mem::take(&mut self.tried) };
        Err(self.stopped(failure))
    }

    fn opened(self, (status, headers, rest): (u16, ReplyHeaders, Rest)) -> Opened {
        Opened { headers, answering: Answering { flight: self.flight, status, rest } }
    }

    /// Settles a request that ends without an answer.
    fn stopped(&mut self, failure: Failure) -> Failure {
        match &failure {
            Failure::Rejected(error) => self.flight.finish(Outcome::Rejected, error.status, None),
            Failure::Exhausted { tried, .. } if Tried::are_limits(tried) => {
                self.flight.finish(Outcome::Failed, 429, None);
            }
            _ => self.flight.finish(Outcome::Failed, 503, None),
        }
        failure
    }

    /// One key of one candidate.
    async fn attempt(&mut self, candidate: &Candidate) -> Result<(u16, ReplyHeaders, Rest), Verdict> {
        let asked = Instant::now();
        let lease = match self.flight.acquire(candidate).await {
            Ok(lease) => lease,
            Err(Refused::NoKey(none)) => return Err(self.no_key(candidate, none)),
            Err(refused) => return Err(Verdict::Stop(Failure::Refused(refused))),
        };
        if asked.elapsed() > SEND_GUARD {
            self.flight.give_back(lease);
            return Err(Verdict::Try(Next::NextKey));
        }
        self.flight.begin_attempt(candidate, lease).await.map_err(Verdict::Stop)?;
        let span = telemetry::span!(
            "relay.attempt",
            provider = candidate.provider.provider.name,
            key.id = %lease.key,
            model = candidate.route.upstream_model,
        );
        self.call(candidate, lease).instrument(span).await
    }

    /// The call of an attempt, up to its first content.
    async fn call(
        &mut self,
        candidate: &Candidate,
        lease: Lease,
    ) -> Result<(u16, ReplyHeaders, Rest), Verdict> {
        let not_opened = match self.send(candidate, lease).await {
            Ok(reply) if (200..300).contains(&reply.status) => {
                let Reply { status, headers, body, redactor } = reply;
                self.flight.accepted(status);
                let idle = candidate.provider.provider.timeouts.idle();
                let deadline = self.deadline;
                match read_to_content(&mut self.flight, status, body, redactor, idle, deadline).await {
                    Ok(rest) => return Ok((status, headers, rest)),
                    Err(not_opened) => not_opened,
                }
            }
            Ok(reply) => NotOpened::refused(Box::pin(read_error(reply, self.flight.parts.clock.now())).await),
            Err(not_opened) => not_opened,
        };
        Err(Box::pin(self.failed(candidate, lease, not_opened)).await)
    }

    fn no_key(&mut self, candidate: &Candidate, none: NoKey) -> Verdict {
        self.comes_back_in(none.retry_after);
        let provider = &candidate.provider.provider.name;
        let tried = self.tried.last().filter(|last| last.provider == *provider);
        let why = Tried::no_key(&none, tried.is_some_and(|last| last.class.is_some()));
        // A provider whose keys were all tried has been told of already.
        if tried.is_none_or(|last| !none.is_nothing() && last.why != why) {
            let is_limit = none.is_limit();
            self.tried.push(Tried { provider: provider.clone(), class: None, is_limit, why });
        }
        Verdict::Try(Next::NextCandidate)
    }

    /// The call itself, up to the response head, within the idle time and the deadline.
    async fn send(&self, candidate: &Candidate, lease: Lease) -> Result<Reply, NotOpened> {
        let provider = &candidate.provider;
        let gone = NotOpened::broken(Symptom::Broken, None);
        let Some(member) = provider.member(lease.key) else { return Err(gone) };
        let call = Call {
            provider: &provider.provider,
            key: &member.key,
            target: member.target.as_ref().unwrap_or(&provider.target),
            path: CHAT_PATH,
            body: prepare(&self.body, &self.head, &candidate.route.upstream_model, true),
            stream: self.flight.asked.stream,
            request_id: self.flight.request,
        };
        let silent = (Instant::now() + provider.provider.timeouts.idle()).min(self.deadline);
        match timeout_at(silent, self.flight.parts.upstream.send(&call)).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => {
                Err(NotOpened { cause: Some(error.to_string()), ..NotOpened::broken(error.symptom(), None) })
            }
            Err(_) => Err(NotOpened::broken(Symptom::Timeout, None)),
        }
    }

    /// Books a failed attempt, cools what its class says, and decides what comes next.
    async fn failed(&mut self, candidate: &Candidate, lease: Lease, not_opened: NotOpened) -> Verdict {
        let NotOpened { class, status, error, retry_after, cause, why } = not_opened;
        self.flight.attempt_failed(status, class);
        let provider = candidate.provider.provider.name.clone();
        let why = why.unwrap_or(class.as_str());
        self.tried.push(Tried { provider, class: Some(class), is_limit: class.is_limit(), why });
        let said = error.as_ref().map(|error| error.message.chars().take(LOGGED).collect::<String>());
        tracing::warn!(
            request.id = %self.flight.request,
            provider = candidate.provider.provider.name,
            key.id = %lease.key,
            attempt.class = class.as_str(),
            http.status = status,
            base_url = candidate.provider.provider.base_url,
            error = cause,
            said,
            "attempt failed"
        );
        let cooled = cool(&mut self.flight, lease, class, retry_after).await;
        self.comes_back_in(retry_after.or(cooled));
        match (class.next(), error) {
            (Next::Return, Some(error)) => Verdict::Stop(Failure::Rejected(Box::new(error))),
            (next, _) => Verdict::Try(next),
        }
    }

    fn comes_back_in(&mut self, span: Option<Duration>) {
        self.retry_after = match (self.retry_after, span) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
}

/// Takes out what a failure class says, and for how long; the provider's own reset wins over the back-off.
pub(super) async fn cool(
    flight: &mut Flight,
    lease: Lease,
    class: FailureClass,
    reset: Option<Duration>,
) -> Option<Duration> {
    let jitter = flight.parts.entropy.id_bytes()[0];
    let key_model = CoolScope::KeyModel(lease.key, flight.served.model.id);
    let (scope, span) = match class.cooling() {
        Cooling::Untouched => return None,
        Cooling::KeyModelBackoff => (key_model, reset.map_or(CoolFor::Backoff { jitter }, CoolFor::Span)),
        Cooling::KeyModelFor(span) => (key_model, CoolFor::Span(span)),
        Cooling::KeyFor(minimum) => {
            (CoolScope::Key(lease.key), CoolFor::Span(reset.map_or(minimum, |reset| reset.max(minimum))))
        }
        Cooling::KeyModelLenient => (key_model, CoolFor::Lenient { jitter }),
    };
    let cool = Cool { provider: lease.provider, scope, span, reason: class };
    let until = flight.parts.admission.cool(&cool).await?;
    Some(until.since(flight.parts.clock.now()))
}
