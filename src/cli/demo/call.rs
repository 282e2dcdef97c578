//! The demo's client: what any client of the relay would send.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use serde_json::{Value, json};

use crate::{
    app::sandbox::MODEL,
    domain::{provider::Transport, secret::Secret},
    net::{Client, Guard, GuardConfig, Request, Response, Target, Tls},
    wire::sse::{DEFAULT_MAX_EVENT_BYTES, Decoder, Frame},
};

/// What the demo asks.
pub const QUESTION: &str = "Who are you, and how did my words get to you?";

/// The largest answer that is read whole.
const WHOLE_BYTES: usize = 1 << 20;

/// The relay as a client sees it.
pub struct FrontDoor {
    client: Client,
    target: Target,
    headers: HeaderMap,
}

impl FrontDoor {
    /// A client with this access token.
    pub fn new(relay: SocketAddr, token: &Secret) -> anyhow::Result<Self> {
        let guard = Guard::new(GuardConfig { allow: vec![relay.ip().into()] });
        let target = Target::parse(&format!("http://{relay}"), Transport::Http1, Duration::from_secs(5))?;
        let mut bearer = HeaderValue::try_from(format!("Bearer {}", token.expose()))?;
        bearer.set_sensitive(true);
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, bearer);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(Self { client: Client::new(Arc::new(guard), &Tls::platform()?), target, headers })
    }

    /// The list of models that the token may use, as JSON.
    pub async fn models(&self) -> anyhow::Result<String> {
        let answer = self.send(Method::GET, "/v1/models", Bytes::new()).await?;
        let body = answer.body.collect(WHOLE_BYTES).await?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// Asks [`QUESTION`] and gives each piece of the answer as it comes.
    pub async fn chat(&self, mut on_text: impl FnMut(&str) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let body = json!({
            "model": MODEL,
            "stream": true,
            "messages": [{"role": "user", "content": QUESTION}],
        });
        let mut answer = self.send(Method::POST, "/v1/chat/completions", body.to_string().into()).await?;
        let mut frames = Decoder::new(DEFAULT_MAX_EVENT_BYTES);
        while let Some(piece) = answer.body.chunk().await {
            frames.push(&piece?, |frame| read(&frame, &mut on_text))?;
        }
        frames.finish(|frame| read(&frame, &mut on_text))
    }

    async fn send(&self, method: Method, path: &str, body: Bytes) -> anyhow::Result<Response> {
        let request = Request { method, path: path.to_owned(), headers: self.headers.clone(), body };
        let answer = self.client.send(&self.target, &request).await.context("the relay does not answer")?;
        let status = answer.status;
        if status != 200 {
            let body = answer.body.collect(WHOLE_BYTES).await?;
            anyhow::bail!("{path} answers {status}: {}", String::from_utf8_lossy(&body));
        }
        Ok(answer)
    }
}

fn read(frame: &Frame<'_>, on_text: &mut impl FnMut(&str) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let Some(data) = frame.data.as_deref().filter(|data| *data != b"[DONE]") else { return Ok(()) };
    let chunk: Value = serde_json::from_slice(data).context("an event of the answer is not JSON")?;
    anyhow::ensure!(chunk.get("error").is_none(), "the answer broke off: {chunk}");
    if let Some(text) = chunk["choices"][0]["delta"]["content"].as_str() {
        on_text(text)?;
    }
    Ok(())
}
