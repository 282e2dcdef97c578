//! Tests of `stream`: one fixture per dialect shape, cut at every byte.

use super::*;

const OPENAI: &str = concat!(
    ": hello\n\n",
    r#"data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"up-1","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"finish_reason":null}],"usage":null,"obfuscation":"xx"}"#,
    "\n\n",
    r#"data: {"id":"1","model":"up-1","choices":[{"index":0,"delta":{"content":"漢字 😀 \ud83d\ude00 \"q\""},"finish_reason":null}],"usage":null}"#,
    "\n\n",
    r#"data: {"id":"1","model":"up-1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}"#,
    "\n\n",
    r#"data: {"id":"1","model":"up-1","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14}}"#,
    "\n\ndata: [DONE]\n\n",
);

/// CRLF, `event:` on either side, several data lines, a BOM, model as the first and as an escaped member.
const ODD: &str = concat!(
    "\u{feff}event: message\r\ndata: { \"usage\" : null , \"model\" : \"up-1\",\r\n",
    "data:  \"choices\":[{\"index\":0,\"delta\":{\"content\":\"é\"}}]}\r\n: note\r\n\r\n",
    "data: {\"mod\\u0065l\":\"\\u0075p-1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\r\n",
    "event: message\r\nid: 7\r\n\r\n: ping\r\n\r\ndata:[DONE]\r\n\r\n",
);

const TOOLS_N2_GROQ: &str = concat!(
    r#"data: {"model":"up-1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":""}}]}}]}"#,
    "\n\n",
    r#"data: {"model":"up-1","choices":[{"index":1,"delta":{"reasoning":"hm","content":null}}]}"#,
    "\n\n",
    r#"data: {"model":"up-1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":1}"}}]},"finish_reason":"tool_calls"}]}"#,
    "\n\n",
    r#"data: {"model":"up-1","choices":[{"index":1,"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"r","usage":{"prompt_tokens":3,"completion_tokens":4,"queue_time":0.1}}}"#,
    "\n\ndata: [DONE]\n\n",
);

struct Outcome {
    out: String,
    result: Result<StreamEnd, StreamFault>,
    facts: StreamFacts,
}

fn through(pieces: &[&[u8]], client_wants_usage: bool) -> Outcome {
    let mut filter = StreamFilter::new(FilterConfig::new("pub/1", client_wants_usage));
    let mut out = BytesMut::new();
    let pushed = pieces.iter().try_for_each(|piece| filter.push(piece, &mut out));
    let end = filter.finish(&mut out);
    let out = String::from_utf8(out.to_vec()).unwrap();
    Outcome { out, result: pushed.map(|()| end), facts: filter.facts().clone() }
}

/// Runs a fixture whole and cut at every byte, and byte by byte; all must agree.
fn run(stream: &str, client_wants_usage: bool) -> Outcome {
    let bytes = stream.as_bytes();
    let whole = through(&[bytes], client_wants_usage);
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    let cuts = (0..=bytes.len()).map(|cut| vec![&bytes[..cut], &bytes[cut..]]);
    for pieces in cuts.chain([single]) {
        let cut = through(&pieces, client_wants_usage);
        assert_eq!(cut.out, whole.out, "cut at {}", pieces[0].len());
        assert_eq!((&cut.result, &cut.facts), (&whole.result, &whole.facts), "cut at {}", pieces[0].len());
    }
    whole
}

#[test]
fn a_client_that_asked_for_usage_gets_everything_but_the_model_untouched() {
    for stream in [OPENAI, TOOLS_N2_GROQ] {
        let outcome = run(stream, true);
        assert_eq!(outcome.out, stream.replace("up-1", "pub/1"));
        assert_eq!(outcome.result, Ok(StreamEnd::Complete));
    }
}

#[test]
fn a_stream_that_needs_no_change_is_identical() {
    for stream in [OPENAI, ODD, TOOLS_N2_GROQ] {
        let stream = stream.replace("\\u0075p-1", "pub/1").replace("up-1", "pub/1");
        assert_eq!(run(&stream, true).out, stream);
    }
}

