//! One request from the door to its settlement.

use std::{
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use tracing::{Instrument, Span};

use crate::{
    admission::{Acquire, Enter, Lease, Refused, Subject},
    billing::{
        estimate::Direction,
        journal::{AttemptStart, Begin},
    },
    catalog::{Candidate, Served},
    domain::{
        clock::Timestamp,
        event::Attempt,
        ids::{LeaseId, RequestId},
        limits::Limits,
        money::Nanos,
        principal::{Principal, TenantRef},
        provider::ApiFormat,
        usage::Usage,
    },
    relay::{Failure, Incoming, Parts, meter::Meter},
    telemetry::{self, InFlight, labels::AdmissionOp},
    wire::openai_chat::Head,
};

/// Output reserved in tpm windows and holds when the request names no maximum, tokens.
const USUAL_OUTPUT: u64 = 512;
/// Output reserved at most: few answers reach a client's generous maximum.
const RESERVED_OUTPUT: u64 = 4_096;

/// A request under way. Whatever happens to it, dropping it settles it exactly once.
pub(super) struct Flight {
    pub parts: Rc<Parts>,
    pub request: RequestId,
    pub principal: Arc<Principal>,
    pub served: Arc<Served>,
    pub asked: Asked,
    pub meter: Meter,
    pub(super) input_estimate: u64,
    pub started: Instant,
    pub span: Span,
    pub(super) started_at: Timestamp,
    pub(super) enter: Enter,
    pub(super) attempts: Vec<Attempt>,
    pub(super) current: Option<Current>,
    pub(super) stage: Stage,
    pub(super) first_content: Option<Duration>,
    _counted: InFlight,
}

/// The form of the answer that the client asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// Server-sent events instead of one document.
    pub stream: bool,
    /// Usage at the end of the stream.
    pub usage: bool,
}

/// How far a request has come: what must be given back, and what must be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// Nothing is counted or written.
    Prepared,
    /// Admission has let it in.
    Entered,
    /// The journal knows of it.
    Begun,
    /// It is settled.
    Ended,
}

/// The attempt in progress.
pub(super) struct Current {
    pub candidate: Candidate,
    pub lease: Lease,
    pub started_at: Timestamp,
    pub started: Instant,
    pub status: Option<u16>,
}

impl Flight {
    /// What the request asks for at the door; `funds` as in [`Enter`]. Nothing is counted or written
    /// yet.
    pub(super) fn prepare(
        parts: Rc<Parts>,
        incoming: &Incoming,
        head: &Head,
        served: Arc<Served>,
        funds: Option<Nanos>,
    ) -> Result<Self, Failure> {
        let principal = Arc::clone(&incoming.principal);
        let tenant = match &principal.tenant {
            Some(tenant) if principal.role.may_relay() => tenant,
            _ => return Err(Failure::MayNotRelay),
        };
        let density = parts.calibration.of(served.model.id);
        let input_estimate = density.tokens(Direction::Input, head.input_bytes);
        let output = head.max_output_tokens.unwrap_or(USUAL_OUTPUT).min(RESERVED_OUTPUT);
        let expected = Usage {
            input_tokens: input_estimate,
            output_tokens: output.saturating_mul(u64::from(head.n.max(1))),
            requests: 1,
            ..Default::default()
        };
        let enter = Enter {
            request: incoming.request,
            tenant: tenant.id,
            windows: windows(&principal, tenant),
            tokens: expected.total_tokens(),
            hold: served.model.prices.charge(&expected),
            funds,
        };
        Ok(Self {
            request: incoming.request,
            asked: Asked { stream: head.stream, usage: head.include_usage },
            meter: Meter { input_bytes: head.input_bytes, ..Meter::default() },
            input_estimate,
            started: incoming.started,
            span: incoming.span.clone(),
            started_at: incoming.started_at,
            enter,
            attempts: Vec::new(),
            current: None,
            stage: Stage::Prepared,
            first_content: None,
            _counted: parts.metrics.request_in_flight(),
            parts,
            principal,
            served,
        })
    }

    /// Attempts made so far, the one in progress included.
    pub(super) fn attempts_made(&self) -> usize {
        self.attempts.len() + usize::from(self.current.is_some())
    }

