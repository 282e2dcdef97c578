//! What the server says about itself (floor 2): metrics, logs, traces.
//!
//! Nothing here is global but the log subscriber, which `app` installs once: a [`Metrics`] is a
//! value handed to whoever counts, so two servers live in one test process. A new metric is one
//! declaration in `families`; a new label value is a variant in `labels`. Secrets, bodies and names
//! chosen by a caller never become a label or a field.

mod families;
mod json;
pub mod labels;
mod logs;
mod metrics;
mod reference;
mod traces;

pub use families::{FAMILIES, Family, FamilyKind};
pub use logs::{LogConfig, LogGuard, install};
pub use metrics::{InFlight, Metrics, ModelMetrics, ProviderMetrics, RequestEnd};
pub use reference::reference;
pub(crate) use traces::span;
pub use traces::{TRACE_TARGET, TraceConfig, Traces, continue_trace};
