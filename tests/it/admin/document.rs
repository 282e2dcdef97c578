//! The OpenAPI document says what is there, and no more.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use super::world::World;
use crate::harness::client::Answer;

in_both_worlds! { every_documented_operation_is_there, every_reference_leads_somewhere }

/// What an operator is promised; the document may grow, it may not lose one of these.
const PROMISED: [(&str, &str); 14] = [
    ("get", "/admin/v1/providers"),
    ("post", "/admin/v1/keys"),
    ("patch", "/admin/v1/models/{id}"),
    ("delete", "/admin/v1/routes/{id}"),
    ("get", "/admin/v1/tenants/{id}"),
    ("get", "/admin/v1/members"),
    ("post", "/admin/v1/grants"),
    ("delete", "/admin/v1/access-tokens/{id}"),
    ("get", "/admin/v1/tenants/{id}/balance"),
    ("post", "/admin/v1/tenants/{id}/ledger"),
    ("get", "/admin/v1/usage-events"),
    ("post", "/admin/v1/setup"),
    ("get", "/admin/v1/providers/{id}/live"),
    ("post", "/admin/v1/keys/{id}/clear-cooldown"),
];

async fn document(world: &World) -> Value {
    world.get("openapi.json").await.expect_status(200).json()
}

async fn every_documented_operation_is_there(world: &World) {
    let document = document(world).await;
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let paths = document["paths"].as_object().unwrap();
    for (method, path) in PROMISED {
        assert!(paths[path][method].is_object(), "{method} {path} is not documented");
    }
    for (path, operations) in paths {
        let documented: BTreeSet<_> = operations.as_object().unwrap().keys().cloned().collect();
        let nobody = path.replace("{id}", "prv_0197c2d3e4f570008000000000000001");
        for method in ["get", "post", "patch", "delete", "put"] {
            let kind: Method = method.to_uppercase().parse().unwrap();
            let request = world.operator.request(kind, &nobody).header("if-match", "*").json(&json!({}));
            let answer = Answer::of(request).await;
            let code = if answer.body.is_empty() { Value::Null } else { answer.json()["code"].clone() };
            assert_ne!(code, "unknown_path", "{method} {path}");
            let is_there = code != "method_not_allowed";
            assert_eq!(is_there, documented.contains(method), "{method} {path} answers {}", answer.status);
            if !is_there {
                assert_eq!(answer.status, 405);
                let allow = answer.header("allow").unwrap().to_lowercase();
                assert_eq!(allow.split(", ").map(str::to_owned).collect::<BTreeSet<_>>(), documented);
            }
        }
    }
    let ids: Vec<_> = paths
        .values()
        .flat_map(|operations| operations.as_object().unwrap().values())
        .map(|operation| operation["operationId"].as_str().unwrap())
        .collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "operation ids are unique");
}

async fn every_reference_leads_somewhere(world: &World) {
    let document = document(world).await;
    let mut seen = 0;
    visit(&document, &mut |reference| {
        seen += 1;
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    });
    assert!(seen > 50, "{seen} references");
    let key = &document["components"]["schemas"]["KeyInput"]["properties"]["secret"];
    assert_eq!(key["writeOnly"], true, "a secret goes in only: {key}");
}

fn visit(value: &Value, each: &mut impl FnMut(&str)) {
    match value {
        Value::Object(fields) => {
            if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
                each(reference);
            }
            fields.values().for_each(|inner| visit(inner, each));
        }
        Value::Array(items) => items.iter().for_each(|inner| visit(inner, each)),
        _ => {}
    }
}
