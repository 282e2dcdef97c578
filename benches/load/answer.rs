//! Reading one answer off a connection, however it is cut and framed.

use std::{io, time::Instant};

use tokio::{io::AsyncReadExt, net::TcpStream};

/// An answer's parts, its buffers used again for the next.
#[derive(Default)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// The body without framing.
    pub body: Vec<u8>,
    /// When the first body byte was there.
    pub first_at: Option<Instant>,
    raw: Vec<u8>,
}

enum Framing {
    Length(usize),
    Chunked,
}

impl Answer {
    /// Reads a whole answer; calls `on_body` with the body so far whenever it has grown.
    ///
    /// # Errors
    /// When the connection ends before the answer does.
    pub async fn read(&mut self, stream: &mut TcpStream, mut on_body: impl FnMut(&[u8])) -> io::Result<()> {
        self.body.clear();
        self.raw.clear();
        self.first_at = None;
        let (framing, head) = loop {
            self.fill(stream).await?;
            if let Some(head) = self.parse_head() {
                break head;
            }
        };
        let mut taken = head;
        loop {
            let before = self.body.len();
            let is_whole = match framing {
                Framing::Length(length) => {
                    self.body.extend_from_slice(&self.raw[taken..]);
                    taken = self.raw.len();
                    self.body.len() >= length
                }
                Framing::Chunked => self.take_chunks(&mut taken),
            };
            if self.body.len() > before {
                self.first_at.get_or_insert_with(Instant::now);
                on_body(&self.body);
            }
            if is_whole {
                return Ok(());
            }
            self.fill(stream).await?;
        }
    }

    async fn fill(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        self.raw.reserve(16_384);
        if stream.read_buf(&mut self.raw).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    fn parse_head(&mut self) -> Option<(Framing, usize)> {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut head = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(length) = head.parse(&self.raw).expect("an HTTP answer") else {
            return None;
        };
        self.status = head.code.unwrap_or_default();
        let known = head.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
        let framing = match known {
            Some(header) => {
                let text = std::str::from_utf8(header.value).expect("a content-length");
                Framing::Length(text.trim().parse().expect("a content-length"))
            }
            None => Framing::Chunked,
        };
        Some((framing, length))
    }

    /// Takes every whole chunk and says whether the last has come.
    fn take_chunks(&mut self, taken: &mut usize) -> bool {
        while let Some(line) = memchr::memchr(b'\n', &self.raw[*taken..]) {
            let text = std::str::from_utf8(&self.raw[*taken..*taken + line]).expect("a chunk size");
            let size = usize::from_str_radix(text.trim(), 16).expect("a chunk size");
            let start = *taken + line + 1;
            if self.raw.len() < start + size + 2 {
                return false;
            }
            self.body.extend_from_slice(&self.raw[start..start + size]);
            *taken = start + size + 2;
            if size == 0 {
                return true;
            }
        }
        false
    }
}

/// How many events a stream had.
pub fn events(body: &[u8]) -> usize {
    memchr::memmem::find_iter(body, b"data: ").count()
}

/// Whether a stream came to its proper end.
pub fn is_finished(body: &[u8]) -> bool {
    body.ends_with(b"data: [DONE]\n\n")
}
