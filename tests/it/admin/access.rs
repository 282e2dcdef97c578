//! Access tokens, the first operator, and who is let in.

use reqwest::Method;
use serde_json::{Value, json};
use tollway::domain::principal::Role;

use super::world::{World, fields, id};
use crate::harness::client::{Answer, Caller};

in_both_worlds! {
    an_access_token_is_shown_once_and_revoked_for_good, a_token_is_checked_before_it_is_issued,
    a_set_up_token_makes_one_operator, only_operators_are_let_in, a_grant_speaks_only_of_its_own_tenant,
    a_jwt_of_a_member_is_issued,
}

async fn an_access_token_is_shown_once_and_revoked_for_good(world: &World) {
    let tenant = world.tenant("acme").await;
    let issued = world.post("access-tokens", json!({"tenant_id": tenant, "name": "laptop"})).await;
    let issued = issued.expect_status(201);
    assert_eq!(issued.header("etag"), Some("\"1\""));
    let shown = issued.json();
    let text = shown["text"].as_str().unwrap().to_owned();
    assert!(text.starts_with("tw_"));
    let one = format!("access-tokens/{}", id(&shown));
    assert_eq!(issued.header("location"), Some(format!("/admin/v1/{one}").as_str()));

    for answer in [world.get(&one).await, world.get("access-tokens").await] {
        assert!(!answer.expect_status(200).text().contains(&text), "the text is shown once");
    }
    assert_eq!(world.desk.identity.verify(&text).await.unwrap().role, Role::Member);

    world.delete(&one).await.expect_status(204);
    assert!(world.desk.identity.verify(&text).await.is_err(), "a revoked token is refused at once");
    let read = world.get(&one).await.expect_status(200);
    assert_eq!(read.header("etag"), Some("\"2\""));
    let revoked_at = read.json()["revoked_at"].clone();
    assert!(revoked_at.is_string());
    world.delete(&one).await.expect_status(204);
    assert_eq!(world.get(&one).await.json()["revoked_at"], revoked_at, "the first revocation counts");
}

async fn a_token_is_checked_before_it_is_issued(world: &World) {
    let (acme, globex) = (world.tenant("acme").await, world.tenant("globex").await);
    let stranger = world.member(&globex, "bob@example.com").await;
    let nobody = "ten_0197c2d3e4f570008000000000000001";
    for (body, wrong) in [
        (json!({"tenant_id": acme, "name": ""}), "name"),
        (json!({"tenant_id": nobody, "name": "a"}), "tenant_id"),
        (json!({"tenant_id": acme, "name": "a", "role": "operator"}), "role"),
        (json!({"name": "a", "role": "member"}), "role"),
        (json!({"tenant_id": acme, "name": "a", "member_id": stranger}), "member_id"),
        (json!({"tenant_id": acme, "name": "a", "kind": "jwt"}), "expires_at"),
        (json!({"tenant_id": acme, "name": "a", "expires_at": "2020-01-01T00:00:00Z"}), "expires_at"),
        (json!({"tenant_id": acme, "name": "a", "kind": "setup"}), "kind"),
        (json!({"tenant_id": acme, "name": "a", "grants": {"allow": [""]}}), "grants.allow[0]"),
    ] {
        let refused = world.post("access-tokens", body.clone()).await.expect_status(422);
        assert_eq!(fields(&refused), [wrong], "{body}");
    }
    let before = world.get("access-tokens").await.json()["data"].as_array().unwrap().len();
    assert_eq!(before, 1, "the operator's own and no other");
}