#[test]
fn usage_that_only_we_asked_for_is_taken_out_again() {
    let outcome = run(OPENAI, false);
    let (kept, _) = OPENAI.split_once("data: {\"id\":\"1\",\"model\":\"up-1\",\"choices\":[],").unwrap();
    let expected = kept.replace("up-1", "pub/1").replace(",\"usage\":null", "") + "data: [DONE]\n\n";
    assert_eq!(outcome.out, expected);
    let usage = outcome.facts.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens), (9, 5));
}

#[test]
fn facts_count_text_and_content_frames() {
    let facts = run(OPENAI, false).facts;
    assert!(facts.first_content && facts.terminal && facts.finish_seen);
    assert_eq!(facts.content_seq, 2);
    assert_eq!(facts.output_text_bytes, "漢字 😀 😀 \"q\"".len() as u64);

    let facts = run(TOOLS_N2_GROQ, false).facts;
    assert_eq!((facts.content_seq, facts.output_text_bytes), (4, 2 + 7));
    let usage = facts.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens), (3, 4));
}

#[test]
fn odd_framing_keeps_every_byte_but_what_must_change() {
    let outcome = run(ODD, false);
    let expected =
        ODD.replace("\"usage\" : null , ", "").replace("\\u0075p-1", "pub/1").replace("up-1", "pub/1");
    assert_eq!(outcome.out, expected);
    assert_eq!(outcome.result, Ok(StreamEnd::Complete));
}

#[test]
fn roles_empty_text_comments_and_pings_are_not_content() {
    let stream = concat!(
        ": ping\n\n",
        "data: {\"choices\":[],\"prompt_filter_results\":[{}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[]},\"finish_reason\":null}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":null,\"reasoning_content\":\"\"},\"finish_reason\":\"\"}]}\n\n",
        "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    );
    let outcome = run(stream, false);
    assert_eq!(outcome.out, stream);
    assert!(!outcome.facts.first_content);
    assert_eq!((outcome.facts.content_seq, outcome.result), (0, Ok(StreamEnd::Truncated)));
}

#[test]
fn every_kind_of_content_is_content() {
    for delta in [
        r#""content":"a""#,
        r#""content":[{"type":"text","text":"a"}]"#,
        r#""content":[{"type":"thinking","thinking":[{"type":"text","text":"a"}]}]"#,
        r#""reasoning_content":"a""#,
        r#""reasoning":"a""#,
        r#""reasoning_details":[{"type":"reasoning.encrypted","data":"x"}]"#,
        r#""refusal":"a""#,
        r#""tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]"#,
        r#""function_call":{"name":"f"}"#,
        r#""audio":{"id":"a"}"#,
    ] {
        let stream = format!("data: {{\"choices\":[{{\"delta\":{{{delta}}}}}]}}\n\n");
        assert_eq!(run(&stream, false).facts.content_seq, 1, "{delta}");
    }
    assert!(
        run("data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n", false).facts.first_content
    );
}

#[test]
fn a_usage_chunk_with_something_else_in_it_stays_without_the_usage() {
    let outcome =
        run("data: {\"choices\":[],\"moderation\":{\"x\":1},\"usage\":{\"prompt_tokens\":1}}\n\n", false);
    assert_eq!(outcome.out, "data: {\"choices\":[],\"moderation\":{\"x\":1}}\n\n");
    let vendor =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1},\"provider\":\"x\",\"obfuscation\":\"y\"}\n\n";
    assert_eq!(run(vendor, false).out, "");
}

#[test]
fn usage_beside_content_stays_and_the_last_one_counts() {
    let stream = concat!(
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":1}}\n\n",
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":8}}\n\n",
    );
    let outcome = run(stream, false);
    assert_eq!(outcome.out, format!("{stream}data: [DONE]\n\n"));
    assert_eq!(outcome.facts.usage.unwrap().output_tokens, 8);
}

