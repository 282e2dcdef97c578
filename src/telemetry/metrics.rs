//! Counting, with typed methods: what the hot path counts is resolved to its counter beforehand.

use std::{fmt, sync::Arc, time::Duration};

use prometheus::{Histogram, IntCounter, IntGauge, Registry, TextEncoder};

use super::{
    families::Families,
    labels::{AdmissionOp, AttemptEnd, AuthDenial, Label, MoneyKind, Refusal, Streamed, TokenClass},
};
use crate::domain::{
    clock::Timestamp, event::Outcome, key::KeyState, money::Nanos, provider::ApiFormat, usage::Usage,
};

/// One server's counters.
pub struct Metrics {
    registry: Registry,
    families: Families,
    /// By format, outcome, streamed.
    requests: Vec<IntCounter>,
    refusals: Vec<IntCounter>,
    auth_denied: Vec<IntCounter>,
    money: Vec<IntCounter>,
    admission_op: Vec<Histogram>,
    admission_failures: Vec<IntCounter>,
}

/// What is counted once a relayed request has ended.
#[derive(Debug, Clone, Copy)]
pub struct RequestEnd {
    /// The format that the client speaks.
    pub surface: ApiFormat,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether the client asked for a stream.
    pub stream: bool,
    /// What the tenant pays.
    pub charge: Nanos,
    /// What the provider takes.
    pub cost: Nanos,
    /// Whether tokens were used and no price was set for them.
    pub unpriced: bool,
    /// From the request's head to the first content, if any came.
    pub first_content: Option<Duration>,
    /// From the request's head to the end.
    pub duration: Duration,
}

