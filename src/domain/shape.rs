//! Reading what somebody sends into a type: everything that is wrong with its shape is told at once,
//! each fault with its path, in words of people who do not know what it is read into.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use crate::domain::faults::Fault;

/// No more faults than this are told: each takes another look at the whole.
const MOST: usize = 32;
/// Characters of a text that are repeated in a fault.
const QUOTED: usize = 40;

/// Reads an object. Where something is wrong with it, says what, and gives what the rest reads as, if it
/// reads as anything. A fault of the whole has the path `.`.
#[must_use]
pub fn read<T: DeserializeOwned>(value: &Value) -> (Option<T>, Vec<Fault>) {
    // Serde would take a list for the fields in their order.
    if let Value::Array(_) = value {
        return (None, vec![Fault::new(".", "must be an object, not a list")]);
    }
    let mut error = match serde_path_to_error::deserialize(value) {
        Ok(read) => return (Some(read), Vec::new()),
        Err(error) => error,
    };
    let mut rest = value.clone();
    let mut faults = Vec::new();
    let mut gone: Vec<Vec<Step>> = Vec::new();
    loop {
        let reason = error.inner().to_string();
        let around = steps(error.path());
        let wrong = where_named(around.clone(), &reason);
        // What is wrong where something was taken out may be wrong because of that.
        if !gone.iter().any(|gone| gone.starts_with(&wrong)) {
            faults.push(Fault::new(printed(&wrong), in_words(&reason)));
        }
        // Without what is wrong the next look gets further. What is missing cannot be taken out, the object
        // that misses it can.
        let is_missing = reason.starts_with(MISSING);
        let Some(taken) = take_out(&mut rest, if is_missing { &around } else { &wrong }) else { break };
        gone.push(taken);
        if faults.len() == MOST {
            break;
        }
        match serde_path_to_error::deserialize(&rest) {
            Ok(read) => return (Some(read), faults),
            Err(next) => error = next,
        }
    }
    (None, faults)
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

fn steps(path: &Path) -> Vec<Step> {
    let step = |segment: &Segment| match segment {
        Segment::Seq { index } => Some(Step::Index(*index)),
        Segment::Map { key } => Some(Step::Key(key.clone())),
        Segment::Enum { variant } => Some(Step::Key(variant.clone())),
        Segment::Unknown => None,
    };
    path.iter().map_while(step).collect()
}

/// The path of what is wrong: that of a missing field ends in its object, and the text has its name.
fn where_named(mut path: Vec<Step>, reason: &str) -> Vec<Step> {
    let is_missing = reason.starts_with(MISSING);
    if is_missing || reason.starts_with(UNKNOWN) {
        let name = Step::Key(reason.split('`').nth(1).unwrap_or_default().to_owned());
        if is_missing || path.last() != Some(&name) {
            path.push(name);
        }
    }
    path
}

fn printed(path: &[Step]) -> String {
    let steps = path.iter().map(|step| match step {
        Step::Key(name) => format!(".{name}"),
        Step::Index(index) => format!("[{index}]"),
    });
    let text: String = steps.collect();
    if text.is_empty() { ".".to_owned() } else { text.trim_start_matches('.').to_owned() }
}

/// Removes what is at `path`, or the nearest field around it: taking an item out of a list would move those
/// behind it.
fn take_out(value: &mut Value, mut path: &[Step]) -> Option<Vec<Step>> {
    while let Some((last, before)) = path.split_last() {
        if let Step::Key(name) = last
            && let Some(Value::Object(fields)) = at(value, before)
            && fields.remove(name).is_some()
        {
            return Some(path.to_vec());
        }
        path = before;
    }
    None
}

fn at<'a>(value: &'a mut Value, path: &[Step]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Key(name) => value.get_mut(name),
        Step::Index(index) => value.get_mut(index),
    })
}

/// How serde begins its messages.
const MISSING: &str = "missing field `";
const UNKNOWN: &str = "unknown field `";

