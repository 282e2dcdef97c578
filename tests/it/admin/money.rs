//! Balances, ledger entries, and what an operator books.

use serde_json::{Value, json};

use super::world::{World, fields};

in_both_worlds! { what_is_booked_is_in_the_balance, a_booking_that_makes_no_sense_is_refused, live_state_is_shown, usage_is_shown }

async fn what_is_booked_is_in_the_balance(world: &World) {
    let (acme, globex) = (world.tenant("acme").await, world.tenant("globex").await);
    let balance = async |tenant: &str| {
        world.get(&format!("tenants/{tenant}/balance")).await.expect_status(200).json()["balance"].clone()
    };
    assert_eq!(balance(&acme).await, "0.00");
    let ledger = format!("tenants/{acme}/ledger");
    let booked = world.create(&ledger, json!({"kind": "top_up", "amount": "100", "note": "invoice 1"})).await;
    assert_eq!(booked["amount"], "100.00");
    assert!(booked["actor"].as_str().unwrap().starts_with("tok_"), "it is known who booked it");
    let body = json!({"kind": "adjustment", "amount": "-0.000000001", "note": "rounding"});
    world.post(&ledger, body).await.expect_status(201);
    assert_eq!(balance(&acme).await, "99.999999999");
    assert_eq!(balance(&globex).await, "0.00");
    let listed = world.get(&ledger).await.expect_status(200).json();
    let kinds: Vec<&Value> = listed["data"].as_array().unwrap().iter().map(|entry| &entry["kind"]).collect();
    assert_eq!(kinds, ["top_up", "adjustment"]);
    let listed = world.get(&format!("{ledger}?kind=adjustment")).await.expect_status(200).json();
    assert_eq!(listed["data"].as_array().unwrap().len(), 1);

    for tenant in [&acme, &globex] {
        world.delete(&format!("tenants/{tenant}")).await.expect_status(204);
    }
    assert_eq!(balance(&acme).await, "99.999999999", "the books of a tenant that was removed stay");
    let listed = world.get(&ledger).await.expect_status(200).json();
    assert_eq!(listed["data"].as_array().unwrap().len(), 2);
    world.post(&ledger, json!({"kind": "top_up", "amount": "1", "note": "n"})).await.expect_status(404);
    world.get(&format!("tenants/{globex}/balance")).await.expect_status(404);
}

async fn a_booking_that_makes_no_sense_is_refused(world: &World) {
    let acme = world.tenant("acme").await;
    let ledger = format!("tenants/{acme}/ledger");
    for (body, wrong) in [
        (json!({"kind": "charge", "amount": "1", "note": "n"}), "kind"),
        (json!({"kind": "top_up", "amount": "-1", "note": "n"}), "amount"),
        (json!({"kind": "top_up", "amount": "0", "note": "n"}), "amount"),
        (json!({"kind": "adjustment", "amount": "0.00", "note": "n"}), "amount"),
        (json!({"kind": "top_up", "amount": 1, "note": "n"}), "amount"),
        (json!({"kind": "top_up", "amount": "1e3", "note": "n"}), "amount"),
        (json!({"kind": "top_up", "amount": "1"}), "note"),
    ] {
        let refused = world.post(&ledger, body.clone()).await.expect_status(422);
        assert_eq!(fields(&refused), [wrong], "{body}");
    }
    let nobody = "tenants/ten_0197c2d3e4f570008000000000000001/ledger";
    world.post(nobody, json!({"kind": "top_up", "amount": "1", "note": "n"})).await.expect_status(404);
    assert_eq!(world.get(&ledger).await.json()["data"], json!([]));
}

async fn live_state_is_shown(world: &World) {
    use std::time::Duration;

    use tollway::{
        admission::{Cool, CoolFor, CoolScope},
        domain::failure::FailureClass,
    };

    let provider = world.provider("house").await;
    let key = world.key(&provider, "first", "sk-live-state").await;
    let live = format!("providers/{provider}/live");
    let shown = world.get(&live).await.expect_status(200).json();
    assert_eq!(shown["keys"][0]["label"], "first");
    assert_eq!(shown["keys"][0]["cooldowns"], json!([]));
    let cool = Cool {
        provider: provider.parse().unwrap(),
        scope: CoolScope::Key(key.parse().unwrap()),
        span: CoolFor::Span(Duration::from_secs(60)),
        reason: FailureClass::RateLimited,
    };
    world.desk.admission.cool(&cool).await;
    let shown = world.get(&live).await.expect_status(200).json();
    assert_eq!(shown["keys"][0]["cooldowns"][0]["reason"], "rate_limited");
    assert_eq!(shown["keys"][0]["cooldowns"][0]["model_id"], Value::Null);
    let cleared = world.post(&format!("keys/{key}/clear-cooldown"), json!({})).await;
    cleared.expect_status(204);
    let shown = world.get(&live).await.expect_status(200).json();
    assert_eq!(shown["keys"][0]["cooldowns"], json!([]));
}

async fn usage_is_shown(world: &World) {
    let events = [crate::billing::event(1, 2), crate::billing::event(2, 1), crate::billing::event(8, 1)];
    world.desk.store.record_events(&events).await.unwrap();
    let [one, other, later] = events;
    assert_eq!(one.tenant_id, later.tenant_id);
    let shown = world.get(&format!("usage-events/{}", one.id)).await.expect_status(200).json();
    assert_eq!(shown["charge"], one.charge.to_string());
    assert_eq!(shown["usage"]["input_tokens"], one.usage.input_tokens);
    assert_eq!(shown["attempts"].as_array().unwrap().len(), 2);
    assert_eq!(shown["attempts"][0]["class"], "rate_limited");
    let ids = async |query: &str| -> Vec<String> {
        let listed = world.get(&format!("usage-events?{query}")).await.expect_status(200).json();
        listed["data"].as_array().unwrap().iter().map(super::world::id).collect()
    };
    let of_tenant = ids(&format!("tenant_id={}", one.tenant_id)).await;
    assert_eq!(of_tenant, [one.id.to_string(), later.id.to_string()]);
    assert_eq!(ids(&format!("tenant_id={}", other.tenant_id)).await, [other.id.to_string()]);
    assert_eq!(ids("since=2090-01-01T00:00:00Z").await, Vec::<String>::new());
    let ledger = world.get(&format!("usage-events/{}", crate::billing::request(99))).await;
    ledger.expect_status(404);
}
