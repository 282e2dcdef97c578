//! Each resource through its life: created, read, changed, removed.

use serde_json::{Value, json};

use super::world::{World, id};

in_both_worlds! {
    a_provider_lives, a_key_lives, a_model_lives, a_route_lives, a_tenant_lives, a_member_lives, a_grant_lives,
    what_others_refer_to_stays, an_update_that_clashes_changes_nothing,
}

/// Creates `body` among its `plural`, changes it by `patch` to what has `changed`, and removes it.
async fn lives(world: &World, plural: &str, body: Value, patch: Value, changed: Value) {
    let created = world.post(plural, body.clone()).await.expect_status(201);
    let shown = created.json();
    for (name, value) in body.as_object().unwrap().iter().filter(|(name, _)| *name != "secret") {
        assert_eq!(shown[name], *value, "{plural}: {name} is shown as it was written");
    }
    let one = format!("{plural}/{}", id(&shown));
    assert_eq!(created.header("location"), Some(format!("/admin/v1/{one}").as_str()));
    assert_eq!(created.header("etag"), Some("\"1\""));
    assert_eq!(world.get(&one).await.expect_status(200).json(), shown);

    let after = world.patch_if(&one, "\"1\"", patch).await.expect_status(200);
    assert_eq!(after.header("etag"), Some("\"2\""));
    let after = after.json();
    assert_eq!(after["version"], 2);
    for (name, value) in changed.as_object().unwrap() {
        assert_eq!(after[name], *value, "{plural}: {name} is changed");
    }
    let kept = |name: &str| !changed.as_object().unwrap().contains_key(name) && name != "secret";
    for (name, value) in body.as_object().unwrap().iter().filter(|(name, _)| kept(name)) {
        assert_eq!(after[name], *value, "{plural}: {name} is left alone");
    }
    let read = world.get(&one).await.expect_status(200).json();
    assert_eq!(read, after, "{plural}: what a change answers is what is read later");

    world.delete(&one).await.expect_status(204);
    world.get(&one).await.expect_status(404);
    world.delete(&one).await.expect_status(404);
    world.patch(&one, json!({})).await.expect_status(404);
}

async fn a_provider_lives(world: &World) {
    let body = json!({
        "name": "openai-eu",
        "base_url": "https://eu.example.com/v1",
        "format": "openai.chat",
        "auth": {"header": "x-api-key"},
        "tier": "subscription",
        "transport": "http2",
        "headers": {"x-region": "eu", "x-team": "a b"},
        "timeouts": {"connect_ms": 1000, "idle_ms": 2000, "total_ms": 3000},
        "enabled": true,
    });
    let patch = json!({
        "auth": {"query": "key"},
        "headers": {"x-region": null, "x-more": "1"},
        "timeouts": {"idle_ms": 9000},
        "enabled": false,
    });
    let changed = json!({
        "auth": {"query": "key"},
        "headers": {"x-team": "a b", "x-more": "1"},
        "timeouts": {"connect_ms": 1000, "idle_ms": 9000, "total_ms": 3000},
        "enabled": false,
    });
    lives(world, "providers", body, patch, changed).await;
}

async fn a_key_lives(world: &World) {
    let (provider, tenant) = (world.provider("house").await, world.tenant("acme").await);
    let body = json!({
        "provider_id": provider,
        "tenant_id": tenant,
        "label": "first",
        "secret": "sk-in-and-never-out-1234",
        "priority": -5,
        "weight": 3,
        "limits": {"rpm": 10, "tpm": 5_000_000_000_u64, "concurrency": 0},
        "base_url": "https://own.example.com",
        "params": {"region": "eu"},
        "state": "active",
    });
    let patch = json!({
        "tenant_id": null,
        "limits": {"rpm": null, "concurrency": 7},
        "base_url": null,
        "state": "disabled",
    });
    let changed = json!({
        "tenant_id": null,
        "limits": {"rpm": null, "tpm": 5_000_000_000_u64, "concurrency": 7},
        "base_url": null,
        "state": "disabled",
    });
    lives(world, "keys", body, patch, changed).await;
}

