//! Callers that go on asking whatever happens, and an upstream whose every answer costs something else, so that
//! what each of them is charged can be checked one by one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::StreamExt;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tollway::domain::money::Nanos;

use super::{
    client::Caller,
    scene::{MODEL, PRICES},
    upstream::{Received, Script, Upstream, Usage, chat_json, chat_stream},
};

/// Before a caller tries a server again that did not even answer.
const AFTER_NO_ANSWER: Duration = Duration::from_millis(20);

/// Request number `n` for `model`; every other one is a stream.
pub fn ask_model(model: &str, n: usize) -> Value {
    json!({"model": model, "stream": is_stream(n), "messages": [{"role": "user", "content": n.to_string()}]})
}

/// Request number `n`.
pub fn ask(n: usize) -> Value {
    ask_model(MODEL, n)
}

/// What the answer to request `n` must cost at [`PRICES`].
pub fn charge_of(n: usize) -> Nanos {
    let usage = usage_of(n);
    let used = tollway::domain::usage::Usage {
        input_tokens: usage.input,
        output_tokens: usage.output,
        ..Default::default()
    };
    PRICES.charge(&used)
}

/// Has the upstream answer each request by its number, in some writes spread over `span`.
pub fn answer_by_number(upstream: &Upstream, span: Duration) {
    upstream.otherwise(move |request| answer(request, span));
}

fn answer(request: &Received, span: Duration) -> Script {
    let n = number(request);
    let usage = usage_of(n);
    let text = format!("the answer to {n}");
    if !is_stream(n) {
        return Script::empty().sleep(span).append(chat_json(&text, usage));
    }
    // Now and then so much at once that it is passed on in several pieces.
    let large = if n % 16 == 1 { "x".repeat(40_000) } else { String::new() };
    chat_stream(&[&text, " and", &large, " so on"], usage).spread_over(span)
}

fn number(request: &Received) -> usize {
    let body = request.json();
    body["messages"][0]["content"].as_str().and_then(|text| text.parse().ok()).expect("a numbered request")
}

fn is_stream(n: usize) -> bool {
    n % 2 == 1
}

fn usage_of(n: usize) -> Usage {
    Usage::new(100 + n as u64 % 97, 1 + n as u64 % 31)
}

/// What became of one request.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Its number.
    pub n: usize,
    /// Which of the callers sent it.
    pub caller: usize,
    /// When it was sent.
    pub at: Instant,
    /// Until its answer ended, whole or not.
    pub took: Duration,
    /// Status of the answer; none: there was no answer.
    pub status: Option<StatusCode>,
    /// The server's id for it.
    pub request: Option<String>,
    /// Whether the client has all of it: `[DONE]`, or the whole document.
    pub whole: bool,
    /// What came of the body.
    pub text: String,
}

impl Sample {
    /// Whether it was served, and wholly.
    pub fn is_served(&self) -> bool {
        self.status == Some(StatusCode::OK) && self.whole
    }
}

/// Requests under way.
pub struct Load {
    callers: JoinSet<Vec<Sample>>,
    stop: Arc<AtomicBool>,
    ended: Arc<AtomicUsize>,
}

/// What a load asks and how long.
#[derive(Clone)]
pub struct Plan {
    /// Whom the requests are spread over.
    pub callers: Vec<Caller>,
    /// How many are under way at once.
    pub at_once: usize,
    /// The numbers to ask for, each until it is answered somehow; the load ends with them.
    pub numbers: std::ops::Range<usize>,
    /// The model.
    pub model: &'static str,
    /// Between two requests of one caller.
    pub pause: Duration,
}

impl Plan {
    /// Asks for the usual model as fast as it can.
    pub fn new(callers: Vec<Caller>, at_once: usize, numbers: std::ops::Range<usize>) -> Self {
        Self { callers, at_once, numbers, model: MODEL, pause: Duration::ZERO }
    }
}

impl Load {
    /// Starts asking.
    pub fn start(plan: &Plan) -> Self {
        let next = Arc::new(AtomicUsize::new(plan.numbers.start));
        let stop = Arc::new(AtomicBool::new(false));
        let ended = Arc::new(AtomicUsize::new(0));
        let mut callers = JoinSet::new();
        for _ in 0..plan.at_once {
            let (plan, next) = (plan.clone(), Arc::clone(&next));
            let (stop, ended) = (Arc::clone(&stop), Arc::clone(&ended));
            callers.spawn(async move {
                let mut samples = Vec::new();
                let mut n = next.fetch_add(1, Ordering::Relaxed);
                while n < plan.numbers.end && !stop.load(Ordering::Relaxed) {
                    let caller = n / 2 % plan.callers.len();
                    let sample = sample(&plan.callers[caller], caller, plan.model, n).await;
                    let is_answered = sample.status.is_some();
                    samples.push(sample);
                    if is_answered {
                        ended.fetch_add(1, Ordering::Relaxed);
                        n = next.fetch_add(1, Ordering::Relaxed);
                    }
                    tokio::time::sleep(if is_answered { plan.pause } else { AFTER_NO_ANSWER }).await;
                }
                samples
            });
        }
        Self { callers, stop, ended }
    }

    /// How many requests were answered so far, whole or not.
    pub fn ended(&self) -> usize {
        self.ended.load(Ordering::Relaxed)
    }

    /// Starts no more requests and returns what became of all.
    pub async fn stop(self) -> Vec<Sample> {
        self.stop.store(true, Ordering::Relaxed);
        self.finish().await
    }

    /// Waits until all numbers were asked for.
    pub async fn finish(self) -> Vec<Sample> {
        let mut samples = self.callers.join_all().await.concat();
        samples.sort_by_key(|sample| sample.at);
        samples
    }
}

async fn sample(caller: &Caller, index: usize, model: &str, n: usize) -> Sample {
    let at = Instant::now();
    let mut sample = Sample {
        n,
        caller: index,
        at,
        took: Duration::ZERO,
        status: None,
        request: None,
        whole: false,
        text: String::new(),
    };
    let sent = caller.request(Method::POST, "/v1/chat/completions").json(&ask_model(model, n)).send().await;
    if let Ok(response) = sent {
        sample.status = Some(response.status());
        let id = response.headers().get("x-request-id").and_then(|id| id.to_str().ok());
        sample.request = id.map(str::to_owned);
        let mut body = response.bytes_stream();
        let mut text = Vec::new();
        let is_complete = loop {
            match body.next().await {
                Some(Ok(piece)) => text.extend_from_slice(&piece),
                Some(Err(_)) => break false,
                None => break true,
            }
        };
        sample.text = String::from_utf8_lossy(&text).into_owned();
        sample.whole = if is_stream(n) { sample.text.contains("data: [DONE]") } else { is_complete };
    }
    sample.took = at.elapsed();
    sample
}

/// The longest that any of them took.
pub fn worst(samples: &[Sample]) -> Duration {
    samples.iter().map(|sample| sample.took).max().unwrap_or_default()
}
