//! An upstream that gives away the key it was called with, in every way that came to mind.

use base64::{Engine, prelude::*};
use serde_json::{Value, json};

use super::planted::form;
use crate::harness::upstream::{Script, chat_chunk};

/// Answers that echo `key`, whole ones and streams.
pub fn echoes(key: &str) -> Vec<Script> {
    let mut scripts = Vec::new();
    for said in forms(key) {
        for status in [400, 401, 404, 429, 500, 301] {
            scripts.push(Script::status(status).json(&error("Incorrect API key provided", &said, "400")));
        }
        scripts.push(Script::status(400).json(&error("Look here", &said, &said)));
    }
    scripts.extend(bodies(key));
    scripts.extend(headers(key));
    scripts.extend(in_success(key));
    scripts
}

/// The key as texts may have it.
fn forms(key: &str) -> Vec<String> {
    let hex = key.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    let units = key.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect::<Vec<_>>().concat();
    vec![
        key.to_owned(),
        format!("{}…", &key[..20]),
        format!("Authorization: Bearer {key}"),
        serde_json::to_string(&json!({"key": key})).expect("JSON"),
        units,
        hex,
        form(key),
        BASE64_STANDARD.encode(key),
        BASE64_STANDARD.encode(format!("user:{key}")),
        BASE64_URL_SAFE.encode(format!("xy{key}z")),
    ]
}

/// `words` decide what is made of it: of the client's fault everything goes to the client.
fn error(words: &str, said: &str, code: &str) -> Value {
    json!({
        "error": {
            "message": format!("{words}: {said}."),
            "type": said, "param": said, "code": code,
            "metadata": {"raw": format!("{{\"detail\":\"{said}\"}}"), "headers": {"authorization": said}},
        },
        said: [said, {"deep": {"deeper": [said]}}],
    })
}

/// Bodies of other shapes, with a status that goes to the client and one that does not.
fn bodies(key: &str) -> Vec<Script> {
    let units = key.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect::<Vec<_>>().concat();
    let half: String =
        key.chars().enumerate().map(|(n, c)| if n % 2 == 0 { escaped(c) } else { plain(c) }).collect();
    let json_type = "application/json";
    let bodies = [
        (json_type, format!("{{\"error\":{{\"message\":\"{units}\",\"code\":\"{units}\"}}}}")),
        (json_type, format!("{{\"error\":{{\"message\":\"{half}\"}},\"{half}\":\"{half}\"}}")),
        (json_type, format!("{{\"error\":\"{half}\"}}")),
        (json_type, format!("[{{\"error\":{{\"message\":\"{half}\"}}}}]")),
        (json_type, format!("{{\"detail\":[{{\"msg\":\"{units}\"}}]}}")),
        (json_type, format!("\"{units}\"")),
        (json_type, format!("{{\"error\":{{\"message\":\"cut {half}")),
        (json_type, format!("{{\"error\":{{\"message\":\"{}{half}\"}}}}", "x".repeat(4_070))),
        (json_type, format!("{{\"pad\":\"{}\",\"error\":\"{half}\"}}", "x".repeat(70_000))),
        ("text/plain", format!("bad key {key}")),
        ("text/html", format!("<html><body><p>401: {key}</p></body></html>")),
        ("text/plain", format!("{}{key}", "x".repeat((64 << 10) - 20))),
    ];
    let both = bodies.iter().flat_map(|body| [400, 502].map(|status| (status, body)));
    both.map(|(status, (kind, body))| Script::status(status).header("content-type", kind).whole(body.clone()))
        .collect()
}

fn escaped(character: char) -> String {
    format!("\\u{:04x}", u32::from(character))
}

fn plain(character: char) -> String {
    let text = json!(character.to_string()).to_string();
    text[1..text.len() - 1].to_owned()
}

/// Heads that echo the key, of an error, a whole answer and a stream.
fn headers(key: &str) -> Vec<Script> {
    let name: String = key.chars().filter(char::is_ascii_alphanumeric).collect();
    let named = format!("x-ratelimit-{name}");
    let location = format!("http://127.0.0.1/?key={}", form(key));
    let headers = [
        ("content-type", format!("application/json; key={key}")),
        ("x-request-id", key.to_owned()),
        ("x-request-id", BASE64_STANDARD.encode(key)),
        ("retry-after", format!("1 {key}")),
        ("retry-after-ms", form(key)),
        ("openai-version", key.to_owned()),
        ("x-ratelimit-key", key.to_owned()),
        (&named, "1".to_owned()),
        ("www-authenticate", format!("Bearer realm={key}")),
        ("set-cookie", format!("key={key}")),
        ("server", key.to_owned()),
        ("location", location),
    ];
    let whole = json!({"model": "m", "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}});
    let mut scripts = Vec::new();
    for (name, value) in &headers {
        scripts.push(Script::status(400).header(name, value).json(&json!({"error": {"message": "no"}})));
        scripts.push(Script::status(307).header(name, value).json(&json!({"error": {"message": "no"}})));
        scripts.push(Script::status(200).header(name, value).json(&whole));
        let stream = [hello(), finished(), "data: [DONE]\n\n".to_owned()].concat();
        scripts.push(Script::status(200).header(name, value).sse().body(stream).end());
    }
    scripts
}

/// Status 200 and yet an error, before content and behind it.
fn in_success(key: &str) -> Vec<Script> {
    let mut scripts = Vec::new();
    for said in forms(key) {
        for (words, code) in [("Look here", "400"), ("Incorrect API key provided", &said)] {
            let error = error(words, &said, code);
            scripts.push(Script::status(200).json(&error));
            let events = [
                format!("data: {error}\n\n"),
                format!("event: error\ndata: {error}\n\n"),
                format!("event: error\ndata: {said}\n\n"),
                format!("data: [{error}]\n\n"),
                format!("data: error {said}\n\n"),
                format!("data: {}\n\n", json!({"key": said})),
                format!(": {said}\n\n"),
                format!("id: {said}\n{}", hello()),
            ];
            for event in events {
                scripts.push(Script::status(200).sse().body(event.clone()).end());
                scripts.push(Script::status(200).sse().body(hello()).body(event).end());
            }
        }
        scripts.push(Script::status(200).json(&json!({"key": said})));
        for body in [format!("error {said}"), format!("<html>{said}</html>"), format!("{{\"a\":\"{said}")] {
            scripts.push(Script::status(200).header("content-type", "text/html").whole(body));
        }
    }
    scripts
}

fn hello() -> String {
    chat_chunk(&json!({"content": "Hello"}), &Value::Null)
}

fn finished() -> String {
    chat_chunk(&json!({}), &json!("stop"))
}
