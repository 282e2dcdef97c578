//! A server alone that is killed: what it counted in its own memory still counts after the restart.

use serde_json::json;

use crate::harness::{server::Setup, upstream::Upstream};

#[tokio::test]
async fn a_restart_gives_no_key_a_second_minute() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let provider = scene.provider("narrow", &upstream.base_url(), |_| ()).await;
    scene.key(&provider, "only", "sk-narrow-key-4711", |key| key.limits.rpm = Some(3)).await;
    let model = scene.model("scarce", |_| ()).await;
    scene.route(&model, &provider, |_| ()).await;
    let tenant = scene.tenant("acme", |_| ()).await;
    scene.close().await;
    let mut server = setup.boot().await;
    let caller = server.caller(&tenant.token);
    let body = json!({"model": "scarce", "messages": []});
    for _ in 0..3 {
        caller.chat(&body).await.expect_status(200);
    }
    server.kill();
    server.restart().await;
    let refused = server.caller(&tenant.token).chat(&body).await.expect_status(429);
    assert_eq!(refused.json()["error"]["code"], "all_keys_limited");
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((30..=62).contains(&wait), "{wait}");
    assert_eq!(upstream.request_count(), 3);
}

#[tokio::test]
async fn a_restart_gives_no_tenant_and_no_access_token_a_second_minute() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let house = scene.ordinary(&upstream.base_url()).await;
    let narrow = scene.tenant("narrow", |tenant| tenant.limits.rpm = Some(3)).await;
    let token = scene.token(house.a.tenant.id, |token| token.limits.rpm = Some(3)).await;
    scene.close().await;
    let mut server = setup.boot().await;
    let body = json!({"model": crate::harness::scene::MODEL, "messages": []});
    for token in [&narrow.token, &token] {
        for _ in 0..3 {
            server.caller(token).chat(&body).await.expect_status(200);
        }
    }
    server.kill();
    server.restart().await;
    for (token, whose) in [(&narrow.token, "tenant"), (&token, "access token")] {
        let refused = server.caller(token).chat(&body).await.expect_status(429);
        let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(whose), "{message}");
    }
    server.caller(&house.a.token).chat(&body).await.expect_status(200);
}

#[tokio::test]
async fn after_a_restart_the_key_that_rested_longest_comes_first() {
    let upstream = Upstream::start();
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let provider = scene.provider("pair", &upstream.base_url(), |_| ()).await;
    for secret in ["sk-first-key-4711", "sk-other-key-4711"] {
        scene.key(&provider, secret, secret, |_| ()).await;
    }
    let model = scene.model("shared", |_| ()).await;
    scene.route(&model, &provider, |_| ()).await;
    let tenant = scene.tenant("acme", |_| ()).await;
    scene.close().await;
    let mut server = setup.boot().await;
    let body = json!({"model": "shared", "messages": []});
    for _ in 0..3 {
        server.caller(&tenant.token).chat(&body).await.expect_status(200);
    }
    server.kill();
    server.restart().await;
    server.caller(&tenant.token).chat(&body).await.expect_status(200);
    let keys: Vec<_> =
        upstream.requests().iter().map(|one| one.header("authorization").unwrap().to_owned()).collect();
    assert_eq!(keys[0], keys[2]);
    assert_eq!(keys[1], keys[3]);
    assert_ne!(keys[0], keys[1]);
}
