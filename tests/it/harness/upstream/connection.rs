//! One connection: requests in, scripts out, and an eye on whether the other side is still there.

use std::{
    io,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use bytes::{Buf, Bytes, BytesMut};
use tokio::{net::TcpStream, sync::watch};

use super::{
    Hangup, HungUp, Outcome, Received, State,
    script::{Script, Step},
};

enum After {
    KeepOpen,
    Close,
}

/// Serves requests until one side closes.
pub(super) async fn serve(stream: TcpStream, number: usize, state: Arc<State>) {
    let open = state.open.fetch_add(1, Ordering::Relaxed) + 1;
    state.peak.fetch_max(open, Ordering::Relaxed);
    let _ = stream.set_nodelay(true);
    let mut connection = Connection { stream, inbound: BytesMut::new(), number };
    while let Some(request) = connection.read_request().await {
        let request = Arc::new(request);
        let script = state.script_for(&request);
        state.record(&request);
        let (outcome, after) = match connection.play(script).await {
            Ok(after) => (Outcome::Played { at: Instant::now() }, after),
            Err(hangup) => (Outcome::HungUp(hangup), After::Close),
        };
        if matches!(after, After::Close) {
            // Counted before the test can learn of the end.
            state.open.fetch_sub(1, Ordering::Relaxed);
            drop(connection);
            request.outcome.send_replace(Some(outcome));
            return;
        }
        request.outcome.send_replace(Some(outcome));
    }
    state.open.fetch_sub(1, Ordering::Relaxed);
}

struct Connection {
    stream: TcpStream,
    inbound: BytesMut,
    number: usize,
}

impl Connection {
    /// The next request, or none when the other side leaves before it is whole.
    async fn read_request(&mut self) -> Option<Received> {
        let (method, path, headers) = loop {
            if let Some(head) = take_head(&mut self.inbound) {
                break head;
            }
            self.read_more().await?;
        };
        let value = |name: &str| headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let body = if value("transfer-encoding").is_some_and(|coding| coding.contains("chunked")) {
            self.read_chunked().await?
        } else {
            let length = value("content-length").map_or(0, |text| text.parse().expect("a content-length"));
            self.read_exactly(length).await?
        };
        let (outcome, _) = watch::channel(None);
        Some(Received { at: Instant::now(), connection: self.number, method, path, headers, body, outcome })
    }

    async fn read_exactly(&mut self, length: usize) -> Option<Bytes> {
        while self.inbound.len() < length {
            self.read_more().await?;
        }
        Some(self.inbound.split_to(length).freeze())
    }

    async fn read_chunked(&mut self) -> Option<Bytes> {
        let mut body = BytesMut::new();
        loop {
            let line = self.read_line().await?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).expect("a chunk size");
            let chunk = self.read_exactly(size).await?;
            body.extend_from_slice(&chunk);
            // After the last chunk come trailers and an empty line, after the others only the latter.
            while !self.read_line().await?.is_empty() {}
            if size == 0 {
                return Some(body.freeze());
            }
        }
    }

    async fn read_line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = memchr::memmem::find(&self.inbound, b"\r\n") {
                let line = self.inbound.split_to(end);
                self.inbound.advance(2);
                return Some(String::from_utf8_lossy(&line).into_owned());
            }
            self.read_more().await?;
        }
    }

    async fn read_more(&mut self) -> Option<()> {
        loop {
            self.stream.readable().await.ok()?;
            match self.stream.try_read_buf(&mut self.inbound) {
                Ok(0) => return None,
                Ok(_) => return Some(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
        }
    }

    async fn play(&mut self, script: Script) -> Result<After, HungUp> {
        let Self { stream, inbound, .. } = self;
        for step in script.steps {
            match step {
                Step::Write(bytes) => {
                    tokio::select! {
                        biased;
                        hangup = until_hangup(stream, inbound) => return Err(hangup),
                        written = write_all(stream, &bytes) => written.map_err(|_| hung_up(Hangup::Reset))?,
                    }
                }
                Step::Sleep(span) => {
                    tokio::select! {
                        hangup = until_hangup(stream, inbound) => return Err(hangup),
                        () = tokio::time::sleep(span) => {}
                    }
                }
                Step::Wait(gate) => {
                    tokio::select! {
                        hangup = until_hangup(stream, inbound) => return Err(hangup),
                        () = gate.pass() => {}
                    }
                }
                Step::Hang => return Err(until_hangup(stream, inbound).await),
                Step::Close => return Ok(After::Close),
                Step::Reset => {
                    stream.set_zero_linger().expect("ask for a reset");
                    return Ok(After::Close);
                }
            }
        }
        Ok(After::KeepOpen)
    }
}

/// Comes back when the other side leaves; what it sends meanwhile is kept for the next request.
async fn until_hangup(stream: &TcpStream, inbound: &mut BytesMut) -> HungUp {
    loop {
        if stream.readable().await.is_err() {
            return hung_up(Hangup::Reset);
        }
        match stream.try_read_buf(inbound) {
            Ok(0) => return hung_up(Hangup::Fin),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return hung_up(Hangup::Reset),
        }
    }
}

async fn write_all(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.writable().await?;
        match stream.try_write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn hung_up(how: Hangup) -> HungUp {
    HungUp { how, at: Instant::now() }
}

type HeadParts = (String, String, Vec<(String, String)>);

/// Takes a whole head off the front, if there is one.
fn take_head(inbound: &mut BytesMut) -> Option<HeadParts> {
    let end = memchr::memmem::find(inbound, b"\r\n\r\n")? + 4;
    let head = inbound.split_to(end);
    let mut headers = [httparse::EMPTY_HEADER; 128];
    let mut request = httparse::Request::new(&mut headers);
    request.parse(&head).expect("a legal request head");
    let pairs = request
        .headers
        .iter()
        .map(|header| (header.name.to_ascii_lowercase(), String::from_utf8_lossy(header.value).into_owned()));
    Some((
        request.method.unwrap_or_default().to_owned(),
        request.path.unwrap_or_default().to_owned(),
        pairs.collect(),
    ))
}