/// Serde's message in plain words; one that is our own stays as it is.
#[must_use]
pub fn in_words(message: &str) -> String {
    if message.starts_with(MISSING) {
        return "is missing".to_owned();
    }
    if message.starts_with(UNKNOWN) {
        return match message.split_once(", expected ") {
            Some((_, known)) => {
                let known = listed(known).replace(" or ", " and ");
                format!("there is no such field; there are {}", known.trim_start_matches("one of "))
            }
            None => "there is no such field".to_owned(),
        };
    }
    if let Some(rest) = message.strip_prefix("unknown variant `")
        && let Some((found, known)) = rest.split_once("`, expected ")
    {
        return format!("must be {}, not {}", listed(known), quoted(found));
    }
    for (prefix, is_range) in [("invalid type: ", false), ("invalid value: ", true)] {
        if let Some(rest) = message.strip_prefix(prefix)
            && let Some((found, wanted)) = rest.rsplit_once(", expected ")
        {
            return format!("must be {}, not {}", wanted_kind(wanted, is_range), found_kind(found));
        }
    }
    message.to_owned()
}

/// The names that serde lists, without its quotes.
fn listed(known: &str) -> String {
    known.replace('`', "")
}

fn quoted(text: &str) -> String {
    let cut: String = text.chars().take(QUOTED).collect();
    let dots = if cut.len() < text.len() { "…" } else { "" };
    format!("the text \"{cut}{dots}\"")
}

/// What serde met.
fn found_kind(found: &str) -> String {
    if let Some(text) = found.strip_prefix("string \"").and_then(|text| text.strip_suffix('"')) {
        return quoted(text);
    }
    match found {
        "map" => "an object".to_owned(),
        "sequence" => "a list".to_owned(),
        "unit value" => "null".to_owned(),
        // boolean `true`, integer `7`, floating point `1.5`
        other => other.split('`').nth(1).unwrap_or(other).to_owned(),
    }
}

