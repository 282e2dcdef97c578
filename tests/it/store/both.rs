//! A store of the test's own on either database.

use std::{ops::Deref, time::Duration};

use tollway::{
    domain::secret::Secret,
    store::{DatabaseUrl, Store, StoreConfig},
};

use crate::harness::services::{TestDatabase, fresh_database};

/// A store that goes away with its database at the end.
pub struct OwnStore {
    store: Store,
    pub config: StoreConfig,
    _gone_at_end: Box<dyn Send + Sync>,
}

impl Deref for OwnStore {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

impl OwnStore {
    /// Another process's view of the same database.
    pub async fn replica(&self) -> Store {
        Store::connect(&self.config).await.expect("connect once more")
    }
}

pub async fn empty_postgres() -> OwnStore {
    let database: TestDatabase = fresh_database().await;
    let url = DatabaseUrl::Postgres(Secret::new(database.url.clone()));
    open(url, database).await
}

pub async fn empty_sqlite() -> OwnStore {
    let dir = tempfile::tempdir().expect("a temporary directory");
    open(DatabaseUrl::Sqlite(dir.path().join("tollway.db")), dir).await
}

pub async fn postgres() -> OwnStore {
    let store = empty_postgres().await;
    store.migrate().await.expect("migrate Postgres");
    store
}

pub async fn sqlite() -> OwnStore {
    let store = empty_sqlite().await;
    store.migrate().await.expect("migrate SQLite");
    store
}

async fn open(url: DatabaseUrl, gone_at_end: impl Send + Sync + 'static) -> OwnStore {
    let config =
        StoreConfig { max_connections: 8, acquire_timeout: Duration::from_secs(20), ..StoreConfig::new(url) };
    let store = Store::connect(&config).await.expect("connect");
    OwnStore { store, config, _gone_at_end: Box::new(gone_at_end) }
}

/// Runs each of these functions on both databases.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(crate::store::both::postgres().await).await;
            })*
        }
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(crate::store::both::sqlite().await).await;
            })*
        }
    };
}
pub(crate) use on_both;
