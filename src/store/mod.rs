//! Durable facts in Postgres or SQLite (floor 3), the only floor that contains SQL.
//!
//! Reads are methods of [`Store`], writes are methods of [`Tx`]: `let mut tx = store.begin().await?`,
//! any number of writes, `tx.commit().await?`. What is dropped without commit did not happen.
//! Every operation is bounded in time; a database that does not answer is
//! [`StoreError::Unavailable`], never a hang.
//!
//! One SQL text serves both databases (`reading!`, `writing!` and `executing!` in `query.rs` expand
//! it for each driver); where they differ, both texts stand side by side. Instants are bound from
//! Rust in microseconds, ids are made by the caller, JSON columns hold objects.
//!
//! To add an aggregate: its domain type, one file here with its private row, its SQL and its verbs
//! (`lookup_x`, `find_x_by_y`, `list_xs`, `add_x`, `update_x`, `remove_x`), a pair of migrations
//! and a line in `migrate.rs`, and a test in tests/it/store that runs on both.

#[macro_use]
mod query;

mod access;
mod access_tokens;
mod catalog;
mod changes;
mod column;
mod db;
mod dimensions;
mod error;
mod events;
mod grants;
mod idempotency;
mod insert;
mod keys;
mod ledger;
mod members;
mod migrate;
mod models;
mod page;
mod partitions;
mod providers;
mod reconcile;
mod record;
mod replicas;
mod revocations;
mod routes;
mod settings;
mod signing_keys;
mod tenants;
mod tx;
mod vault_keys;

pub use access::{MemberAccess, TenantAccess};
pub use access_tokens::{AccessTokenFilter, RevokedToken};
pub use catalog::CatalogRows;
pub use changes::{Change, Changes, Versions};
pub use db::{DatabaseUrl, Store, StoreConfig};
pub use error::StoreError;
pub use events::EventFilter;
pub use grants::GrantFilter;
pub use idempotency::{Idempotency, IdempotentRequest, SavedAnswer};
pub use keys::KeyFilter;
pub use ledger::LedgerFilter;
pub use members::MemberFilter;
pub use migrate::PendingMigration;
pub use page::{Page, every};
pub use partitions::PartitionReport;
pub use reconcile::{ReconcileReport, TenantBooks};
pub use record::RecordOutcome;
pub use replicas::{Counting, ReplicaLock};
pub use revocations::Revocation;
pub use routes::RouteFilter;
pub use tx::{RemoveOutcome, Tx, UpdateOutcome};
pub use vault_keys::VaultKey;