async fn a_jwt_of_a_member_is_issued(world: &World) {
    let tenant = world.tenant("acme").await;
    let member = world.member(&tenant, "ada@example.com").await;
    let body = json!({
        "tenant_id": tenant,
        "member_id": member,
        "name": "job",
        "kind": "jwt",
        "role": "member",
        "grants": {"allow": ["gpt-*"], "deny": []},
        "limits": {"rpm": 5},
        "expires_at": "2090-01-01T00:00:00Z",
    });
    let shown = world.create("access-tokens", body).await;
    let principal = world.desk.identity.verify(shown["text"].as_str().unwrap()).await.unwrap();
    assert_eq!(principal.limits.rpm, Some(5));
    assert_eq!(principal.member.unwrap().to_string(), member);
    let listed = world.get(&format!("access-tokens?member_id={member}")).await.expect_status(200).json();
    assert_eq!(listed["data"].as_array().unwrap().len(), 1);
}

async fn a_set_up_token_makes_one_operator(world: &World) {
    let setup = world.desk.identity.issue_setup_token().await.unwrap();
    let anonymous = Caller::new(&world.url, None);
    let body = json!({"setup_token": setup.expose()});
    let redeem = || anonymous.post("/admin/v1/setup", &body);
    let refused = redeem().await.expect_status(403).json();
    assert_eq!(refused["code"], "operator_exists");
    assert!(refused["detail"].as_str().unwrap().contains("tollway token issue --operator"), "{refused}");

    world.retire_operator().await;
    let lost = anonymous.post("/admin/v1/setup", &json!({"setup_token": "tw_setup_madeup"})).await;
    assert_eq!(lost.expect_status(403).json()["code"], "setup_token_spent");
    let answers = futures_util::future::join_all((0..5).map(|_| redeem())).await;
    let mut made: Vec<&Answer> = answers.iter().filter(|answer| answer.status == 201).collect();
    let winner = made.pop().unwrap().json();
    assert!(made.is_empty(), "of any number of callers one becomes the operator");
    for loser in answers.iter().filter(|answer| answer.status != 201) {
        assert_eq!((loser.status.as_u16(), loser.json()["code"].as_str()), (403, Some("operator_exists")));
    }
    assert_eq!(winner["role"], "operator");
    let first = anonymous.with_token(winner["text"].as_str().unwrap());
    first.get("/admin/v1/providers").await.expect_status(200);
}

async fn only_operators_are_let_in(world: &World) {
    let tenant = world.tenant("acme").await;
    let issued =
        world.create("access-tokens", json!({"tenant_id": tenant, "name": "a", "role": "owner"})).await;
    let owner = Caller::new(&world.url, issued["text"].as_str());
    let anonymous = Caller::new(&world.url, None);
    let document = anonymous.get("/admin/v1/openapi.json").await.expect_status(200).json();
    let mut tried = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            if operation["security"].is_null() {
                continue;
            }
            tried += 1;
            let method: Method = method.to_uppercase().parse().unwrap();
            let path = path.replace("{id}", "ten_0197c2d3e4f570008000000000000001");
            let refused = Answer::of(owner.request(method.clone(), &path).body("{")).await.expect_status(403);
            assert_eq!(refused.json()["code"], "not_an_operator", "{method} {path}");
            assert_eq!(refused.header("content-type"), Some("application/problem+json"));
            let refused = Answer::of(anonymous.request(method.clone(), &path)).await.expect_status(401);
            assert!(refused.header("www-authenticate").is_some(), "{method} {path}");
        }
    }
    assert!(tried > 40, "{tried} operations");
}

async fn a_grant_speaks_only_of_its_own_tenant(world: &World) {
    let (acme, globex) = (world.tenant("acme").await, world.tenant("globex").await);
    let stranger = world.member(&globex, "bob@example.com").await;
    let body = |subject: Value| json!({"tenant_id": acme, "subject": subject, "pattern": "*"});
    let refused = world.post("grants", body(json!({"member": stranger}))).await.expect_status(422);
    assert_eq!(fields(&refused), ["subject.member"]);
    let own = world.member(&acme, "ada@example.com").await;
    let grant = world.create("grants", body(json!({"member": own}))).await;
    let moved = json!({"tenant_id": globex, "subject": {"member": stranger}});
    let refused = world.patch(&format!("grants/{}", id(&grant)), moved).await.expect_status(422);
    assert_eq!(fields(&refused), ["tenant_id", "subject"]);
}
