//! What goes in and must not come out.

use serde_json::json;
use tollway::upstream::key_purpose;

use super::world::{World, fields, id};

in_both_worlds! {
    a_secret_never_comes_out, a_secret_is_sealed_for_its_key_and_can_be_replaced,
    the_same_secret_twice_names_the_other_key, a_pool_without_credentials_needs_none,
}

const SECRET: &str = "sk-proj-4711-never-to-be-seen-again";

async fn a_secret_never_comes_out(world: &World) {
    let provider = world.provider("house").await;
    let body = json!({"provider_id": provider, "label": "first", "secret": SECRET});
    let created = world.post("keys", body.clone()).await.expect_status(201);
    let key = format!("keys/{}", id(&created.json()));
    let answers = [
        created,
        world.get(&key).await,
        world.get("keys").await,
        world.patch(&key, json!({"priority": 1})).await,
        world.patch(&key, json!({"secret": SECRET, "weight": 0})).await,
        world.post("keys", json!({"provider_id": provider, "label": "second", "secret": SECRET})).await,
        world.post("keys", json!({"provider_id": provider, "label": 1, "secret": SECRET})).await,
        world.get(&format!("providers/{provider}/live")).await,
    ];
    for answer in answers {
        assert!(!answer.text().contains(&SECRET[3..15]), "{}", answer.text());
        assert!(!format!("{:?}", answer.headers).contains(&SECRET[3..15]));
    }
}

async fn a_secret_is_sealed_for_its_key_and_can_be_replaced(world: &World) {
    let provider = world.provider("house").await;
    let key = world.key(&provider, "first", SECRET).await;
    let stored = async || world.desk.store.lookup_key(key.parse().unwrap()).await.unwrap().unwrap();
    let opened = async || {
        let key = stored().await;
        world.desk.vault.unseal(&key_purpose(key.id), &key.secret).unwrap().expose().to_owned()
    };
    assert_eq!(opened().await, SECRET);
    let before = world.get(&format!("keys/{key}")).await.json();
    world.patch(&format!("keys/{key}"), json!({"label": "renamed"})).await.expect_status(200);
    assert_eq!(opened().await, SECRET, "a change of something else keeps the secret");
    let after = world.patch(&format!("keys/{key}"), json!({"secret": "sk-rotated"})).await.expect_status(200);
    assert_eq!(opened().await, "sk-rotated");
    assert_ne!(after.json()["fingerprint"], before["fingerprint"]);
    for bad in ["", "two words", "line\nbreak", "ümlaut"] {
        let refused = world.patch(&format!("keys/{key}"), json!({"secret": bad})).await.expect_status(422);
        assert_eq!(fields(&refused), ["secret"], "{bad:?}");
    }
    assert_eq!(opened().await, "sk-rotated");
}

async fn the_same_secret_twice_names_the_other_key(world: &World) {
    let (a, b) = (world.provider("a").await, world.provider("b").await);
    world.key(&a, "the first one", SECRET).await;
    let body = json!({"provider_id": a, "label": "again", "secret": SECRET});
    let refused = world.post("keys", body).await.expect_status(409);
    assert_eq!(fields(&refused), ["secret"]);
    assert!(refused.text().contains("the first one"));
    let other = world.key(&a, "other", "sk-other").await;
    let refused = world.patch(&format!("keys/{other}"), json!({"secret": SECRET})).await.expect_status(409);
    assert!(refused.text().contains("the first one"));
    let refused = world.post("keys", json!({"provider_id": a, "label": "other", "secret": "sk-3"})).await;
    assert_eq!(fields(&refused.expect_status(409)), ["label"]);
    world.key(&b, "the first one", SECRET).await;
}

async fn a_pool_without_credentials_needs_none(world: &World) {
    let body = json!({"name": "local", "base_url": "http://model.example.com", "auth": "none"});
    let provider = id(&world.create("providers", body).await);
    world.create("keys", json!({"provider_id": provider, "label": "only"})).await;
    let with_auth = world.provider("remote").await;
    let refused =
        world.post("keys", json!({"provider_id": with_auth, "label": "only"})).await.expect_status(422);
    assert_eq!(fields(&refused), ["secret"]);
}
