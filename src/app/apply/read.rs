//! From documents to entries, each with its place.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    Problem, Source,
    document::{Document, join},
    entries::{FileEntry, ModelEntry, ProviderEntry, RouteEntry, TenantEntry},
};
use crate::domain::shape;

/// Where something stands.
#[derive(Debug, Clone)]
pub struct Place<'a> {
    document: &'a Document,
    /// Where relative names begin.
    pub directory: &'a Path,
    path: String,
}

impl Place<'_> {
    /// A place below this one.
    pub fn below(&self, field: &str) -> Self {
        Self { path: join(&self.path, field), ..self.clone() }
    }

    /// Says that this place is wrong and why.
    pub fn problem(&self, reason: impl Into<String>) -> Problem {
        Problem {
            file: self.document.file.clone(),
            line: self.document.line(&self.path),
            field: self.path.clone(),
            reason: reason.into(),
        }
    }
}

/// An entry and its place.
#[derive(Debug)]
pub struct Placed<'a, T> {
    /// Where.
    pub place: Place<'a>,
    /// What.
    pub entry: T,
}

/// Everything that the files say, in their order.
#[derive(Debug, Default)]
pub struct Wanted<'a> {
    /// Tenants.
    pub tenants: Vec<Placed<'a, TenantEntry>>,
    /// Providers.
    pub providers: Vec<Placed<'a, ProviderEntry>>,
    /// Models.
    pub models: Vec<Placed<'a, ModelEntry>>,
    /// Routes, all of one provider and file together.
    pub routes: Vec<ProviderRoutes<'a>>,
}

/// The routes that one file gives one provider.
#[derive(Debug)]
pub struct ProviderRoutes<'a> {
    /// Where the list is.
    pub place: Place<'a>,
    /// Whose routes.
    pub provider: String,
    /// The routes.
    pub routes: Vec<Placed<'a, RouteEntry>>,
}

/// Reads the texts.
///
/// # Errors
/// With one problem for every file that cannot be read.
pub fn documents(sources: &[Source]) -> Result<Vec<(&Source, Document)>, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut documents = Vec::new();
    for source in sources {
        match Document::parse(source) {
            Ok(document) => documents.push((source, document)),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(documents) } else { Err(problems) }
}

/// Takes documents apart.
///
/// # Errors
/// With every field that does not fit the kind of its object.
pub fn entries<'a>(documents: &'a [(&'a Source, Document)]) -> Result<Wanted<'a>, Vec<Problem>> {
    let mut wanted = Wanted::default();
    let mut reader = Reader { problems: Vec::new() };
    for (source, document) in documents {
        let root = Place { document, directory: &source.directory, path: String::new() };
        // An empty YAML file says nothing, which is no mistake.
        if document.value.is_null() {
            continue;
        }
        let Some(file) = reader.read::<FileEntry>(root.clone(), &document.value) else { continue };
        let file = file.entry;
        wanted.tenants.extend(reader.list(&root.below("tenants"), &file.tenants));
        wanted.providers.extend(reader.list(&root.below("providers"), &file.providers));
        wanted.models.extend(reader.list(&root.below("models"), &file.models));
        for (provider, routes) in file.routes {
            let place = root.below("routes").below(&provider);
            let routes = reader.list(&place, &routes);
            wanted.routes.push(ProviderRoutes { place, provider, routes });
        }
    }
    if reader.problems.is_empty() { Ok(wanted) } else { Err(reader.problems) }
}

struct Reader {
    problems: Vec<Problem>,
}

impl Reader {
    fn list<'a, T: DeserializeOwned>(&mut self, place: &Place<'a>, items: &[Value]) -> Vec<Placed<'a, T>> {
        let items = items.iter().enumerate();
        items.filter_map(|(at, item)| self.read(place.below(&format!("[{at}]")), item)).collect()
    }

    /// Notes what is wrong with an object, and gives what the rest of it says.
    fn read<'a, T: DeserializeOwned>(&mut self, place: Place<'a>, value: &Value) -> Option<Placed<'a, T>> {
        let (entry, faults) = shape::read(value);
        for fault in faults {
            let wrong = if fault.field == "." { place.clone() } else { place.below(&fault.field) };
            self.problems.push(wrong.problem(fault.reason));
        }
        Some(Placed { place, entry: entry? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::apply::Notation;

    fn problems(text: &str) -> Vec<String> {
        let source =
            Source { file: "f".into(), directory: "".into(), notation: Notation::Yaml, text: text.into() };
        let sources = [source];
        let documents = documents(&sources).unwrap();
        entries(&documents).unwrap_err().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_object_of_a_wrong_shape_is_told_with_its_line_and_field() {
        let text = "providers:\n  - name: one\n    base_url: http://a/v1\n    keys:\n      - label: k\n        \
                    limits:\n          rpm: many\n  - name: two\n    base_url: 7\nmodels:\n  - name: m\n    \
                    prices:\n      inptu: 1\ntenants:\n  - limits: {rpm: 1}\n";
        let told = problems(text);
        let starts = [
            "f:15: tenants[0].name: is missing",
            "f:7: providers[0].keys[0].limits.rpm: must be a whole number, not the text \"many\"",
            "f:9: providers[1].base_url: must be a text, not 7",
            "f:13: models[0].prices.inptu: there is no such field; there are input,",
        ];
        assert_eq!(told.len(), starts.len(), "{told:#?}");
        for (told, start) in told.iter().zip(starts) {
            assert!(told.starts_with(start), "{told} does not start with {start}");
        }
    }

    #[test]
    fn an_unknown_list_is_told_and_hides_nothing() {
        let told = problems("model:\n  - name: m\ntenants:\n  - {name: a, limit: {rpm: 1}, enabled: 1}\n");
        let starts = [
            "f:1: model: there is no such field; there are tenants, providers, models, routes",
            "f:4: tenants[0].enabled: must be true or false, not 1",
            "f:4: tenants[0].limit: there is no such field",
        ];
        assert_eq!(told.len(), starts.len(), "{told:#?}");
        for (told, start) in told.iter().zip(starts) {
            assert!(told.starts_with(start), "{told} does not start with {start}");
        }
    }
}
