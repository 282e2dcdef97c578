//! `tollway config show`: every setting, its value and where it was set, secrets masked.

use std::fmt::Write;

use super::{
    sections::SECTIONS,
    source::{Origin, Sources},
};

/// One line a setting, as TOML with the origin behind it.
#[must_use]
pub fn show(sources: &Sources) -> String {
    let mut out = String::new();
    for section in SECTIONS {
        let lines = section.fields.iter().map(|field| {
            let set = sources.get(section.name, field.name);
            let text = set.map_or_else(|| field.default.to_owned(), |(raw, _)| raw.joined());
            let origin = set.map_or(&Origin::Default, |(_, origin)| origin);
            (format!("{} = {:?}", field.name, (field.mask)(&text)), origin)
        });
        // Writing to a String cannot fail.
        let _ = writeln!(out, "[{}]", section.name);
        for (line, origin) in lines {
            let _ = writeln!(out, "{line:<50} # {origin}");
        }
        out.push('\n');
    }
    out
}
