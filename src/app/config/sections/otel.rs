//! `[otel]`: traces.

use url::Url;

use crate::app::config::section::section;

section! {
    /// Traces, sent by OTLP over HTTP (protobuf).
    "otel" OtelSection {
        /// The collector, such as `http://collector:4318`; none: no traces.
        endpoint: Option<Url> = "";
        /// The share of requests traced, 0 to 1; a caller's own sampling decision wins.
        sample_ratio: f64 = "1.0";
        /// The service's name in traces.
        service_name: String = "tollway";
    }
    |otel, check| {
        let known = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
        check.that(otel.endpoint.as_ref().is_none_or(known), "endpoint", "expected an http:// or https:// URL");
        check.that((0.0..=1.0).contains(&otel.sample_ratio), "sample_ratio", "expected 0 to 1");
    }
}