impl Metrics {
    /// Every family at zero, in a registry of its own.
    ///
    /// # Panics
    /// When two families share a name, which the first test would show.
    #[must_use]
    #[expect(clippy::expect_used, reason = "start-up; the table is constant and tested")]
    pub fn new() -> Self {
        let registry = Registry::new();
        let families = Families::register(&registry).expect("metric families have distinct names");
        #[cfg(target_os = "linux")]
        registry
            .register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))
            .expect("the process collector is registered once");
        families.build_info.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        let by_reason = |vec: &prometheus::IntCounterVec, values: &[&str]| -> Vec<IntCounter> {
            values.iter().map(|value| vec.with_label_values(&[value])).collect()
        };
        Self {
            requests: request_counters(&families),
            refusals: by_reason(&families.refusals, &texts::<Refusal>()),
            auth_denied: by_reason(&families.auth_denied, &texts::<AuthDenial>()),
            money: by_reason(&families.money, &texts::<MoneyKind>()),
            admission_failures: by_reason(&families.admission_failures, &texts::<AdmissionOp>()),
            admission_op: texts::<AdmissionOp>()
                .iter()
                .map(|op| families.admission_op.with_label_values(&[op]))
                .collect(),
            registry,
            families,
        }
    }

    /// The text that a scrape answers with.
    ///
    /// # Errors
    /// When the encoder fails, which only an inconsistent family could cause.
    pub fn render(&self) -> Result<String, prometheus::Error> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    /// A relayed request has ended.
    pub fn request_ended(&self, end: &RequestEnd) {
        self.requests[request_index(end.surface, end.outcome, end.stream.into())].inc();
        self.money[MoneyKind::Charge.index()].inc_by(end.charge.get().max(0).unsigned_abs());
        self.money[MoneyKind::Cost.index()].inc_by(end.cost.get().max(0).unsigned_abs());
        if end.unpriced {
            self.families.unpriced.inc();
        }
        if let Some(span) = end.first_content {
            self.families.first_content.observe(span.as_secs_f64());
        }
        self.families.duration.observe(end.duration.as_secs_f64());
    }

    /// A request was refused before any attempt.
    pub fn refused(&self, reason: Refusal) {
        self.refusals[reason.index()].inc();
    }

    /// An access token was not let in.
    pub fn auth_denied(&self, reason: AuthDenial) {
        self.auth_denied[reason.index()].inc();
    }

    /// What the relay took before it sent the first attempt.
    pub fn added_latency(&self, span: Duration) {
        self.families.added_latency.observe(span.as_secs_f64());
    }

    /// A relayed request is in flight while the guard lives.
    #[must_use]
    pub fn request_in_flight(&self) -> InFlight {
        InFlight::on(&self.families.in_flight)
    }

    /// An answer is being streamed while the guard lives.
    #[must_use]
    pub fn open_stream(&self) -> InFlight {
        InFlight::on(&self.families.open_streams)
    }

    /// Relayed requests in flight now; what a shutdown waits for.
    #[must_use]
    pub fn in_flight(&self) -> i64 {
        self.families.in_flight.get()
    }

    /// The counters of a provider, by the name an admin gave it; kept with the catalog.
    #[must_use]
    pub fn provider(&self, name: &str) -> ProviderMetrics {
        let counter = |end: &&str| self.families.attempts.with_label_values(&[name, end]);
        ProviderMetrics(texts::<AttemptEnd>().iter().map(counter).collect())
    }

    /// The counters of a model, by the name an admin gave it; kept with the catalog.
    #[must_use]
    pub fn model(&self, name: &str) -> ModelMetrics {
        let counter = |class: &&str| self.families.tokens.with_label_values(&[name, class]);
        ModelMetrics(texts::<TokenClass>().iter().map(counter).collect())
    }

    /// How many keys of each provider are in each state; replaces what was said before.
    pub fn key_states<'a>(&self, counts: impl IntoIterator<Item = (&'a str, KeyState, usize)>) {
        self.families.key_states.reset();
        for (provider, state, count) in counts {
            self.families.key_states.with_label_values(&[provider, state.label()]).set(clamp(count));
        }
    }

    /// What of the journal is not yet in the store.
    pub fn journal(&self, records: u64, bytes: u64, oldest: Duration) {
        self.families.journal_records.set(clamp(records));
        self.families.journal_bytes.set(clamp(bytes));
        self.families.journal_oldest.set(clamp(oldest.as_secs()));
    }

    /// Usage events are in the store.
    pub fn recorded(&self, events: u64) {
        self.families.recorded.inc_by(events);
    }

    /// The store did not take a batch.
    pub fn recorder_failed(&self) {
        self.families.recorder_failures.inc();
    }

    /// A usage event was set aside.
    pub fn recorder_rejected(&self) {
        self.families.recorder_rejected.inc();
    }

    /// So many bytes of the journal are damaged.
    pub fn journal_damaged(&self, bytes: u64) {
        self.families.journal_damaged.inc_by(bytes);
    }

    /// Whether limits are kept by a local share.
    pub fn admission_degraded(&self, degraded: bool) {
        self.families.admission_degraded.set(i64::from(degraded));
    }

    /// A call to the admission backend came back.
    pub fn admission_op(&self, op: AdmissionOp, span: Duration) {
        self.admission_op[op.index()].observe(span.as_secs_f64());
    }

    /// A call to the admission backend failed or timed out.
    pub fn admission_failed(&self, op: AdmissionOp) {
        self.admission_failures[op.index()].inc();
    }

    /// The catalog of this version is in force and was compared with the store at `checked_at`.
    pub fn catalog(&self, version: i64, checked_at: Timestamp) {
        self.families.catalog_version.set(version);
        self.families.catalog_checked.set(checked_at.unix_s());
    }

    /// A background task ended early and is started again.
    pub fn task_restarted(&self, task: &'static str) {
        self.families.task_restarts.with_label_values(&[task]).inc();
    }

    /// So many log lines were dropped since the start.
    pub fn log_lines_dropped(&self, lines: u64) {
        self.families.log_dropped.set(clamp(lines));
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Metrics({} in flight)", self.in_flight())
    }
}

/// A provider's counters; cheap to clone.
#[derive(Debug, Clone)]
pub struct ProviderMetrics(Arc<[IntCounter]>);

impl ProviderMetrics {
    /// An attempt has ended.
    pub fn attempt_ended(&self, end: AttemptEnd) {
        self.0[end.index()].inc();
    }
}

/// A model's counters; cheap to clone.
#[derive(Debug, Clone)]
pub struct ModelMetrics(Arc<[IntCounter]>);

