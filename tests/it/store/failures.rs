//! A database that is away, frozen, killed or broken: said quickly, and over when it is over.

use std::time::{Duration, Instant};

use sqlx::{Connection, PgConnection};
use tollway::{
    domain::secret::Secret,
    store::{DatabaseUrl, Page, Store, StoreConfig, StoreError},
};

use super::{
    both::{self, OwnStore},
    fixtures::{self, added_provider, commit},
    raw::raw,
};
use crate::harness::services::{free_port, start_postgres};

on_both!(a_row_that_cannot_be_read_is_named);

fn impatient(url: &str) -> StoreConfig {
    StoreConfig {
        max_connections: 4,
        acquire_timeout: Duration::from_secs(1),
        statement_timeout: Duration::from_secs(1),
        ..StoreConfig::new(DatabaseUrl::Postgres(Secret::new(url.to_owned())))
    }
}

/// All that an error says, its causes included.
fn told(error: &StoreError) -> String {
    format!("{error} {error:?}")
}

#[tokio::test]
async fn a_postgres_that_is_not_there_is_unavailable_within_the_time_given() {
    let url = format!("postgres://tollway:hunter2secret@127.0.0.1:{}/tollway", free_port());
    let start = Instant::now();
    let error = Store::connect(&impatient(&url)).await.unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    assert!(error.is_unavailable(), "{error:?}");
    assert!(!told(&error).contains("hunter2"), "{error:?}");
    assert!(told(&error).contains("refused") && told(&error).contains("127.0.0.1:"), "{error:?}");
    assert!(!format!("{:?}", impatient(&url)).contains("hunter2"));
}

