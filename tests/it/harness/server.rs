//! The real server as a child process, in either shape.

use std::{
    io::Read,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tollway::{
    app::{
        config::{Overrides, Settings, load_from},
        files,
    },
    store::DatabaseUrl,
};

use super::{
    client::{Answer, Caller},
    scene::Scene,
    services::{RedisServer, TestDatabase, free_port, migrated_database, start_redis},
};

/// How long a start or a stop may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// 32 bytes in base64; every replica of a test has the same.
pub const MASTER_KEY: &str = "bWFzdGVyLWtleS1vZi10aGUtdGVzdC1oYXJuZXNzISE=";

type Log = Arc<Mutex<Vec<u8>>>;

/// The binary under test.
pub fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_tollway"))
}

/// Postgres and Redis for replicas that belong together.
pub struct Production {
    /// The database all replicas use.
    pub database: TestDatabase,
    /// The Redis all replicas use; the test's own, so it may be frozen and killed.
    pub redis: RedisServer,
}

impl Production {
    /// Makes both; the database has the schema and nothing else.
    pub async fn start() -> Self {
        Self { database: migrated_database().await, redis: start_redis() }
    }

    /// The settings of one more replica, with directories of its own.
    pub fn replica(&self) -> Setup {
        Setup::alone().set("DATABASE_URL", &self.database.url).set("REDIS_URL", &self.redis.url)
    }
}

/// Settings and directories of a server to be booted.
pub struct Setup {
    variables: Vec<(String, String)>,
    dir: TempDir,
}

impl Setup {
    /// A server alone in a directory of its own: `SQLite`, counters in the process.
    pub fn alone() -> Self {
        let dir = tempfile::Builder::new().prefix("tollway-server-").tempdir().expect("make a directory");
        let mut setup = Self { variables: Vec::new(), dir };
        let data = setup.data_dir();
        setup = setup
            .set("TOLLWAY_DATA_DIR", data.to_str().expect("a plain path"))
            .set("TOLLWAY_VAULT_MASTER_KEY", MASTER_KEY)
            .set("TOLLWAY_NET_ALLOW", "127.0.0.0/8")
            .set("TOLLWAY_LOG_FORMAT", "json")
            .set("TOLLWAY_SERVER_WORKERS", "2");
        setup
    }

    /// Sets a `TOLLWAY_*` variable; the last word on each counts.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Where the server keeps its files.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// The settings as the server will read them.
    pub fn settings(&self) -> Settings {
        let read = load_from(&Overrides::default(), self.variables.iter().cloned(), self.dir.path());
        read.expect("valid settings").0
    }

    /// The server's store, to set things up before it boots or beside it.
    pub async fn scene(&self) -> Scene {
        let settings = self.settings();
        let url = match &settings.database.url {
            Some(url) => DatabaseUrl::Postgres(url.secret.clone()),
            None => DatabaseUrl::Sqlite(files::database(&settings)),
        };
        files::make_data_dir(&settings.data.dir).expect("make the data directory");
        let master_key = settings.vault.master_key.as_ref().expect("set by alone()");
        Scene::open(url, master_key.expose()).await
    }

    /// The binary with these settings and no others, to run a command beside or before the server.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(arguments).env_clear().envs(self.variables.iter().cloned()).current_dir(self.dir.path());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
    }

    /// Runs a command to its end and returns what it printed.
    ///
    /// # Panics
    /// When it fails.
    pub fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().expect("run the binary");
        assert!(
            output.status.success(),
            "tollway {} fails: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("text")
    }

    /// Starts the server and waits until it is ready.
    pub async fn boot(self) -> Server {
        let address = ([127, 0, 0, 1], free_port()).into();
        let log = Arc::default();
        let child = spawn(&self, address, &log);
        let mut server = Server { setup: self, address, child, log };
        server.wait_until_ready().await;
        server
    }
}

/// A running server; it is killed with this value.
pub struct Server {
    setup: Setup,
    address: SocketAddr,
    child: Child,
    log: Log,
}

impl Server {
    /// Where it listens, the same after a restart.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:port`
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A client of it.
    pub fn caller(&self, token: &str) -> Caller {
        Caller::new(&self.url(), Some(token))
    }

