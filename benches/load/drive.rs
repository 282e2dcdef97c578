//! Busy connections: each sends its next request when the last is answered.

use std::{
    cell::RefCell,
    rc::Rc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::{
    Target,
    answer::{Answer, events, is_finished},
    process::cpu_ns,
    upstream::{BURST, FRAME_EVENTS},
};

/// When to stop.
#[derive(Clone, Copy)]
pub struct Limit {
    /// After this long, unless a number of requests is given.
    pub span: Duration,
    /// After this many requests in all.
    pub requests: Option<usize>,
}

#[derive(Default)]
struct Seen {
    started: usize,
    whole_us: Vec<u64>,
    first_us: Vec<u64>,
    events: usize,
    errors: usize,
}

/// Drives and returns what was seen.
pub async fn run(target: Target, connections: usize, limit: Limit) -> Value {
    // The first requests open connections and fill caches; they are not counted.
    let warm_up = Limit { span: Duration::from_millis(300), requests: limit.requests.map(|_| connections) };
    drive(&target, connections, warm_up).await;
    let cpu_before = cpu_ns(&target.watch);
    let since = Instant::now();
    let seen = drive(&target, connections, limit).await;
    let seconds = since.elapsed().as_secs_f64();
    let cpu_us = (cpu_ns(&target.watch) - cpu_before) as f64 / 1_000.0;
    let answered = seen.whole_us.len();
    json!({
        "requests": answered,
        "errors": seen.errors,
        "per_s": answered as f64 / seconds,
        "cpu_us": cpu_us / answered.max(1) as f64,
        "p50_us": quantile(&seen.whole_us, 0.50),
        "p99_us": quantile(&seen.whole_us, 0.99),
        "first_p50_us": quantile(&seen.first_us, 0.50),
        "first_p99_us": quantile(&seen.first_us, 0.99),
        "events_per_s": seen.events as f64 / seconds,
    })
}

async fn drive(target: &Target, connections: usize, limit: Limit) -> Seen {
    let request: Rc<[u8]> = target.request().into();
    let seen = Rc::new(RefCell::new(Seen::default()));
    let until = Instant::now() + limit.span;
    let busy: Vec<_> = (0..connections)
        .map(|_| {
            tokio::task::spawn_local(keep_busy(
                target.clone(),
                Rc::clone(&request),
                limit,
                until,
                Rc::clone(&seen),
            ))
        })
        .collect();
    for connection in busy {
        connection.await.expect("drive");
    }
    let mut seen = Rc::try_unwrap(seen).ok().expect("every connection is done").into_inner();
    seen.whole_us.sort_unstable();
    seen.first_us.sort_unstable();
    seen
}

async fn keep_busy(target: Target, request: Rc<[u8]>, limit: Limit, until: Instant, seen: Rc<RefCell<Seen>>) {
    let mut stream = connect(&target).await;
    let mut answer = Answer::default();
    let may_go_on = || match limit.requests {
        Some(all) => {
            let mut seen = seen.borrow_mut();
            seen.started += 1;
            seen.started <= all
        }
        None => Instant::now() < until,
    };
    while may_go_on() {
        let since = Instant::now();
        let exchanged = async {
            stream.write_all(&request).await?;
            answer.read(&mut stream, |_| ()).await
        }
        .await;
        let is_right = exchanged.is_ok()
            && answer.status == 200
            && (!target.stream
                || (is_finished(&answer.body) && events(&answer.body) == BURST + FRAME_EVENTS));
        if !is_right {
            seen.borrow_mut().errors += 1;
            stream = connect(&target).await;
            continue;
        }
        let mut seen = seen.borrow_mut();
        seen.whole_us.push(micros(since.elapsed()));
        seen.first_us.extend(answer.first_at.map(|at| micros(at - since)));
        seen.events += if target.stream { events(&answer.body) } else { 0 };
    }
}

/// Connects to the target.
pub async fn connect(target: &Target) -> TcpStream {
    let stream = TcpStream::connect(target.address).await.expect("connect");
    stream.set_nodelay(true).expect("send at once");
    stream
}

/// Microseconds of a span.
pub fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// The value below which this share of the sorted values lies; zero when there are none.
pub fn quantile(sorted: &[u64], share: f64) -> u64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or(0)
}
