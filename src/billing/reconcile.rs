//! Proves the books: Σ events = Σ ledger charges = change of the balance, per tenant.

use std::{collections::BTreeMap, fmt, io, path::Path};

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

/// A line a tenant, then what is wrong, then the verdict.
impl fmt::Display for Books {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (tenant, books) in &self.store.tenants {
            let verdict = if books.is_balanced() { "balanced" } else { "NOT BALANCED" };
            writeln!(
                f,
                "{tenant}: {} events charge {}, ledger charges {}, ledger sum {}, balance {}: {verdict}",
                books.events, books.event_charges, books.ledger_charges, books.ledger_total, books.balance,
            )?;
        }
        for (tenant, waiting) in &self.waiting {
            writeln!(
                f,
                "{tenant}: {} events charging {} and {} open requests wait in the journal",
                waiting.events, waiting.charges, waiting.open,
            )?;
        }
        for event in &self.store.misbooked {
            writeln!(f, "{event}: its charge is not in the ledger as it should be")?;
        }
        for event in &self.store.nameless {
            writeln!(f, "{event}: who asked for it, or what served it, is not in the database any more")?;
        }
        let nameless = self.store.nameless.len();
        if nameless > 0 {
            writeln!(
                f,
                "{nameless} events name rows of usage_callers or usage_upstreams that are gone: restore both \
                 tables from a backup; rows that are there already are right"
            )?;
        }
        let wrong = self.store.differences().count();
        match (wrong, self.store.misbooked.len()) {
            (0, 0) => write!(f, "{} tenants, all balanced", self.store.tenants.len()),
            (wrong, events) => write!(
                f,
                "{wrong} of {} tenants are not balanced, {events} events are misbooked",
                self.store.tenants.len()
            ),
        }
    }
}
