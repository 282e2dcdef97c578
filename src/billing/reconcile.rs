//! Proves the books: Σ events = Σ ledger charges = change of the balance, per tenant.

use std::{collections::BTreeMap, io, path::Path};

use super::journal::{Waiting, by_tenant, undrained};
use crate::{
    domain::ids::TenantId,
    store::{ReconcileReport, Store, StoreError},
};

/// The books of a deployment, and what the journals at hand still hold back from them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Books {
    /// What the store's books add up to.
    pub store: ReconcileReport,
    /// What is in a journal and not in the store; no difference, only not booked yet.
    pub waiting: BTreeMap<TenantId, Waiting>,
}

/// Why the books could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The store's side.
    #[error("the store's books cannot be read")]
    Store(#[from] StoreError),
    /// The journal's side.
    #[error("the journal cannot be read")]
    Journal(#[from] io::Error),
}

impl Books {
    /// Whether everything agrees: what the exit code of `tollway reconcile` says.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        self.store.is_balanced()
    }
}

/// Adds up the store's books, and what waits in the journal in `journal_dir`, if there is one.
///
/// # Errors
///
/// [`ReconcileError`].
pub async fn reconcile(store: &Store, journal_dir: Option<&Path>) -> Result<Books, ReconcileError> {
    let mut undrained = match journal_dir {
        Some(dir) if dir.exists() => undrained(dir)?,
        _ => BTreeMap::new(),
    };
    // The journal first, and then what of it the books have: an event that was booked meanwhile stands in
    // the sums or among those that wait, never in both.
    let asked: Vec<_> = undrained.keys().copied().collect();
    let store = store.reconcile(&asked).await?;
    undrained.retain(|request, _| !store.recorded.contains(request));
    Ok(Books { store, waiting: by_tenant(undrained.values()) })
}
