//! Tests of `response`.

use super::*;

struct Outcome {
    out: String,
    result: Result<BodyEnd, BodyFault>,
    facts: BodyFacts,
}

fn through(pieces: &[&[u8]]) -> Outcome {
    let mut filter = BodyFilter::new("pub/1");
    let mut out = BytesMut::new();
    let pushed = pieces.iter().try_for_each(|piece| filter.push(piece, &mut out));
    let end = filter.finish();
    let out = String::from_utf8_lossy(&out).into_owned();
    Outcome { out, result: pushed.map(|()| end), facts: filter.facts().clone() }
}

/// Runs a body whole, cut at every byte, and byte by byte; all must agree.
fn run(body: &[u8]) -> Outcome {
    let whole = through(&[body]);
    let single: Vec<&[u8]> = body.chunks(1).collect();
    let cuts = (0..=body.len()).map(|cut| vec![&body[..cut], &body[cut..]]);
    for pieces in cuts.chain([single]) {
        let cut = through(&pieces);
        assert_eq!(cut.out, whole.out);
        assert_eq!((&cut.result, &cut.facts), (&whole.result, &whole.facts));
    }
    whole
}

#[test]
fn only_the_model_changes_and_usage_and_text_are_noted() {
    let body = r#"{ "id":"1", "mod\u0065l" : "up-1" ,"choices":[
        {"message":{"role":"assistant","content":"漢 😀 \ud83d\ude00\n","tool_calls":[
            {"function":{"name":"f","arguments":"{\"a\":1}"}}],"reasoning":"hm","annotations":[{"text":"not said"}]},
            "model":"up-1"},
        {"message":{"content":[{"type":"text","text":"é"}]}}],
        "usage":{"prompt_tokens":7,"completion_tokens":3},"extra":[1.5e-3,true,null]}
"#;
    let outcome = run(body.as_bytes());
    assert_eq!(outcome.out, body.replacen("up-1", "pub/1", 1));
    assert_eq!(outcome.result, Ok(BodyEnd::Complete));
    assert_eq!(outcome.facts.output_text_bytes, "漢 😀 😀\n{\"a\":1}hmé".len() as u64);
    let usage = outcome.facts.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens), (7, 3));
}

#[test]
fn a_model_that_is_no_string_stays() {
    let body = r#"{"model":null,"choices":[]}"#;
    assert_eq!(run(body.as_bytes()).out, body);
}

#[test]
fn an_error_is_reported_and_stops_the_output() {
    let outcome =
        run(br#"{"error":{"message":"no \u00e9","code":429},"model":"up-1","usage":{"prompt_tokens":1}}"#);
    assert_eq!(outcome.out, r#"{"error":"#);
    assert_eq!(outcome.result, Ok(BodyEnd::Failed));
    let error = outcome.facts.error.unwrap();
    assert_eq!((error.message.as_str(), error.code.as_deref()), ("no é", Some("429")));
    assert_eq!(outcome.facts.usage.unwrap().input_tokens, 1);
    assert_eq!(run(br#"{"error":"text"}"#).facts.error.unwrap().message, "text");
}

#[test]
fn an_error_member_that_says_nothing_passes() {
    for value in ["null", "false", "\"\"", "{}"] {
        let body = format!(r#"{{"error":{value},"choices":[{{"error":{{"x":1}}}}]}}"#);
        let outcome = run(body.as_bytes());
        assert_eq!((outcome.out, outcome.result), (body, Ok(BodyEnd::Complete)));
    }
}

#[test]
fn a_body_that_stops_early_is_truncated() {
    let body = r#"{"model":"up-1","choices":[{"message":{"content":"漢"}}],"usage":{"prompt_tokens":1},"error":null}"#;
    for cut in 0..body.len() {
        assert_eq!(run(&body.as_bytes()[..cut]).result, Ok(BodyEnd::Truncated), "{cut}");
    }
}

#[test]
fn broken_json_is_a_fault_and_what_came_before_stands() {
    for (body, offset, out) in [
        (&b"{\"a\":1,}"[..], 7, "{\"a\":1,"),
        (b"{\"model\":\"up\nx\"}", 12, "{\"model\":\"pub/1\""),
        (b"{} x", 3, "{} "),
        (b"{\"a\":\"\xe6\xbcz\"}", 6, "{\"a\":\""),
        (b"<html>", 0, ""),
    ] {
        let outcome = run(body);
        let Err(BodyFault::BrokenJson { offset: at, .. }) = outcome.result else { panic!("{body:?}") };
        assert_eq!((at, outcome.out.as_str()), (offset, out));
    }
}

#[test]
fn memory_does_not_grow_with_the_body() {
    let mut filter = BodyFilter::new("pub/1");
    let mut out = BytesMut::new();
    filter.push(b"{\"usage\":{\"x\":\"", &mut out).unwrap();
    for _ in 0..1_000 {
        out.clear();
        filter.push(&[b'x'; 1 << 10], &mut out).unwrap();
        assert!(filter.pass.held.len() <= MAX_HELD_BYTES);
    }
    filter.push(b"\"},\"choices\":[{\"message\":{\"content\":\"", &mut out).unwrap();
    for _ in 0..1_000 {
        out.clear();
        filter.push(&[b'x'; 1 << 10], &mut out).unwrap();
        assert_eq!(out.len(), 1 << 10);
        assert_eq!(filter.pass.held.len(), 0);
    }
    filter.push(b"\"}}]}", &mut out).unwrap();
    assert_eq!(filter.finish(), BodyEnd::Complete);
    assert_eq!(filter.facts().output_text_bytes, 1_000 << 10);
}
