//! Replicas report themselves; a lock proves one alive.

use std::time::Duration;

use tollway::{
    domain::{ids::ReplicaId, replica::Replica},
    store::Counting,
};

use super::{
    both::{self, OwnStore},
    fixtures::{NOW, commit, fresh},
    raw::raw,
};

on_both!(a_replica_replaces_itself);

fn replica() -> Replica {
    Replica {
        id: ReplicaId::generate(NOW, fresh()),
        build: "0.1.0".to_owned(),
        started_at: NOW,
        heartbeat_at: NOW,
        journal_records: 3,
        journal_bytes: 4_096,
    }
}

async fn a_replica_replaces_itself(store: OwnStore) {
    let later = NOW.plus(Duration::from_secs(5));
    let (mut first, second) = (replica(), replica());
    commit!(store, put_replica(&first), put_replica(&second));
    (first.heartbeat_at, first.journal_records, first.build) = (later, 0, "0.2.0".to_owned());
    commit!(store, put_replica(&first));
    assert_eq!(store.list_replicas(NOW).await.unwrap(), [first.clone(), second.clone()]);
    assert_eq!(store.list_replicas(later).await.unwrap(), [first.clone()]);
    assert!(commit!(store, remove_replica(first.id)));
    assert!(!commit!(store, remove_replica(first.id)));
    assert_eq!(store.list_replicas(NOW).await.unwrap(), [second]);
}

#[tokio::test]
async fn a_replica_holds_its_lock_and_counts_the_others() {
    let store = both::postgres().await;
    let other = store.replica().await;
    let (a, b) = (ReplicaId::generate(NOW, fresh()), ReplicaId::generate(NOW, fresh()));
    let mut lock = store.lock_replica(a, Counting::Together).await.unwrap().unwrap();
    assert_eq!(lock.others().await.unwrap(), 0);
    assert!(
        other.lock_replica(a, Counting::Together).await.unwrap().is_none(),
        "the same journal directory twice"
    );
    let mut second = other.lock_replica(b, Counting::Together).await.unwrap().unwrap();
    assert_eq!((lock.others().await.unwrap(), second.others().await.unwrap()), (1, 1));
    second.release().await;
    assert_eq!(lock.others().await.unwrap(), 0);
    // Another deployment's database on the same server is not counted.
    let elsewhere = both::postgres().await;
    let mut far = elsewhere.lock_replica(b, Counting::Together).await.unwrap().unwrap();
    assert_eq!((lock.others().await.unwrap(), far.others().await.unwrap()), (0, 0));
}

#[tokio::test]
async fn who_counts_by_itself_is_seen_by_the_others() {
    let store = both::postgres().await;
    let other = store.replica().await;
    let (a, b) = (ReplicaId::generate(NOW, fresh()), ReplicaId::generate(NOW, fresh()));
    let mut loner = store.lock_replica(a, Counting::ByItself).await.unwrap().unwrap();
    let mut second = other.lock_replica(b, Counting::Together).await.unwrap().unwrap();
    assert_eq!((loner.loners().await.unwrap(), second.loners().await.unwrap()), (0, 1));
    assert_eq!((loner.others().await.unwrap(), second.others().await.unwrap()), (1, 1));
    loner.release().await;
    assert_eq!(second.loners().await.unwrap(), 0);
}

#[tokio::test]
async fn a_lock_is_lost_with_its_session_and_free_again() {
    let store = both::postgres().await;
    let id = ReplicaId::generate(NOW, fresh());
    let mut lock = store.lock_replica(id, Counting::Together).await.unwrap().unwrap();
    assert!(lock.is_held().await);
    let kill = "select cast(pg_terminate_backend(pid) as text) from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())";
    raw(&store, kill).await;
    assert!(!lock.is_held().await);
    assert!(store.lock_replica(id, Counting::Together).await.unwrap().is_some());
}

#[tokio::test]
async fn in_sqlite_the_directory_stands_in_for_the_lock() {
    let store = both::sqlite().await;
    let mut lock =
        store.lock_replica(ReplicaId::generate(NOW, fresh()), Counting::Together).await.unwrap().unwrap();
    assert_eq!(lock.others().await.unwrap(), 0);
    assert!(lock.is_held().await);
    lock.release().await;
}
