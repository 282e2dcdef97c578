//! What a dead replica held comes back.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{
    client::RawClient,
    eventually,
    scene::{MODEL, Scene, TenantHandle},
    server::{Production, Server},
    upstream::{Script, Upstream, chat_chunk},
};

fn ask(stream: bool) -> Value {
    json!({"model": MODEL, "stream": stream, "messages": []})
}

/// Two replicas; the only slot of a tenant and the only slot of the key are taken by a stream of the first.
struct World {
    _production: Production,
    upstream: Upstream,
    tenant: TenantHandle,
    dies: Server,
    stays: Server,
    scene: Scene,
    _stream: RawClient,
}

impl World {
    async fn start() -> Self {
        let upstream = Upstream::start();
        let production = Production::start().await;
        let setup = production.replica();
        let scene = setup.scene().await;
        let provider = scene.provider("house", &upstream.base_url(), |_| ()).await;
        scene.key(&provider, "only", "sk-only-key-4711", |key| key.limits.concurrency = Some(1)).await;
        let model = scene.model(MODEL, |_| ()).await;
        scene.route(&model, &provider, |_| ()).await;
        let tenant = scene.tenant("narrow", |tenant| tenant.limits.concurrency = Some(1)).await;
        let dies = setup.boot().await;
        let stays = production.replica().boot().await;
        let ready = chat_chunk(&json!({"content": "ready"}), &Value::Null);
        upstream.then(Script::status(200).sse().body(ready).hang());
        let mut stream = RawClient::chat(dies.address(), &tenant.token, &ask(true)).await;
        stream.read_until("ready").await;
        let refused = stays.caller(&tenant.token).chat(&ask(false)).await.expect_status(429);
        assert_eq!(refused.json()["error"]["code"], "rate_limit_exceeded");
        Self { _production: production, upstream, tenant, dies, stays, scene, _stream: stream }
    }

    /// Until the slots are free again, seen from the replica that stayed.
    async fn freed_within(&self, patience: Duration) -> Duration {
        let caller = self.stays.caller(&self.tenant.token);
        let since = Instant::now();
        eventually("the dead replica's slots to be free", patience, async || {
            tokio::time::sleep(Duration::from_millis(200)).await;
            caller.chat(&ask(false)).await.status == 200
        })
        .await;
        since.elapsed()
    }
}

#[tokio::test]
async fn a_restarted_replica_gives_back_its_tenants_slots_at_once() {
    let mut world = World::start().await;
    // The key's slot lapses by itself; another key serves meanwhile.
    let provider = world.scene.provider("spare", &world.upstream.base_url(), |_| ()).await;
    world.scene.key(&provider, "spare", "sk-spare-key-0815", |_| ()).await;
    let model = world.scene.model("spare", |_| ()).await;
    world.scene.route(&model, &provider, |_| ()).await;
    let caller = world.stays.caller(&world.tenant.token);
    world.dies.kill();
    world.dies.restart().await;
    eventually("the tenant's slot to be free", Duration::from_secs(5), async || {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let body = json!({"model": "spare", "messages": []});
        caller.chat(&body).await.status == 200
    })
    .await;
}

mod long {
    use std::time::Duration;

    use crate::harness::is_quick;

    #[tokio::test]
    async fn what_a_dead_replica_held_is_free_within_a_minute() {
        if is_quick() {
            return;
        }
        let mut world = super::World::start().await;
        world.dies.kill();
        let took = world.freed_within(Duration::from_secs(60)).await;
        eprintln!("free after {took:?}");
    }
}