#[test]
fn an_error_is_reported_and_nothing_is_written_from_it_on() {
    for (error, message) in [
        ("event: error\ndata: {\"error\":{\"message\":\"no\",\"code\":\"c\"}}\n\n", "no"),
        ("data: {\"error\":{\"message\":\"no\"},\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n", "no"),
        ("data: {\"error\":\"no\"}\n\n", "no"),
        ("data: [{\"error\":{\"message\":\"no\"}}]\n\n", "no"),
        ("data: plain words\nevent: error\n\n", "plain words"),
    ] {
        let good = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
        let outcome = run(&format!("{good}{error}: more\n\n{good}data: [DONE]\n\n"), true);
        assert_eq!(outcome.out, good, "{error}");
        assert_eq!(outcome.result, Ok(StreamEnd::Failed));
        assert_eq!(outcome.facts.error.unwrap().message, message);

        let first = run(error, true);
        assert_eq!((first.out.as_str(), first.result), ("", Ok(StreamEnd::Failed)));
    }
    let fine =
        "data: {\"error\":null,\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    assert_eq!(run(fine, true).out, fine);
}

#[test]
fn nothing_passes_after_the_end() {
    let stream = "data: [DONE]\n\n";
    let outcome = run(&format!("{stream}: ping\n\ndata: {{broken\n\ndata: [DONE]\n\n"), true);
    assert_eq!((outcome.out.as_str(), outcome.result), (stream, Ok(StreamEnd::Complete)));
}

#[test]
fn a_stream_without_done_is_complete_only_if_every_choice_finished() {
    let open = "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"a\"}}]}\n\n";
    let finish = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    let outcome = run(finish, true);
    assert_eq!(outcome.out, format!("{finish}data: [DONE]\n\n"));
    assert_eq!(outcome.result, Ok(StreamEnd::Complete));

    let outcome = run(&format!("{open}{finish}"), true);
    assert!(!outcome.facts.finish_seen);
    assert_eq!((outcome.out, outcome.result), (format!("{open}{finish}"), Ok(StreamEnd::Truncated)));
    assert_eq!(run("", true).result, Ok(StreamEnd::Truncated));
}

#[test]
fn a_last_event_gets_the_blank_line_it_lacks_and_half_a_one_is_dropped() {
    for missing in ["\n", "\n\n"] {
        let cut = OPENAI.strip_suffix(missing).unwrap();
        assert_eq!(run(cut, true).out, OPENAI.replace("up-1", "pub/1"));
    }
    let good = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
    let outcome = run(&format!("{good}data: {{\"choi"), true);
    assert_eq!((outcome.out.as_str(), outcome.result), (good, Ok(StreamEnd::Truncated)));
}

#[test]
fn broken_json_is_a_fault_and_is_not_passed_on() {
    let good = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
    for bad in ["{\"a\":}", "{}x", "7", "[DONE", "[DONE] ", "oops"] {
        let stream = format!("{good}data: {bad}\n\n{good}");
        let outcome = run(&stream, true);
        assert_eq!(outcome.out, good, "{bad}");
        let is_array = bad.starts_with('[');
        assert_eq!(outcome.result.is_err(), !is_array, "{bad}");
    }
}

#[test]
fn a_body_that_is_no_stream_is_told_at_its_first_byte() {
    for body in ["{\"choices\":[]}", "\r\n  {\"error\":1}", "<html>", "[]", "Bad gateway"] {
        let outcome = run(body, true);
        assert_eq!((outcome.out.trim(), outcome.result), ("", Err(StreamFault::NotAStream)), "{body}");
    }
}

#[test]
fn an_event_over_the_limit_is_a_fault() {
    let mut config = FilterConfig::new("m", true);
    config.max_event_bytes = 32;
    let mut filter = StreamFilter::new(config);
    let mut out = BytesMut::new();
    let fault = StreamFault::EventTooLarge { limit: 32 };
    assert_eq!(filter.push(&[b'd'; 33], &mut out), Err(fault.clone()));
    assert_eq!(filter.push(b"data: {}\n\n", &mut out), Err(fault));
    assert_eq!((out.len(), filter.finish(&mut out)), (0, StreamEnd::Truncated));
}
