//! Tests of `request`.

use super::*;

const REST: &str = r#""messages":[]"#;

fn read(body: &str) -> Head {
    Head::read(body.as_bytes()).unwrap()
}

fn refused(body: &str) -> (Option<String>, String) {
    let error = Head::read(body.as_bytes()).unwrap_err();
    (error.field, error.reason)
}

#[test]
fn reads_what_is_acted_on() {
    let head = read(
        r#" {"mod\u0065l":"gpt\u002d5","stream":true,"stream_options":{"include_usage":true,"x":1},
        "max_tokens":5,"max_completion_tokens":9,"n":3,"messages":[{"role":"user","content":"hi"}],
        "unknown":{"model":"other","stream":false}} "#,
    );
    assert_eq!(head.model, "gpt-5");
    assert!(head.stream && head.include_usage);
    assert_eq!((head.max_output_tokens, head.n), (Some(9), 3));
}

#[test]
fn null_counts_as_absent() {
    let head = read(
        r#"{"model":"m","messages":[],"stream":null,"stream_options":null,"max_tokens":null,"n":null,
        "tools":null,"response_format":null,"reasoning_effort":null,"modalities":null}"#,
    );
    assert!(!head.stream && !head.include_usage);
    assert_eq!((head.max_output_tokens, head.n, head.needs), (None, 1, Needs::default()));
    assert_eq!(refused(r#"{"model":null,"messages":[]}"#).0.as_deref(), Some("model"));
    assert_eq!(refused(r#"{"model":"m","messages":null}"#).0.as_deref(), Some("messages"));
}

#[test]
fn a_second_model_cannot_be_smuggled_past_the_checks() {
    for twin in ["model", "mod\\u0065l", "Model", "MODEL"] {
        let (field, _) = refused(&format!(r#"{{"model":"cheap","{twin}":"dear",{REST}}}"#));
        assert_eq!(field.as_deref(), Some("model"), "{twin}");
    }
}

#[test]
fn a_doubled_member_that_is_acted_on_is_refused_by_name() {
    for name in READ {
        let body = format!(r#"{{"{name}":null,"{name}":null}}"#);
        let (field, reason) = refused(&body);
        assert_eq!(field.as_deref(), Some(name), "{reason}");
        assert_eq!(reason, format!("`{name}` is given twice."));
    }
    let body =
        format!(r#"{{"model":"m",{REST},"stream_options":{{"include_usage":true,"include_usage":false}}}}"#);
    assert_eq!(refused(&body).0.as_deref(), Some("stream_options.include_usage"));
}

#[test]
fn a_wrong_kind_is_refused_by_name() {
    let long = "x".repeat(257);
    for (members, field) in [
        (r#""stream":true"#.to_owned(), "model"),
        (r#""model":7"#.to_owned(), "model"),
        (r#""model":"""#.to_owned(), "model"),
        (format!(r#""model":"{long}""#), "model"),
        (r#""model":"m","stream":"true""#.to_owned(), "stream"),
        (r#""model":"m","stream":1"#.to_owned(), "stream"),
        (r#""model":"m","stream_options":true"#.to_owned(), "stream_options"),
        (r#""model":"m","stream_options":{"include_usage":1}"#.to_owned(), "stream_options.include_usage"),
        (r#""model":"m","max_tokens":-1"#.to_owned(), "max_tokens"),
        (r#""model":"m","max_tokens":1.5"#.to_owned(), "max_tokens"),
        (r#""model":"m","max_tokens":"9""#.to_owned(), "max_tokens"),
        (r#""model":"m","max_completion_tokens":99999999999999999999"#.to_owned(), "max_completion_tokens"),
        (r#""model":"m","n":0"#.to_owned(), "n"),
        (r#""model":"m","n":129"#.to_owned(), "n"),
    ] {
        assert_eq!(refused(&format!("{{{members},{REST}}}")).0.as_deref(), Some(field), "{members}");
    }
    assert_eq!(refused(r#"{"model":"m"}"#).0.as_deref(), Some("messages"));
    assert_eq!(refused(r#"{"model":"m","messages":{}}"#).0.as_deref(), Some("messages"));
}

#[test]
fn a_body_that_is_no_json_object_says_where() {
    for (body, offset) in [("", 0), ("[]", 0), ("{\"model\":\"m\",}", 13), ("{} x", 3), ("nul", 0)] {
        let error = Head::read(body.as_bytes()).unwrap_err();
        assert_eq!((error.field, error.offset), (None, Some(offset)), "{body}");
    }
    assert_eq!(Head::read(b"{\"a\":\"\xff\"}").unwrap_err().offset, Some(6));
}

#[test]
fn a_zero_limit_passes_but_is_no_limit_to_rely_on() {
    assert_eq!(read(&format!(r#"{{"model":"m","max_tokens":0,{REST}}}"#)).max_output_tokens, None);
}
