//! What reading and filtering cost: heads of three sizes, a burst of chunks, a body.

use std::{fmt::Write as _, hint::black_box};

use bytes::BytesMut;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tollway::wire::openai_chat::{BodyFilter, FilterConfig, Head, StreamFilter};

fn heads(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("head");
    for (name, bytes) in [("1KB", 1 << 10), ("40KB", 40 << 10), ("4MB", 4 << 20)] {
        let body = request(bytes);
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(name, |bencher| bencher.iter(|| Head::read(black_box(body.as_bytes()))));
    }
    group.finish();
}

/// A conversation of about this size: prose with a line break now and then, tools, and the rest.
fn request(bytes: usize) -> String {
    let sentence = "The quick brown fox jumps over the lazy dog, and 漢字 follow it home.\\n";
    let mut messages = String::new();
    while messages.len() + 600 < bytes {
        let text = sentence.repeat(8);
        // Writing to a String cannot fail.
        let _ = write!(messages, r#"{{"role":"user","content":"{text}"}},"#);
    }
    format!(
        r#"{{"model":"gpt-5","stream":true,"temperature":0.7,"messages":[{messages}{{"role":"user","content":"Go on."}}],"tools":[{{"type":"function","function":{{"name":"f","parameters":{{"type":"object","properties":{{"a":{{"type":"string"}}}}}}}}}}],"stream_options":{{"include_usage":true}},"max_completion_tokens":500}}"#
    )
}

fn streams(criterion: &mut Criterion) {
    let chunk = concat!(
        r#"data: {"id":"chatcmpl-0123456789abcdefghijklmnop","object":"chat.completion.chunk","created":1764460800,"#,
        r#""model":"gpt-5-2025","service_tier":"default","system_fingerprint":"fp_0123","choices":[{"index":0,"#,
        r#""delta":{"content":" token"},"logprobs":null,"finish_reason":null}]}"#,
        "\n\n"
    );
    let burst = chunk.repeat(100);
    let mut group = criterion.benchmark_group("stream_100_chunks");
    group.throughput(Throughput::Elements(100));
    for (name, model, piece) in [
        ("renamed, one piece", "public", usize::MAX),
        ("unchanged, one piece", "gpt-5-2025", usize::MAX),
        ("renamed, a piece a chunk", "public", chunk.len()),
        ("renamed, pieces of 100 bytes", "public", 100),
    ] {
        group.bench_function(name, |bencher| {
            let mut out = BytesMut::with_capacity(burst.len() * 2);
            bencher.iter(|| {
                out.clear();
                let mut filter = StreamFilter::new(FilterConfig::new(model, false));
                for piece in burst.as_bytes().chunks(piece) {
                    let _ = filter.push(black_box(piece), &mut out);
                }
                black_box(filter.facts().content_seq)
            });
        });
    }
    group.finish();
}

fn bodies(criterion: &mut Criterion) {
    let text = "An answer of some length. ".repeat(80);
    let body = format!(
        r#"{{"id":"1","model":"gpt-5-2025","choices":[{{"index":0,"message":{{"role":"assistant","content":"{text}"}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":100,"completion_tokens":400,"total_tokens":500}}}}"#
    );
    let mut group = criterion.benchmark_group("body");
    group.throughput(Throughput::Bytes(body.len() as u64));
    group.bench_function("2KB", |bencher| {
        let mut out = BytesMut::with_capacity(body.len() * 2);
        bencher.iter(|| {
            out.clear();
            let mut filter = BodyFilter::new("public");
            let _ = filter.push(black_box(body.as_bytes()), &mut out);
            black_box(filter.finish())
        });
    });
    group.finish();
}

criterion_group!(wire, heads, streams, bodies);
criterion_main!(wire);
