use std::{process::Command, time::Duration};

use ::redis::cmd;
use sqlx::{Connection, Executor, PgConnection, Row};

use super::*;

#[tokio::test]
async fn a_fresh_database_is_empty_and_its_own() {
    let (one, other) = (fresh_database().await, fresh_database().await);
    assert_ne!(one.url, other.url);
    let mut connection = PgConnection::connect(&one.url).await.unwrap();
    connection.execute("create table only_here (id int)").await.unwrap();
    let mut elsewhere = PgConnection::connect(&other.url).await.unwrap();
    assert!(elsewhere.execute("select * from only_here").await.is_err());
}

#[tokio::test]
async fn a_migrated_database_has_the_tables_of_this_build() {
    for _ in 0..2 {
        let database = migrated_database().await;
        let mut connection = PgConnection::connect(&database.url).await.unwrap();
        connection.execute("select id from tenants").await.unwrap();
    }
}

#[tokio::test]
async fn a_dropped_database_is_gone_even_while_connected() {
    let database = fresh_database().await;
    let url = database.url.clone();
    let _connection = PgConnection::connect(&url).await.unwrap();
    drop(database);
    assert!(PgConnection::connect(&url).await.is_err());
}

#[tokio::test]
async fn a_postgres_survives_freeze_kill_and_restart_with_its_data() {
    let mut server = start_postgres();
    let mut connection = PgConnection::connect(&server.url).await.unwrap();
    connection.execute("create table kept as select 7 as n").await.unwrap();

    server.freeze();
    let answer = tokio::time::timeout(Duration::from_millis(300), connection.execute("select 1")).await;
    assert!(answer.is_err(), "a frozen server does not answer");
    server.thaw();

    server.kill();
    assert!(PgConnection::connect(&server.url).await.is_err());
    server.restart();
    let mut connection = PgConnection::connect(&server.url).await.unwrap();
    let row = connection.fetch_one("select n from kept").await.unwrap();
    assert_eq!(row.get::<i32, _>(0), 7);
}

#[test]
fn a_redis_keeps_its_data_over_a_kill_and_loses_them_when_told_to() {
    let mut server = start_redis();
    server.run::<()>(cmd("SET").arg("k").arg("v"));
    server.kill();
    assert!(std::net::TcpStream::connect(("127.0.0.1", server.port)).is_err());
    server.restart();
    assert_eq!(server.run::<Option<String>>(cmd("GET").arg("k")).as_deref(), Some("v"));
    server.restart_empty();
    assert_eq!(server.run::<Option<String>>(cmd("GET").arg("k")), None);
}

#[test]
fn a_frozen_redis_holds_the_line_until_thawed() {
    let server = start_redis();
    server.freeze();
    let client = ::redis::Client::open(server.url.as_str()).unwrap();
    assert!(client.get_connection_with_timeout(Duration::from_millis(300)).is_err());
    server.thaw();
    assert_eq!(server.run::<String>(&cmd("PING")), "PONG");
}

#[test]
fn a_cluster_serves_every_slot() {
    let cluster = start_redis_cluster(3);
    let client = ::redis::cluster::ClusterClient::new(cluster.urls()).unwrap();
    let mut connection = client.get_connection().unwrap();
    for n in 0..50 {
        cmd("SET").arg(format!("key{n}")).arg(n).exec(&mut connection).unwrap();
        assert_eq!(cmd("GET").arg(format!("key{n}")).query::<i32>(&mut connection).unwrap(), n);
    }
}

#[test]
fn a_sentinel_promotes_the_replica_when_the_master_is_killed() {
    let mut sentinel = start_sentinel();
    let old = sentinel.master_port();
    sentinel.fail_over();
    assert_ne!(sentinel.master_port(), old);
}

#[test]
fn what_was_started_goes_when_its_owner_is_gone() {
    let dir = std::env::temp_dir().join(format!("tollway-test-watchdog-{}", super::daemon::uuid()));
    let mut owner = Command::new("sleep").arg("60").spawn().unwrap();
    super::daemon::guarded_dir(&dir, owner.id());
    let mut server = Command::new("sleep").arg("60").spawn().unwrap();
    std::fs::create_dir(dir.join("server")).unwrap();
    std::fs::write(dir.join("server/pid"), server.id().to_string()).unwrap();
    assert!(server.try_wait().unwrap().is_none());
    owner.kill().unwrap();
    owner.wait().unwrap();
    server.wait().unwrap();
    let since = std::time::Instant::now();
    while dir.exists() {
        assert!(since.elapsed() < Duration::from_secs(10), "the directory stays");
        std::thread::sleep(Duration::from_millis(50));
    }
}
