//! How attempts and requests end: usage, price, journal, release. Each exactly once.

use std::time::Duration;

use crate::{
    admission::{Lease, SettleLease, SettlePass},
    billing::{
        estimate::Direction,
        journal::Queued,
        settlement::{Settlement, settle},
    },
    domain::{
        event::{Attempt, Outcome, UsageEvent},
        failure::FailureClass,
        provider::ApiFormat,
        usage::{Usage, UsageSource},
    },
    relay::flight::{Current, Flight, Stage},
    telemetry::{RequestEnd, labels::AttemptEnd},
};

impl Flight {
    /// Gives back a lease that was not used.
    pub(super) fn give_back(&self, lease: Lease) {
        self.settle_lease(lease, Some(0), false);
    }

    /// The attempt in progress came to nothing.
    pub(super) fn attempt_failed(&mut self, status: Option<u16>, class: FailureClass) {
        let Some(current) = self.current.take() else { return };
        self.settle_lease(current.lease, Some(0), false);
        self.meter.reset();
        self.count_attempt(&current, AttemptEnd::Failed(class));
        self.record_attempt(&current, status, Some(class));
    }

    /// Journals coarse progress, so that a killed replica still charges what went out.
    pub(super) fn progress(&self) {
        let usage = self.usage();
        if let Err(error) = self.parts.journal.progress(self.request, &usage, self.parts.clock.now()) {
            tracing::warn!(%error, request.id = %self.request, "progress not journaled");
        }
    }

    /// Settles the request: usage, price, journal, release. Once; later calls do nothing.
    ///
    /// `class` says what became of the attempt in progress, if there is one.
    pub(super) fn finish(&mut self, outcome: Outcome, status: u16, class: Option<FailureClass>) {
        drop(self.settle_once(outcome, status, class));
    }

    /// As [`finish`](Self::finish), for an answer that can wait for its turn in the journal.
    pub(super) async fn finish_in_turn(&mut self, outcome: Outcome, status: u16) {
        if let Some(queued) = self.settle_once(outcome, status, None)
            && let Err(error) = queued.in_turn().await
        {
            tracing::error!(%error, request.id = %self.request, "end not journaled");
        }
    }

    /// The end stands in the journal once what is returned is written.
    fn settle_once(&mut self, outcome: Outcome, status: u16, class: Option<FailureClass>) -> Option<Queued> {
        let reached = std::mem::replace(&mut self.stage, Stage::Ended);
        if reached < Stage::Entered || reached == Stage::Ended {
            return None;
        }
        let usage = self.usage();
        let used = (usage.source != UsageSource::None).then(|| usage.total_tokens());
        let cost = self.current.as_ref().map(|current| current.candidate.route.cost).unwrap_or_default();
        self.end_attempt(outcome, used, class);
        let settled = settle(outcome, self.has_content(), &usage, &self.served.model.prices, &cost);
        let queued = (reached == Stage::Begun).then(|| {
            self.parts.funds.charged(self.enter.tenant, settled.charge);
            self.write_end(outcome, status, usage, settled)
        });
        self.parts.admission.settle_pass(SettlePass {
            request: self.request,
            tenant: self.enter.tenant,
            windows: std::mem::take(&mut self.enter.windows),
            reserved: self.enter.tokens,
            used: Some(used.unwrap_or(0)),
        });
        if outcome == Outcome::Completed {
            self.learn(&usage);
        }
        self.count(outcome, &usage, settled);
        queued.flatten()
    }

    /// Ends the attempt in progress, if there is one.
    fn end_attempt(&mut self, outcome: Outcome, used: Option<u64>, class: Option<FailureClass>) {
        let Some(current) = self.current.take() else { return };
        let end = match (class, outcome) {
            (Some(class), _) => AttemptEnd::Failed(class),
            (None, Outcome::Completed) => AttemptEnd::Served,
            (None, _) => AttemptEnd::Aborted,
        };
        self.settle_lease(current.lease, used, end == AttemptEnd::Served);
        self.count_attempt(&current, end);
        self.record_attempt(&current, current.status, class);
    }

