//! Many slow streams open at once: what each costs in memory, and how late its chunks come.

use std::{
    cell::RefCell,
    rc::Rc,
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::{
    Target,
    answer::{Answer, events, is_finished},
    drive::{connect, quantile},
    process::pss_kb,
    upstream::{FRAME_EVENTS, TIME_MARK},
};

/// Opened so many at a time, so that the opening itself is no storm.
const WAVE: usize = 50;

#[derive(Default)]
struct Seen {
    delays_us: Vec<u64>,
    right: usize,
    wrong: usize,
}

/// Holds `streams` to their end and returns what was seen; memory is looked at once, after `look_after`.
pub async fn run(target: Target, streams: usize, look_after: Duration) -> Value {
    let idle_kb = pss_kb(&target.watch);
    let request: Rc<[u8]> = target.request().into();
    let chunks = chunks_asked_for(&target);
    let seen = Rc::new(RefCell::new(Seen::default()));
    let mut held = Vec::with_capacity(streams);
    for n in 0..streams {
        let stream = hold(target.clone(), Rc::clone(&request), chunks, Rc::clone(&seen));
        held.push(tokio::task::spawn_local(stream));
        if n % WAVE == WAVE - 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    tokio::time::sleep(look_after).await;
    let open_kb = pss_kb(&target.watch);
    for stream in held {
        stream.await.expect("hold");
    }
    let mut seen = seen.borrow_mut();
    seen.delays_us.sort_unstable();
    json!({
        "right": seen.right,
        "wrong": seen.wrong,
        "kb_per_stream": open_kb.saturating_sub(idle_kb) as f64 / streams as f64,
        "idle_kb": idle_kb,
        "delay_p50_us": quantile(&seen.delays_us, 0.50),
        "delay_p99_us": quantile(&seen.delays_us, 0.99),
        "delay_max_us": quantile(&seen.delays_us, 1.0),
    })
}

async fn hold(target: Target, request: Rc<[u8]>, chunks: usize, seen: Rc<RefCell<Seen>>) {
    let mut stream = connect(&target).await;
    let mut answer = Answer::default();
    let mut looked_at = 0;
    let read = async {
        stream.write_all(&request).await?;
        answer
            .read(&mut stream, |body| {
                let now =
                    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_micros();
                let mut seen = seen.borrow_mut();
                while let Some(mark) = memchr::memchr(TIME_MARK, &body[looked_at..]) {
                    let digits = looked_at + mark + 1;
                    let Some(sent) = body.get(digits..digits + 16) else { break };
                    let sent: u128 = std::str::from_utf8(sent).unwrap().parse().expect("a send time");
                    seen.delays_us.push(u64::try_from(now.saturating_sub(sent)).unwrap());
                    looked_at = digits + 16;
                }
            })
            .await
    }
    .await;
    let is_right = read.is_ok() && is_finished(&answer.body) && events(&answer.body) == chunks + FRAME_EVENTS;
    let mut seen = seen.borrow_mut();
    if is_right {
        seen.right += 1;
    } else {
        seen.wrong += 1;
    }
}

/// A model (or path) named `paced/COUNT/MILLISECONDS` or `paced-COUNT-MILLISECONDS` says how many chunks come.
fn chunks_asked_for(target: &Target) -> usize {
    let name =
        if target.path.starts_with("/paced/") { target.path.trim_start_matches('/') } else { &target.model };
    let count = name.split(['/', '-']).nth(1).and_then(|text| text.parse().ok());
    count.expect("a paced path or model")
}
