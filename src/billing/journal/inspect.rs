//! A look into a journal without owning it: what the store does not have yet.

use std::{collections::BTreeMap, io, ops::ControlFlow, path::Path};

use super::{
    frame::Found,
    read::{Position, read_frames},
    record::Record,
    replay::Replay,
    segment,
};
use crate::domain::{
    ids::{RequestId, TenantId},
    money::Nanos,
};

/// A request that stands in a journal and not before its cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undrained {
    /// Whose.
    pub tenant: TenantId,
    /// What it charges; none: it has not ended.
    pub charge: Option<Nanos>,
}

/// What of one tenant stands in a journal and not yet in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waiting {
    /// Events that have ended.
    pub events: u64,
    /// What they charge.
    pub charges: Nanos,
    /// Requests in flight, or left open by a replica that died.
    pub open: u64,
}

/// Reads the journal in `dir`, live or not, as it is now. Of what was drained lately the store has
/// some already: the cursor is saved from time to time, and the recorder goes on meanwhile.
///
/// # Errors
///
/// The system's.
pub fn undrained(dir: &Path) -> io::Result<BTreeMap<RequestId, Undrained>> {
    let cursor = Position::load(dir)?;
    let mut replay = Replay::default();
    let mut requests = BTreeMap::new();
    let mut buffer = Vec::new();
    for (number, size) in segment::list(dir)? {
        let file = match std::fs::File::open(segment::path(dir, number)) {
            Ok(file) => file,
            // Drained and gone since the directory was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        read_frames(&file, 0, size, &mut buffer, |end, found| {
            let Found::Frame(frame) = found else { return ControlFlow::Continue(()) };
            let is_stored = Position { segment: number, offset: end } <= cursor;
            if let (true, false, Ok(Record::End(event))) = (frame.is_end(), is_stored, frame.parse()) {
                requests.insert(event.id, Undrained { tenant: event.tenant_id, charge: Some(event.charge) });
            }
            // What cannot be read is reported by whoever owns the journal.
            let _ = replay.apply(number, &frame);
            ControlFlow::Continue(())
        })?;
    }
    for open in replay.open() {
        requests.insert(open.begin.request, Undrained { tenant: open.begin.tenant, charge: None });
    }
    Ok(requests)
}

/// Requests of a journal, added up by tenant.
#[must_use]
pub fn by_tenant<'a>(requests: impl IntoIterator<Item = &'a Undrained>) -> BTreeMap<TenantId, Waiting> {
    let mut tenants: BTreeMap<TenantId, Waiting> = BTreeMap::new();
    for request in requests {
        let waiting = tenants.entry(request.tenant).or_default();
        match request.charge {
            Some(charge) => {
                waiting.events += 1;
                waiting.charges = waiting.charges.plus(charge);
            }
            None => waiting.open += 1,
        }
    }
    tenants
}
