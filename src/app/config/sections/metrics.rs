//! `[metrics]`: the scrape.

use crate::{app::config::section::section, domain::secret::Secret};

section! {
    /// What `/metrics` gives.
    "metrics" MetricsSection {
        /// Whether `/metrics` answers.
        enabled: bool = "true";
        /// A scraper must present this as `Authorization: Bearer`; none: anyone may scrape.
        token: Option<Secret> = "";
    }
    |_metrics, _check| {}
}