async fn a_model_lives(world: &World) {
    let nothing = |name: &str| (name.to_owned(), Value::Null);
    let unset =
        ["cache_read", "cache_write_5m", "cache_write_1h", "reasoning", "audio_input", "audio_output"];
    let mut prices: serde_json::Map<_, _> =
        unset.into_iter().chain(["image", "request"]).map(nothing).collect();
    prices.insert("input".into(), json!("2.50"));
    prices.insert("output".into(), json!("0.000000001"));
    let mut all = json!({"tools": true, "vision": true});
    for name in ["pdf", "audio", "video", "json_schema", "reasoning", "search"] {
        all[name] = json!(false);
    }
    let body = json!({
        "name": "org/gpt-4o:mini",
        "capabilities": all,
        "context_tokens": 128_000,
        "max_output_tokens": 16_000,
        "prices": prices,
        "enabled": true,
    });
    let patch = json!({"prices": {"output": "10", "input": null}, "context_tokens": null});
    let mut after = prices.clone();
    after.insert("input".into(), Value::Null);
    after.insert("output".into(), json!("10.00"));
    lives(world, "models", body, patch, json!({"prices": after, "context_tokens": null})).await;
}

async fn a_route_lives(world: &World) {
    let (provider, model) = (world.provider("house").await, world.model("large").await);
    let body = json!({
        "model_id": model,
        "provider_id": provider,
        "upstream_model": "large-2026",
        "priority": 2,
        "weight": 5,
        "capabilities": null,
        "enabled": true,
    });
    let patch = json!({"upstream_model": "large-2027", "cost": {"input": "1"}, "enabled": false});
    lives(world, "routes", body, patch, json!({"upstream_model": "large-2027", "enabled": false})).await;
}

async fn a_tenant_lives(world: &World) {
    let limits = |rpm: Value| json!({"rpm": rpm, "tpm": null, "concurrency": null});
    let body = json!({
        "name": "Acme & Söhne",
        "limits": limits(json!(60)),
        "billing": "prepaid",
        "enabled": true,
    });
    let patch = json!({"limits": {"rpm": 0}, "enabled": false});
    lives(world, "tenants", body, patch, json!({"limits": limits(json!(0)), "enabled": false})).await;
}

async fn a_member_lives(world: &World) {
    let tenant = world.tenant("acme").await;
    let body = json!({
        "tenant_id": tenant,
        "subject": "ada@example.com",
        "role": "owner",
        "token_generation": 0,
        "enabled": true,
    });
    let patch = json!({"role": "auditor", "token_generation": 1});
    lives(world, "members", body, patch, json!({"role": "auditor", "token_generation": 1})).await;
}

async fn a_grant_lives(world: &World) {
    let tenant = world.tenant("acme").await;
    let member = world.member(&tenant, "ada@example.com").await;
    let body = json!({
        "tenant_id": tenant,
        "subject": {"member": member},
        "pattern": "gpt-*",
        "effect": "allow",
    });
    lives(world, "grants", body, json!({"effect": "deny"}), json!({"effect": "deny"})).await;
}

async fn what_others_refer_to_stays(world: &World) {
    let (provider, model) = (world.provider("house").await, world.model("large").await);
    let route = json!({"model_id": model, "provider_id": provider, "upstream_model": "large"});
    let route = id(&world.create("routes", route).await);
    for path in [format!("providers/{provider}"), format!("models/{model}")] {
        let refused = world.delete(&path).await.expect_status(409);
        assert_eq!(refused.json()["code"], "still_in_use");
        world.get(&path).await.expect_status(200);
    }
    world.delete(&format!("routes/{route}")).await.expect_status(204);
    world.delete(&format!("providers/{provider}")).await.expect_status(204);
    world.delete(&format!("models/{model}")).await.expect_status(204);
}

async fn an_update_that_clashes_changes_nothing(world: &World) {
    world.model("one").await;
    let two = world.model("two").await;
    let refused = world.patch(&format!("models/{two}"), json!({"name": "one"})).await.expect_status(409);
    assert_eq!(refused.json()["errors"][0]["field"], "name");
    let read = world.get(&format!("models/{two}")).await.expect_status(200);
    assert_eq!(read.json()["name"], "two");
    assert_eq!(read.header("etag"), Some("\"1\""));
    world.model("three").await;
}
