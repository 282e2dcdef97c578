//! `[redis]`: shared counters.

use std::time::Duration;

use crate::app::config::{ConnectionUrl, section::section, values::choice};

choice! {
    /// How the servers at the URLs belong together.
    RedisMode = "single, sentinel or cluster" {
        /// One server.
        Single = "single",
        /// The URLs are sentinels, which name the master.
        Sentinel = "sentinel",
        /// The URLs are some nodes of a Redis Cluster.
        Cluster = "cluster",
    }
}

section! {
    /// Where replicas share their counters: Redis 6.2 or later, or Valkey. One replica alone needs none.
    "redis" RedisSection {
        /// One URL, or several for Sentinel and Cluster; none: counters in this process.
        url: Vec<ConnectionUrl> = "" or "REDIS_URL";
        /// `single`, `sentinel` or `cluster`.
        mode: RedisMode = "single";
        /// The name by which the sentinels know the master.
        sentinel_master: Option<String> = "";
        /// How long one operation may take before limits are kept by a local share.
        timeout: Duration = "50ms";
    }
    |redis, check| {
        let known = |url: &ConnectionUrl| matches!(url.scheme.as_str(), "redis" | "rediss");
        check.that(redis.url.iter().all(known), "url", "expected redis:// or rediss:// URLs");
        check.that(
            redis.mode != RedisMode::Single || redis.url.len() <= 1,
            "url",
            "expected one URL; for several set redis.mode to sentinel or cluster",
        );
        check.that(
            redis.mode == RedisMode::Single || !redis.url.is_empty(),
            "mode",
            "needs redis.url to name the servers",
        );
        check.that(
            redis.mode != RedisMode::Sentinel || redis.sentinel_master.is_some(),
            "sentinel_master",
            "needed with mode sentinel",
        );
        check.that(
            redis.timeout >= Duration::from_millis(1) && redis.timeout <= Duration::from_secs(5),
            "timeout",
            "expected 1ms to 5s",
        );
    }
}
