//! The memory that request bodies may take: bounded for all together, and for each tenant to its share.
//!
//! A body counts from the moment its bytes are here until the last copy of them goes, which is when the
//! upstream has answered. Small bodies do not count: there are as many of them as connections.

use std::{collections::hash_map::Entry, sync::Arc};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::domain::ids::{IdMap, TenantId};

/// Bytes of each body that do not count.
const FREE: usize = 64 << 10;
/// The part of the room that one tenant may take is the whole divided by this.
const TENANTS_PART: usize = 2;

/// Room for bodies, shared by all workers.
#[derive(Debug)]
pub struct BodyRoom {
    limit: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    by_all: usize,
    by_tenant: IdMap<Option<TenantId>, usize>,
}

/// Whose room is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoom {
    /// The tenant's own share, bytes.
    OfTenant(usize),
    /// Everybody's.
    OfAll,
}

impl BodyRoom {
    /// Room for `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, taken: Mutex::default() }
    }

    /// A place for a body of `tenant` that has not begun; none: of somebody who belongs to none.
    #[must_use]
    pub fn place(self: &Arc<Self>, tenant: Option<TenantId>) -> Place {
        Place { room: Arc::clone(self), tenant, bytes: 0 }
    }

    fn take(&self, tenant: Option<TenantId>, bytes: usize) -> Result<(), NoRoom> {
        let share = self.limit / TENANTS_PART;
        let mut taken = self.taken.lock();
        if bytes > self.limit.saturating_sub(taken.by_all) {
            return Err(NoRoom::OfAll);
        }
        let by_tenant = taken.by_tenant.get(&tenant).copied().unwrap_or(0);
        if bytes > share.saturating_sub(by_tenant) {
            return Err(NoRoom::OfTenant(share));
        }
        taken.by_all += bytes;
        taken.by_tenant.insert(tenant, by_tenant + bytes);
        Ok(())
    }

    fn give_back(&self, tenant: Option<TenantId>, bytes: usize) {
        let mut taken = self.taken.lock();
        taken.by_all -= bytes;
        if let Entry::Occupied(mut entry) = taken.by_tenant.entry(tenant) {
            *entry.get_mut() -= bytes;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

/// What one body takes; dropped, it is given back.
#[derive(Debug)]
pub struct Place {
    room: Arc<BodyRoom>,
    tenant: Option<TenantId>,
    bytes: usize,
}

impl Place {
    /// Makes room for a body that is `length` bytes long by now.
    ///
    /// # Errors
    /// There is none; what was taken stays taken.
    pub fn grow(&mut self, length: usize) -> Result<(), NoRoom> {
        let more = length.saturating_sub(FREE).saturating_sub(self.bytes);
        if more > 0 {
            self.room.take(self.tenant, more)?;
            self.bytes += more;
        }
        Ok(())
    }

    /// The body, which takes its place with it wherever it goes.
    #[must_use]
    pub fn hold(self, body: Bytes) -> Bytes {
        if self.bytes == 0 { body } else { Bytes::from_owner(Held { body, _place: self }) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.room.give_back(self.tenant, self.bytes);
        }
    }
}

struct Held {
    body: Bytes,
    _place: Place,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::clock::Timestamp;

    fn place(room: &Arc<BodyRoom>, n: u8) -> Place {
        room.place(Some(TenantId::generate(Timestamp::from_unix_us(0), [n; 10])))
    }

    #[test]
    fn a_tenant_has_its_share_and_no_more() {
        let room = Arc::new(BodyRoom::new(1_000));
        let (mut first, mut second) = (place(&room, 1), place(&room, 1));
        assert_eq!(first.grow(FREE + 300), Ok(()));
        assert_eq!(second.grow(FREE + 201), Err(NoRoom::OfTenant(500)));
        assert_eq!(second.grow(FREE + 200), Ok(()));
        let mut other = place(&room, 2);
        assert_eq!(other.grow(FREE + 500), Ok(()));
        assert_eq!(place(&room, 3).grow(FREE + 1), Err(NoRoom::OfAll));
        assert_eq!(place(&room, 3).grow(FREE), Ok(()), "what is small does not count");
        drop(first);
        assert_eq!(second.grow(FREE + 500), Ok(()));
    }

    #[test]
    fn a_body_is_counted_until_its_last_copy_goes() {
        let room = Arc::new(BodyRoom::new(1_000));
        let mut taken = place(&room, 1);
        taken.grow(FREE + 500).unwrap();
        let body = taken.hold(Bytes::from(vec![7; FREE + 500]));
        let part = body.slice(..3);
        drop(body);
        assert_eq!(place(&room, 1).grow(FREE + 1), Err(NoRoom::OfTenant(500)));
        assert_eq!(part, [7; 3][..]);
        drop(part);
        assert_eq!(place(&room, 1).grow(FREE + 500), Ok(()));
        assert!(room.taken.lock().by_tenant.is_empty());
    }
}
