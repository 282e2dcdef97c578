//! Every recorded Chat Completions exchange, through the filters.

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};
use tollway::wire::openai_chat::{
    BodyEnd, BodyFilter, ChatUsage, FilterConfig, Head, StreamEnd, StreamFacts, StreamFilter, decode_error,
    prepare,
};

use super::recordings::load;

const FILE: &str = "openai.chat.jsonl";
const PUBLIC: &str = "public/name";

/// The bytes of a stream cut into pieces of one length, through a filter.
fn stream(sse: &str, wants_usage: bool, piece: usize) -> (String, StreamEnd, StreamFacts) {
    let mut filter = StreamFilter::new(FilterConfig::new(PUBLIC, wants_usage));
    let mut out = BytesMut::new();
    for chunk in sse.as_bytes().chunks(piece) {
        filter.push(chunk, &mut out).expect("a recorded stream is well formed");
    }
    let end = filter.finish(&mut out);
    (String::from_utf8(out.to_vec()).expect("text"), end, filter.facts().clone())
}

fn chunks(sse: &str) -> Vec<Value> {
    let data = sse.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).expect("JSON")).collect()
}

/// Usage by a tree, written apart from the code under test; the last value of each field.
fn usage_of<'a>(documents: impl Iterator<Item = &'a Value>) -> Option<ChatUsage> {
    let mut merged = json!({"prompt_tokens_details": {}, "completion_tokens_details": {}});
    for usage in documents.flat_map(|document| [&document["usage"], &document["x_groq"]["usage"]]) {
        for (name, value) in usage.as_object().into_iter().flatten() {
            match value {
                Value::Object(inner) if merged[name].is_object() => {
                    for (name_inside, value) in inner {
                        merged[name][name_inside] = value.clone();
                    }
                }
                Value::Number(_) => merged[name] = value.clone(),
                _ => {}
            }
        }
    }
    let count = |path: &str| merged.pointer(path).and_then(Value::as_u64);
    let (prompt, completion) = (count("/prompt_tokens"), count("/completion_tokens"));
    prompt.or(completion)?;
    let (whole, said) = (prompt.unwrap_or(0), completion.unwrap_or(0));
    let cached = count("/prompt_tokens_details/cached_tokens")
        .or(count("/prompt_cache_hit_tokens"))
        .or(count("/cached_tokens"));
    let cache_read_tokens = cached.unwrap_or(0).min(whole);
    let cache_write_5m_tokens = count("/prompt_tokens_details/cache_write_tokens").unwrap_or(0);
    let audio_input_tokens = count("/prompt_tokens_details/audio_tokens").unwrap_or(0);
    let audio_output_tokens = count("/completion_tokens_details/audio_tokens").unwrap_or(0);
    let reasoning = count("/completion_tokens_details/reasoning_tokens").unwrap_or(0);
    let beyond = count("/total_tokens").map_or(0, |total| total.saturating_sub(whole + said));
    let output_tokens = said - audio_output_tokens + beyond;
    Some(ChatUsage {
        input_tokens: whole - cache_read_tokens - cache_write_5m_tokens - audio_input_tokens,
        cache_read_tokens,
        cache_write_5m_tokens,
        cache_write_1h_tokens: 0,
        output_tokens,
        reasoning_tokens: reasoning.max(beyond).min(output_tokens),
        audio_input_tokens,
        audio_output_tokens,
        has_input: prompt.is_some(),
        has_output: completion.is_some(),
    })
}

fn has_content(chunk: &Value) -> bool {
    let says = |value: &Value| match value {
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => false,
    };
    chunk["choices"].as_array().into_iter().flatten().any(|choice| {
        let delta = &choice["delta"];
        let names =
            ["content", "reasoning", "reasoning_content", "reasoning_details", "refusal", "tool_calls"];
        names.iter().any(|name| says(&delta[name])) || says(&choice["finish_reason"])
    })
}

fn said_bytes(message: &Value) -> usize {
    let text = |value: &Value| value.as_str().map_or(0, str::len);
    let names = ["content", "reasoning", "reasoning_content", "refusal"];
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    names.iter().map(|name| text(&message[name])).sum::<usize>()
        + calls
            .map(|call| text(&call["function"]["arguments"]) + text(&call["custom"]["input"]))
            .sum::<usize>()
        + text(&message["audio"]["transcript"])
}

/// A recorded stream with the public name in place of the top-level one, by text.
fn renamed(sse: &str) -> String {
    let mut out = String::new();
    for line in sse.split_inclusive('\n') {
        let model = line
            .strip_prefix("data:")
            .and_then(|data| serde_json::from_str::<Value>(data).ok())
            .and_then(|chunk| chunk["model"].as_str().map(str::to_owned));
        match model {
            None => out.push_str(line),
            Some(model) => {
                let name = serde_json::to_string(&model).expect("a string");
                let at = [format!("\"model\":{name}"), format!("\"model\": {name}")];
                let (at, key) = at
                    .iter()
                    .find_map(|key| line.rfind(key.as_str()).map(|at| (at, key)))
                    .expect("the model as written");
                out.push_str(&line[..at]);
                out.push_str(&key.replace(&name, &format!("\"{PUBLIC}\"")));
                out.push_str(&line[at + key.len()..]);
            }
        }
    }
    out
}

