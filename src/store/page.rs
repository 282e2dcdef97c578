//! A piece of a list.

use uuid::Uuid;

/// A piece of a list, which is ordered by id, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// The last id of the piece before; none: from the start.
    pub after: Option<Uuid>,
    /// At most this many rows.
    pub limit: u32,
}

impl Page {
    /// The first `limit` rows.
    #[must_use]
    pub const fn first(limit: u32) -> Self {
        Self { after: None, limit }
    }

    /// The `limit` rows after `id`.
    #[must_use]
    pub const fn after(id: Uuid, limit: u32) -> Self {
        Self { after: Some(id), limit }
    }
}
