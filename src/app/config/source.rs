//! Where settings come from, merged by precedence: file, then environment, then flags.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use toml::de::{DeTable, DeValue};

use super::{
    section::{Field, Problem, SectionTable},
    sections::SECTIONS,
    values::Raw,
};

/// Where a value was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nowhere.
    Default,
    /// In the file, at a line counted from 1.
    File {
        /// Which file.
        path: PathBuf,
        /// Which line.
        line: usize,
    },
    /// By an environment variable.
    Variable(String),
    /// By a flag of the command line.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => write!(f, "env {name}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

/// The merged texts of all sources, each with its origin.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    values: BTreeMap<(&'static str, &'static str), (Raw, Origin)>,
}

impl Sources {
    /// What was set for a field, and where.
    #[must_use]
    pub fn get(&self, section: &'static str, field: &'static str) -> Option<(&Raw, &Origin)> {
        self.values.get(&(section, field)).map(|(raw, origin)| (raw, origin))
    }

    /// Says that a field is wrong, and where it was set.
    #[must_use]
    pub fn problem(&self, section: &'static str, field: &'static str, reason: String) -> Problem {
        let origin = self.get(section, field).map_or(Origin::Default, |(_, origin)| origin.clone());
        Problem { origin, field: format!("{section}.{field}"), reason }
    }

    fn set(&mut self, section: &SectionTable, field: &Field, raw: Raw, origin: Origin) {
        self.values.insert((section.name, field.name), (raw, origin));
    }

    /// Takes a file's text; what it does not know becomes a problem.
    pub fn add_file(&mut self, path: &Path, text: &str, problems: &mut Vec<Problem>) {
        let at = |offset: usize| Origin::File { path: path.to_path_buf(), line: line_of(text, offset) };
        let document = match DeTable::parse(text) {
            Ok(document) => document,
            Err(error) => {
                let origin = at(error.span().map_or(0, |span| span.start));
                let reason = format!("not TOML: {}", error.message());
                problems.push(Problem { origin, field: String::new(), reason });
                return;
            }
        };
        for (name, content) in document.get_ref() {
            match section_of(name.get_ref(), content.get_ref()) {
                Ok((section, table)) => self.add_table(section, table, &at, problems),
                Err(reason) => {
                    let origin = at(name.span().start);
                    problems.push(Problem { origin, field: name.get_ref().to_string(), reason });
                }
            }
        }
    }

    fn add_table(
        &mut self,
        section: &SectionTable,
        table: &DeTable<'_>,
        at: &impl Fn(usize) -> Origin,
        problems: &mut Vec<Problem>,
    ) {
        for (name, value) in table {
            let origin = at(name.span().start);
            match field_of(section, name.get_ref(), value.get_ref()) {
                Ok((field, raw)) => self.set(section, field, raw, origin),
                Err(reason) => {
                    let field = format!("{}.{}", section.name, name.get_ref());
                    problems.push(Problem { origin, field, reason });
                }
            }
        }
    }

    /// Takes the environment; a `TOLLWAY_` variable that it does not know becomes a problem.
    pub fn add_environment(
        &mut self,
        variables: impl IntoIterator<Item = (String, String)>,
        problems: &mut Vec<Problem>,
    ) {
        let mut variables: BTreeMap<String, String> = variables.into_iter().collect();
        for section in SECTIONS {
            for field in section.fields {
                let own = section.variable(field);
                let names = field.alias.map(str::to_owned).into_iter().chain([own]);
                for name in names {
                    if let Some(text) = variables.remove(&name) {
                        self.set(section, field, Raw::Text(text), Origin::Variable(name));
                    }
                }
            }
        }
        for (name, value) in variables {
            if !name.starts_with(VARIABLES) || name == CONFIG_VARIABLE || is_service_link(&name, &value) {
                continue;
            }
            let reason = format!("no such variable{}", did_you_mean(&name, variable_names()));
            problems.push(Problem { origin: Origin::Variable(name), field: String::new(), reason });
        }
    }

