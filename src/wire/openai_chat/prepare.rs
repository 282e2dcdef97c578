//! Requests on their way up.

use bytes::Bytes;

use super::request::Head;
use crate::wire::json::{Edit, encode_string, splice};

/// The body to send upstream: the model's name there in place of the public one and, when `ask_usage`
/// holds and the client streams without asking for usage, `stream_options.include_usage` set. All other
/// bytes stay; when nothing changes the same buffer is returned. `head` must have been read from `body`.
#[must_use]
pub fn prepare(body: &Bytes, head: &Head, upstream_model: &str, ask_usage: bool) -> Bytes {
    let asks = ask_usage && head.stream && !head.include_usage;
    if head.model == upstream_model && !asks {
        return body.clone();
    }
    let name = encode_string(upstream_model);
    let rename = Edit { span: head.model_span, with: &name };
    let (span, with) = head.usage_edit;
    let ask = Edit { span, with: with.as_bytes() };
    match (asks, span.start < head.model_span.start) {
        (false, _) => splice(body, &[rename]),
        (true, true) => splice(body, &[ask, rename]),
        (true, false) => splice(body, &[rename, ask]),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn prepared(body: &str, model: &str, ask_usage: bool) -> String {
        let body = Bytes::copy_from_slice(body.as_bytes());
        let head = Head::read(&body).unwrap();
        String::from_utf8(prepare(&body, &head, model, ask_usage).to_vec()).unwrap()
    }

    #[test]
    fn only_the_model_and_the_usage_flag_change() {
        for (body, expected) in [
            (
                r#"{ "model" : "p" , "stream":true,"messages":[] }"#,
                r#"{ "model" : "u/m","stream_options":{"include_usage":true} , "stream":true,"messages":[] }"#,
            ),
            (
                r#"{"stream_options":{ },"stream":true,"messages":[],"model":"p"}"#,
                r#"{"stream_options":{"include_usage":true },"stream":true,"messages":[],"model":"u/m"}"#,
            ),
            (
                r#"{"model":"p","stream_options":{"a":[1]},"stream":true,"messages":[]}"#,
                r#"{"model":"u/m","stream_options":{"include_usage":true,"a":[1]},"stream":true,"messages":[]}"#,
            ),
            (
                r#"{"model":"p","stream_options":{"include_usage":false},"stream":true,"messages":[]}"#,
                r#"{"model":"u/m","stream_options":{"include_usage":true},"stream":true,"messages":[]}"#,
            ),
            (
                r#"{"model":"p","stream_options":{"include_usage":null,"x":1},"stream":true,"messages":[]}"#,
                r#"{"model":"u/m","stream_options":{"include_usage":true,"x":1},"stream":true,"messages":[]}"#,
            ),
            (
                r#"{"stream_options":null,"model":"p","stream":true,"messages":[]}"#,
                r#"{"stream_options":{"include_usage":true},"model":"u/m","stream":true,"messages":[]}"#,
            ),
            (r#"{"model":"p","messages":[]}"#, r#"{"model":"u/m","messages":[]}"#),
            (
                r#"{"model":"p","stream":true,"stream_options":{"include_usage":true},"messages":[]}"#,
                r#"{"model":"u/m","stream":true,"stream_options":{"include_usage":true},"messages":[]}"#,
            ),
        ] {
            assert_eq!(prepared(body, "u/m", true), expected);
        }
    }

    #[test]
    fn nothing_to_change_gives_the_same_buffer() {
        let body = Bytes::from_static(br#"{"mod\u0065l":"\u0070","stream":true,"messages":[]}"#);
        let head = Head::read(&body).unwrap();
        assert_eq!(prepare(&body, &head, "p", false).as_ptr(), body.as_ptr());
    }

    proptest! {
        #[test]
        fn the_prepared_body_is_the_body_with_those_two_members(
            rest in prop::collection::vec(("[a-z]{1,4}_", any::<String>()), 0..4),
            options in prop_oneof![
                Just(None),
                Just(Some(Value::Null)),
                Just(Some(json!({}))),
                Just(Some(json!({"include_usage": false, "z": 1}))),
                Just(Some(json!({"a": 1}))),
                Just(Some(json!({"include_usage": true}))),
            ],
            model in "\\PC{1,20}",
            upstream in "\\PC{1,20}",
        ) {
            let mut value = json!({"model": model, "stream": true, "messages": []});
            for (name, text) in rest {
                value[name] = json!(text);
            }
            if let Some(options) = options {
                value["stream_options"] = options;
            }
            let sent: Value = serde_json::from_str(&prepared(&value.to_string(), &upstream, true)).unwrap();
            value["model"] = json!(upstream);
            if !value["stream_options"].is_object() {
                value["stream_options"] = json!({});
            }
            value["stream_options"]["include_usage"] = json!(true);
            prop_assert_eq!(sent, value);
        }
    }
}