    /// Leases a key of the candidate; the first time the request enters in the same step.
    ///
    /// # Cancellation
    /// A lease granted but not yet seen here lapses by itself within `LEASE_FOR`.
    pub(super) async fn acquire(&mut self, candidate: &Candidate) -> Result<Lease, Refused> {
        let tried = self.attempts.iter().filter(|one| one.provider_id == candidate.route.provider_id);
        let acquire = Acquire {
            lease: LeaseId::generate(self.parts.clock.now(), self.parts.entropy.id_bytes()),
            pool: candidate.provider.pool.clone(),
            tenant: self.enter.tenant,
            model: self.served.model.id,
            exclude: tried.map(|one| one.key_id).collect(),
            tokens: self.enter.tokens,
        };
        if self.stage >= Stage::Entered {
            let span = telemetry::span!("relay.acquire", provider = %acquire.pool.provider);
            return self.parts.admission.acquire(&acquire).instrument(span).await;
        }
        let span = telemetry::span!("relay.enter_and_acquire", provider = %acquire.pool.provider);
        let asked = Instant::now();
        let lease = self.parts.admission.admit(&self.enter, &acquire).instrument(span).await;
        self.parts.metrics.admission_op(AdmissionOp::EnterAcquire, asked.elapsed());
        if lease.is_ok() {
            self.stage = Stage::Entered;
        }
        lease
    }

    /// Journals that `lease` is about to be used.
    ///
    /// # Errors
    /// When the journal has no room or cannot be written; then nothing may be sent.
    ///
    /// # Cancellation
    /// As of the flight: what has begun is settled when it is dropped.
    pub(super) async fn begin_attempt(&mut self, candidate: &Candidate, lease: Lease) -> Result<(), Failure> {
        let started_at = self.parts.clock.now();
        let start = AttemptStart {
            route_id: candidate.route.id,
            provider_id: candidate.route.provider_id,
            key_id: lease.key,
            upstream_model: candidate.route.upstream_model.clone(),
            started_at,
            cost: candidate.route.cost,
        };
        let queued = match self.attempts.last() {
            Some(previous) if self.stage == Stage::Begun => {
                self.parts.journal.attempt(self.request, &start, previous)
            }
            _ => self.parts.journal.begin(&self.begin_record(), &start),
        };
        let queued = match queued {
            Ok(queued) => queued,
            Err(error) => {
                tracing::error!(%error, request.id = %self.request, "journal refuses");
                self.give_back(lease);
                return Err(Failure::JournalFull);
            }
        };
        let is_first = std::mem::replace(&mut self.stage, Stage::Begun) != Stage::Begun;
        self.current = Some(Current {
            candidate: candidate.clone(),
            lease,
            started_at,
            started: Instant::now(),
            status: None,
        });
        // What is in line may yet be written, so the request has begun and will end.
        if let Err(error) = queued.in_turn().await {
            tracing::error!(%error, request.id = %self.request, "journal cannot be written");
            return Err(Failure::JournalFull);
        }
        if is_first {
            self.parts.metrics.added_latency(self.started.elapsed());
        }
        Ok(())
    }

    fn begin_record(&self) -> Begin {
        Begin {
            request: self.request,
            tenant: self.enter.tenant,
            member: self.principal.member,
            token: self.principal.token_id,
            model_id: self.served.model.id,
            model: self.served.model.name.clone(),
            format: ApiFormat::OpenAiChat,
            stream: self.asked.stream,
            started_at: self.started_at,
            hold: self.enter.hold,
            input_tokens_estimate: self.input_estimate,
            prices: self.served.model.prices,
        }
    }

    /// The upstream took the request: it has given a response head of success.
    pub(super) fn accepted(&mut self, status: u16) {
        self.meter.accepted = true;
        if let Some(current) = &mut self.current {
            current.status = Some(status);
        }
    }

    /// The first content is here.
    pub(super) fn content_began(&mut self) {
        self.first_content = Some(self.started.elapsed());
    }

    /// The lease of the attempt in progress.
    pub(super) fn lease(&self) -> Option<Lease> {
        self.current.as_ref().map(|current| current.lease)
    }

    /// Whether it has been settled: nothing is counted or journaled after.
    pub(super) fn is_settled(&self) -> bool {
        self.stage == Stage::Ended
    }

    /// Whether content has reached the client or is about to.
    pub(super) fn has_content(&self) -> bool {
        self.first_content.is_some()
    }
}

/// Every subject of the caller that has a limit.
fn windows(principal: &Principal, tenant: &TenantRef) -> Vec<(Subject, Limits)> {
    let member = principal.member.map(|id| (Subject::Member(id), principal.member_limits));
    let all = [
        Some((Subject::Tenant, tenant.limits)),
        member,
        Some((Subject::AccessToken(principal.token_id), principal.limits)),
    ];
    all.into_iter().flatten().filter(|(_, limits)| !limits.is_unlimited()).collect()
}
