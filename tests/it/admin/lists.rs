//! Lists: pieces, cursors, filters.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::world::{World, fields, id};

in_both_worlds! {
    a_cursor_neither_skips_nor_repeats_while_objects_come_and_go, filters_select_by_parent,
    a_query_that_makes_no_sense_is_refused,
}

async fn piece(world: &World, path: &str) -> (Vec<String>, Option<String>) {
    let listed = world.get(path).await.expect_status(200).json();
    let ids = listed["data"].as_array().unwrap().iter().map(id).collect();
    (ids, listed["next"].as_str().map(str::to_owned))
}

async fn a_cursor_neither_skips_nor_repeats_while_objects_come_and_go(world: &World) {
    let mut made = Vec::new();
    for n in 0..7 {
        made.push(world.model(&format!("model-{n}")).await);
    }
    let (first, next) = piece(world, "models?limit=3").await;
    assert_eq!(first, made[..3]);
    // One that was seen goes, as does the cursor's own; new ones come.
    world.delete(&format!("models/{}", made[1])).await.expect_status(204);
    world.delete(&format!("models/{}", made[2])).await.expect_status(204);
    made.push(world.model("late").await);
    let (second, next) = piece(world, &format!("models?limit=3&after={}", next.unwrap())).await;
    assert_eq!(second, made[3..6]);
    let (third, next) = piece(world, &format!("models?limit=3&after={}", next.unwrap())).await;
    assert_eq!(third, made[6..8]);
    assert_eq!(next, None);
    let (all, next) = piece(world, "models?limit=6").await;
    assert_eq!((all.len(), next), (6, None), "a piece that holds the last says so");
}

async fn filters_select_by_parent(world: &World) {
    let (a, b) = (world.provider("a").await, world.provider("b").await);
    let (one, two) = (world.key(&a, "one", "sk-1").await, world.key(&a, "two", "sk-2").await);
    let other = world.key(&b, "one", "sk-1").await;
    assert_eq!(piece(world, &format!("keys?provider_id={a}")).await.0, [one, two]);
    assert_eq!(piece(world, &format!("keys?provider_id={b}")).await.0, [other]);
    let model = world.model("large").await;
    let mut routes = BTreeSet::new();
    for provider in [&a, &b] {
        let route = json!({"model_id": model, "provider_id": provider, "upstream_model": "large"});
        routes.insert(id(&world.create("routes", route).await));
    }
    let (found, _) = piece(world, &format!("routes?model_id={model}")).await;
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), routes);
    assert_eq!(piece(world, &format!("routes?model_id={model}&provider_id={a}")).await.0.len(), 1);
    let tenant = world.tenant("acme").await;
    let member = world.member(&tenant, "ada@example.com").await;
    assert_eq!(piece(world, &format!("members?tenant_id={tenant}")).await.0, [member]);
    assert_eq!(
        world.get("usage-events").await.expect_status(200).json(),
        json!({"data": [], "next": Value::Null})
    );
}

async fn a_query_that_makes_no_sense_is_refused(world: &World) {
    let tenant = world.tenant("acme").await;
    for (path, wrong) in [
        ("models?limit=0", "limit"),
        ("models?limit=201", "limit"),
        ("models?limit=ten", "limit"),
        ("models?after=nonsense", "after"),
        ("models?provider_id=x", "provider_id"),
        ("keys?provider_id=x", "provider_id"),
        (&format!("keys?provider_id={tenant}"), "provider_id"),
        ("usage-events?since=yesterday", "since"),
    ] {
        let refused = world.get(path).await.expect_status(422);
        assert_eq!(fields(&refused), [wrong], "{path}: {}", refused.text());
    }
}
