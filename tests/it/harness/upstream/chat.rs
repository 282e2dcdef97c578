//! OpenAI Chat answers, as a well-behaved upstream gives them.

use serde_json::{Value, json};

use super::{Received, Script};

/// The model name upstream answers carry; a client must never see it.
pub const UPSTREAM_MODEL: &str = "upstream-model-2026-01-01";

/// What an answer says it used.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// Prompt tokens.
    pub input: u64,
    /// Completion tokens.
    pub output: u64,
}

impl Usage {
    /// Prompt and completion tokens.
    #[must_use]
    pub fn new(input: u64, output: u64) -> Self {
        Self { input, output }
    }

    fn json(self) -> Value {
        json!({
            "prompt_tokens": self.input,
            "completion_tokens": self.output,
            "total_tokens": self.input + self.output,
            "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0},
        })
    }
}

/// A whole answer.
#[must_use]
pub fn chat_json(text: &str, usage: Usage) -> Script {
    Script::status(200).json(&json!({
        "id": "chatcmpl-harness",
        "object": "chat.completion",
        "created": 1_780_000_000,
        "model": UPSTREAM_MODEL,
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": text, "refusal": null},
            "logprobs": null,
            "finish_reason": "stop",
        }],
        "usage": usage.json(),
        "system_fingerprint": "fp_harness",
    }))
}

/// A streamed answer, each piece a write of its own; with usage in a last chunk where some is given.
#[must_use]
pub fn chat_stream(pieces: &[&str], usage: impl Into<Option<Usage>>) -> Script {
    let mut script = Script::status(200).sse();
    script = script.body(chat_chunk(&json!({"role": "assistant", "content": ""}), &Value::Null));
    for piece in pieces {
        script = script.body(chat_chunk(&json!({"content": piece}), &Value::Null));
    }
    script = script.body(chat_chunk(&json!({}), &json!("stop")));
    if let Some(usage) = usage.into() {
        let mut last = envelope(&json!([]));
        last["usage"] = usage.json();
        script = script.body(event(&last));
    }
    script.body("data: [DONE]\n\n").end()
}

/// One `data:` event with a delta, for scripts written out step by step.
#[must_use]
pub fn chat_chunk(delta: &Value, finish_reason: &Value) -> String {
    event(&envelope(&json!([
        {"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason}
    ])))
}

/// An error in OpenAI's shape.
#[must_use]
pub fn error(status: u16, code: &str, message: &str) -> Script {
    let kind = if status < 500 { "invalid_request_error" } else { "server_error" };
    Script::status(status)
        .json(&json!({"error": {"message": message, "type": kind, "param": null, "code": code}}))
}

/// A short answer in the form the request asks for.
pub(super) fn plain_answer(request: &Received) -> Script {
    let wants: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    if wants["stream"] == json!(true) {
        let usage = (wants["stream_options"]["include_usage"] == json!(true)).then(|| Usage::new(9, 3));
        chat_stream(&["Hello", " from", " upstream"], usage)
    } else {
        chat_json("Hello from upstream", Usage::new(9, 3))
    }
}

fn envelope(choices: &Value) -> Value {
    json!({
        "id": "chatcmpl-harness",
        "object": "chat.completion.chunk",
        "created": 1_780_000_000,
        "model": UPSTREAM_MODEL,
        "system_fingerprint": "fp_harness",
        "choices": choices,
    })
}

fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}
