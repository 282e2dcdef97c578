//! What the journal holds comes into the store, exactly once, whatever is away meanwhile.

use std::{path::Path, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;
use tollway::{
    billing::{
        adopt::{AdoptError, adopt},
        journal::{Journal, JournalError},
        reconcile::reconcile,
        recorder::Recorder,
    },
    domain::{
        clock::SystemClock,
        event::{Outcome, UsageEvent},
        money::Nanos,
    },
    store::{DatabaseUrl, EventFilter, Page, Store, StoreConfig},
    telemetry::Metrics,
    vault::entropy::SeededEntropy,
};

use super::{attempt, attempt_start, begin, by_id, event, open, request, small, usage};
use crate::harness::{
    proxy::Proxy,
    services::{TestDatabase, migrated_database, start_postgres},
};

/// A store that a test has for itself; what it stands on goes with it.
struct Books {
    store: Store,
    _database: Option<TestDatabase>,
    _dir: tempfile::TempDir,
}

async fn connect(url: &str) -> Store {
    let url = DatabaseUrl::parse(url).unwrap();
    let config = StoreConfig { acquire_timeout: Duration::from_millis(500), ..StoreConfig::new(url) };
    Store::connect(&config).await.unwrap()
}

async fn sqlite() -> Books {
    let dir = tempfile::tempdir().unwrap();
    let store = connect(&format!("sqlite:{}", dir.path().join("tollway.db").display())).await;
    store.migrate().await.unwrap();
    Books { store, _database: None, _dir: dir }
}

async fn postgres() -> Books {
    let database = migrated_database().await;
    let store = connect(&database.url).await;
    Books { store, _database: Some(database), _dir: tempfile::tempdir().unwrap() }
}

fn recorder(journal: &Journal, store: &Store) -> Recorder {
    Recorder::new(journal.clone(), store.clone(), Arc::new(SystemClock), Arc::new(Metrics::new())).unwrap()
}

fn write(journal: &Journal, numbers: std::ops::Range<u64>) {
    for n in numbers {
        journal.begin(&begin(n), &attempt_start(0)).unwrap();
        if n.is_multiple_of(3) {
            journal.attempt(request(n), &attempt_start(1), &attempt(0, None)).unwrap();
        }
        journal.end(&expected(n)).unwrap();
    }
}

fn expected(n: u64) -> UsageEvent {
    event(n, 1 + u64::from(n.is_multiple_of(3)))
}

async fn stored(store: &Store) -> Vec<UsageEvent> {
    let mut all: Vec<UsageEvent> = Vec::new();
    loop {
        let page = Page { after: all.last().map(|event| event.id.uuid()), limit: 1_000 };
        let next = store.list_events(&EventFilter::default(), page).await.unwrap();
        if next.is_empty() {
            return all;
        }
        all.extend(next);
    }
}

/// All of `numbers` and nothing else is in the store, charged once.
async fn holds_exactly(store: &Store, numbers: std::ops::Range<u64>) {
    let all = by_id(stored(store).await);
    assert_eq!(all.len() as u64, numbers.end - numbers.start);
    for n in numbers.clone() {
        assert_eq!(all.get(&request(n)), Some(&expected(n)), "event {n}");
    }
    let books = reconcile(store, None).await.unwrap();
    assert!(books.is_balanced(), "{books:?}");
    let owed: Nanos = books.store.tenants.values().map(|tenant| tenant.balance).sum();
    let charges: Nanos = numbers.map(|n| expected(n).charge).sum();
    assert!(charges > Nanos::ZERO);
    assert_eq!(owed, charges.negated());
}

async fn drains_and_goes_on_after_a_restart(books: &Books) {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(small(dir.path()));
    write(&journal, 0..1_200);
    assert_eq!(journal.health().undrained_records, 1_200);
    assert!(recorder(&journal, &books.store).drain(Duration::from_secs(60)).await);
    assert_eq!(journal.health().undrained_records, 0);
    assert_eq!(journal.health().oldest_undrained_at, None);
    holds_exactly(&books.store, 0..1_200).await;

    drop(journal);
    let (journal, _) = open(small(dir.path()));
    assert_eq!(journal.health().undrained_records, 0, "the cursor was saved");
    write(&journal, 1_200..1_300);
    assert!(recorder(&journal, &books.store).drain(Duration::from_secs(60)).await);
    holds_exactly(&books.store, 0..1_300).await;

    // Without its cursor it gives the store everything again, which changes nothing.
    drop(journal);
    std::fs::remove_file(dir.path().join("cursor")).unwrap();
    let (journal, _) = open(small(dir.path()));
    assert!(journal.health().undrained_records > 0);
    assert!(recorder(&journal, &books.store).drain(Duration::from_secs(60)).await);
    holds_exactly(&books.store, 0..1_300).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_gets_every_event_once_across_restarts() {
    drains_and_goes_on_after_a_restart(&sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_gets_every_event_once_across_restarts() {
    drains_and_goes_on_after_a_restart(&postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_recorder_keeps_up_lets_segments_go_and_stops_when_told() {
    let books = sqlite().await;
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(small(dir.path()));
    let stop = CancellationToken::new();
    let mut recorder = recorder(&journal, &books.store);
    let run = {
        let stop = stop.clone();
        tokio::spawn(async move {
            recorder.run(&stop).await;
            recorder
        })
    };
    for round in 0..10 {
        write(&journal, round * 100..(round + 1) * 100);
        tokio::task::yield_now().await;
    }
    until("everything is drained", || journal.health().undrained_records == 0).await;
    until("old segments are gone", || segments(dir.path()) <= 4).await;
    stop.cancel();
    let mut recorder = tokio::time::timeout(Duration::from_secs(5), run).await.unwrap().unwrap();
    write(&journal, 1_000..1_010);
    assert!(recorder.drain(Duration::from_secs(20)).await);
    holds_exactly(&books.store, 0..1_010).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_network_to_postgres_is_cut_the_journal_grows_and_then_drains() {
    let database = migrated_database().await;
    let proxy = Proxy::before(&database.url);
    let store = connect(&proxy.url(&database.url)).await;
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(small(dir.path()));
    let mut recorder = recorder(&journal, &store);
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let run = tokio::spawn(async move { recorder.run(&stopped).await });
    write(&journal, 0..700);
    until("the first part is drained", || journal.health().undrained_records == 0).await;

    proxy.cut();
    write(&journal, 700..2_000);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let health = journal.health();
    assert!(health.undrained_records > 0 && health.oldest_undrained_at.is_some(), "{health:?}");
    proxy.restore();
    until("the rest is drained", || journal.health().undrained_records == 0).await;
    stop.cancel();
    run.await.unwrap();
    holds_exactly(&store, 0..2_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_killed_and_started_again_in_the_middle_gets_every_event_once() {
    let mut server = start_postgres();
    let store = connect(&server.url).await;
    store.migrate().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(small(dir.path()));
    let mut recorder = recorder(&journal, &store);
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let run = tokio::spawn(async move { recorder.run(&stopped).await });
    let writer = {
        let journal = journal.clone();
        tokio::task::spawn_blocking(move || {
            for round in 0..40 {
                write(&journal, round * 100..(round + 1) * 100);
                // Spread over the three kills.
                std::thread::sleep(Duration::from_millis(30));
            }
        })
    };
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(250)).await;
        server.kill();
        tokio::time::sleep(Duration::from_millis(100)).await;
        server.restart();
    }
    writer.await.unwrap();
    until("everything is drained", || journal.health().undrained_records == 0).await;
    stop.cancel();
    run.await.unwrap();
    holds_exactly(&store, 0..4_000).await;
}

/// Takes the place of the events table so that the store refuses one event for what it says.
async fn refuses_one_event(database: &TestDatabase, n: u64) {
    let pool = sqlx::PgPool::connect(&database.url).await.unwrap();
    let sql = format!("alter table usage_events_default add check (id <> '{}')", request(n).uuid());
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&pool).await.unwrap();
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_the_store_refuses_is_set_aside_and_holds_up_no_other() {
    let database = migrated_database().await;
    refuses_one_event(&database, 7).await;
    let store = connect(&database.url).await;
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(small(dir.path()));
    let metrics = Arc::new(Metrics::new());
    let mut recorder =
        Recorder::new(journal.clone(), store.clone(), Arc::new(SystemClock), Arc::clone(&metrics)).unwrap();

    // Alone it might be the store that is broken: it is kept.
    write(&journal, 7..8);
    assert!(!recorder.drain(Duration::from_millis(600)).await);
    assert_eq!(journal.health().undrained_records, 1);

    // Beside one that is taken it is the event.
    write(&journal, 8..20);
    assert!(recorder.drain(Duration::from_secs(20)).await);
    holds_exactly(&store, 8..20).await;
    let aside = std::fs::read_to_string(dir.path().join("rejected.jsonl")).unwrap();
    let line: serde_json::Value = serde_json::from_str(aside.trim()).unwrap();
    assert_eq!(serde_json::from_value::<UsageEvent>(line["event"].clone()).unwrap(), expected(7));
    assert!(metrics.render().unwrap().contains("tollway_recorder_rejected_total 1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_booked_does_not_wait_although_the_cursor_is_behind() {
    let books = sqlite().await;
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(small(dir.path()));
    write(&journal, 0..30);
    assert!(recorder(&journal, &books.store).drain(Duration::from_secs(60)).await);
    // As the cursor is for up to a second after a batch.
    std::fs::remove_file(dir.path().join("cursor")).unwrap();
    write(&journal, 30..40);
    journal.begin(&begin(40), &attempt_start(0)).unwrap();

    let told = reconcile(&books.store, Some(dir.path())).await.unwrap();
    let events: u64 = told.waiting.values().map(|w| w.events).sum();
    let open: u64 = told.waiting.values().map(|w| w.open).sum();
    assert_eq!((events, open), (10, 1));
    let charges: Nanos = told.waiting.values().map(|w| w.charges).sum();
    assert_eq!(charges, (30..40).map(|n| expected(n).charge).sum());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_replicas_journal_is_adopted_once_it_is_dead() {
    let books = sqlite().await;
    let dir = tempfile::tempdir().unwrap();
    let entropy = SeededEntropy::from_seed(1);
    let adopting = || {
        let (store, metrics) = (books.store.clone(), Arc::new(Metrics::new()));
        adopt(dir.path(), store, Arc::new(SystemClock), &entropy, metrics, Duration::from_secs(20))
    };
    let nothing = adopting().await;
    assert!(matches!(nothing, Err(AdoptError::NoJournal(_))), "{nothing:?}");

    let (journal, _) = open(small(dir.path()));
    write(&journal, 0..30);
    journal.begin(&begin(30), &attempt_start(0)).unwrap();
    journal.progress(request(30), &usage(40), begin(30).started_at).unwrap();
    let alive = adopting().await;
    assert!(matches!(alive, Err(AdoptError::Journal(JournalError::Locked { .. }))), "{alive:?}");
    let replica = journal.replica();
    drop(journal);

    let waiting = reconcile(&books.store, Some(dir.path())).await.unwrap();
    let events: u64 = waiting.waiting.values().map(|w| w.events).sum();
    let open: u64 = waiting.waiting.values().map(|w| w.open).sum();
    assert_eq!((events, open), (30, 1));

    let adopted = adopting().await.unwrap();
    assert_eq!((adopted.replica, adopted.drained), (replica, 31));
    assert_eq!(adopted.recovered.holds[0].request, request(30));
    let all = by_id(stored(&books.store).await);
    assert_eq!((all.len(), all[&request(30)].outcome), (31, Outcome::Interrupted));
    assert_eq!(all[&request(30)].charge, Nanos::new(80));
    assert!(dir.path().join("adopted").exists());
    let again = adopting().await.unwrap();
    assert_eq!(again.drained, 0);
    let books = reconcile(&books.store, Some(dir.path())).await.unwrap();
    assert!(books.is_balanced() && books.waiting.is_empty(), "{books:?}");
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waited = std::time::Instant::now();
    while !is_so() {
        assert!(waited.elapsed() < Duration::from_secs(60), "still not so: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn segments(dir: &Path) -> usize {
    let is_segment = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("segment-");
    std::fs::read_dir(dir).unwrap().filter(|entry| is_segment(&entry.as_ref().unwrap().file_name())).count()
}
