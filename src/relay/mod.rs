//! The request path (floor 5), told top to bottom; the steps are those of DESIGN §4.
//!
//! [`Relay::chat`] is the table of contents. Each step takes what the one before produced: the
//! caller's [`Principal`] and the body's head make a `plan`, admission lets a `flight` in,
//! `attempt` tries keys and routes until one opens, and `flow` passes the answer on, metering,
//! until the flight is settled. A flight settles itself when it is dropped, so a client that leaves
//! at any await gives everything back.

mod attempt;
mod failure;
mod filter;
mod flight;
mod flow;
mod meter;
mod models;
mod open;
mod parts;
mod plan;
mod settle;

use std::{rc::Rc, sync::Arc, time::Instant};

use bytes::Bytes;
use tracing::{Instrument, Span};

pub use failure::{Failure, Tried};
pub use flow::{Cut, Flow};
pub use parts::{Parts, RelayConfig};

use crate::{
    domain::{clock::Timestamp, ids::RequestId, money::Nanos, principal::Principal, tenant::BillingMode},
    relay::{attempt::Attempts, flight::Flight, open::Opened},
    upstream::ReplyHeaders,
    wire::openai_chat::Head,
};

/// The relay of one worker thread.
#[derive(Clone)]
pub struct Relay {
    parts: Rc<Parts>,
}

/// A request as the surface hands it over.
pub struct Incoming {
    /// Our id for it, given when it arrived.
    pub request: RequestId,
    /// Who calls.
    pub principal: Arc<Principal>,
    /// The decoded body.
    pub body: Bytes,
    /// When it arrived.
    pub started_at: Timestamp,
    /// The same on the monotonic clock.
    pub started: Instant,
    /// The span that everything below belongs to.
    pub span: Span,
}

/// What goes back to the client.
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// The upstream's headers; none: the head of a stream goes out before there are any.
    pub headers: Option<ReplyHeaders>,
    /// The body.
    pub body: AnswerBody,
}

/// The body of an answer.
pub enum AnswerBody {
    /// All of it, settled already.
    Whole(Bytes),
    /// It comes in pieces; the flow settles before it gives the last one.
    Flow(Box<Flow>),
}

impl Relay {
    /// A relay for one worker thread.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self { parts: Rc::new(parts) }
    }

    /// Serves one OpenAI Chat request.
    ///
    /// # Errors
    /// Every way it can fail before the first byte of an answer, for the surface to render.
    ///
    /// # Cancellation
    /// Dropping the future closes the upstream connection, releases pass and lease, and journals
    /// the request as aborted if it had been journaled at all.
    pub async fn chat(&self, incoming: Incoming) -> Result<Answer, Failure> {
        let answer = self.serve(incoming).await;
        if let Some(reason) = answer.as_ref().err().and_then(Failure::refusal) {
            self.parts.metrics.refused(reason);
        }
        answer
    }

    async fn serve(&self, incoming: Incoming) -> Result<Answer, Failure> {
        if !incoming.principal.role.may_relay() {
            return Err(Failure::MayNotRelay);
        }
        let head = Head::read(&incoming.body).map_err(Failure::Request)?;
        let served = plan::resolve(&self.parts.catalog.current(), &incoming.principal, &head.model)?;
        let stream = head.stream;
        let funds = self.funds(&incoming.principal).await?;
        let flight = Flight::prepare(Rc::clone(&self.parts), &incoming, &head, served, funds)?;
        let attempts = Attempts::new(flight, incoming.body, head).run();
        let opening = Box::pin(attempts.instrument(incoming.span));
        if !stream {
            return opening.await.map(Answer::from);
        }
        match flow::first_content(opening, self.parts.config.hold_headers_for).await {
            Ok(opened) => opened.map(Answer::from),
            Err(still_opening) => Ok(Answer::early(still_opening)),
        }
    }

    /// What the caller's tenant can spend; none when money does not limit it.
    async fn funds(&self, principal: &Principal) -> Result<Option<Nanos>, Failure> {
        match &principal.tenant {
            Some(tenant) if tenant.billing == BillingMode::Prepaid => {
                let spendable = Box::pin(self.parts.funds.spendable(tenant.id)).await;
                spendable.map(Some).map_err(|_| Failure::FundsUnknown)
            }
            _ => Ok(None),
        }
    }
}

impl From<Opened> for Answer {
    fn from(Opened { headers, answering }: Opened) -> Self {
        let status = answering.status;
        let body = if answering.is_whole() {
            AnswerBody::Whole(answering.rest.held.freeze())
        } else {
            AnswerBody::Flow(Box::new(Flow::answering(answering)))
        };
        Self { status, headers: Some(headers), body }
    }
}

impl Answer {
    /// Headers go out before the first content is here: a stream that starts with keep-alives.
    fn early(opening: flow::Opening) -> Self {
        Self { status: 200, headers: None, body: AnswerBody::Flow(Box::new(Flow::opening(opening))) }
    }
}
