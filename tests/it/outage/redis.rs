//! Redis goes away: requests go on within a share of the limits, and it is told.

use std::time::Duration;

use serde_json::{Value, json};

use super::{ANSWER, assert_served, becomes, is_degraded_by_metric, steady};
use crate::{
    crash::books::{Books, drained},
    harness::{
        client::RawClient,
        eventually,
        load::{Load, answer_by_number, ask},
        scene::MODEL,
        server::Production,
        services::RedisServer,
        upstream::{Script, Upstream, chat_chunk},
    },
};

/// How Redis goes.
#[derive(Debug, Clone, Copy)]
enum Goes {
    /// Connections stay and nothing answers.
    Frozen,
    /// Connections break, and it comes back with nothing in it.
    Emptied,
}

impl Goes {
    fn away(self, redis: &mut RedisServer) {
        match self {
            Self::Frozen => redis.freeze(),
            Self::Emptied => redis.kill(),
        }
    }

    fn back(self, redis: &mut RedisServer) {
        match self {
            Self::Frozen => redis.thaw(),
            Self::Emptied => redis.restart_empty(),
        }
    }
}

async fn is_survived(goes: Goes, span: Duration) {
    let upstream = Upstream::start();
    answer_by_number(&upstream, ANSWER);
    let mut production = Production::start().await;
    let setup = production.replica();
    let scene = setup.scene().await;
    let house = scene.ordinary(&upstream.base_url()).await;
    let narrow = scene.tenant("narrow", |tenant| tenant.limits.concurrency = Some(1)).await;
    let replicas = [setup.boot().await, production.replica().boot().await];
    // The only slot of a tenant is taken all the time.
    let ready = chat_chunk(&json!({"content": "ready"}), &Value::Null);
    upstream.then(Script::status(200).sse().body(ready).hang());
    let body = json!({"model": MODEL, "stream": true, "messages": []});
    let mut held = RawClient::chat(replicas[0].address(), &narrow.token, &body).await;
    held.read_until("ready").await;
    let load = Load::start(&steady(replicas.iter().map(|one| one.caller(&house.a.token)).collect()));
    eventually("the load to run", Duration::from_secs(10), async || load.ended() > 20).await;

    goes.away(&mut production.redis);
    let away = tokio::time::sleep(span);
    for replica in &replicas {
        becomes(replica, "admission", "degraded").await;
        assert!(is_degraded_by_metric(replica).await);
    }
    away.await;
    goes.back(&mut production.redis);
    for replica in &replicas {
        becomes(replica, "admission", "shared").await;
        // Until both have seen that the other is back, one may look for lost counters once more.
        eventually("the metric to agree", Duration::from_secs(5), async || {
            !is_degraded_by_metric(replica).await
        })
        .await;
    }
    let samples = load.stop().await;
    assert_served(&samples, &format!("redis {goes:?} for {span:?}"));

    // Both count together again, what was held all the time included.
    for replica in &replicas {
        replica.caller(&narrow.token).chat(&ask(0)).await.expect_status(429);
    }
    held.close();
    for replica in &replicas {
        eventually("the slot to be free", Duration::from_secs(5), async || {
            replica.caller(&narrow.token).chat(&ask(0)).await.status == 200
        })
        .await;
        drained(replica).await;
    }
    Books::read(&scene.store).await.check(&upstream, &samples);
    replicas[0].setup().run(&["reconcile"]);
}

#[tokio::test]
async fn a_frozen_redis_holds_nobody_up() {
    is_survived(Goes::Frozen, Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_redis_that_comes_back_empty_holds_nobody_up() {
    is_survived(Goes::Emptied, Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_redis_that_is_emptied_gives_no_tenant_a_second_minute() {
    let upstream = Upstream::start();
    let production = Production::start().await;
    let setup = production.replica();
    let scene = setup.scene().await;
    let _house = scene.ordinary(&upstream.base_url()).await;
    let ten = scene.tenant("ten", |tenant| tenant.limits.rpm = Some(10)).await;
    let replicas = [setup.boot().await, production.replica().boot().await];
    let callers = replicas.each_ref().map(|one| one.caller(&ten.token));
    for nth in 0..8 {
        callers[usize::from(nth % 4 == 0)].chat(&ask(nth)).await.expect_status(200);
    }
    for replica in &replicas {
        drained(replica).await;
    }
    production.redis.run::<()>(&redis::cmd("FLUSHALL"));
    let mut tries = Vec::new();
    for nth in 0..20 {
        tries.push(tokio::spawn({
            let caller = callers[nth % 2].clone();
            async move { caller.chat(&ask(nth)).await.status.as_u16() }
        }));
    }
    let mut passed = 0;
    for one in tries {
        let status = one.await.expect("it is answered");
        assert!([200, 429].contains(&status), "{status}");
        passed += usize::from(status == 200);
    }
    assert_eq!(passed, 2);
}

mod long {
    use std::time::Duration;

    use super::{Goes, is_survived};
    use crate::harness::is_quick;

    #[tokio::test]
    async fn half_a_minute_without_redis_holds_nobody_up() {
        if is_quick() {
            return;
        }
        is_survived(Goes::Frozen, Duration::from_secs(30)).await;
        is_survived(Goes::Emptied, Duration::from_secs(30)).await;
    }
}