/// What serde asked for; with its bounds where the kind was right and the value was not.
fn wanted_kind(wanted: &str, is_range: bool) -> String {
    let bounds = match wanted {
        "u8" => Some((0, u64::from(u8::MAX))),
        "u16" => Some((0, u64::from(u16::MAX))),
        "u32" => Some((0, u64::from(u32::MAX))),
        "u64" | "usize" => Some((0, u64::MAX)),
        "i32" => Some((i64::from(i32::MIN), i32::MAX.unsigned_abs().into())),
        "i64" => Some((i64::MIN, i64::MAX.unsigned_abs())),
        _ => None,
    };
    match (bounds, wanted) {
        (Some((least, most)), _) if is_range => format!("a whole number from {least} to {most}"),
        (Some(_), _) => "a whole number".to_owned(),
        (None, "f32" | "f64") => "a number".to_owned(),
        (None, "a boolean") => "true or false".to_owned(),
        (None, "a string" | "a borrowed string" | "str") => "a text".to_owned(),
        (None, "a sequence") => "a list".to_owned(),
        (None, "a map") => "an object".to_owned(),
        (None, "string or map") => "a text or an object".to_owned(),
        (None, kind) if kind.starts_with("struct ") => "an object".to_owned(),
        (None, other) => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        name: String,
        #[serde(default)]
        inner: BTreeMap<String, Inner>,
        #[serde(default)]
        list: Vec<Inner>,
        #[serde(default)]
        style: Option<Style>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        ms: u32,
        #[serde(default)]
        on: bool,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "snake_case")]
    enum Style {
        Plain,
        Header(String),
    }

    fn told(value: &Value) -> Vec<String> {
        let (_, faults) = read::<Outer>(value);
        faults.iter().map(|fault| format!("{}: {}", fault.field, fault.reason)).collect()
    }

    #[test]
    fn what_is_right_is_read() {
        let (read, faults) =
            read::<Outer>(&json!({"name": "a", "list": [{"ms": 1}], "style": {"header": "x"}}));
        assert_eq!((read.unwrap().list, faults), (vec![Inner { ms: 1, on: false }], vec![]));
    }

    #[test]
    fn a_fault_names_the_path_of_its_field_and_says_what_must_be() {
        for (value, fault) in [
            (json!({}), "name: is missing"),
            (json!({"name": 1}), "name: must be a text, not 1"),
            (json!({"name": null}), "name: must be a text, not null"),
            (json!(["a"]), ".: must be an object, not a list"),
            (json!("x"), ".: must be an object, not the text \"x\""),
            (
                json!({"name": "a", "more": 1}),
                "more: there is no such field; there are name, inner, list, style",
            ),
            (json!({"name": "a", "list": {}}), "list: must be a list, not an object"),
            (json!({"name": "a", "list": [7]}), "list[0]: must be an object, not 7"),
            (
                json!({"name": "a", "list": [{"ms": "x"}]}),
                "list[0].ms: must be a whole number, not the text \"x\"",
            ),
            (json!({"name": "a", "list": [{"ms": 1.5}]}), "list[0].ms: must be a whole number, not 1.5"),
            (
                json!({"name": "a", "inner": {"b": {"ms": -1}}}),
                "inner.b.ms: must be a whole number from 0 to 4294967295, not -1",
            ),
            (json!({"name": "a", "inner": {"b": {}}}), "inner.b.ms: is missing"),
            (
                json!({"name": "a", "inner": {"b": {"ms": 1, "on": "yes"}}}),
                "inner.b.on: must be true or false, not the text \"yes\"",
            ),
            (
                json!({"name": "a", "style": "bold"}),
                "style: must be `plain` or `header`, not the text \"bold\"",
            ),
            (
                json!({"name": "a", "list": [{"ms": 1, "of": 2}]}),
                "list[0].of: there is no such field; there are ms and on",
            ),
            (json!({"name": "a", "style": {"header": 5}}), "style.header: must be a text, not 5"),
            (json!({"name": "a", "style": 5}), "style: must be a text or an object, not 5"),
        ] {
            assert_eq!(told(&value), [fault.replace('`', "")], "{value}");
        }
    }

    #[test]
    fn all_faults_are_told_at_once() {
        let value = json!({
            "inner": {"a": {"ms": "x", "om": true}, "b": {"on": 1}},
            "list": [{"ms": 1, "off": 1, "of": 2}, {"ms": 2, "on": 3}],
            "nmae": "a",
            "style": {"header": 5},
        });
        let fields: Vec<_> = read::<Outer>(&value).1.into_iter().map(|fault| fault.field).collect();
        let expected = [
            "inner.a.ms",
            "inner.a.om",
            "inner.b.on",
            "inner.b.ms",
            "list[0].of",
            "list[0].off",
            "list[1].on",
            "nmae",
            "style.header",
            "name",
        ];
        assert_eq!(fields.len(), expected.len(), "{fields:?}");
        for field in expected {
            assert!(fields.iter().any(|told| told == field), "{field} is not told: {fields:?}");
        }
    }

    #[test]
    fn what_is_left_is_read_for_whoever_can_use_it() {
        let (rest, faults) =
            read::<Outer>(&json!({"name": "a", "more": 1, "list": [{"ms": "x"}, {"ms": 2}]}));
        assert_eq!(faults.len(), 2);
        assert_eq!(rest.unwrap().name, "a");
    }

    #[test]
    fn there_is_an_end_to_it() {
        let many: serde_json::Map<_, _> = (0..1_000).map(|n| (format!("no-{n}"), Value::Null)).collect();
        assert_eq!(told(&many.into()).len(), MOST);
        let long = "x".repeat(9_000);
        assert!(
            told(&json!({"name": "a", "style": long, "list": long})).iter().all(|fault| fault.len() < 200)
        );
    }
}
