//! Postgres and Redis for tests: handed in by `TEST_DATABASE_URL` and `TEST_REDIS_URL`, else private instances
//! started from the binaries of this machine on free loopback ports with throwaway data.
//!
//! [`postgres`] and [`redis`] are shared by all tests of a run, also when the runner gives each test its own
//! process; the `start_…` functions give a test an instance of its own that it may freeze, kill and restart.
//! Whatever was started goes away with the run, also after a `kill -9` (see `daemon`).

mod daemon;
mod postgres;
mod redis;
mod shared;

pub use self::{
    daemon::free_port,
    postgres::{PgServer, TestDatabase, fresh_database, migrated_database, postgres, start_postgres},
    redis::{
        RedisCluster, RedisServer, Sentinel, fresh_redis_prefix, redis, start_redis, start_redis_cluster,
        start_sentinel,
    },
};

#[cfg(test)]
mod tests;