    /// A client of it without credential.
    pub fn anonymous(&self) -> Caller {
        Caller::new(&self.url(), None)
    }

    /// Its settings and directories, to run commands beside it.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything it printed since its first start, both streams.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&self.log.lock()).into_owned()
    }

    /// Ends it at once, as the kernel or a power cut would.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the server runs");
    }

    /// Asks it to stop, and waits until it has.
    ///
    /// # Panics
    /// When it does not within its grace.
    pub async fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait_for_exit().await
    }

    /// Waits until the process has ended.
    ///
    /// # Panics
    /// When it does not in time.
    pub async fn wait_for_exit(&mut self) -> ExitStatus {
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("ask for the child's state") {
                return status;
            }
            assert!(since.elapsed() < PATIENCE, "the server does not stop:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Starts it again after it ended, with the same directories and address.
    pub async fn restart(&mut self) {
        self.restart_unready();
        self.wait_until_ready().await;
    }

    /// As [`Server::restart`], without waiting for it to be ready.
    pub fn restart_unready(&mut self) {
        self.kill();
        self.child = spawn(&self.setup, self.address, &self.log);
    }

    /// Waits until `/readyz` says so.
    ///
    /// # Panics
    /// When the server ends or does not get ready.
    pub async fn wait_until_ready(&mut self) {
        let since = Instant::now();
        let caller = self.anonymous();
        loop {
            let answer = Answer::try_of(caller.request(reqwest::Method::GET, "/readyz")).await;
            if answer.is_ok_and(|answer| answer.status.is_success()) {
                return;
            }
            let ended = self.child.try_wait().expect("ask for the child's state");
            assert!(ended.is_none(), "the server ends: {ended:?}\n{}", self.log());
            assert!(since.elapsed() < PATIENCE, "the server does not get ready:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            eprintln!("--- log of the server at {}\n{}", self.address, self.log());
        }
    }
}

fn spawn(setup: &Setup, address: SocketAddr, log: &Log) -> Child {
    let mut child = setup
        .command(&["serve"])
        .env("TOLLWAY_SERVER_LISTEN", address.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start the server");
    collect(child.stdout.take().expect("piped"), Arc::clone(log));
    collect(child.stderr.take().expect("piped"), Arc::clone(log));
    child
}

fn collect(mut from: impl Read + Send + 'static, into: Log) {
    thread::spawn(move || {
        let mut buffer = [0; 8_192];
        while let Ok(n @ 1..) = from.read(&mut buffer) {
            into.lock().extend_from_slice(&buffer[..n]);
        }
    });
}

#[cfg(test)]
mod tests {
    use tollway::{domain::money::Nanos, upstream::key_purpose};

    use super::*;
    use crate::harness::scene::{MODEL, UPSTREAM_KEY};

    async fn is_readable(setup: &Setup) {
        let scene = setup.scene().await;
        let made = scene.ordinary("http://127.0.0.1:9/v1").await;
        scene.top_up(made.a.tenant.id, Nanos::new(5)).await;
        scene.close().await;

        let scene = setup.scene().await;
        let principal = scene.identity.verify(&made.a.token).await.unwrap();
        assert_eq!(principal.tenant.as_ref().unwrap().id, made.a.tenant.id);
        assert!(principal.allows(MODEL));
        let key = scene.store.lookup_key(made.key.id).await.unwrap().unwrap();
        let plain = scene.vault.unseal(&key_purpose(key.id), &key.secret).unwrap();
        assert_eq!(plain.expose(), UPSTREAM_KEY);
        assert_eq!(scene.store.lookup_balance(made.a.tenant.id).await.unwrap(), Nanos::new(5));
        assert_eq!(scene.store.lookup_balance(made.b.tenant.id).await.unwrap(), Nanos::ZERO);
    }

    #[tokio::test]
    async fn what_is_set_up_is_what_a_server_finds_alone() {
        is_readable(&Setup::alone()).await;
    }

    #[tokio::test]
    async fn what_is_set_up_is_what_a_server_finds_in_production() {
        let production = Production::start().await;
        is_readable(&production.replica()).await;
    }
}
