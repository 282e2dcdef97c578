//! What a request without an end is settled as: the replica died while it was in flight.
//!
//! | last progress | usage | tenant pays | provider takes |
//! |---|---|---|---|
//! | none: the client had nothing whole | none | nothing | nothing |
//! | some | as in it, marked estimated | its price | its price, on the route in flight |
//!
//! The duration reaches to the last thing that the journal knows. The rule uses nothing but the
//! records, so that settling twice, after a crash while settling, gives the same event.

use crate::{
    billing::{
        journal::{AttemptStart, OpenRequest},
        settlement::settle,
    },
    domain::{
        clock::Timestamp,
        event::{Attempt, Outcome, UsageEvent},
        ids::ReplicaId,
        usage::{Usage, UsageSource},
    },
};

/// The event of a request that `replica` left open.
#[must_use]
pub fn interrupted_event(open: OpenRequest, replica: ReplicaId) -> UsageEvent {
    let OpenRequest { begin, ended, current, progress, last_at } = open;
    let usage =
        progress.map_or_else(Usage::default, |usage| Usage { source: UsageSource::Estimated, ..usage });
    let settled = settle(Outcome::Interrupted, progress.is_some(), &usage, &begin.prices, &current.cost);
    let mut attempts = ended;
    attempts.push(unfinished(current, last_at));
    UsageEvent {
        id: begin.request,
        tenant_id: begin.tenant,
        member_id: begin.member,
        token_id: begin.token,
        model_id: begin.model_id,
        model: begin.model,
        format: begin.format,
        stream: begin.stream,
        outcome: Outcome::Interrupted,
        status: 0,
        usage,
        charge: settled.charge,
        cost: settled.cost,
        started_at: begin.started_at,
        first_content_ms: None,
        duration_ms: span_ms(begin.started_at, last_at),
        replica_id: replica,
        attempts,
    }
}

fn unfinished(attempt: AttemptStart, last_at: Timestamp) -> Attempt {
    Attempt {
        route_id: attempt.route_id,
        provider_id: attempt.provider_id,
        key_id: attempt.key_id,
        upstream_model: attempt.upstream_model,
        started_at: attempt.started_at,
        duration_ms: span_ms(attempt.started_at, last_at),
        status: None,
        class: None,
    }
}

fn span_ms(from: Timestamp, to: Timestamp) -> u32 {
    u32::try_from(to.since(from).as_millis()).unwrap_or(u32::MAX)
}
