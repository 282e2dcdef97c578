//! The immutable snapshot of providers, keys, models and routes for the hot path (floor 4).
//!
//! A [`Catalog`] holds the current [`Snapshot`]; readers take an `Arc` of it and keep it for the
//! length of a request, so a change never splits one. [`Catalog::watch`] follows the store: woken
//! by NOTIFY where there is Postgres, by polling the version everywhere, within 2 s.
//!
//! To let the hot path see one more fact of a provider, key, model or route: put it into the
//! domain type; the snapshot carries the whole object.

mod mended;
mod snapshot;
mod watch;

pub use snapshot::{Candidate, PoolMember, ProviderPool, Served, Snapshot};
pub use watch::{Catalog, CatalogError};
