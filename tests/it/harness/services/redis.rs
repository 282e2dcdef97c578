//! Redis instances: single, cluster, sentinel.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use redis::{Cmd, FromRedisValue, cmd};

use super::{
    daemon::{Daemon, find_binary, free_port, private_dir, uuid},
    shared::shared,
};

/// How long a cluster or a sentinel may take to agree.
const PATIENCE: Duration = Duration::from_secs(30);

/// A Redis a test may freeze, kill and restart. Its data survive a kill (append-only file).
pub struct RedisServer {
    /// `redis://127.0.0.1:port`
    pub url: String,
    /// Its port on 127.0.0.1.
    pub port: u16,
    dir: PathBuf,
    options: Vec<String>,
    daemon: Option<Daemon>,
}

impl RedisServer {
    fn start(dir: &Path, options: &[&str]) -> Self {
        let options: Vec<String> = options.iter().map(ToString::to_string).collect();
        let mut failure = String::new();
        for _ in 0..5 {
            let port = free_port();
            match serve(dir, port, &options) {
                Ok(daemon) => {
                    let url = url_at(port);
                    return Self { url, port, dir: dir.to_owned(), options, daemon: Some(daemon) };
                }
                // Somebody may have taken the port in between.
                Err(log) => failure = log,
            }
        }
        panic!("Redis does not start: {failure}");
    }

    /// Stops it where it stands; connections stay open and nothing answers.
    pub fn freeze(&self) {
        self.daemon.as_ref().expect("Redis is running").freeze();
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.daemon.as_ref().expect("Redis is running").thaw();
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        self.daemon = None;
    }

    /// Starts it again on the same port and data.
    pub fn restart(&mut self) {
        self.daemon = None;
        self.daemon = Some(serve(&self.dir, self.port, &self.options).expect("Redis starts again"));
    }

    /// Starts it again on the same port with nothing in it.
    pub fn restart_empty(&mut self) {
        self.daemon = None;
        let _ = fs::remove_dir_all(self.dir.join("appendonlydir"));
        let _ = fs::remove_file(self.dir.join("appendonly.aof"));
        self.restart();
    }

    /// Runs one command and returns its answer.
    ///
    /// # Panics
    /// When Redis refuses it or is away.
    pub fn run<T: FromRedisValue>(&self, command: &Cmd) -> T {
        run(&self.url, command).expect("Redis answers")
    }
}

/// The Redis shared by the run's tests, by URL; use [`fresh_redis_prefix`] to keep out of others' keys.
///
/// # Panics
/// When neither `TEST_REDIS_URL` nor `redis-server` is there.
pub fn redis() -> String {
    static URL: OnceLock<String> = OnceLock::new();
    URL.get_or_init(|| {
        std::env::var("TEST_REDIS_URL").unwrap_or_else(|_| {
            shared("redis", |dir| {
                let mut server = RedisServer::start(dir, &["--appendonly", "no"]);
                server.daemon.take().expect("it was just started").hand_over();
                server.url.clone()
            })
        })
    })
    .clone()
}

/// A key prefix (or part of a hash tag) nobody else uses.
pub fn fresh_redis_prefix() -> String {
    format!("t{}", uuid())
}

/// A Redis of the test's own.
pub fn start_redis() -> RedisServer {
    RedisServer::start(&private_dir("redis"), &["--appendonly", "yes", "--appendfsync", "no"])
}

/// A loopback Redis Cluster.
pub struct RedisCluster {
    /// Its masters.
    pub nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// The nodes' URLs.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.url.clone()).collect()
    }
}

