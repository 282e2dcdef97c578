//! `[log]`: log lines.

use crate::app::config::{section::section, values::choice};

choice! {
    /// What a log line looks like.
    LogFormat = "pretty or json" {
        /// For eyes.
        Pretty = "pretty",
        /// One JSON object a line.
        Json = "json",
    }
}

section! {
    /// The log, written to standard error.
    "log" LogSection {
        /// `pretty` or `json`.
        format: LogFormat = "pretty";
        /// A level (`error`, `warn`, `info`, `debug`, `trace`), or one for each module:
        /// `info,tollway::relay=debug`.
        level: String = "info";
    }
    |log, check| {
        check.that(
            log.level.split(',').all(is_directive),
            "level",
            "expected a level such as info, or modules with levels such as info,tollway::relay=debug",
        );
    }
}

/// `info` or `module=info`. The filter's own parser takes a misspelt level for a module's name.
fn is_directive(text: &str) -> bool {
    let level = text.split_once('=').map_or(text, |(_, level)| level);
    level.trim().parse::<tracing::level_filters::LevelFilter>().is_ok()
}
