//! The reference page of all settings, printed from their table.

use std::fmt::Write;

use super::sections::SECTIONS;

const HEAD: &str = "# Settings

This page is generated: `tollway config reference > docs/settings.md`.

Settings are read from `tollway.toml` (another file by `--config` or `TOLLWAY_CONFIG`), overridden by
environment variables, overridden by flags. Lists are arrays in the file and separated by commas in a
variable. An unknown or wrong setting stops the start and says where it stands. `tollway config show`
prints what is in force and where each value comes from; `tollway config check` only checks.

Variables that Kubernetes sets about services (`TOLLWAY_SERVICE_HOST`, `TOLLWAY_PORT=tcp://…` and the
like) are no settings and are passed over.
";

/// The page as Markdown.
#[must_use]
pub fn reference() -> String {
    let mut page = HEAD.to_owned();
    for section in SECTIONS {
        // Writing to a String cannot fail.
        let _ = write!(page, "\n## [{}]\n\n{}\n", section.name, section.doc);
        for field in section.fields {
            let default = match field.default {
                "" => "none".to_owned(),
                text => format!("`{text}`"),
            };
            let alias = field.alias.map(|alias| format!(", or `{alias}`")).unwrap_or_default();
            let _ = write!(
                page,
                "\n### {}.{}\n\n{}\n\n- Value: {}\n- Default: {default}\n- Variable: `{}`{alias}\n",
                section.name,
                field.name,
                field.doc,
                field.kind,
                section.variable(field),
            );
        }
    }
    page
}
