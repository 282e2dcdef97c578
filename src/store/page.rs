//! A piece of a list.

use uuid::Uuid;

use crate::store::StoreError;

/// Rows that [`every`] reads at a time.
const PIECE: u32 = 500;

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

/// Reads a list to its end, for those that need all of a bounded number of rows.
///
/// # Errors
/// What `read` fails with.
pub async fn every<T>(
    read: impl AsyncFn(Page) -> Result<Vec<T>, StoreError>,
    id: impl Fn(&T) -> Uuid,
) -> Result<Vec<T>, StoreError> {
    let mut rows = read(Page::first(PIECE)).await?;
    let mut is_more = rows.len() == PIECE as usize;
    while let Some(last) = rows.last().filter(|_| is_more) {
        let piece = read(Page::after(id(last), PIECE)).await?;
        is_more = piece.len() == PIECE as usize;
        rows.extend(piece);
    }
    Ok(rows)
}
