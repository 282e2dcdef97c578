//! Records → what is open.

use std::collections::{HashMap, hash_map::Entry};

use super::{
    frame::Frame,
    record::{OpenRequest, Record},
};
use crate::domain::ids::RequestId;

/// The requests that have begun and not ended, as far as the records applied tell.
#[derive(Debug, Default)]
pub struct Replay {
    open: HashMap<RequestId, Tracked>,
}

#[derive(Debug)]
struct Tracked {
    request: OpenRequest,
    /// The first segment that holds something of it that no later segment repeats.
    since_segment: u64,
}

/// What a frame turned out to be.
#[derive(Debug)]
pub enum Applied {
    /// It opened or continued a request.
    Open,
    /// It ended one; the event has not been parsed.
    Ended,
    /// It continues a request whose begin was not seen.
    Orphan,
}

impl Replay {
    /// Applies the next frame, which stands in `segment`.
    ///
    /// # Errors
    ///
    /// The payload cannot be parsed; nothing was applied.
    pub fn apply(&mut self, segment: u64, frame: &Frame<'_>) -> Result<Applied, rmp_serde::decode::Error> {
        if frame.is_end() {
            self.open.remove(&frame.request);
            return Ok(Applied::Ended);
        }
        match frame.parse()? {
            Record::Begin(record) => {
                let (begin, current) = *record;
                let request =
                    OpenRequest { begin, ended: Vec::new(), current, progress: None, last_at: frame.at };
                self.track(segment, request);
            }
            Record::Carried(request) => self.track(segment, *request),
            Record::Attempt(record) => {
                let (previous, next) = *record;
                let Some(tracked) = self.open.get_mut(&frame.request) else { return Ok(Applied::Orphan) };
                tracked.request.ended.push(previous);
                tracked.request.current = next;
                tracked.request.last_at = frame.at;
            }
            Record::Progress(usage) => {
                let Some(tracked) = self.open.get_mut(&frame.request) else { return Ok(Applied::Orphan) };
                tracked.request.progress = Some(usage);
                tracked.request.last_at = frame.at;
            }
            // Told apart by its kind above.
            Record::End(_) => {}
        }
        Ok(Applied::Open)
    }

    /// A request copied forward repeats what was known when it was copied, which may be less than
    /// what its own records between there and here have told.
    fn track(&mut self, segment: u64, request: OpenRequest) {
        match self.open.entry(request.begin.request) {
            Entry::Vacant(free) => {
                free.insert(Tracked { request, since_segment: segment });
            }
            Entry::Occupied(mut known) => {
                let newer = |r: &OpenRequest| (r.ended.len(), r.last_at);
                if newer(&request) > newer(&known.get().request) {
                    known.get_mut().request = request;
                }
            }
        }
    }

    /// The open requests that need `segment` or an earlier one.
    pub fn pinning(&self, segment: u64) -> impl Iterator<Item = &OpenRequest> {
        self.open.values().filter(move |open| open.since_segment <= segment).map(|open| &open.request)
    }

    /// All open requests were copied forward: what was read so far is not needed for those that
    /// were open up to `segment`; what is still to be read starts in `reading`.
    pub fn carried(&mut self, segment: u64, reading: u64) {
        for open in self.open.values_mut().filter(|open| open.since_segment <= segment) {
            open.since_segment = reading;
        }
    }

    /// All open requests, in order of their ids, which is that of their coming.
    #[must_use]
    pub fn into_open(self) -> Vec<OpenRequest> {
        let mut open: Vec<_> = self.open.into_values().map(|tracked| tracked.request).collect();
        open.sort_unstable_by_key(|request| request.begin.request);
        open
    }
}