    /// Appends the end of the request to the journal, and a line to the log.
    fn write_end(
        &mut self,
        outcome: Outcome,
        status: u16,
        usage: Usage,
        settled: Settlement,
    ) -> Option<Queued> {
        let event = UsageEvent {
            id: self.request,
            tenant_id: self.enter.tenant,
            member_id: self.principal.member,
            token_id: self.principal.token_id,
            model_id: self.served.model.id,
            model: self.served.model.name.clone(),
            format: ApiFormat::OpenAiChat,
            stream: self.asked.stream,
            outcome,
            status,
            usage,
            charge: settled.charge,
            cost: settled.cost,
            started_at: self.started_at,
            first_content_ms: self.first_content.map(ms),
            duration_ms: ms(self.started.elapsed()),
            replica_id: self.parts.replica,
            attempts: std::mem::take(&mut self.attempts),
        };
        let queued = self.parts.journal.end(&event).inspect_err(|error| {
            tracing::error!(%error, request.id = %event.id, "end not journaled");
        });
        tracing::event!(
            target: "tollway::request",
            tracing::Level::INFO,
            request.id = %event.id,
            tenant.id = %event.tenant_id,
            model = event.model,
            outcome = outcome.as_str(),
            http.status = status,
            attempts = event.attempts.len(),
            tokens = usage.total_tokens(),
            duration_ms = event.duration_ms,
            "request"
        );
        queued.ok()
    }

    /// Counts the request for operators.
    fn count(&self, outcome: Outcome, usage: &Usage, settled: Settlement) {
        self.served.counters(&self.parts.metrics).used(usage);
        self.parts.metrics.request_ended(&RequestEnd {
            surface: ApiFormat::OpenAiChat,
            outcome,
            stream: self.asked.stream,
            charge: settled.charge,
            cost: settled.cost,
            unpriced: settled.unpriced,
            first_content: self.first_content,
            duration: self.started.elapsed(),
        });
    }

    /// What was consumed so far.
    fn usage(&self) -> Usage {
        self.meter.usage(self.parts.calibration.of(self.served.model.id))
    }

    /// Teaches the calibration from an answer that the upstream counted itself.
    fn learn(&self, usage: &Usage) {
        if usage.source == UsageSource::Upstream && usage.audio_output_tokens == 0 {
            let (model, calibration) = (self.served.model.id, &self.parts.calibration);
            calibration.learn(model, Direction::Input, self.meter.input_bytes, usage.total_input_tokens());
            calibration.learn(model, Direction::Output, self.meter.output_bytes, usage.output_tokens);
        }
    }

    fn record_attempt(&mut self, current: &Current, status: Option<u16>, class: Option<FailureClass>) {
        let provider = &current.candidate.provider.provider;
        self.attempts.push(Attempt {
            route_id: current.candidate.route.id,
            provider_id: provider.id,
            key_id: current.lease.key,
            upstream_model: current.candidate.route.upstream_model.clone(),
            started_at: current.started_at,
            duration_ms: ms(current.started.elapsed()),
            status,
            class,
        });
    }

    fn count_attempt(&self, current: &Current, end: AttemptEnd) {
        current.candidate.provider.counters(&self.parts.metrics).attempt_ended(end);
    }

    fn settle_lease(&self, lease: Lease, used: Option<u64>, served: bool) {
        self.parts.admission.settle_lease(SettleLease {
            lease,
            model: self.served.model.id,
            reserved: self.enter.tokens,
            used,
            served,
        });
    }
}

impl Drop for Flight {
    /// The client left, or the flight failed before anybody settled it.
    fn drop(&mut self) {
        self.finish(Outcome::Aborted, 0, None);
    }
}

/// Whole milliseconds, capped at 49 days.
fn ms(span: Duration) -> u32 {
    u32::try_from(span.as_millis()).unwrap_or(u32::MAX)
}