#[test]
fn recorded_streams_pass_with_only_the_model_changed() {
    for record in load(FILE) {
        let (id, Some(sse)) = (&record["id"], record["response"]["sse"].as_str()) else { continue };
        let documents = chunks(sse);
        let (out, end, facts) = stream(sse, true, 4096);
        let is_error = documents.iter().any(|chunk| chunk["error"].is_object());
        let has_done = sse.contains("data: [DONE]");
        assert_eq!(facts.error.is_some(), is_error, "{id}");
        if is_error {
            assert_eq!(end, StreamEnd::Failed, "{id}");
            let before = renamed(sse);
            assert!(before.starts_with(&out) && out.len() < before.len(), "{id}");
        } else {
            assert_eq!((end, facts.terminal), (StreamEnd::Complete, has_done), "{id}");
            let expected = renamed(sse) + if has_done { "" } else { "data: [DONE]\n\n" };
            assert_eq!(out.trim_end(), expected.trim_end(), "{id}");
        }
        assert_eq!(facts.usage, usage_of(documents.iter()), "{id}");
        let content = documents.iter().filter(|chunk| has_content(chunk)).count();
        assert_eq!((facts.content_seq, facts.first_content), (content as u64, content > 0), "{id}");
        let said = documents
            .iter()
            .flat_map(|chunk| chunk["choices"].as_array().into_iter().flatten())
            .map(|choice| said_bytes(&choice["delta"]))
            .sum::<usize>();
        assert_eq!(facts.output_text_bytes, said as u64, "{id}");
    }
}

#[test]
fn recorded_streams_come_out_alike_in_pieces_of_any_length() {
    for record in load(FILE) {
        let (id, Some(sse)) = (&record["id"], record["response"]["sse"].as_str()) else { continue };
        for wants_usage in [true, false] {
            let whole = stream(sse, wants_usage, usize::MAX);
            for piece in [1, 2, 3, 7, 64, 1000] {
                assert_eq!(stream(sse, wants_usage, piece), whole, "{id} in pieces of {piece}");
            }
        }
    }
}

#[test]
fn recorded_streams_lose_only_usage_when_the_client_did_not_ask() {
    for record in load(FILE) {
        let (id, Some(sse)) = (&record["id"], record["response"]["sse"].as_str()) else { continue };
        let (out, _, facts) = stream(sse, false, 512);
        if facts.error.is_some() {
            continue;
        }
        let mut expected = chunks(sse);
        expected.retain(|chunk| {
            chunk["choices"] != json!([]) || !chunk["usage"].is_object() || chunk["moderation"].is_object()
        });
        for chunk in &mut expected {
            let is_bare = chunk["choices"] == json!([]);
            let members = chunk.as_object_mut().expect("an object");
            members.insert("model".to_owned(), json!(PUBLIC));
            if members.get("usage").is_some_and(|usage| usage.is_null() || is_bare) {
                members.remove("usage");
            }
        }
        assert_eq!(chunks(&out), expected, "{id}");
        assert_eq!(facts.usage, usage_of(chunks(sse).iter()), "{id}");
    }
}

#[test]
fn recorded_bodies_pass_with_only_the_model_changed() {
    for record in load(FILE) {
        let (id, body) = (&record["id"], &record["response"]["body"]);
        if !body.is_object() {
            continue;
        }
        let text = serde_json::to_string_pretty(body).expect("JSON");
        for piece in [1, 5, 100, usize::MAX] {
            let mut filter = BodyFilter::new(PUBLIC);
            let mut out = BytesMut::new();
            for chunk in text.as_bytes().chunks(piece) {
                filter.push(chunk, &mut out).expect("a recorded body is JSON");
            }
            if body.get("error").is_some() {
                assert_eq!(filter.finish(), BodyEnd::Failed, "{id}");
                assert_eq!(filter.facts().error.clone(), Some(decode_error(text.as_bytes())), "{id}");
                continue;
            }
            assert_eq!(filter.finish(), BodyEnd::Complete, "{id}");
            let model = body["model"].as_str().expect("a model");
            let expected =
                text.replace(&format!("\n  \"model\": \"{model}\""), &format!("\n  \"model\": \"{PUBLIC}\""));
            assert_eq!(out, expected, "{id}");
            // The body has its x_groq beside the same usage.
            let usage = json!({"usage": body["usage"]});
            assert_eq!(filter.facts().usage, usage_of([&usage].into_iter()), "{id}");
            let choices = body["choices"].as_array().into_iter().flatten();
            let said: usize = choices.map(|choice| said_bytes(&choice["message"])).sum();
            assert_eq!(filter.facts().output_text_bytes, said as u64, "{id}");
        }
    }
}

#[test]
fn recorded_requests_are_read_and_prepared() {
    for record in load(FILE) {
        let (id, sent) = (&record["id"], &record["request"]["body"]);
        if !sent["messages"].is_array() || !sent["model"].is_string() {
            continue;
        }
        let body = Bytes::from(serde_json::to_vec(sent).expect("JSON"));
        let head = Head::read(&body).unwrap_or_else(|error| panic!("{id}: {error:?}"));
        assert_eq!(json!(head.model), sent["model"], "{id}");
        assert_eq!(head.stream, sent["stream"] == json!(true), "{id}");
        assert_eq!(head.include_usage, sent["stream_options"]["include_usage"] == json!(true), "{id}");
        assert_eq!(head.needs.tools, sent["tools"].as_array().is_some_and(|tools| !tools.is_empty()), "{id}");
        let text = sent["messages"].to_string();
        assert_eq!(head.needs.images, text.contains("\"image_url\":"), "{id}");

        let mut expected = sent.clone();
        expected["model"] = json!(PUBLIC);
        if head.stream {
            expected["stream_options"]["include_usage"] = json!(true);
        }
        let prepared: Value = serde_json::from_slice(&prepare(&body, &head, PUBLIC, true)).expect("JSON");
        assert_eq!(prepared, expected, "{id}");
    }
}
