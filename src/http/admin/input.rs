//! Bodies and queries into types: each refusal names the field by its path.

use actix_web::{HttpRequest, http::header, web};
use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{
    domain::{clock::Timestamp, faults::Fault, shape},
    http::{admin::problem::Problem, body},
};

/// Reads a JSON body, as bytes and as a value.
///
/// # Errors
/// Another media type, too large, or no JSON: then with line and column.
pub(super) async fn read(request: &HttpRequest, payload: web::Payload) -> Result<(Bytes, Value), Problem> {
    if !is_json(request) {
        return Err(Problem::unsupported_media_type());
    }
    let bytes = body::read(request, payload, None).await?;
    let value = serde_json::from_slice(&bytes).map_err(|error| Problem::invalid_json(error.to_string()))?;
    Ok((bytes, value))
}

/// No media type counts as JSON.
fn is_json(request: &HttpRequest) -> bool {
    let Some(value) = request.headers().get(header::CONTENT_TYPE) else { return true };
    let essence = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    ["application/json", "application/merge-patch+json"]
        .iter()
        .any(|known| essence.eq_ignore_ascii_case(known))
}

/// A value as the wanted type.
///
/// # Errors
/// 422 naming the fields that do not fit, all at once.
pub(super) fn decode<T: DeserializeOwned>(value: &Value) -> Result<T, Problem> {
    match shape::read(value) {
        (Some(read), faults) if faults.is_empty() => Ok(read),
        (_, faults) => Err(Problem::invalid_fields(faults)),
    }
}

/// `current` with `patch` merged in (RFC 7396): what is absent stays, null removes. A field of
/// `whole` is replaced, for its parts make sense together only.
///
/// # Errors
/// 422 when the patch is no object.
pub(super) fn merged(current: &impl Serialize, patch: Value, whole: &[&str]) -> Result<Value, Problem> {
    let mut document = serde_json::to_value(current)?;
    let Value::Object(patch) = patch else {
        return Err(Problem::invalid_field(".", "expected an object with the fields to change"));
    };
    for name in whole.iter().filter(|name| patch.contains_key(**name)) {
        document[*name] = Value::Null;
    }
    merge(&mut document, patch);
    Ok(document)
}

fn merge(document: &mut Value, patch: Map<String, Value>) {
    if !document.is_object() {
        *document = Value::Object(Map::new());
    }
    let Value::Object(fields) = document else { return };
    for (name, change) in patch {
        match change {
            Value::Null => {
                fields.remove(&name);
            }
            Value::Object(change) => merge(fields.entry(name).or_insert(Value::Null), change),
            change => {
                fields.insert(name, change);
            }
        }
    }
}

/// The query's fields as an object of texts, without a credential that stands there.
pub(super) fn query(request: &HttpRequest) -> Map<String, Value> {
    url::form_urlencoded::parse(request.query_string().as_bytes())
        .filter(|(name, _)| name != "key")
        .map(|(name, value)| (name.into_owned(), Value::String(value.into_owned())))
        .collect()
}

/// Refuses when something is wrong.
///
/// # Errors
/// 422 with all of it.
pub(super) fn sound(faults: Vec<Fault>) -> Result<(), Problem> {
    if faults.is_empty() { Ok(()) } else { Err(Problem::invalid_fields(faults)) }
}

/// Notes a field that has another value than the object was made with.
pub(super) fn fixed<T: PartialEq>(faults: &mut Vec<Fault>, field: &str, old: Option<T>, new: &T) {
    if old.is_some_and(|old| old != *new) {
        faults.push(Fault::new(field, "this cannot be changed; add another one instead"));
    }
}

/// Notes an id that names nothing.
pub(super) fn exists<T>(faults: &mut Vec<Fault>, field: &str, found: Option<&T>) {
    if found.is_none() {
        faults.push(Fault::new(field, "names nothing that exists"));
    }
}

/// Notes a number that is too low.
pub(super) fn at_least(faults: &mut Vec<Fault>, field: &str, lowest: i64, value: i64) {
    if value < lowest {
        faults.push(Fault::new(field, format!("expected at least {lowest}")));
    }
}

/// Version and times of an object about to be written: those of one just made, or of the next
/// version of `old`.
pub(super) fn stamps(now: Timestamp, old: Option<(i64, Timestamp)>) -> (i64, Timestamp) {
    old.map_or((1, now), |(version, created_at)| (version + 1, created_at))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_changes_removes_and_leaves_alone() {
        let current = json!({"a": 1, "b": {"c": 2, "d": 3}, "auth": {"header": "x"}});
        let patch = json!({"b": {"c": null, "e": {"f": null, "g": 4}}, "auth": {"query": "k"}});
        let expected = json!({"a": 1, "b": {"d": 3, "e": {"g": 4}}, "auth": {"query": "k"}});
        assert_eq!(merged(&current, patch, &["auth"]).unwrap(), expected);
        assert!(merged(&current, json!([1]), &[]).is_err());
    }
}
