//! The upstream: answers made beforehand, as fast as a socket takes them.

use std::{
    io::Write as _,
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
};

/// Content chunks of a burst.
pub const BURST: usize = 100;
/// Events of a stream that carry no content: the role, the reason to stop, the usage, the end.
pub const FRAME_EVENTS: usize = 4;
/// Marks the send time, in microseconds since the epoch, in a paced chunk.
pub const TIME_MARK: u8 = b'@';

struct Answers {
    small: Vec<u8>,
    burst: Vec<u8>,
}

/// Serves until killed.
pub fn serve(threads: usize) {
    let answers = Arc::new(Answers { small: small(), burst: burst() });
    let first = listen(0);
    let port = first.local_addr().expect("know the address").port();
    let others: Vec<_> = (1..threads).map(|_| listen(port)).collect();
    println!("{port}");
    std::io::stdout().flush().expect("tell the port");
    let running: Vec<_> = std::iter::once(first)
        .chain(others)
        .map(|listener| {
            let answers = Arc::clone(&answers);
            std::thread::spawn(move || crate::block_on(accept(listener, answers)))
        })
        .collect();
    for thread in running {
        thread.join().expect("serve");
    }
}

fn listen(port: u16) -> std::net::TcpListener {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("build a runtime");
    let _inside = runtime.enter();
    let socket = TcpSocket::new_v4().expect("make a socket");
    socket.set_reuseport(true).expect("share the port");
    socket.bind(([127, 0, 0, 1], port).into()).expect("bind");
    socket.listen(8_192).expect("listen").into_std().expect("hand the listener on")
}

async fn accept(listener: std::net::TcpListener, answers: Arc<Answers>) {
    let listener = TcpListener::from_std(listener).expect("take the listener");
    loop {
        let (stream, _) = listener.accept().await.expect("accept");
        tokio::task::spawn_local(converse(stream, Arc::clone(&answers)));
    }
}

/// Answers requests until the other side leaves, which is no error here.
async fn converse(mut stream: TcpStream, answers: Arc<Answers>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut inbound = Vec::with_capacity(4_096);
    loop {
        let (kind, length) = loop {
            if let Some(request) = parse(&inbound) {
                break request;
            }
            read_more(&mut stream, &mut inbound).await?;
        };
        while inbound.len() < length {
            read_more(&mut stream, &mut inbound).await?;
        }
        inbound.drain(..length);
        match kind {
            Kind::Small => stream.write_all(&answers.small).await.ok()?,
            Kind::Burst => stream.write_all(&answers.burst).await.ok()?,
            Kind::Paced { count, every } => pace(&mut stream, count, every).await?,
        }
    }
}

async fn read_more(stream: &mut TcpStream, inbound: &mut Vec<u8>) -> Option<()> {
    let n = stream.read_buf(inbound).await.ok()?;
    (n > 0).then_some(())
}

enum Kind {
    Small,
    Burst,
    Paced { count: u32, every: Duration },
}

/// What a request asks for and how long it is with its body; none while its head is not whole.
fn parse(inbound: &[u8]) -> Option<(Kind, usize)> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut head = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(length) = head.parse(inbound).expect("an HTTP request") else {
        return None;
    };
    let body = head
        .headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case("content-length"))
        .map_or(0, |header| std::str::from_utf8(header.value).unwrap().parse().expect("a content-length"));
    let kind = match head.path.unwrap_or_default() {
        path if path.starts_with("/small/") => Kind::Small,
        path if path.starts_with("/burst/") => Kind::Burst,
        path if path.starts_with("/paced/") => {
            let mut parts = path.split('/').skip(2);
            let mut number = || parts.next().and_then(|text| text.parse().ok()).expect("/paced/COUNT/MS/");
            let (count, every): (u64, u64) = (number(), number());
            Kind::Paced { count: u32::try_from(count).unwrap(), every: Duration::from_millis(every) }
        }
        path => panic!("no answer for {path}"),
    };
    Some((kind, length + body))
}

async fn pace(stream: &mut TcpStream, count: u32, every: Duration) -> Option<()> {
    let mut first = STREAM_HEAD.as_bytes().to_vec();
    push_chunk(&mut first, r#"{"role":"assistant","content":""}"#, "null");
    stream.write_all(&first).await.ok()?;
    let mut clock = tokio::time::interval(every);
    clock.tick().await;
    for _ in 0..count {
        clock.tick().await;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_micros();
        let mut chunk = Vec::with_capacity(300);
        push_chunk(&mut chunk, &format!(r#"{{"content":"{}{now:016} "}}"#, char::from(TIME_MARK)), "null");
        stream.write_all(&chunk).await.ok()?;
    }
    let mut last = Vec::new();
    push_end(&mut last, count);
    stream.write_all(&last).await.ok()
}

const STREAM_HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

fn small() -> Vec<u8> {
    let body = concat!(
        r#"{"id":"chatcmpl-bench","object":"chat.completion","created":1780000000,"model":"bench","#,
        r#""choices":[{"index":0,"message":{"role":"assistant","content":"Forty-two, and a little more to read."},"#,
        r#""logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":190,"completion_tokens":9,"#,
        r#""total_tokens":199},"system_fingerprint":"fp_bench"}"#
    );
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn burst() -> Vec<u8> {
    let mut answer = STREAM_HEAD.as_bytes().to_vec();
    push_chunk(&mut answer, r#"{"role":"assistant","content":""}"#, "null");
    for n in 0..BURST {
        push_chunk(&mut answer, &format!(r#"{{"content":" word{n:03}"}}"#), "null");
    }
    push_end(&mut answer, u32::try_from(BURST).unwrap());
    answer
}

fn push_end(into: &mut Vec<u8>, tokens: u32) {
    push_chunk(into, "{}", r#""stop""#);
    let total = 190 + tokens;
    let usage = format!(
        r#"data: {{"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1780000000,"model":"bench","choices":[],"usage":{{"prompt_tokens":190,"completion_tokens":{tokens},"total_tokens":{total}}}}}"#
    );
    frame(into, &format!("{usage}\n\n"));
    frame(into, "data: [DONE]\n\n");
    into.extend_from_slice(b"0\r\n\r\n");
}

fn push_chunk(into: &mut Vec<u8>, delta: &str, finish_reason: &str) {
    let event = format!(
        r#"data: {{"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1780000000,"model":"bench","system_fingerprint":"fp_bench","choices":[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish_reason}}}]}}"#
    );
    frame(into, &format!("{event}\n\n"));
}

fn frame(into: &mut Vec<u8>, data: &str) {
    write!(into, "{:x}\r\n{data}\r\n", data.len()).expect("writing to memory");
}
