//! Errors: ours in OpenAI's shape, the upstream's in whatever shape it came.

use bytes::{Bytes, BytesMut};
use serde_json::Value;

use crate::wire::json::write_string;

/// Longest message kept, bytes: enough to classify and to show, not enough to fill a log.
const MAX_MESSAGE_BYTES: usize = 4 << 10;

/// Longest code, type or parameter kept, bytes.
const MAX_NAME_BYTES: usize = 256;

/// What an upstream said about a failure. For classification and, redacted by the caller, for the
/// client; empty where the upstream said nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UpstreamErrorText {
    /// The message, at most 4 KiB of it.
    pub message: String,
    /// The vendor's code, numbers as text.
    pub code: Option<String>,
    /// The vendor's type or status name.
    pub kind: Option<String>,
    /// The parameter the vendor blames.
    pub param: Option<String>,
}

/// An error body: `{"error":{"message","type","param","code"}}`.
#[must_use]
pub fn encode_error(message: &str, kind: &str, param: Option<&str>, code: Option<&str>) -> Bytes {
    let mut out = BytesMut::new();
    write_error(message, kind, param, code, &mut out);
    out.freeze()
}

/// The same as an event of a stream: `data: {"error":{…}}` and a blank line.
#[must_use]
pub fn encode_error_event(message: &str, kind: &str, param: Option<&str>, code: Option<&str>) -> Bytes {
    let mut out = BytesMut::from(&b"data: "[..]);
    write_error(message, kind, param, code, &mut out);
    out.extend_from_slice(b"\n\n");
    out.freeze()
}

fn write_error(message: &str, kind: &str, param: Option<&str>, code: Option<&str>, out: &mut BytesMut) {
    out.extend_from_slice(b"{\"error\":{\"message\":");
    write_string(message, out);
    out.extend_from_slice(b",\"type\":");
    write_string(kind, out);
    for (name, value) in [(",\"param\":", param), (",\"code\":", code)] {
        out.extend_from_slice(name.as_bytes());
        match value {
            Some(value) => write_string(value, out),
            None => out.extend_from_slice(b"null"),
        }
    }
    out.extend_from_slice(b"}}");
}

/// Reads an error body of any dialect; never fails, text that is no JSON becomes the message.
///
/// Known shapes: OpenAI's object under `error`, with numeric codes and, at `OpenRouter`, the real reason in
/// `metadata.raw`; Google's with `status`; a plain string under `error` with `code` beside it (xAI, Ollama);
/// `message` at the top (Mistral, Cohere, Bedrock); `detail` as text or as a list of `msg` (Mistral,
/// Voyage); any of these in an array.
#[must_use]
pub fn decode_error(body: &[u8]) -> UpstreamErrorText {
    match serde_json::from_slice::<Value>(body) {
        Ok(value) => from_value(&value),
        Err(_) => UpstreamErrorText {
            message: cut(String::from_utf8_lossy(body).trim(), MAX_MESSAGE_BYTES),
            ..UpstreamErrorText::default()
        },
    }
}

fn from_value(value: &Value) -> UpstreamErrorText {
    if let Value::Array(items) = value {
        return items.first().map(from_value).unwrap_or_default();
    }
    let outer = value;
    let inner = match &outer["error"] {
        inner @ Value::Object(_) => inner,
        _ => outer,
    };
    let name = |key: &str| {
        let value = [&inner[key], &outer[key]].into_iter().find_map(said)?;
        Some(cut(&value, MAX_NAME_BYTES))
    };
    let mut message = [
        &inner["message"],
        &inner["error"],
        &inner["detail"],
        &inner["detail"][0]["msg"],
        &outer["message"],
        &outer["detail"],
        value,
    ]
    .into_iter()
    .find_map(|text| text.as_str().filter(|text| !text.is_empty()).map(str::to_owned))
    .unwrap_or_default();
    if let Some(raw) = said(&inner["metadata"]["raw"]) {
        message = if message.is_empty() { raw } else { format!("{message}: {raw}") };
    }
    UpstreamErrorText {
        message: cut(&message, MAX_MESSAGE_BYTES),
        code: name("code"),
        // A numeric `status` repeats the HTTP status.
        kind: inner["status"]
            .as_str()
            .map(|status| cut(status, MAX_NAME_BYTES))
            .or_else(|| name("type"))
            .or_else(|| name("error_type")),
        param: name("param"),
    }
}

/// A string that is not empty, or a number as text.
fn said(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn cut(text: &str, limit: usize) -> String {
    text[..text.floor_char_boundary(limit)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(body: &str) -> (String, Option<String>, Option<String>, Option<String>) {
        let error = decode_error(body.as_bytes());
        (error.message, error.code, error.kind, error.param)
    }

    #[test]
    fn every_known_shape_gives_its_message_code_and_type() {
        for (body, message, code, kind, param) in [
            (
                r#"{"error":{"message":"no","type":"t","param":"messages[3]","code":"c"}}"#,
                "no",
                Some("c"),
                Some("t"),
                Some("messages[3]"),
            ),
            (
                r#"{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"slow down","provider_name":"G"}}}"#,
                "Provider returned error: slow down",
                Some("429"),
                None,
                None,
            ),
            (
                r#"[{"error":{"code":400,"message":"bad","status":"INVALID_ARGUMENT"}}]"#,
                "bad",
                Some("400"),
                Some("INVALID_ARGUMENT"),
                None,
            ),
            (
                r#"{"code":"Client specified","error":"Bad key"}"#,
                "Bad key",
                Some("Client specified"),
                None,
                None,
            ),
            (r#"{"error":"model not found"}"#, "model not found", None, None, None),
            (
                r#"{"object":"error","message":"m","type":"rate_limited","param":null,"code":"1300"}"#,
                "m",
                Some("1300"),
                Some("rate_limited"),
                None,
            ),
            (r#"{"detail":"Unauthorized"}"#, "Unauthorized", None, None, None),
            (r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#, "field required", None, None, None),
            (r#"{"message":"too hot","status":404}"#, "too hot", None, None, None),
            (r#""just text""#, "just text", None, None, None),
            ("<html>502 Bad Gateway</html>\n", "<html>502 Bad Gateway</html>", None, None, None),
            ("", "", None, None, None),
            ("{}", "", None, None, None),
            ("[]", "", None, None, None),
        ] {
            let expected = (
                message.to_owned(),
                code.map(str::to_owned),
                kind.map(str::to_owned),
                param.map(str::to_owned),
            );
            assert_eq!(parts(body), expected, "{body}");
        }
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let message = decode_error("漢".repeat(5_000).as_bytes()).message;
        assert!(message.len() <= MAX_MESSAGE_BYTES && message.len() > MAX_MESSAGE_BYTES - 3);
    }

    #[test]
    fn an_encoded_error_reads_back() {
        let body = encode_error("say \"no\"\n", "invalid_request_error", None, Some("model_not_found"));
        let expected = r#"{"error":{"message":"say \"no\"\n","type":"invalid_request_error","param":null,"code":"model_not_found"}}"#;
        assert_eq!(body, expected);
        let event =
            encode_error_event("say \"no\"\n", "invalid_request_error", None, Some("model_not_found"));
        assert_eq!(event, format!("data: {expected}\n\n"));
    }
}
