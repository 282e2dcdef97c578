//! A set-up file as a tree whose every place knows its line, whichever notation it is written in.

use std::{collections::BTreeMap, fmt};

use serde::de::{self, Deserialize, Deserializer};
use serde_json::Value;
use serde_saphyr::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Problem, Source};

/// The notations that files are read in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notation {
    /// `.yaml`, `.yml`
    Yaml,
    /// `.toml`
    Toml,
}

/// A file's content and its lines.
#[derive(Debug)]
pub struct Document {
    /// The file, as messages name it.
    pub file: String,
    /// What it says.
    pub value: Value,
    /// The line, counted from 1, of every path such as `providers[0].name`.
    lines: BTreeMap<String, u64>,
}

impl Document {
    /// Reads a file's text.
    ///
    /// # Errors
    /// With the place of the first thing that is neither YAML nor TOML, as the notation is.
    pub fn parse(source: &Source) -> Result<Self, Problem> {
        let node = match source.notation {
            Notation::Yaml => parse_yaml(&source.text),
            Notation::Toml => parse_toml(&source.text),
        };
        let node = node.map_err(|(line, reason)| Problem {
            file: source.file.clone(),
            line,
            field: String::new(),
            reason,
        })?;
        let mut lines = BTreeMap::new();
        let value = flatten(node, "", &mut lines);
        Ok(Self { file: source.file.clone(), value, lines })
    }

    /// The line of a path, or of the nearest place around it that the file has.
    pub fn line(&self, path: &str) -> u64 {
        let mut path = path;
        loop {
            if let Some(line) = self.lines.get(path) {
                return *line;
            }
            let Some(end) = path.rfind(['.', '[']) else { return 1 };
            path = &path[..end];
        }
    }
}

/// A value with the line it begins on.
struct Node {
    line: u64,
    content: Content,
}

enum Content {
    Scalar(Value),
    List(Vec<Node>),
    /// A field's line is its name's: a value may begin on a later one.
    Table(Vec<(String, u64, Node)>),
}

fn flatten(node: Node, path: &str, lines: &mut BTreeMap<String, u64>) -> Value {
    lines.entry(path.to_owned()).or_insert(node.line);
    match node.content {
        Content::Scalar(value) => value,
        Content::List(items) => {
            let items = items.into_iter().enumerate();
            items.map(|(at, item)| flatten(item, &format!("{path}[{at}]"), lines)).collect()
        }
        Content::Table(fields) => {
            let field = |(name, line, node): (String, u64, Node)| {
                let below = join(path, &name);
                lines.insert(below.clone(), line);
                (name, flatten(node, &below, lines))
            };
            Value::Object(fields.into_iter().map(field).collect())
        }
    }
}

/// `field` below `path`; either may be empty, and `field` an index.
pub fn join(path: &str, field: &str) -> String {
    let dot = if path.is_empty() || field.is_empty() || field.starts_with('[') { "" } else { "." };
    format!("{path}{dot}{field}")
}

fn parse_yaml(text: &str) -> Result<Node, (u64, String)> {
    let options = serde_saphyr::options! { with_snippet: false };
    let read: Result<Spanned<Content>, _> = serde_saphyr::from_str_with_options(text, options);
    match read {
        Ok(spanned) => Ok(spanned.into()),
        Err(error) => {
            let line = error.location().map_or(1, |location| location.line());
            Err((line, format!("not YAML: {}", error.without_snippet())))
        }
    }
}

