//! The catalog in one read, and how replicas hear of changes.

use std::time::{Duration, Instant};

use tokio::time::timeout;
use tollway::store::{CatalogRows, Change};

use super::{
    both::{self, OwnStore},
    fixtures::{self, added_provider, added_tenant, commit},
};

on_both!(the_catalog_is_loaded_whole, a_catalog_is_of_one_version, ten_thousand_keys_load_in_a_second);

const PATIENCE: Duration = Duration::from_secs(10);

async fn the_catalog_is_loaded_whole(store: OwnStore) {
    let empty = store.load_catalog().await.unwrap();
    assert_eq!(empty, CatalogRows { version: 1, ..CatalogRows::default() });
    let (provider, model) = (fixtures::provider("p"), fixtures::model("m"));
    let (key, route) = (fixtures::key(&provider, "k"), fixtures::route(&model, &provider));
    commit!(store, add_provider(&provider), add_key(&key), add_model(&model), add_route(&route));
    let rows = CatalogRows {
        version: 2,
        providers: vec![provider],
        keys: vec![key],
        models: vec![model],
        routes: vec![route],
    };
    assert_eq!(store.load_catalog().await.unwrap(), rows);
}

/// Each commit adds one provider, so that a consistent read has as many as its version says.
async fn a_catalog_is_of_one_version(store: OwnStore) {
    let writer = store.replica().await;
    let writing = tokio::spawn(async move {
        for n in 0..60 {
            let provider = fixtures::provider(&format!("p{n}"));
            commit!(writer, add_provider(&provider), add_key(&fixtures::key(&provider, "k")));
        }
    });
    while !writing.is_finished() {
        let rows = store.load_catalog().await.unwrap();
        assert_eq!(i64::try_from(rows.providers.len()).unwrap(), rows.version - 1);
        assert_eq!(rows.providers.len(), rows.keys.len());
    }
    writing.await.unwrap();
    assert_eq!(store.load_catalog().await.unwrap().version, 61);
}

async fn ten_thousand_keys_load_in_a_second(store: OwnStore) {
    let provider = added_provider(&store, "p").await;
    let mut tx = store.begin().await.unwrap();
    for n in 0..10_000 {
        tx.add_key(&fixtures::key(&provider, &format!("k{n}"))).await.unwrap();
    }
    tx.commit().await.unwrap();
    let start = Instant::now();
    assert_eq!(store.load_catalog().await.unwrap().keys.len(), 10_000);
    let took = start.elapsed();
    eprintln!("10 000 keys loaded in {took:?} from {:?}", *store);
    // Alone and without optimisation about 0.2 s; others compile on this machine.
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[tokio::test]
async fn postgres_tells_every_replica_of_a_change_at_its_commit() {
    let store = both::postgres().await;
    let replica = store.replica().await;
    let mut changes = replica.listen().await.unwrap().unwrap();
    let mut tx = store.begin().await.unwrap();
    tx.add_provider(&fixtures::provider("p")).await.unwrap();
    tx.add_model(&fixtures::model("m")).await.unwrap();
    assert!(timeout(Duration::from_millis(100), changes.next()).await.is_err(), "not before the commit");
    tx.commit().await.unwrap();
    assert_eq!(timeout(PATIENCE, changes.next()).await.unwrap().unwrap(), Some(Change::Catalog));
    assert_eq!(replica.catalog_version().await.unwrap(), 2, "the version is there when the word is");
    added_tenant(&store, "t").await;
    assert_eq!(timeout(PATIENCE, changes.next()).await.unwrap().unwrap(), Some(Change::Access));
    commit!(store, add_ledger_entry(&fixtures::top_up(fixtures::tenant("t").id, 1)));
    commit!(store, remove_provider(store.find_provider_by_name("p").await.unwrap().unwrap().id, None));
    assert_eq!(
        timeout(PATIENCE, changes.next()).await.unwrap().unwrap(),
        Some(Change::Catalog),
        "money is none"
    );
}

#[tokio::test]
async fn sqlite_has_nothing_to_listen_to() {
    assert!(both::sqlite().await.listen().await.unwrap().is_none());
}
