//! The database goes away: who was known goes on, and nothing is lost.

use std::time::Duration;

use super::{ANSWER, assert_served, becomes, state_of, steady};
use crate::{
    crash::books::{Books, drained, undrained},
    harness::{
        eventually,
        load::{Load, answer_by_number, ask},
        scene::MODEL,
        server::Setup,
        services::{PgServer, start_postgres, start_redis},
        upstream::Upstream,
    },
};

/// How the database goes.
#[derive(Debug, Clone, Copy)]
enum Goes {
    /// Connections break, new ones are refused.
    Killed,
    /// Connections stay and nothing answers.
    Frozen,
}

impl Goes {
    fn away(self, postgres: &mut PgServer) {
        match self {
            Self::Killed => postgres.kill(),
            Self::Frozen => postgres.freeze(),
        }
    }

    fn back(self, postgres: &mut PgServer) {
        match self {
            Self::Killed => postgres.restart(),
            Self::Frozen => postgres.thaw(),
        }
    }
}

async fn is_survived(goes: Goes, span: Duration) {
    let upstream = Upstream::start();
    answer_by_number(&upstream, ANSWER);
    let mut postgres = start_postgres();
    let redis = start_redis();
    let setup = Setup::alone().set("DATABASE_URL", &postgres.url).set("REDIS_URL", &redis.url);
    let scene = setup.scene().await;
    let house = scene.ordinary(&upstream.base_url()).await;
    let server = setup.boot().await;
    let (known, stranger) = (server.caller(&house.a.token), server.caller(&house.b.token));
    let load = Load::start(&steady(vec![known.clone()]));
    eventually("the load to run", Duration::from_secs(10), async || load.ended() > 20).await;

    goes.away(&mut postgres);
    let away = tokio::time::sleep(span);
    becomes(&server, "store", "away").await;
    // The second time as fast as the first: a token nobody has seen is not let in, and told so.
    for _ in 0..2 {
        let refused = stranger.chat(&ask(0)).await.expect_status(503);
        assert!(refused.header("retry-after").is_some(), "{:?}", refused.headers);
        assert!(refused.took < Duration::from_secs(5), "refused after {:?}", refused.took);
    }
    let models = known.get("/v1/models").await.expect_status(200).json();
    assert_eq!(models["data"][0]["id"], MODEL, "the catalog survives");
    let missing = serde_json::json!({"model": "no-such-model", "messages": []});
    known.chat(&missing).await.expect_status(404);
    away.await;
    assert_eq!(state_of(&server, "store").await, "away");
    assert!(undrained(&server).await > 0, "the journal keeps what the store cannot take");

    goes.back(&mut postgres);
    becomes(&server, "store", "up").await;
    eventually("a token never seen to be let in", Duration::from_secs(10), async || {
        stranger.chat(&ask(0)).await.status == 200
    })
    .await;
    let samples = load.stop().await;
    assert_served(&samples, &format!("postgres {goes:?} for {span:?}"));
    drained(&server).await;
    let scene = server.setup().scene().await;
    Books::read(&scene.store).await.check(&upstream, &samples);
    server.setup().run(&["reconcile"]);
}

#[tokio::test]
async fn a_stopped_database_fails_no_request_of_a_known_token() {
    is_survived(Goes::Killed, Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_frozen_database_fails_no_request_of_a_known_token() {
    is_survived(Goes::Frozen, Duration::from_secs(5)).await;
}

mod long {
    use std::time::Duration;

    use super::{Goes, is_survived};
    use crate::harness::is_quick;

    #[tokio::test]
    async fn half_a_minute_without_a_database_fails_no_request_of_a_known_token() {
        if is_quick() {
            return;
        }
        is_survived(Goes::Killed, Duration::from_secs(30)).await;
        is_survived(Goes::Frozen, Duration::from_secs(30)).await;
    }
}
