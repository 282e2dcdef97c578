//! Providers that point at what must not be called.

use serde_json::json;

use crate::harness::{server::Setup, upstream::Upstream};

#[tokio::test]
async fn without_an_exception_no_way_of_writing_it_reaches_this_machine() {
    let target = Upstream::start();
    let port = target.address().port();
    let setup = Setup::alone().set("TOLLWAY_NET_ALLOW", "");
    let scene = setup.scene().await;
    let tenant = scene.tenant("acme", |_| ()).await;
    let hosts = [
        "127.0.0.1",
        "localhost",
        "localhost.",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.1",
        "0.0.0.0",
        "0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "[::]",
        "ip6-localhost",
    ];
    for (n, host) in hosts.iter().enumerate() {
        let provider = scene
            .provider(&format!("p{n}"), &format!("http://{host}:{port}/v1"), |provider| {
                provider.timeouts.connect_ms = 500;
                provider.transport = if n % 2 == 0 {
                    tollway::domain::provider::Transport::Http1
                } else {
                    tollway::domain::provider::Transport::Http2
                };
            })
            .await;
        scene.key(&provider, "only", "sk-must-not-be-sent-4711", |_| ()).await;
        let model = scene.model(&format!("m{n}"), |_| ()).await;
        scene.route(&model, &provider, |_| ()).await;
    }
    let server = setup.boot().await;
    for (n, host) in hosts.iter().enumerate() {
        let answer =
            server.caller(&tenant.token).chat(&json!({"model": format!("m{n}"), "messages": []})).await;
        assert_eq!(answer.status, 503, "{host}: {}", answer.text());
        assert!(!answer.text().contains("127.0.0.1"), "the client learns nothing of the inside");
    }
    assert_eq!(target.accepted_connections(), 0);
}
