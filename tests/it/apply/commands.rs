//! The commands beside a running server.

use serde_json::json;

use crate::harness::server::{Production, Server, Setup};

const FILE: &str = "
tenants:
  - name: acme
    grants: {allow: [\"*\"]}
    members: [{subject: ada, role: auditor}]
providers:
  - name: local
    base_url: http://127.0.0.1:9/v1
    auth: none
    keys: [{label: only}]
models:
  - name: m
routes:
  local: [{model: m}]
";

async fn what_is_set_up_is_in_force_within_two_seconds(server: &mut Server) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("setup.yaml");
    std::fs::write(&file, FILE).unwrap();
    let file = file.to_str().unwrap();
    let setup = server.setup();
    assert!(setup.run(&["apply", "--dry-run", "-f", file]).contains("dry run: 7 to change"));
    assert!(setup.run(&["apply", "-f", file]).contains("done: 7 changed"));
    assert!(setup.run(&["apply", "-f", file]).contains("nothing to do: all 7 objects"));
    assert!(setup.run(&["keys", "list", "--provider", "local"]).contains("only"));

    let token = setup.run(&["token", "issue", "--tenant", "acme", "--model", "m*"]);
    assert_eq!(token.lines().count(), 1);
    let caller = server.caller(token.trim());
    tokio::time::timeout(std::time::Duration::from_secs(2), async {
        while !caller.get("/v1/models").await.expect_status(200).text().contains("\"m\"") {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("in force within 2 s");

    let jwt = setup.run(&["token", "issue", "--tenant", "acme", "--kind", "jwt", "--expires", "1h"]);
    server.caller(jwt.trim()).get("/v1/models").await.expect_status(200);
    setup.run(&["token", "rotate-key", "--overlap", "1h"]);
    let newer = setup.run(&["token", "issue", "--tenant", "acme", "--kind", "jwt", "--expires", "1h"]);
    for signed in [&jwt, &newer] {
        server.caller(signed.trim()).get("/v1/models").await.expect_status(200);
    }
    let published = server.anonymous().get("/.well-known/jwks.json").await.expect_status(200);
    assert_eq!(published.json()["keys"].as_array().map(Vec::len), Some(2));
    let auditor = setup.run(&["token", "issue", "--tenant", "acme", "--member", "ada"]);
    let chat = json!({"model": "m", "messages": []});
    server.caller(auditor.trim()).chat(&chat).await.expect_status(403);

    let list = setup.run(&["token", "list", "--tenant", "acme"]);
    assert!(!list.contains(token.trim()), "the text of a token is nowhere kept");
    // Listed in the order of issue: the first is the one called `jwt` here.
    let id = list.lines().find(|line| line.contains("jwt")).unwrap().split_whitespace().next().unwrap();
    setup.run(&["token", "revoke", id]);
    tokio::time::timeout(std::time::Duration::from_secs(3), async {
        while server.caller(jwt.trim()).get("/v1/models").await.status.as_u16() != 401 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("revoked within 2 s, and a moment for the machine");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_set_up_is_in_force_within_two_seconds_alone() {
    what_is_set_up_is_in_force_within_two_seconds(&mut Setup::alone().boot().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_set_up_is_in_force_within_two_seconds_in_production() {
    let production = Production::start().await;
    what_is_set_up_is_in_force_within_two_seconds(&mut production.replica().boot().await).await;
}

#[test]
fn a_command_without_a_server_before_it_says_so() {
    let output = Setup::alone().command(&["token", "list"]).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no database at"));
}
