//! A look into a journal without owning it: what the store does not have yet.

use std::{collections::BTreeMap, io, ops::ControlFlow, path::Path};

use super::{
    frame::Found,
    read::{Position, read_frames},
    record::Record,
    replay::Replay,
    segment,
};
use crate::domain::{ids::TenantId, money::Nanos};

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

/// Reads the journal in `dir`, live or not, as it is now. What is drained meanwhile may be counted
/// although the store has it by then.
///
/// # Errors
///
/// The system's.
pub fn waiting(dir: &Path) -> io::Result<BTreeMap<TenantId, Waiting>> {
    let cursor = Position::load(dir)?;
    let mut replay = Replay::default();
    let mut tenants: BTreeMap<TenantId, Waiting> = BTreeMap::new();
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
                let waiting = tenants.entry(event.tenant_id).or_default();
                waiting.events += 1;
                waiting.charges = waiting.charges.plus(event.charge);
            }
            // What cannot be read is reported by whoever owns the journal.
            let _ = replay.apply(number, &frame);
            ControlFlow::Continue(())
        })?;
    }
    for open in replay.into_open() {
        tenants.entry(open.begin.tenant).or_default().open += 1;
    }
    Ok(tenants)
}
