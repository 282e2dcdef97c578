//! `[admission]`: limits while shared counters are away.

use crate::app::config::section::section;

section! {
    /// How limits are kept while Redis is away.
    "admission" AdmissionSection {
        /// Replicas that share a limit while they cannot count together: each keeps its own share.
        replicas: u32 = "2";
    }
    |admission, check| {
        check.that((1..=1_000).contains(&admission.replicas), "replicas", "expected 1 to 1000");
    }
}
