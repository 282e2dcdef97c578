//! What a transaction promises.

use std::time::Duration;

use tokio::time::timeout;
use tollway::store::{Page, Versions};

use super::{
    both::OwnStore,
    fixtures::{self, added_provider, added_tenant, commit},
};

on_both!(
    what_is_not_committed_did_not_happen,
    nobody_sees_a_write_before_its_commit,
    writers_take_turns,
    versions_rise_once_with_a_commit_and_by_kind,
    an_abandoned_call_leaves_the_store_usable,
);

async fn what_is_not_committed_did_not_happen(store: OwnStore) {
    let before = store.versions().await.unwrap();
    let mut dropped = store.begin().await.unwrap();
    dropped.add_provider(&fixtures::provider("dropped")).await.unwrap();
    drop(dropped);
    let mut taken_back = store.begin().await.unwrap();
    taken_back.add_provider(&fixtures::provider("taken back")).await.unwrap();
    taken_back.rollback().await.unwrap();
    let mut failed = store.begin().await.unwrap();
    failed.add_provider(&fixtures::provider("failed")).await.unwrap();
    failed.add_key(&fixtures::key(&fixtures::provider("nowhere"), "k")).await.unwrap_err();
    drop(failed);

    added_provider(&store, "kept").await;
    let names: Vec<String> = store
        .list_providers(Page::first(9))
        .await
        .unwrap()
        .into_iter()
        .map(|provider| provider.name)
        .collect();
    assert_eq!(names, ["kept"]);
    assert_eq!(store.catalog_version().await.unwrap(), before.catalog + 1);
}

async fn nobody_sees_a_write_before_its_commit(store: OwnStore) {
    let mut tx = store.begin().await.unwrap();
    tx.add_provider(&fixtures::provider("p")).await.unwrap();
    assert_eq!(store.find_provider_by_name("p").await.unwrap(), None);
    tx.commit().await.unwrap();
    assert!(store.find_provider_by_name("p").await.unwrap().is_some());
}

async fn writers_take_turns(store: OwnStore) {
    let provider = added_provider(&store, "p").await;
    let writers = (0..16).map(|n| {
        let (store, provider) = (&store, provider.clone());
        async move { commit!(store, add_key(&fixtures::key(&provider, &format!("k{n}")))) }
    });
    futures_util::future::join_all(writers).await;
    let keys = store.list_keys(&tollway::store::KeyFilter::default(), Page::first(99)).await.unwrap();
    assert_eq!(keys.len(), 16);
}

async fn versions_rise_once_with_a_commit_and_by_kind(store: OwnStore) {
    let Versions { catalog, access } = store.versions().await.unwrap();
    let (provider, model) = (fixtures::provider("p"), fixtures::model("m"));
    commit!(store, add_provider(&provider), add_model(&model));
    assert_eq!(store.versions().await.unwrap(), Versions { catalog: catalog + 1, access });
    let tenant = added_tenant(&store, "t").await;
    assert_eq!(store.versions().await.unwrap(), Versions { catalog: catalog + 1, access: access + 1 });
    // A new access token is unknown to everybody; a revoked one is not.
    let token = fixtures::token(&tenant);
    commit!(store, add_access_token(&token, None));
    assert_eq!(store.versions().await.unwrap().access, access + 1);
    commit!(store, revoke_access_token(token.id, fixtures::NOW));
    assert_eq!(store.versions().await.unwrap().access, access + 2);
    commit!(store, add_model(&fixtures::model("n")), add_member(&fixtures::member(&tenant, "ann")));
    assert_eq!(store.versions().await.unwrap(), Versions { catalog: catalog + 2, access: access + 3 });
}

/// More calls than there are connections, each given up somewhere on its way.
async fn an_abandoned_call_leaves_the_store_usable(store: OwnStore) {
    let provider = added_provider(&store, "p").await;
    for n in 0..40u64 {
        let patience = Duration::from_micros(n * 40);
        let _ = timeout(patience, store.lookup_provider(provider.id)).await;
        let _ = timeout(patience, async {
            let mut tx = store.begin().await?;
            tx.add_key(&fixtures::key(&provider, &format!("abandoned {n}"))).await?;
            std::future::pending::<Result<(), tollway::store::StoreError>>().await
        })
        .await;
    }
    assert_eq!(store.lookup_provider(provider.id).await.unwrap(), Some(provider.clone()));
    commit!(store, add_key(&fixtures::key(&provider, "kept")));
    let keys = store.list_keys(&tollway::store::KeyFilter::default(), Page::first(99)).await.unwrap();
    assert_eq!(keys.iter().map(|key| key.label.as_str()).collect::<Vec<_>>(), ["kept"]);
}
