//! The real server, set up by REST from the first operator on.

use serde_json::{Value, json};

use super::world::id;
use crate::harness::{
    client::Caller,
    server::{Production, Server, Setup},
};

#[tokio::test]
async fn a_server_is_set_up_by_rest_alone() {
    sets_up(&Setup::alone().boot().await).await;
}

#[tokio::test]
async fn a_server_in_production_is_set_up_by_rest_alone() {
    let production = Production::start().await;
    sets_up(&production.replica().boot().await).await;
}

async fn sets_up(server: &Server) {
    let log = server.log();
    let at = log.find("tw_setup_").expect("a new server prints a set-up token");
    let setup: String = log[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    let redeemed = server.anonymous().post("/admin/v1/setup", &json!({"setup_token": setup})).await;
    let operator = server.caller(redeemed.expect_status(201).json()["text"].as_str().unwrap());
    let listed = server.setup().run(&["token", "list"]);
    let spent = listed.lines().find(|line| line.contains(" setup ")).expect("the set-up token is listed");
    assert!(spent.contains(" used 2"), "{spent}");
    let create = async |path: &str, body: Value| {
        operator.post(&format!("/admin/v1/{path}"), &body).await.expect_status(201).json()
    };
    let provider = json!({"name": "house", "base_url": "http://127.0.0.1:9/v1"});
    let provider = id(&create("providers", provider).await);
    create("keys", json!({"provider_id": provider, "label": "first", "secret": "sk-1"})).await;
    let model =
        id(&create("models", json!({"name": "large", "prices": {"input": "2", "output": "6"}})).await);
    let route = json!({"model_id": model, "provider_id": provider, "upstream_model": "large-2026"});
    create("routes", route).await;
    let tenant = id(&create("tenants", json!({"name": "acme"})).await);
    let issued = create("access-tokens", json!({"tenant_id": tenant, "name": "laptop"})).await;
    let caller = server.caller(issued["text"].as_str().unwrap());
    assert_eq!(models(&caller).await, Vec::<String>::new(), "nothing is granted yet");
    create("grants", json!({"tenant_id": tenant, "pattern": "la*"})).await;
    assert_eq!(models(&caller).await, ["large"]);
    assert!(!server.log().contains("sk-1"));
}

async fn models(caller: &Caller) -> Vec<String> {
    let listed = caller.get("/v1/models").await.expect_status(200).json();
    listed["data"].as_array().unwrap().iter().map(id).collect()
}
