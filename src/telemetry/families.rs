//! Every metric family, declared once: the doc comment is its help text, and `docs/metrics.md` is
//! printed from the same table.

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

/// What a family measures with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FamilyKind {
    /// Only rises.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Counts observations in buckets.
    Histogram,
}

/// A family as the reference page shows it.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// The scraped name.
    pub name: &'static str,
    /// What it measures with.
    pub kind: FamilyKind,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
}

/// From 50 µs to 1 s: what the relay itself adds, and what an admission call takes.
const SHORT: &[f64] =
    &[0.000_05, 0.000_1, 0.000_15, 0.000_3, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0];
/// From 50 ms to 15 min: what a model takes.
const LONG: &[f64] = &[0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0];

/// Makes and registers one family.
trait Make: Sized {
    const KIND: FamilyKind;

    fn make(family: &Family, buckets: &[f64], registry: &Registry) -> prometheus::Result<Self>;
}

macro_rules! make {
    ($($ty:ident, $kind:ident, |$family:ident, $buckets:ident| $new:expr;)*) => {$(
        impl Make for $ty {
            const KIND: FamilyKind = FamilyKind::$kind;

            fn make($family: &Family, $buckets: &[f64], registry: &Registry) -> prometheus::Result<Self> {
                let made = $new?;
                registry.register(Box::new(made.clone()))?;
                Ok(made)
            }
        }
    )*};
}

make! {
    IntCounter, Counter, |family, _buckets| IntCounter::new(family.name, family.help);
    IntCounterVec, Counter, |family, _buckets|
        IntCounterVec::new(Opts::new(family.name, family.help), family.labels);
    IntGauge, Gauge, |family, _buckets| IntGauge::new(family.name, family.help);
    IntGaugeVec, Gauge, |family, _buckets| IntGaugeVec::new(Opts::new(family.name, family.help), family.labels);
    Histogram, Histogram, |family, buckets| Histogram::with_opts(
        HistogramOpts::new(family.name, family.help).buckets(buckets.to_vec()));
    HistogramVec, Histogram, |family, buckets| HistogramVec::new(
        HistogramOpts::new(family.name, family.help).buckets(buckets.to_vec()), family.labels);
}

macro_rules! families {
    ($($(#[doc = $help:literal])+ $field:ident: $ty:ident = $name:literal
        [$($label:literal),*] $(in $buckets:ident)?;)*) => {
        /// One value a family, registered together.
        pub(super) struct Families { $($(#[doc = $help])+ pub(super) $field: $ty,)* }

        /// Every family, for the reference page.
        pub const FAMILIES: &[Family] = &[$(Family {
            name: $name,
            kind: <$ty as Make>::KIND,
            labels: &[$($label),*],
            help: concat!($($help,)+).trim_ascii(),
        },)*];

        impl Families {
            /// # Errors
            /// When two families share a name; a unit test keeps that from happening.
            pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
                let mut table = FAMILIES.iter();
                let mut next = || table.next().ok_or(prometheus::Error::AlreadyReg);
                Ok(Self { $($field: {
                    let buckets: &[f64] = &[];
                    $(let buckets = { let _ = buckets; $buckets };)?
                    <$ty as Make>::make(next()?, buckets, registry)?
                },)* })
            }
        }
    };
}

families! {
    /// Relayed requests by how they ended.
    requests: IntCounterVec = "tollway_requests_total" ["surface", "outcome", "stream"];
    /// Requests refused before any attempt.
    refusals: IntCounterVec = "tollway_refusals_total" ["reason"];
    /// Attempts at upstreams by how they ended: `served`, `aborted`, or a failure class.
    attempts: IntCounterVec = "tollway_attempts_total" ["provider", "class"];
    /// Tokens by model and disjoint class.
    tokens: IntCounterVec = "tollway_tokens_total" ["model", "class"];
    /// Money in nano-units of the deployment's currency: `charge` to tenants, `cost` by providers.
    money: IntCounterVec = "tollway_money_nanos_total" ["kind"];
    /// Requests that used tokens and cost the tenant nothing for want of a price.
    unpriced: IntCounter = "tollway_unpriced_requests_total" [];
    /// What the relay adds before the first attempt is sent.
    added_latency: Histogram = "tollway_added_latency_seconds" [] in SHORT;
    /// From the request's head to the first content of its answer.
    first_content: Histogram = "tollway_first_content_seconds" [] in LONG;
    /// From the request's head to the end of its answer.
    duration: Histogram = "tollway_request_duration_seconds" [] in LONG;
    /// Relayed requests in flight.
    in_flight: IntGauge = "tollway_requests_in_flight" [];
    /// Answers being streamed.
    open_streams: IntGauge = "tollway_open_streams" [];
    /// Keys by provider and state: `active`, `invalid` or `disabled`.
    key_states: IntGaugeVec = "tollway_keys" ["provider", "state"];
    /// Journal records not yet in the store.
    journal_records: IntGauge = "tollway_journal_undrained_records" [];
    /// Bytes of the journal not yet in the store.
    journal_bytes: IntGauge = "tollway_journal_undrained_bytes" [];
    /// Age of the oldest journal record not yet in the store; 0 when there is none.
    journal_oldest: IntGauge = "tollway_journal_oldest_seconds" [];
    /// Usage events written to the store.
    recorded: IntCounter = "tollway_recorder_events_total" [];
    /// Batches that the store did not take; they are tried again.
    recorder_failures: IntCounter = "tollway_recorder_failures_total" [];
    /// Usage events that the store refused for what they say; set aside in `rejected.jsonl` beside the journal.
    recorder_rejected: IntCounter = "tollway_recorder_rejected_total" [];
    /// Bytes of the journal that a disk has damaged.
    journal_damaged: IntCounter = "tollway_journal_damaged_bytes_total" [];
    /// 1 while shared counters are away and limits are kept by a local share.
    admission_degraded: IntGauge = "tollway_admission_degraded" [];
    /// Calls to the admission backend: `enter_acquire` as the request path waits for it, and where Redis counts
    /// each call to it by what it is for.
    admission_op: HistogramVec = "tollway_admission_op_seconds" ["op"] in SHORT;
    /// Calls to Redis that failed or timed out.
    admission_failures: IntCounterVec = "tollway_admission_failures_total" ["op"];
    /// Version of the catalog in force.
    catalog_version: IntGauge = "tollway_catalog_version" [];
    /// Since when the catalog has been compared with the store, in Unix seconds.
    catalog_checked: IntGauge = "tollway_catalog_checked_timestamp_seconds" [];
    /// Access tokens not let in.
    auth_denied: IntCounterVec = "tollway_auth_denied_total" ["reason"];
    /// Background tasks that ended early and were started again.
    task_restarts: IntCounterVec = "tollway_task_restarts_total" ["task"];
    /// Log lines dropped because the log's reader was too slow.
    log_dropped: IntGauge = "tollway_log_lines_dropped" [];
    /// Always 1; the version is in the label.
    build_info: IntGaugeVec = "tollway_build_info" ["version"];
}