#[tokio::test]
async fn a_database_that_does_not_exist_is_said_in_the_servers_words() {
    let server = start_postgres();
    let (server_url, _) = server.url.rsplit_once('/').expect("a database");
    let error = Store::connect(&impatient(&format!("{server_url}/nodb"))).await.unwrap_err();
    assert!(told(&error).contains(r#"database \"nodb\" does not exist""#), "{error:?}");
    assert!(!told(&error).contains("at line"), "{error:?}");
}

#[tokio::test]
async fn a_url_that_cannot_be_used_is_refused_without_being_repeated() {
    for text in
        ["mysql://u:hunter2secret@h/d", "postgres://u:hunter2secret@h:port/d", "hunter2secret", "sqlite:"]
    {
        let error = DatabaseUrl::parse(text).unwrap_err();
        assert!(matches!(error, StoreError::InvalidUrl));
        assert!(!told(&error).contains("hunter2"));
    }
    assert!(
        matches!(DatabaseUrl::parse("sqlite:data/t.db"), Ok(DatabaseUrl::Sqlite(path)) if path.ends_with("t.db"))
    );
    assert!(matches!(DatabaseUrl::parse("postgresql://h/d?sslmode=require"), Ok(DatabaseUrl::Postgres(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_postgres_is_unavailable_and_comes_back() {
    let mut server = start_postgres();
    let store = Store::connect(&impatient(&server.url)).await.unwrap();
    store.migrate().await.unwrap();
    let provider = added_provider(&store, "p").await;
    let mut half_done = store.begin().await.unwrap();
    half_done.add_provider(&fixtures::provider("half done")).await.unwrap();
    server.kill();

    let start = Instant::now();
    assert!(half_done.commit().await.unwrap_err().is_unavailable());
    assert!(store.lookup_provider(provider.id).await.unwrap_err().is_unavailable());
    assert!(store.begin().await.err().unwrap().is_unavailable());
    assert!(
        store
            .record_events(&[fixtures::event(fixtures::tenant("t").id, 1)])
            .await
            .unwrap_err()
            .is_unavailable()
    );
    assert!(start.elapsed() < Duration::from_secs(12), "{:?}", start.elapsed());

    server.restart();
    assert_eq!(store.list_providers(Page::first(9)).await.unwrap(), [provider]);
    commit!(store, add_provider(&fixtures::provider("after")));
}

/// More calls than connections while it stands still: each comes back in time, and afterwards no
/// connection is missing and no answer reaches the wrong caller.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_postgres_is_unavailable_and_loses_no_connection() {
    let server = start_postgres();
    let store = Store::connect(&impatient(&server.url)).await.unwrap();
    store.migrate().await.unwrap();
    let (p, q) = (added_provider(&store, "p").await, added_provider(&store, "q").await);
    server.freeze();
    let start = Instant::now();
    let calls = (0..12).map(|n| {
        let (store, id) = (&store, p.id);
        async move {
            if n % 2 == 0 {
                return store.lookup_provider(id).await.map(|_| ());
            }
            let mut tx = store.begin().await?;
            tx.add_provider(&fixtures::provider(&format!("n{n}"))).await?;
            tx.commit().await
        }
    });
    for result in futures_util::future::join_all(calls).await {
        assert!(result.unwrap_err().is_unavailable());
    }
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    server.thaw();

    // Closing the connections that were caught takes sqlx at most five seconds more.
    let recovered = async {
        while store.ping().await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), recovered).await.unwrap();
    let reads = futures_util::future::join_all(
        (0..40).map(|n| store.lookup_provider(if n % 2 == 0 { p.id } else { q.id })),
    )
    .await;
    for (n, found) in reads.into_iter().enumerate() {
        assert_eq!(found.unwrap().as_ref(), Some(if n % 2 == 0 { &p } else { &q }));
    }
}

/// The statement that runs out of time is the last of three: what the others wrote goes with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recording_that_stalls_halfway_leaves_nothing_and_is_made_again() {
    let server = start_postgres();
    let store = Store::connect(&StoreConfig { max_connections: 1, ..impatient(&server.url) }).await.unwrap();
    store.migrate().await.unwrap();
    let tenant = fixtures::tenant("t");
    let events: Vec<_> = (1..=3).map(|charge| fixtures::event(tenant.id, charge)).collect();
    let mut other = PgConnection::connect(&server.url).await.unwrap();
    sqlx::query("begin").execute(&mut other).await.unwrap();
    sqlx::query("lock table balances in exclusive mode").execute(&mut other).await.unwrap();

    assert!(store.record_events(&events).await.unwrap_err().is_unavailable());
    assert!(store.reconcile(&[]).await.unwrap().tenants.is_empty(), "nothing of it is left");
    assert!(store.record_events(&events).await.unwrap_err().is_unavailable(), "nor is a connection");

    sqlx::query("commit").execute(&mut other).await.unwrap();
    assert_eq!(store.record_events(&events).await.unwrap().new.len(), 3);
    let report = store.reconcile(&[]).await.unwrap();
    assert!(report.is_balanced());
    assert_eq!(report.tenants[&tenant.id].events, 3);
}

#[tokio::test]
async fn a_listener_outlives_a_restart_of_postgres() {
    let mut server = start_postgres();
    let store = Store::connect(&impatient(&server.url)).await.unwrap();
    store.migrate().await.unwrap();
    let mut changes = store.listen().await.unwrap().unwrap();
    server.restart();
    let heard = async {
        // The loss is said, once or more while it is away, and then it listens again.
        assert!(!matches!(changes.next().await, Ok(Some(_))));
        let mut waiting = Box::pin(async {
            loop {
                if let Ok(Some(change)) = changes.next().await {
                    return change;
                }
            }
        });
        loop {
            tokio::select! {
                change = &mut waiting => return change,
                () = tokio::time::sleep(Duration::from_millis(100)) => {
                    // Until it listens again nothing of this is heard.
                    if let Ok(mut tx) = store.begin().await
                        && tx.add_model(&fixtures::model(&format!("{:?}", Instant::now()))).await.is_ok()
                    {
                        let _ = tx.commit().await;
                    }
                }
            }
        }
    };
    let change = tokio::time::timeout(Duration::from_secs(20), heard).await.unwrap();
    assert_eq!(change, tollway::store::Change::Catalog);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_takes_too_long_is_given_up() {
    let server = start_postgres();
    let store = Store::connect(&impatient(&server.url)).await.unwrap();
    store.migrate().await.unwrap();
    let provider = added_provider(&store, "p").await;
    let mut first = store.begin().await.unwrap();
    first
        .set_key_state(
            fixtures::key(&provider, "k").id,
            tollway::domain::key::KeyState::Active,
            fixtures::NOW,
        )
        .await
        .unwrap();
    first.update_provider(&provider, 1).await.unwrap();
    let mut second = store.begin().await.unwrap();
    let waited = second.update_provider(&provider, 1).await;
    assert!(waited.unwrap_err().is_unavailable(), "the row is locked by the first");
    drop(second);
    first.commit().await.unwrap();
    assert_eq!(store.lookup_provider(provider.id).await.unwrap().unwrap().version, 2);
}

#[tokio::test]
async fn a_directory_that_is_not_there_is_unavailable() {
    let config = StoreConfig::new(DatabaseUrl::Sqlite("/nowhere/at/all/tollway.db".into()));
    assert!(Store::connect(&config).await.unwrap_err().is_unavailable());
}

#[tokio::test]
async fn the_sqlite_file_is_its_owners_alone_and_survives_its_process() {
    use std::os::unix::fs::PermissionsExt;
    let store = both::sqlite().await;
    let DatabaseUrl::Sqlite(path) = store.config.url.clone() else { unreachable!() };
    let provider = added_provider(&store, "p").await;
    for suffix in ["", "-wal", "-shm"] {
        let file = format!("{}{suffix}", path.display());
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "{file}");
    }
    let again = store.replica().await;
    store.close().await;
    assert!(store.ping().await.unwrap_err().is_unavailable());
    assert_eq!(again.lookup_provider(provider.id).await.unwrap(), Some(provider));
    let mode = raw(&store, "select cast(journal_mode as text) from pragma_journal_mode").await;
    assert_eq!(mode, ["wal"]);
}

async fn a_row_that_cannot_be_read_is_named(store: OwnStore) {
    let provider = added_provider(&store, "p").await;
    raw(&store, "update providers set tier = 'royal'").await;
    for result in
        [store.lookup_provider(provider.id).await.map(|_| ()), store.load_catalog().await.map(|_| ())]
    {
        match result {
            Err(StoreError::BadRow { table, column, id }) => {
                assert_eq!((table, column, id), ("providers", "tier", provider.id.to_string()));
            }
            other => panic!("{other:?}"),
        }
    }
}