impl ModelMetrics {
    /// A request has used so much.
    pub fn used(&self, usage: &Usage) {
        let cache_write = usage.cache_write_5m_tokens.saturating_add(usage.cache_write_1h_tokens);
        for (class, tokens) in [
            (TokenClass::Input, usage.input_tokens),
            (TokenClass::CacheRead, usage.cache_read_tokens),
            (TokenClass::CacheWrite, cache_write),
            (TokenClass::Output, usage.output_tokens),
            (TokenClass::AudioInput, usage.audio_input_tokens),
            (TokenClass::AudioOutput, usage.audio_output_tokens),
        ] {
            if tokens > 0 {
                self.0[class.index()].inc_by(tokens);
            }
        }
    }
}

/// Counts one thing in flight for as long as it lives.
#[derive(Debug)]
pub struct InFlight(IntGauge);

impl InFlight {
    fn on(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// The scraped values of a label.
fn texts<L: Label>() -> Vec<&'static str> {
    L::ALL.iter().map(|value| value.label()).collect()
}

/// Where a request's counter stands in `Metrics::requests`.
fn request_index(surface: ApiFormat, outcome: Outcome, stream: Streamed) -> usize {
    (surface.index() * Outcome::ALL.len() + outcome.index()) * Streamed::ALL.len() + stream.index()
}

/// In the order of [`request_index`].
fn request_counters(families: &Families) -> Vec<IntCounter> {
    let mut counters = Vec::new();
    for surface in ApiFormat::ALL {
        for outcome in Outcome::ALL {
            for stream in Streamed::ALL {
                let labels = [surface.label(), outcome.label(), stream.label()];
                counters.push(families.requests.with_label_values(&labels));
            }
        }
    }
    counters
}

/// As a gauge holds it.
fn clamp<T: TryInto<i64>>(value: T) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::failure::FailureClass;

    fn end(outcome: Outcome, stream: bool) -> RequestEnd {
        RequestEnd {
            surface: ApiFormat::OpenAiChat,
            outcome,
            stream,
            charge: Nanos::new(1_500),
            cost: Nanos::new(900),
            unpriced: false,
            first_content: Some(Duration::from_millis(300)),
            duration: Duration::from_secs(2),
        }
    }

    #[test]
    fn what_is_counted_is_rendered_under_its_labels() {
        let metrics = Metrics::new();
        metrics.request_ended(&end(Outcome::Aborted, true));
        metrics.request_ended(&end(Outcome::Completed, false));
        metrics.provider("acme").attempt_ended(AttemptEnd::Failed(FailureClass::RateLimited));
        metrics.model("m").used(&Usage { input_tokens: 7, output_tokens: 5, ..Usage::default() });
        let text = metrics.render().unwrap();
        for line in [
            r#"tollway_requests_total{outcome="aborted",stream="true",surface="openai.chat"} 1"#,
            r#"tollway_requests_total{outcome="completed",stream="false",surface="openai.chat"} 1"#,
            r#"tollway_requests_total{outcome="completed",stream="true",surface="openai.chat"} 0"#,
            r#"tollway_attempts_total{class="rate_limited",provider="acme"} 1"#,
            r#"tollway_tokens_total{class="input",model="m"} 7"#,
            r#"tollway_money_nanos_total{kind="charge"} 3000"#,
            "tollway_first_content_seconds_count 2",
        ] {
            assert!(text.lines().any(|have| have == line), "no line {line} in\n{text}");
        }
    }

    #[test]
    fn a_guard_counts_while_it_lives() {
        let metrics = Metrics::new();
        let guard = metrics.request_in_flight();
        assert_eq!(metrics.in_flight(), 1);
        drop(guard);
        assert_eq!(metrics.in_flight(), 0);
    }

    #[test]
    fn key_states_of_a_provider_that_is_gone_are_gone() {
        let metrics = Metrics::new();
        metrics.key_states([("gone-pool", KeyState::Active, 2)]);
        metrics.key_states([("new", KeyState::Invalid, 1)]);
        let text = metrics.render().unwrap();
        assert!(text.contains(r#"tollway_keys{provider="new",state="invalid"} 1"#));
        assert!(!text.contains("gone-pool"));
    }

    #[test]
    fn two_servers_count_apart() {
        let (a, b) = (Metrics::new(), Metrics::new());
        a.refused(Refusal::Rpm);
        assert!(a.render().unwrap().contains(r#"tollway_refusals_total{reason="rpm"} 1"#));
        assert!(b.render().unwrap().contains(r#"tollway_refusals_total{reason="rpm"} 0"#));
    }
}
