//! A sandbox provider for the demo and for trying things: a separate listener that answers like an
//! OpenAI-compatible server, with deterministic text and true counts of its own tokens (a token is
//! a word with the space before it). No model is behind it, and every answer says so.

use std::{convert::Infallible, net::SocketAddr, time::Duration};

use actix_web::{App, HttpRequest, HttpResponse, HttpServer, dev::ServerHandle, http::header, web};
use bytes::Bytes;
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};

/// The model that the sandbox has.
pub const MODEL: &str = "sandbox-small";
/// A key that is served.
pub const GOOD_KEY: &str = "sandbox-key-that-works";
/// A key that is always over its rate limit.
pub const LIMITED_KEY: &str = "sandbox-key-over-its-limit";

/// The pause between two tokens of a stream.
const PACE: Duration = Duration::from_millis(25);

/// A running sandbox.
pub struct Sandbox {
    /// Where it listens.
    pub address: SocketAddr,
    /// Stops it.
    pub handle: ServerHandle,
    /// Serves until stopped; to be spawned.
    pub server: actix_web::dev::Server,
}

/// Binds the sandbox to a free port of the loopback interface.
///
/// # Errors
/// When no port can be bound.
pub fn bind() -> std::io::Result<Sandbox> {
    let app = || {
        App::new()
            .service(web::resource("/v1/chat/completions").route(web::post().to(chat)))
            .service(web::resource("/v1/models").route(web::get().to(models)))
    };
    let server = HttpServer::new(app).workers(1).disable_signals().bind(("127.0.0.1", 0))?;
    let address = server.addrs()[0];
    let server = server.run();
    Ok(Sandbox { address, handle: server.handle(), server })
}

#[derive(Deserialize)]
struct ChatRequest {
    model: String,
    messages: Vec<Message>,
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    stream_options: StreamOptions,
    max_tokens: Option<usize>,
    max_completion_tokens: Option<usize>,
}

#[derive(Deserialize, Default)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Value,
}

/// What the sandbox will say, cut into its tokens.
struct Answer {
    tokens: Vec<String>,
    prompt_tokens: usize,
    finish: &'static str,
}

impl Answer {
    fn to(request: &ChatRequest) -> Self {
        let prompt_tokens = request.messages.iter().map(|message| words(&message.content)).sum();
        let said = request.messages.last().map_or(0, |message| words(&message.content));
        let text = format!(
            "This is the sandbox speaking, no model is behind it. Your last message had {said} words. \
             The relay checked your access token, picked a key, and passed this on as it came."
        );
        let mut tokens: Vec<String> = text.split_inclusive(' ').map(str::to_owned).collect();
        let limit = request.max_completion_tokens.or(request.max_tokens).unwrap_or(usize::MAX);
        let finish = if tokens.len() > limit { "length" } else { "stop" };
        tokens.truncate(limit);
        Self { tokens, prompt_tokens, finish }
    }

    fn usage(&self) -> Value {
        let (prompt, completion) = (self.prompt_tokens, self.tokens.len());
        json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion})
    }
}

/// Words of a message's text, whether it is a string or a list of parts.
fn words(content: &Value) -> usize {
    match content {
        Value::String(text) => text.split_whitespace().count(),
        Value::Array(parts) => parts.iter().map(|part| words(&part["text"])).sum(),
        _ => 0,
    }
}

async fn chat(request: HttpRequest, body: Bytes) -> HttpResponse {
    let bearer = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    match bearer.and_then(|value| value.strip_prefix("Bearer ")) {
        Some(GOOD_KEY) => {}
        Some(LIMITED_KEY) => {
            let mut limited = HttpResponse::TooManyRequests();
            limited.insert_header((header::RETRY_AFTER, "20"));
            return limited.json(error("Rate limit reached for this sandbox key", "rate_limit_exceeded"));
        }
        _ => return HttpResponse::Unauthorized().json(error("Unknown sandbox key", "invalid_api_key")),
    }
    let request: ChatRequest = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(cause) => return HttpResponse::BadRequest().json(error(&cause.to_string(), "invalid_request")),
    };
    if request.model != MODEL {
        return HttpResponse::NotFound().json(error("The sandbox has one model", "model_not_found"));
    }
    let answer = Answer::to(&request);
    if request.stream { streamed(&answer, request.stream_options.include_usage) } else { whole(&answer) }
}

fn error(message: &str, code: &str) -> Value {
    json!({"error": {"message": message, "type": "sandbox_error", "param": null, "code": code}})
}

fn whole(answer: &Answer) -> HttpResponse {
    HttpResponse::Ok().json(json!({
        "id": "chatcmpl-sandbox",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": answer.tokens.concat()},
            "finish_reason": answer.finish,
        }],
        "usage": answer.usage(),
    }))
}

fn streamed(answer: &Answer, include_usage: bool) -> HttpResponse {
    let chunk = |delta: Value, finish: Option<&str>| {
        event(&json!({
            "id": "chatcmpl-sandbox",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": MODEL,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        }))
    };
    let mut events = vec![chunk(json!({"role": "assistant", "content": ""}), None)];
    events.extend(answer.tokens.iter().map(|token| chunk(json!({"content": token}), None)));
    events.push(chunk(json!({}), Some(answer.finish)));
    if include_usage {
        events.push(event(&json!({
            "id": "chatcmpl-sandbox",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": MODEL,
            "choices": [],
            "usage": answer.usage(),
        })));
    }
    events.push(Bytes::from_static(b"data: [DONE]\n\n"));
    let paced = stream::unfold(events.into_iter(), |mut events| async move {
        let next = events.next()?;
        tokio::time::sleep(PACE).await;
        Some((Ok::<_, Infallible>(next), events))
    });
    HttpResponse::Ok().insert_header((header::CONTENT_TYPE, "text/event-stream")).streaming(paced)
}

fn event(data: &Value) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}

async fn models() -> HttpResponse {
    let model = json!({"id": MODEL, "object": "model", "created": 0, "owned_by": "sandbox"});
    HttpResponse::Ok().json(json!({"object": "list", "data": [model]}))
}
