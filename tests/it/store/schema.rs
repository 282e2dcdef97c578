//! Migrations: the same on both, run once, refused when unknown.

use tollway::store::{Store, StoreError};

use super::{
    both::{self, OwnStore},
    raw::raw,
};

/// Postgres's spelling of a table's columns; partitions are not tables of their own.
const POSTGRES_COLUMNS: &str = "
    select table_name || '.' || column_name || ' ' || is_nullable
    from information_schema.columns
    where table_schema = 'public'
        and table_name not in (select cast(cast(inhrelid as regclass) as text) from pg_inherits)
        and table_name <> '_sqlx_migrations'
    order by 1";
const SQLITE_COLUMNS: &str = "
    select tables.name || '.' || columns.name || case when columns.[notnull] or columns.pk then ' NO' else ' YES' end
    from sqlite_master as tables, pragma_table_info(tables.name) as columns
    where tables.type = 'table' and tables.name <> '_sqlx_migrations'
    order by 1";

#[tokio::test]
async fn both_databases_end_with_the_same_tables_and_columns() {
    let (postgres, sqlite) = (both::postgres().await, both::sqlite().await);
    let (postgres, sqlite) = (raw(&postgres, POSTGRES_COLUMNS).await, raw(&sqlite, SQLITE_COLUMNS).await);
    let sorted = |mut columns: Vec<String>| {
        columns.sort();
        columns
    };
    assert!(postgres.len() > 100);
    assert_eq!(sorted(postgres), sorted(sqlite));
}

async fn an_empty_database_is_migrated_once(store: OwnStore) {
    let pending = store.pending_migrations().await.unwrap();
    assert_eq!(pending[0].version, 1);
    assert!(pending.iter().all(|step| step.sql.contains("create")));
    let versions: Vec<i64> = pending.iter().map(|step| step.version).collect();
    match store.check_schema().await {
        Err(StoreError::IncompleteSchema { missing }) => assert_eq!(missing, versions),
        other => panic!("served without a schema: {other:?}"),
    }
    store.migrate().await.unwrap();
    assert_eq!(store.pending_migrations().await.unwrap(), []);
    store.check_schema().await.unwrap();
    store.migrate().await.unwrap();
}

async fn a_newer_schema_is_refused(store: OwnStore) {
    let newer = "insert into _sqlx_migrations (version, description, success, checksum, execution_time)
        select 9999, 'from the future', success, checksum, 0 from _sqlx_migrations where version = 1";
    raw(&store, newer).await;
    let refused =
        |result: Result<(), StoreError>| matches!(result, Err(StoreError::UnknownSchema { found: 9999, .. }));
    assert!(refused(store.check_schema().await));
    assert!(refused(store.migrate().await));
    assert!(matches!(store.pending_migrations().await, Err(StoreError::UnknownSchema { .. })));
}

async fn a_migration_whose_text_was_changed_is_refused(store: OwnStore) {
    let forged = match &store.config.url {
        tollway::store::DatabaseUrl::Postgres(_) => {
            "update _sqlx_migrations set checksum = decode('00', 'hex')"
        }
        tollway::store::DatabaseUrl::Sqlite(_) => "update _sqlx_migrations set checksum = x'00'",
    };
    raw(&store, forged).await;
    let refused =
        |result: Result<(), StoreError>| matches!(result, Err(StoreError::ChangedMigration { version: 1 }));
    assert!(refused(store.check_schema().await));
    assert!(refused(store.migrate().await));
}

async fn many_replicas_migrate_at_once(store: OwnStore) {
    let mut replicas: Vec<Store> = Vec::new();
    for _ in 0..6 {
        replicas.push(store.replica().await);
    }
    for result in futures_util::future::join_all(replicas.iter().map(Store::migrate)).await {
        result.unwrap();
    }
    store.check_schema().await.unwrap();
}

#[tokio::test]
async fn an_empty_postgres_is_migrated_once() {
    an_empty_database_is_migrated_once(both::empty_postgres().await).await;
}

#[tokio::test]
async fn an_empty_sqlite_is_migrated_once() {
    an_empty_database_is_migrated_once(both::empty_sqlite().await).await;
}

#[tokio::test]
async fn many_replicas_migrate_one_postgres_at_once() {
    many_replicas_migrate_at_once(both::empty_postgres().await).await;
}

on_both!(a_newer_schema_is_refused, a_migration_whose_text_was_changed_is_refused);
