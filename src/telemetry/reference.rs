//! The reference page of all metrics, printed from their table.

use std::fmt::Write;

use super::families::{FAMILIES, FamilyKind};

const HEAD: &str = "# Metrics

This page is generated: `tollway config metrics > docs/metrics.md`.

`/metrics` answers in the Prometheus text format. `provider` and `model` are names that an admin gave;
all other labels have closed sets of values, so what a caller sends never becomes a label. Beside these,
the usual `process_*` metrics of the process are there.

| metric | kind | labels | what it says |
|---|---|---|---|
";

/// The page as Markdown.
#[must_use]
pub fn reference() -> String {
    let mut page = HEAD.to_owned();
    for family in FAMILIES {
        let kind = match family.kind {
            FamilyKind::Counter => "counter",
            FamilyKind::Gauge => "gauge",
            FamilyKind::Histogram => "histogram",
        };
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(page, "| `{}` | {kind} | {} | {} |", family.name, labels.join(", "), family.help);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_page_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md");
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert!(page == reference(), "run: tollway config metrics > docs/metrics.md");
    }
}
