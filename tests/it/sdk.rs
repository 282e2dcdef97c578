//! The official OpenAI SDK against the real server.

use std::process::Command;

use serde_json::json;

use crate::harness::{
    scene::MODEL,
    server::Setup,
    upstream::{Script, Upstream, body_has, chat_chunk, error},
};

/// Runs where `TOLLWAY_TEST_PYTHON` names a Python that has the SDK, as scripts/test sees to.
#[tokio::test]
async fn the_official_sdk_chats_streams_calls_tools_and_knows_our_errors() {
    let Some(python) = std::env::var_os("TOLLWAY_TEST_PYTHON") else {
        eprintln!("not run: TOLLWAY_TEST_PYTHON is not set; scripts/test sets it");
        return;
    };
    let upstream = Upstream::start();
    upstream
        .when(body_has("be wrong"), error(400, "invalid_value", "that is wrong"))
        .when(body_has("be busy"), error(429, "rate_limit_exceeded", "slow down"))
        .when(|request| body_has("weather")(request) && !body_has(r#""stream":true"#)(request), tool_call())
        .when(|request| body_has("weather")(request) && body_has(r#""stream":true"#)(request), tool_stream());
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let ordinary = scene.ordinary(&upstream.base_url()).await;
    scene.close().await;
    let server = setup.boot().await;

    let output = tokio::process::Command::from(Command::new(python))
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sdk/openai_sdk.py"))
        .args([format!("{}/v1", server.url()), ordinary.a.token, MODEL.to_owned()])
        .output()
        .await
        .expect("run Python");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}{said}", String::from_utf8_lossy(&output.stdout));
}

fn tool_call() -> Script {
    Script::status(200).json(&json!({
        "id": "chatcmpl-tool",
        "object": "chat.completion",
        "created": 1_780_000_000,
        "model": "whatever",
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": null, "tool_calls": [{
                "id": "call_1",
                "type": "function",
                "function": {"name": "weather", "arguments": r#"{"city":"Łódź"}"#},
            }]},
            "finish_reason": "tool_calls",
        }],
        "usage": {"prompt_tokens": 20, "completion_tokens": 8, "total_tokens": 28},
    }))
}

fn tool_stream() -> Script {
    let call = |arguments: &str| json!({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]});
    let opening = json!({"role": "assistant", "tool_calls": [
        {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ""}}
    ]});
    Script::status(200)
        .sse()
        .body(chat_chunk(&opening, &json!(null)))
        .body(chat_chunk(&call(r#"{"city":"#), &json!(null)))
        .body(chat_chunk(&call(r#""Łódź"}"#), &json!(null)))
        .body(chat_chunk(&json!({}), &json!("tool_calls")))
        .body("data: [DONE]\n\n")
        .end()
}
