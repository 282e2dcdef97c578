//! What holds while the store is away.

use std::time::{Duration, Instant};

use serde_json::json;
use tollway::{
    domain::secret::Secret,
    identity::{Denied, TokenForm},
    store::DatabaseUrl,
};

use super::world::{World, shared};
use crate::harness::{proxy::Proxy, services::migrated_database};

in_both_worlds!(
    tokens_that_were_seen_go_on_for_an_hour,
    a_token_never_seen_is_unchecked_not_wrong,
    a_wrong_token_is_wrong_with_or_without_the_store,
);

async fn tokens_that_were_seen_go_on_for_an_hour(world: World) {
    let mut texts = vec![shared(&world.claims(&json!({"sub": "ada@example.com"})))];
    for form in [TokenForm::Jwt, TokenForm::Opaque] {
        texts.push(world.issue(form).await.1);
    }
    for text in &texts {
        assert!(world.identity.verify(text).await.is_ok());
    }
    world.store.close().await;
    assert!(world.identity.refresh().await.is_err());
    let start = world.clock.as_ref();
    for minutes in [0, 6, 30, 23] {
        start.advance(Duration::from_secs(minutes * 60));
        for text in &texts {
            assert!(world.identity.verify(text).await.is_ok());
        }
    }
    start.advance(Duration::from_secs(60));
    for text in &texts {
        assert_eq!(world.identity.verify(text).await, Err(Denied::StoreAway));
    }
}

async fn a_token_never_seen_is_unchecked_not_wrong(world: World) {
    let (_, opaque) = world.issue(TokenForm::Opaque).await;
    let (_, jwt) = world.issue(TokenForm::Jwt).await;
    world.store.close().await;
    for text in [&opaque, &jwt] {
        for _ in 0..3 {
            assert_eq!(world.identity.verify(text).await, Err(Denied::StoreAway));
        }
    }
    assert!(Denied::StoreAway.retry_after().is_some());
}

async fn a_wrong_token_is_wrong_with_or_without_the_store(world: World) {
    let forged = shared(&world.claims(&json!({}))) + "A";
    let expired = shared(&world.claims(&json!({"exp": 1_000})));
    world.store.close().await;
    assert_eq!(world.identity.verify(&forged).await, Err(Denied::BadSignature));
    assert_eq!(world.identity.verify(&expired).await, Err(Denied::Expired));
    assert_eq!(world.identity.verify("tw_typo").await, Err(Denied::Malformed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_hangs_holds_up_no_token_that_was_seen() {
    let database = migrated_database().await;
    let proxy = Proxy::before(&database.url);
    let url = proxy.url(&database.url);
    let world = World::on(DatabaseUrl::Postgres(Secret::new(url)), database).await;
    let (_, text) = world.issue(TokenForm::Opaque).await;
    assert!(world.identity.verify(&text).await.is_ok());
    proxy.freeze();
    let since = Instant::now();
    for _ in 0..1_000 {
        assert!(world.identity.verify(&text).await.is_ok());
    }
    assert!(since.elapsed() < Duration::from_millis(500), "{:?}", since.elapsed());
    // The facts have to be read again: the store is waited for once, not by every request.
    world.clock.advance(Duration::from_secs(6 * 60));
    for _ in 0..20 {
        assert!(world.identity.verify(&text).await.is_ok());
    }
    assert!(since.elapsed() < Duration::from_secs(3), "{:?}", since.elapsed());
    proxy.restore();
    world.clock.advance(Duration::from_secs(2));
    assert!(world.identity.verify(&text).await.is_ok());
}