    /// Takes a flag's value for `section.field`, both of which must exist.
    pub fn add_flag(&mut self, section: &str, field: &str, flag: &'static str, text: String) {
        let found = SECTIONS.iter().find(|table| table.name == section);
        let found = found.and_then(|table| Some((table, table.fields.iter().find(|f| f.name == field)?)));
        if let Some((section, field)) = found {
            self.set(section, field, Raw::Text(text), Origin::Flag(flag));
        }
    }
}

/// Names the settings file.
pub const CONFIG_VARIABLE: &str = "TOLLWAY_CONFIG";

/// The section of this name and its content in the file, or why there is none.
fn section_of<'a, 'i>(
    name: &str,
    content: &'a DeValue<'i>,
) -> Result<(&'static SectionTable, &'a DeTable<'i>), String> {
    let Some(section) = SECTIONS.iter().find(|section| section.name == name) else {
        return Err(format!("no such section{}", did_you_mean(name, section_names())));
    };
    let expected = || format!("expected a table: write [{name}] and its fields below");
    Ok((section, content.as_table().ok_or_else(expected)?))
}

/// The field of this name and its text in the file, or why there is none.
fn field_of(
    section: &SectionTable,
    name: &str,
    value: &DeValue<'_>,
) -> Result<(&'static Field, Raw), String> {
    let Some(field) = section.fields.iter().find(|field| field.name == name) else {
        let known = section.fields.iter().map(|field| field.name.to_owned());
        return Err(format!("no such setting{}", did_you_mean(name, known)));
    };
    Ok((field, raw(value).ok_or_else(|| format!("expected {}, not a table", field.kind))?))
}

/// Kubernetes gives every container variables about each service; those of a service called
/// `tollway…` look like settings and are none.
fn is_service_link(name: &str, value: &str) -> bool {
    let about_a_port = name.ends_with("_PORT") || name.contains("_PORT_");
    name.contains("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || (about_a_port && (value.starts_with("tcp://") || value.starts_with("udp://")))
        || ["_ADDR", "_PROTO", "_PORT"].iter().any(|end| name.contains("_PORT_") && name.ends_with(end))
}

/// A value of the file as text; none for a table.
fn raw(value: &DeValue<'_>) -> Option<Raw> {
    if let DeValue::Array(items) = value {
        return items.iter().map(|item| scalar(item.get_ref())).collect::<Option<_>>().map(Raw::List);
    }
    scalar(value).map(Raw::Text)
}

/// What every variable of ours begins with.
const VARIABLES: &str = "TOLLWAY_";

fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.to_string()),
        DeValue::Boolean(truth) => Some(truth.to_string()),
        DeValue::Datetime(instant) => Some(instant.to_string()),
        DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes().iter().take(offset).filter(|&&byte| byte == b'\n').count()
}

fn section_names() -> impl Iterator<Item = String> {
    SECTIONS.iter().map(|section| section.name.to_owned())
}

fn variable_names() -> impl Iterator<Item = String> {
    let fields = |section: &'static SectionTable| section.fields.iter().map(|field| section.variable(field));
    SECTIONS.iter().flat_map(fields).chain([CONFIG_VARIABLE.to_owned()])
}

/// A hint at the nearest known name, or nothing when none is near.
fn did_you_mean(name: &str, known: impl Iterator<Item = String>) -> String {
    // 0.8 lets one or two letters of a usual name differ, and no unrelated name through. The beginning that
    // every variable has says nothing.
    let bare = |name: &str| name.strip_prefix(VARIABLES).unwrap_or(name).to_owned();
    let near = known
        .map(|known| (strsim::jaro_winkler(&bare(name), &bare(&known)), known))
        .filter(|(like, _)| *like > 0.8);
    match near.max_by(|(a, _), (b, _)| a.total_cmp(b)) {
        Some((_, known)) => format!("; did you mean {known}?"),
        None => String::new(),
    }
}
