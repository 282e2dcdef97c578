//! Traces to an OpenTelemetry collector, off unless a collector is named.
//!
//! Spans are made with [`span!`] under a target of their own. Without a collector no subscriber
//! wants that target, so making one is a load and a branch. Export is batched on a thread of its
//! own; a slow or absent collector costs spans, never requests.

use std::time::Duration;

use opentelemetry::{
    propagation::{Extractor, TextMapPropagator},
    trace::{TraceContextExt, TracerProvider},
};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::{
    Resource,
    propagation::TraceContextPropagator,
    trace::{BatchSpanProcessor, Sampler, SdkTracerProvider},
};
use tracing::Subscriber;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::{
    Layer,
    filter::{LevelFilter, Targets},
    registry::LookupSpan,
};
use url::Url;

/// The target of every span made for the collector.
pub const TRACE_TARGET: &str = "tollway_trace";

/// Makes a span for the collector: `span!("relay.attempt", key.id = %id)`.
macro_rules! span {
    ($name:literal $(, $($field:tt)+)?) => {
        tracing::span!(target: $crate::telemetry::TRACE_TARGET, tracing::Level::INFO, $name $(, $($field)+)?)
    };
}
pub(crate) use span;

/// Where spans go.
#[derive(Debug, Clone)]
pub struct TraceConfig {
    /// The collector; `/v1/traces` is appended where the path is empty.
    pub endpoint: Url,
    /// The share of requests traced, 0 to 1, unless the caller decided.
    pub sample_ratio: f64,
    /// The service's name.
    pub service_name: String,
}

/// The exporter; [`Traces::shut_down`] sends what still waits.
#[derive(Debug, Clone)]
pub struct Traces(SdkTracerProvider);

/// One export may take this long.
const EXPORT: Duration = Duration::from_secs(5);
/// The end of the process waits this long for spans not yet sent.
const LAST_SPANS: Duration = Duration::from_secs(3);

impl Traces {
    /// Starts the exporter's thread.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn start(config: &TraceConfig) -> Result<Self, opentelemetry_otlp::ExporterBuildError> {
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(traces_url(&config.endpoint))
            .with_timeout(EXPORT)
            .build()?;
        Ok(Self::through(BatchSpanProcessor::builder(exporter).build(), config))
    }

    fn through(
        processor: impl opentelemetry_sdk::trace::SpanProcessor + 'static,
        config: &TraceConfig,
    ) -> Self {
        let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(config.sample_ratio)));
        let resource = Resource::builder().with_service_name(config.service_name.clone()).build();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .with_sampler(sampler)
            .with_resource(resource)
            .build();
        Self(provider)
    }

    /// The subscriber's layer that turns spans of [`TRACE_TARGET`] into exported ones.
    pub(super) fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'s> LookupSpan<'s> + Send + Sync,
    {
        let only_ours = Targets::new().with_target(TRACE_TARGET, LevelFilter::INFO);
        tracing_opentelemetry::layer().with_tracer(self.0.tracer("tollway")).with_filter(only_ours)
    }

    /// Sends what still waits and stops. Blocks for at most a few seconds: not for a worker thread.
    pub fn shut_down(&self) {
        if let Err(error) = self.0.shutdown_with_timeout(LAST_SPANS) {
            tracing::warn!(%error, "the last traces were not sent");
        }
    }
}

/// Makes `span` a child of the caller's, as its `traceparent` header names it.
pub fn continue_trace(span: &tracing::Span, traceparent: &str) {
    struct Header<'a>(&'a str);
    impl Extractor for Header<'_> {
        fn get(&self, key: &str) -> Option<&str> {
            key.eq_ignore_ascii_case("traceparent").then_some(self.0)
        }

        fn keys(&self) -> Vec<&str> {
            vec!["traceparent"]
        }
    }
    if span.is_disabled() {
        return;
    }
    let parent = TraceContextPropagator::new().extract(&Header(traceparent));
    if parent.span().span_context().is_valid() {
        // Fails only for a span that has started or is closed; it then begins a trace of its own.
        let _ = span.set_parent(parent);
    }
}

/// As the OTLP specification says: a base URL gets the signal's path.
fn traces_url(endpoint: &Url) -> String {
    let base = endpoint.as_str().trim_end_matches('/');
    if base.ends_with("/v1/traces") { base.to_owned() } else { format!("{base}/v1/traces") }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use opentelemetry_sdk::{
        error::OTelSdkResult,
        trace::{SimpleSpanProcessor, SpanData, SpanExporter},
    };
    use parking_lot::Mutex;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[test]
    fn the_signal_path_is_appended_once() {
        for (endpoint, url) in [
            ("http://c:4318", "http://c:4318/v1/traces"),
            ("http://c:4318/", "http://c:4318/v1/traces"),
            ("https://c/otlp", "https://c/otlp/v1/traces"),
            ("https://c/v1/traces", "https://c/v1/traces"),
        ] {
            assert_eq!(traces_url(&endpoint.parse().unwrap()), url);
        }
    }

    #[derive(Debug, Clone, Default)]
    struct Kept(Arc<Mutex<Vec<SpanData>>>);

    impl SpanExporter for Kept {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            self.0.lock().extend(batch);
            Ok(())
        }
    }

    fn exported(sample_ratio: f64, act: impl FnOnce()) -> Vec<SpanData> {
        let kept = Kept::default();
        let config = TraceConfig {
            endpoint: "http://unused".parse().unwrap(),
            sample_ratio,
            service_name: "test".to_owned(),
        };
        let traces = Traces::through(SimpleSpanProcessor::new(kept.clone()), &config);
        let subscriber = tracing_subscriber::registry().with(traces.layer());
        tracing::subscriber::with_default(subscriber, act);
        kept.0.lock().clone()
    }

    #[test]
    fn spans_keep_the_callers_trace_and_their_own_children() {
        let spans = exported(0.0, || {
            let request = span!("relay.request");
            continue_trace(&request, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
            request.in_scope(|| drop(span!("relay.attempt", key.id = "key_1").entered()));
        });
        let names: Vec<_> = spans.iter().map(|span| span.name.as_ref()).collect();
        assert_eq!(names, ["relay.attempt", "relay.request"]);
        for span in &spans {
            assert_eq!(span.span_context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        }
        assert_eq!(spans[0].parent_span_id, spans[1].span_context.span_id());
    }

    #[test]
    fn nothing_is_exported_at_ratio_zero_or_from_other_targets() {
        assert!(exported(0.0, || drop(span!("relay.request").entered())).is_empty());
        assert!(exported(1.0, || drop(tracing::info_span!("elsewhere").entered())).is_empty());
        assert_eq!(exported(1.0, || drop(span!("relay.request").entered())).len(), 1);
    }
}
