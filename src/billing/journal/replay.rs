//! Records → what is open.

use std::collections::hash_map::Entry;

use super::{
    frame::{Frame, HEADER_BYTES},
    record::{BEGIN, OpenRequest, Record},
};
use crate::domain::{
    clock::Timestamp,
    ids::{IdMap, RequestId},
};

/// The requests that have begun and not ended, as far as the records applied tell.
#[derive(Debug, Default)]
pub struct Replay {
    open: IdMap<RequestId, Tracked>,
    unreadable: Vec<Unreadable>,
}

/// A begin that could not be read when it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreadable {
    /// Whose.
    pub request: RequestId,
    /// Bytes of its frame.
    pub bytes: usize,
}

#[derive(Debug)]
struct Tracked {
    known: Known,
    /// The first segment that holds something of it that no later segment repeats.
    since_segment: u64,
}

/// What is known of an open request.
#[derive(Debug)]
enum Known {
    /// Its begin as it stands in the journal. Nearly every request ends before anybody asks for
    /// more, so that reading it would be work for nothing.
    Begun { at: Timestamp, payload: Box<[u8]> },
    /// Everything.
    Read(Box<OpenRequest>),
}

/// What a frame turned out to be.
#[derive(Debug)]
pub enum Applied {
    /// It opened or continued a request.
    Open,
    /// It ended one; the event has not been parsed.
    Ended,
    /// It continues a request whose begin was not seen, or cannot be read.
    Orphan,
}

impl Replay {
    /// Applies the next frame, which stands in `segment`.
    ///
    /// # Errors
    ///
    /// The payload cannot be parsed; nothing was applied. A begin is parsed only when it is asked
    /// for, see [`take_unreadable`](Self::take_unreadable).
    pub fn apply(&mut self, segment: u64, frame: &Frame<'_>) -> Result<Applied, rmp_serde::decode::Error> {
        if frame.is_end() {
            self.open.remove(&frame.request);
            return Ok(Applied::Ended);
        }
        if frame.is_begin() {
            self.open.entry(frame.request).or_insert_with(|| Tracked {
                known: Known::Begun { at: frame.at, payload: frame.payload().into() },
                since_segment: segment,
            });
            return Ok(Applied::Open);
        }
        match frame.parse()? {
            Record::Carried(request) => self.track(segment, *request),
            Record::Attempt(record) => {
                let (previous, next) = *record;
                let Some(request) = self.read(frame.request) else { return Ok(Applied::Orphan) };
                request.ended.push(previous);
                request.current = next;
                request.last_at = frame.at;
            }
            Record::Progress(usage) => {
                let Some(request) = self.read(frame.request) else { return Ok(Applied::Orphan) };
                request.progress = Some(usage);
                request.last_at = frame.at;
            }
            // Told apart by their kinds above.
            Record::Begin(_) | Record::End(_) => {}
        }
        Ok(Applied::Open)
    }

    /// A request copied forward repeats what was known when it was copied, which may be less than
    /// what its own records between there and here have told.
    fn track(&mut self, segment: u64, request: OpenRequest) {
        let newer = |request: &OpenRequest| (request.ended.len(), request.last_at);
        let id = request.begin.request;
        match self.read(id) {
            Some(known) if newer(&request) > newer(known) => *known = request,
            Some(_) => {}
            None => {
                let known = Known::Read(Box::new(request));
                self.open.insert(id, Tracked { known, since_segment: segment });
            }
        }
    }

    /// What is known of an open request, if its begin can be read.
    fn read(&mut self, request: RequestId) -> Option<&mut OpenRequest> {
        let Entry::Occupied(mut open) = self.open.entry(request) else { return None };
        if let Err(bytes) = open.get_mut().known.read() {
            open.remove();
            self.unreadable.push(Unreadable { request, bytes });
            return None;
        }
        match &mut open.into_mut().known {
            Known::Read(request) => Some(request),
            Known::Begun { .. } => None,
        }
    }

    /// The open requests that need `segment` or an earlier one, in order of their ids, which is
    /// that of their coming.
    pub fn pinning(&mut self, segment: u64) -> impl Iterator<Item = &OpenRequest> {
        let needs_it = |(id, open): (&RequestId, &Tracked)| (open.since_segment <= segment).then_some(*id);
        let mut pinning: Vec<RequestId> = self.open.iter().filter_map(needs_it).collect();
        pinning.retain(|&request| self.read(request).is_some());
        pinning.sort_unstable();
        let open = &self.open;
        pinning.into_iter().filter_map(|request| match &open.get(&request)?.known {
            Known::Read(request) => Some(&**request),
            Known::Begun { .. } => None,
        })
    }

    /// All open requests.
    pub fn open(&mut self) -> impl Iterator<Item = &OpenRequest> {
        self.pinning(u64::MAX)
    }

    /// All open requests were copied forward: what was read so far is not needed for those that
    /// were open up to `segment`; what is still to be read starts in `reading`.
    pub fn carried(&mut self, segment: u64, reading: u64) {
        for open in self.open.values_mut().filter(|open| open.since_segment <= segment) {
            open.since_segment = reading;
        }
    }

    /// The begins that could not be read when they were asked for, each once. Their requests do not
    /// count as open any more. That of a request that ended before is not missed, nor told here.
    pub fn take_unreadable(&mut self) -> Vec<Unreadable> {
        std::mem::take(&mut self.unreadable)
    }
}

impl Known {
    /// Reads the begin unless it is read already.
    ///
    /// # Errors
    ///
    /// It cannot be; its frame has so many bytes.
    fn read(&mut self) -> Result<(), usize> {
        if let Self::Begun { at, payload } = self {
            let Ok(Record::Begin(record)) = Record::from_payload(BEGIN, payload) else {
                return Err(HEADER_BYTES + payload.len());
            };
            let (begin, current) = *record;
            let request = OpenRequest { begin, ended: Vec::new(), current, progress: None, last_at: *at };
            *self = Self::Read(Box::new(request));
        }
        Ok(())
    }
}
