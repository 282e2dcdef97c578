//! What files do to a store.

use tollway::{
    app::apply::ApplyError,
    domain::{clock::Timestamp, key::KeyState, money::Nanos, principal::Role, provider::AuthStyle},
    store::{KeyFilter, Page, RouteFilter},
    upstream::key_purpose,
};

use super::world::{World, changes, toml, yaml};
use crate::store::both::{OwnStore, on_both};

const TENANTS: &str = "
tenants:
  - name: acme
    limits: {rpm: 600}
    billing: prepaid
    grants: {allow: [\"gpt-*\", llama], deny: [gpt-secret]}
    members:
      - subject: ada@acme.example
        role: admin
        grants: {allow: [gpt-4o]}
";
const CATALOG: &str = "
providers:
  - name: openai
    base_url: https://api.openai.com/v1
    auth: {header: x-api-key}
    keys:
      - label: main
        secret: env:UPSTREAM_KEY
        limits: {rpm: 500}
      - label: acme
        secret: sk-of-acme
        tenant: acme
models:
  - name: gpt-4o
    prices: {input: 2.50, output: \"10\"}
    capabilities: {tools: true}
routes:
  openai:
    - {model: gpt-4o, upstream_model: gpt-4o-2024-11-20, cost: {input: 2}}
";

async fn everything_is_set_up_and_a_second_time_nothing_changes(store: OwnStore) {
    let world = World::new(store);
    let made = world.apply(&[CATALOG, TENANTS]).await;
    assert_eq!(made.len(), 11, "{made:#?}");
    assert!(made.iter().all(|step| step.starts_with("create ")), "{made:#?}");

    let tenant = world.store.find_tenant_by_name("acme").await.unwrap().unwrap();
    let ada = world.store.find_member_by_subject(tenant.id, "ada@acme.example").await.unwrap().unwrap();
    assert_eq!((tenant.limits.rpm, ada.role), (Some(600), Role::Admin));
    let provider = world.store.find_provider_by_name("openai").await.unwrap().unwrap();
    assert_eq!(provider.auth, AuthStyle::Header("x-api-key".into()));
    let key = world.store.find_key_by_label(provider.id, "main").await.unwrap().unwrap();
    let plain = world.vault.unseal(&key_purpose(key.id), &key.secret).unwrap();
    assert_eq!(plain.expose(), "sk-from-the-environment");
    let own = world.store.find_key_by_label(provider.id, "acme").await.unwrap().unwrap();
    assert_eq!(own.tenant_id, Some(tenant.id));
    let model = world.store.find_model_by_name("gpt-4o").await.unwrap().unwrap();
    assert_eq!(model.prices.input, Some(Nanos::new(2_500_000_000)));
    assert_eq!(model.prices.output, Some(Nanos::new(10_000_000_000)));

    let versions = world.store.versions().await.unwrap();
    assert_eq!(world.apply(&[TENANTS, CATALOG]).await, [] as [&str; 0]);
    assert_eq!(world.store.versions().await.unwrap(), versions, "nothing is announced where nothing changes");
}

async fn what_differs_is_changed_and_named(store: OwnStore) {
    let world = World::new(store);
    world.apply(&[TENANTS, CATALOG]).await;
    let catalog = CATALOG
        .replace("env:UPSTREAM_KEY", "sk-another")
        .replace("auth: {header: x-api-key}", "tier: free")
        .replace("gpt-4o-2024-11-20", "gpt-4o-2025-06-01")
        .replace("rpm: 500}", "rpm: 500, tpm: 9}");
    let tenants = TENANTS.replace(", llama]", "]").replace("deny: [gpt-secret]", "deny: [gpt-4-32k]");
    let changed = world.apply(&[&tenants, &catalog]).await;
    assert_eq!(
        changed,
        [
            "create grant acme: deny gpt-4-32k",
            "remove grant acme: deny gpt-secret",
            "remove grant acme: allow llama",
            "update provider openai: auth, tier",
            "update key openai/main: secret, limits",
            "update route gpt-4o → openai/gpt-4o-2025-06-01: upstream_model",
        ]
    );
    assert_eq!(world.apply(&[&tenants, &catalog]).await, [] as [&str; 0]);
}

async fn a_refused_key_stays_out_until_it_has_another_credential(store: OwnStore) {
    let world = World::new(store);
    world.apply(&[TENANTS, CATALOG]).await;
    let provider = world.store.find_provider_by_name("openai").await.unwrap().unwrap();
    let key = async || world.store.find_key_by_label(provider.id, "main").await.unwrap().unwrap();
    let mut tx = world.store.begin().await.unwrap();
    tx.set_key_state(key().await.id, KeyState::Invalid, Timestamp::from_unix_s(1)).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(world.apply(&[CATALOG]).await, [] as [&str; 0]);
    assert_eq!(key().await.state, KeyState::Invalid);
    world.apply(&[&CATALOG.replace("env:UPSTREAM_KEY", "sk-another")]).await;
    assert_eq!(key().await.state, KeyState::Active);
}

async fn pruning_takes_away_what_a_list_lacks_and_nothing_else(store: OwnStore) {
    let world = World::new(store);
    world.apply(&[TENANTS, CATALOG]).await;
    let less = "
providers:
  - name: openai
    base_url: https://api.openai.com/v1
    auth: {header: x-api-key}
    keys: [{label: main, limits: {rpm: 500}}]
routes: {openai: []}
";
    assert_eq!(world.apply(&[less]).await, [] as [&str; 0], "without prune it stays");
    let plan = world.plan_files(&[yaml(less)], true).await.unwrap();
    let removed = changes(&plan);
    assert_eq!(removed.len(), 2, "{removed:?}");
    assert_eq!(removed[0], "remove key openai/acme");
    assert!(removed[1].starts_with("remove route "), "{removed:?}");
    plan.carry_out(&world.store).await.unwrap();
    let keys = world.store.list_keys(&KeyFilter::default(), Page::first(9)).await.unwrap();
    let routes = world.store.list_routes(&RouteFilter::default(), Page::first(9)).await.unwrap();
    assert_eq!((keys.len(), routes.len()), (1, 0));
    assert!(world.store.find_model_by_name("gpt-4o").await.unwrap().is_some());
}

async fn everything_wrong_is_told_with_its_line_and_nothing_happens(store: OwnStore) {
    let world = World::new(store);
    let wrong_yaml = "providers:
  - name: Open AI
    base_url: http://127.0.0.1:9/v1
    timeouts:
      idle_ms: 0
    keys:
      - label: one
        secret: same
      - label: two
        secret: same
      - label: three
        secret: env:NOT_SET
        tenant: nobody
routes:
  nowhere: [{model: m}]
";
    let wrong_toml = "[[models]]
name = \"m\"
prices.input = -1

[[models]]
name = \"m\"
";
    let told = world.problems(&[yaml(wrong_yaml), toml(wrong_toml)]).await;
    for start in [
        "f.yaml:2: providers[0].name: expected 1 to 64 lower-case letters",
        "f.yaml:3: providers[0].base_url: ",
        "f.yaml:5: providers[0].timeouts.idle_ms: expected 1 to 86400000",
        "f.yaml:10: providers[0].keys[1].secret: the key one of this provider has this credential",
        "f.yaml:13: providers[0].keys[2].tenant: there is no such tenant",
        "f.yaml:12: providers[0].keys[2].secret: the environment variable NOT_SET is not set",
        "f.yaml:15: routes.nowhere: there is no such provider",
        "f.toml:3: models[0].prices.input: a price must not be negative",
        "f.toml:5: models[1]: model m stands at f.toml:1 already",
    ] {
        assert!(told.iter().any(|line| line.starts_with(start)), "no «{start}» in {told:#?}");
    }
    assert_eq!(told.len(), 9, "{told:#?}");
    let shape = world.problems(&[toml("[[tenants]]\nname = \"a\"\nlimit = 3\n")]).await;
    assert!(shape[0].starts_with("f.toml:3: tenants[0].limit: there is no such field"), "{shape:?}");
}

async fn who_comes_second_changes_nothing_at_all(store: OwnStore) {
    let world = World::new(store);
    world.apply(&[TENANTS, CATALOG]).await;
    let late = world.plan(&[&TENANTS.replace("600", "700"), &CATALOG.replace("500", "600")]).await.unwrap();
    world.apply(&[&CATALOG.replace("500", "501")]).await;
    let refused = late.carry_out(&world.store).await.unwrap_err();
    assert!(matches!(&refused, ApplyError::Overtaken(what) if what == "key openai/main"), "{refused:?}");
    let tenant = world.store.find_tenant_by_name("acme").await.unwrap().unwrap();
    assert_eq!(tenant.limits.rpm, Some(600), "what came before it is taken back");
}

async fn the_examples_are_sound(store: OwnStore) {
    let world = World::new(store);
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let mut files = tollway::app::apply::sources(&[directory.into()]).unwrap();
    for file in &mut files {
        // The variables of a newcomer's shell and a server on his machine are not here.
        file.text = file
            .text
            .lines()
            .map(|line| match line.split_once("env:") {
                Some((before, name)) => format!("{before}sk-{name}\n"),
                None => format!("{}\n", line.replace("127.0.0.1", "models.example")),
            })
            .collect();
    }
    let plan = world.plan_files(&files, false).await.unwrap();
    plan.carry_out(&world.store).await.unwrap();
    assert!(plan.steps.len() > 10);
    assert!(world.plan_files(&files, true).await.unwrap().is_done());
}

on_both! {
    everything_is_set_up_and_a_second_time_nothing_changes,
    what_differs_is_changed_and_named,
    a_refused_key_stays_out_until_it_has_another_credential,
    pruning_takes_away_what_a_list_lacks_and_nothing_else,
    everything_wrong_is_told_with_its_line_and_nothing_happens,
    who_comes_second_changes_nothing_at_all,
    the_examples_are_sound,
}
