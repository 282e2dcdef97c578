//! `ETag`, `If-Match` and `If-None-Match`, alone and under concurrency.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::json;

use super::world::World;
use crate::harness::client::Answer;

in_both_worlds! {
    a_change_says_which_version_it_is_for, of_those_who_change_one_version_one_succeeds,
    changes_of_any_version_all_happen, a_removal_may_say_which_version_it_is_for, a_known_version_is_not_sent_again,
}

async fn a_change_says_which_version_it_is_for(world: &World) {
    let path = format!("models/{}", world.model("large").await);
    let bare = world.operator.request(Method::PATCH, &format!("/admin/v1/{path}")).json(&json!({}));
    assert_eq!(Answer::of(bare).await.expect_status(428).json()["code"], "precondition_required");
    for wrong in ["\"2\"", "W/\"1\"", "2", "\"x\""] {
        let refused = world.patch_if(&path, wrong, json!({"enabled": false})).await.expect_status(412);
        assert_eq!(refused.header("etag"), Some("\"1\""), "{wrong}: the version it has is told");
    }
    world.patch_if(&path, "\"7\", \"1\"", json!({"enabled": false})).await.expect_status(200);
    assert_eq!(world.get(&path).await.json()["enabled"], false);
    // It has forgotten the quotes, and can mean nothing else.
    world.patch_if(&path, "2", json!({"enabled": true})).await.expect_status(200);
}

async fn of_those_who_change_one_version_one_succeeds(world: &World) {
    let path = format!("models/{}", world.model("large").await);
    let change = |n: u64| world.patch_if(&path, "\"1\"", json!({"context_tokens": n}));
    let answers = join_all((1..=8).map(async |n| (n, change(n).await))).await;
    let winners: Vec<_> = answers.iter().filter(|(_, answer)| answer.status == 200).collect();
    assert_eq!(winners.len(), 1, "one of eight");
    assert!(answers.iter().all(|(_, answer)| [200, 412].contains(&answer.status.as_u16())));
    assert_eq!(world.get(&path).await.json()["context_tokens"], winners[0].0);
}

async fn changes_of_any_version_all_happen(world: &World) {
    let provider = world.provider("house").await;
    let path = format!("providers/{provider}");
    let change = |n: u64| world.patch(&path, json!({"headers": {format!("x-{n}"): "1"}}));
    for answer in join_all((0..6).map(change)).await {
        answer.expect_status(200);
    }
    let read = world.get(&path).await;
    assert_eq!(read.header("etag"), Some("\"7\""));
    assert_eq!(read.json()["headers"].as_object().unwrap().len(), 6, "no change swallowed another");
}

async fn a_removal_may_say_which_version_it_is_for(world: &World) {
    let path = format!("/admin/v1/models/{}", world.model("large").await);
    let remove = |tag| Answer::of(world.operator.request(Method::DELETE, &path).header("if-match", tag));
    remove("\"2\"").await.expect_status(412);
    world.operator.get(&path).await.expect_status(200);
    remove("\"1\"").await.expect_status(204);
    remove("\"1\"").await.expect_status(404);
}

async fn a_known_version_is_not_sent_again(world: &World) {
    let path = format!("models/{}", world.model("large").await);
    let read = |tag| {
        let request = world.operator.request(Method::GET, &format!("/admin/v1/{path}"));
        Answer::of(request.header("if-none-match", tag))
    };
    let unchanged = read("W/\"1\"").await.expect_status(304);
    assert!(unchanged.body.is_empty());
    assert_eq!(unchanged.header("etag"), Some("\"1\""));
    read("\"2\"").await.expect_status(200);
    world.patch(&path, json!({"enabled": false})).await.expect_status(200);
    read("\"1\"").await.expect_status(200);
}