impl From<Spanned<Content>> for Node {
    fn from(spanned: Spanned<Content>) -> Self {
        Self { line: spanned.referenced.line(), content: spanned.value }
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> de::Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number, true, false, a list or a table")
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Content, E> {
        Ok(Content::Scalar(truth.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Content, E> {
        Ok(Content::Scalar(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Content, E> {
        Ok(Content::Scalar(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Content, E> {
        Ok(Content::Scalar(number.into()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Content, E> {
        Ok(Content::Scalar(text.into()))
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Content, E> {
        Ok(Content::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Content, D::Error> {
        Content::deserialize(deserializer)
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Content, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element::<Spanned<Content>>()? {
            items.push(item.into());
        }
        Ok(Content::List(items))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut table: A) -> Result<Content, A::Error> {
        let mut fields = Vec::new();
        while let Some((name, value)) = table.next_entry::<Spanned<String>, Spanned<Content>>()? {
            fields.push((name.value, name.referenced.line(), value.into()));
        }
        Ok(Content::Table(fields))
    }
}

fn parse_toml(text: &str) -> Result<Node, (u64, String)> {
    match DeTable::parse(text) {
        Ok(table) => Ok(Node { line: 1, content: toml_table(table.get_ref(), text) }),
        Err(error) => {
            let line = line_of(text, error.span().map_or(0, |span| span.start));
            Err((line, format!("not TOML: {}", error.message())))
        }
    }
}

fn toml_table(table: &DeTable<'_>, text: &str) -> Content {
    let field = |(name, value): (&toml::Spanned<std::borrow::Cow<'_, str>>, &toml::Spanned<DeValue<'_>>)| {
        (name.get_ref().to_string(), line_of(text, name.span().start), toml_node(value, text))
    };
    Content::Table(table.iter().map(field).collect())
}

fn toml_node(value: &toml::Spanned<DeValue<'_>>, text: &str) -> Node {
    let line = line_of(text, value.span().start);
    let content = match value.get_ref() {
        DeValue::String(text) => Content::Scalar(text.as_ref().into()),
        DeValue::Integer(number) => {
            let parsed = i64::from_str_radix(number.as_str(), number.radix());
            Content::Scalar(parsed.map_or_else(|_| number.as_str().into(), Value::from))
        }
        DeValue::Float(number) => {
            let parsed = number.as_str().parse::<f64>();
            Content::Scalar(parsed.map_or_else(|_| number.as_str().into(), Value::from))
        }
        DeValue::Boolean(truth) => Content::Scalar((*truth).into()),
        DeValue::Datetime(instant) => Content::Scalar(instant.to_string().into()),
        DeValue::Array(items) => Content::List(items.iter().map(|item| toml_node(item, text)).collect()),
        DeValue::Table(table) => toml_table(table, text),
    };
    Node { line, content }
}

fn line_of(text: &str, offset: usize) -> u64 {
    let before = text.as_bytes().iter().take(offset).filter(|&&byte| byte == b'\n').count();
    1 + before as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(notation: Notation, text: &str) -> Result<Document, Problem> {
        Document::parse(&Source { file: "a file".into(), directory: ".".into(), notation, text: text.into() })
    }

    #[test]
    fn both_notations_give_the_same_tree_and_their_own_lines() {
        let yaml = "providers:\n  - name: one\n    limits: {rpm: 3}\n\n  - name: two\n    headers:\n      a.b: c\n\
                    cost: 2.50\non: true\n";
        let toml = "cost = 2.50\non = true\n[[providers]]\nname = \"one\"\nlimits.rpm = 3\n\n[[providers]]\n\
                    name = \"two\"\n[providers.headers]\n\"a.b\" = \"c\"\n";
        let (yaml, toml) = (parse(Notation::Yaml, yaml).unwrap(), parse(Notation::Toml, toml).unwrap());
        assert_eq!(yaml.value, toml.value);
        for (path, in_yaml, in_toml) in [
            ("providers[0].name", 2, 4),
            ("providers[0].limits.rpm", 3, 5),
            ("providers[1]", 5, 7),
            ("providers[1].name", 5, 8),
            ("providers[1].headers.a.b", 7, 10),
            ("providers[1].timeouts.connect_ms", 5, 7),
            ("cost", 8, 1),
            ("nothing", 1, 1),
        ] {
            assert_eq!((path, yaml.line(path), toml.line(path)), (path, in_yaml, in_toml));
        }
    }

    #[test]
    fn what_is_in_no_notation_is_told_by_line() {
        let problem = parse(Notation::Yaml, "a: 1\nb: [1, 2\nc: 3\n").unwrap_err();
        assert!(problem.line >= 2 && problem.reason.starts_with("not YAML: "), "{problem}");
        let problem = parse(Notation::Toml, "a = 1\nb = = 2\n").unwrap_err();
        assert!(problem.line == 2 && problem.reason.starts_with("not TOML: "), "{problem}");
        assert!(parse(Notation::Yaml, "a: 1\na: 2\n").is_err(), "a name that stands twice");
    }
}