/// Starts a cluster of `masters` nodes that share all slots, and waits until all agree on it.
pub fn start_redis_cluster(masters: usize) -> RedisCluster {
    const SLOTS: usize = 16_384;
    let options = ["--appendonly", "no", "--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
    let nodes: Vec<RedisServer> =
        (0..masters).map(|_| RedisServer::start(&private_dir("cluster"), &options)).collect();
    for (n, node) in nodes.iter().enumerate() {
        let mut add = cmd("CLUSTER");
        add.arg("ADDSLOTS");
        for slot in n * SLOTS / masters..(n + 1) * SLOTS / masters {
            add.arg(slot);
        }
        node.run::<()>(&add);
        node.run::<()>(cmd("CLUSTER").arg("SET-CONFIG-EPOCH").arg(n + 1));
        node.run::<()>(cmd("CLUSTER").arg("MEET").arg("127.0.0.1").arg(nodes[0].port));
    }
    for node in &nodes {
        wait_until("the cluster to agree", || {
            let info: String = run(&node.url, cmd("CLUSTER").arg("INFO")).unwrap_or_default();
            let slots: Vec<redis::Value> = run(&node.url, cmd("CLUSTER").arg("SLOTS")).unwrap_or_default();
            info.contains("cluster_state:ok") && slots.len() == masters
        });
    }
    RedisCluster { nodes }
}

/// A master with one replica, watched by one sentinel that fails over within a second or two.
pub struct Sentinel {
    /// The sentinel's own URL.
    pub url: String,
    /// The sentinel's port on 127.0.0.1.
    pub port: u16,
    /// The first is the master at the start.
    pub servers: Vec<RedisServer>,
    watcher: RedisServer,
}

impl Sentinel {
    /// The name the master is known by.
    pub const MASTER: &'static str = "tollway";

    /// The port the sentinel names as the master's now.
    #[must_use]
    pub fn master_port(&self) -> u16 {
        let mut ask = cmd("SENTINEL");
        ask.arg("GET-MASTER-ADDR-BY-NAME").arg(Self::MASTER);
        let (_, port): (String, String) = self.watcher.run(&ask);
        port.parse().expect("a port")
    }

    /// Kills the current master and waits until the sentinel names another that takes writes.
    pub fn fail_over(&mut self) {
        let old = self.master_port();
        let master = self.servers.iter_mut().find(|server| server.port == old).expect("the master is ours");
        master.kill();
        wait_until("the sentinel to promote the replica", || {
            let new = self.master_port();
            new != old && run::<String>(&url_at(new), cmd("SET").arg("promoted").arg(1)).is_ok()
        });
    }
}

/// Starts master, replica and sentinel, and waits until the sentinel knows both.
pub fn start_sentinel() -> Sentinel {
    let options = ["--appendonly", "no", "--repl-diskless-sync-delay", "0"];
    let master = RedisServer::start(&private_dir("redis"), &options);
    let replica = RedisServer::start(&private_dir("redis"), &options);
    replica.run::<()>(cmd("REPLICAOF").arg("127.0.0.1").arg(master.port));
    wait_until("the replica to follow", || {
        run::<String>(&replica.url, cmd("INFO").arg("replication"))
            .is_ok_and(|info| info.contains("master_link_status:up"))
    });
    let dir = private_dir("sentinel");
    let name = Sentinel::MASTER;
    let config = format!(
        "sentinel monitor {name} 127.0.0.1 {port} 1\nsentinel down-after-milliseconds {name} 500\n\
         sentinel failover-timeout {name} 5000\n",
        port = master.port
    );
    fs::write(dir.join("sentinel.conf"), config).expect("write the sentinel's configuration");
    let sentinel = RedisServer::start(&dir, &["sentinel"]);
    wait_until("the sentinel to know the replica", || {
        let mut ask = cmd("SENTINEL");
        ask.arg("REPLICAS").arg(name);
        run::<Vec<redis::Value>>(&sentinel.url, &ask).is_ok_and(|replicas| !replicas.is_empty())
    });
    Sentinel {
        url: sentinel.url.clone(),
        port: sentinel.port,
        servers: vec![master, replica],
        watcher: sentinel,
    }
}

fn serve(dir: &Path, port: u16, options: &[String]) -> Result<Daemon, String> {
    let mut command = Command::new(binary());
    let port_text = port.to_string();
    if options == ["sentinel"] {
        command.arg(dir.join("sentinel.conf")).args(["--sentinel", "--port", &port_text]);
    } else {
        command.args(["--port", &port_text, "--save", ""]).args(options);
    }
    command.args(["--bind", "127.0.0.1", "--dir"]).arg(dir);
    let url = url_at(port);
    Daemon::start(&mut command, dir, || {
        run::<String>(&url, &cmd("PING")).is_ok_and(|answer| answer == "PONG")
    })
}

fn run<T: FromRedisValue>(url: &str, command: &Cmd) -> redis::RedisResult<T> {
    let client = redis::Client::open(url)?;
    let mut connection = client.get_connection_with_timeout(Duration::from_secs(2))?;
    connection.set_read_timeout(Some(Duration::from_secs(5)))?;
    command.query(&mut connection)
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < PATIENCE, "waited too long for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn url_at(port: u16) -> String {
    format!("redis://127.0.0.1:{port}")
}

fn binary() -> PathBuf {
    find_binary("redis-server", &["/usr/sbin".into(), "/usr/local/bin".into()]).unwrap_or_else(|| {
        panic!(
            "these tests need Redis and found no `redis-server` in PATH: install it (Debian: apt-get install \
             redis-server), or point TEST_REDIS_URL at a server, or run scripts/test, which does it all"
        )
    })
}
