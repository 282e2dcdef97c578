//! Postgres instances and databases.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    thread,
    time::Duration,
};

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tollway::store::{DatabaseUrl, Store, StoreConfig};

use super::{
    daemon::{Daemon, find_binary, free_port, private_dir, uuid},
    shared::shared,
};

/// A Postgres a test may freeze, kill and restart.
pub struct PgServer {
    /// `postgres://…` of its maintenance database.
    pub url: String,
    port: u16,
    dir: PathBuf,
    daemon: Option<Daemon>,
}

impl PgServer {
    /// Stops all its processes where they stand.
    pub fn freeze(&self) {
        self.daemon.as_ref().expect("Postgres is running").freeze();
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.daemon.as_ref().expect("Postgres is running").thaw();
    }

    /// Ends it at once; connections break, data stays.
    pub fn kill(&mut self) {
        self.daemon = None;
    }

    /// Starts it again on the same port and data.
    pub fn restart(&mut self) {
        self.daemon = None;
        // The killed instance could not remove it, and its pid may belong to somebody by now.
        let _ = fs::remove_file(self.dir.join("data/postmaster.pid"));
        self.daemon = Some(serve(&self.dir, self.port).expect("Postgres starts again"));
    }

    /// The URL of database `name` on this instance.
    #[must_use]
    pub fn database_url(&self, name: &str) -> String {
        with_database(&self.url, name)
    }
}

/// The Postgres shared by the run's tests, by the URL of its maintenance database.
///
/// # Panics
/// When neither `TEST_DATABASE_URL` nor Postgres's binaries are there.
pub fn postgres() -> String {
    static URL: OnceLock<String> = OnceLock::new();
    URL.get_or_init(|| {
        std::env::var("TEST_DATABASE_URL").unwrap_or_else(|_| {
            shared("postgres", |dir| {
                let (daemon, port) = init_and_serve(dir);
                daemon.hand_over();
                url_at(port)
            })
        })
    })
    .clone()
}

/// A Postgres of the test's own.
pub fn start_postgres() -> PgServer {
    let dir = private_dir("postgres");
    let (daemon, port) = init_and_serve(&dir);
    PgServer { url: url_at(port), port, dir, daemon: Some(daemon) }
}

/// A database of the test's own on the shared instance, dropped at its end.
pub struct TestDatabase {
    /// `postgres://…/name`
    pub url: String,
    server: String,
    name: String,
}

/// Makes an empty database on the shared instance.
pub async fn fresh_database() -> TestDatabase {
    TestDatabase::make("template1").await
}

/// Makes a database with this build's schema on the shared instance, without waiting for a migration.
pub async fn migrated_database() -> TestDatabase {
    TestDatabase::make(&template().await).await
}

impl TestDatabase {
    async fn make(template: &str) -> Self {
        let server = postgres();
        let name = format!("t_{}", uuid());
        let mut connection = connect(&server).await;
        execute(&mut connection, format!("create database {name} template {template}")).await;
        let _ = connection.close().await;
        Self { url: with_database(&server, &name), server, name }
    }
}

/// The migrated database that others are copied from, made by whichever test process comes first.
async fn template() -> String {
    static MADE: tokio::sync::OnceCell<String> = tokio::sync::OnceCell::const_new();
    MADE.get_or_init(|| async {
        let server = postgres();
        // Another build of the tests may have another schema; a server of TEST_DATABASE_URL outlives builds.
        let built = std::env::current_exe().and_then(fs::metadata).and_then(|file| file.modified());
        let built = built.expect("the age of this binary").duration_since(std::time::UNIX_EPOCH).unwrap();
        let name = format!("tollway_template_{}", built.as_nanos());
        let mut connection = connect(&server).await;
        // Held until the connection closes.
        execute(&mut connection, "select pg_advisory_lock(7260011)".into()).await;
        let known: Option<i32> = sqlx::query_scalar("select 1 from pg_database where datname = $1")
            .bind(&name)
            .fetch_optional(&mut connection)
            .await
            .expect("look for the template");
        if known.is_none() {
            let draft = format!("t_{}", uuid());
            execute(&mut connection, format!("create database {draft}")).await;
            migrate(&with_database(&server, &draft)).await;
            // Renamed last: a template that has the name is whole.
            execute(&mut connection, format!("alter database {draft} rename to {name}")).await;
        }
        let _ = connection.close().await;
        name
    })
    .await
    .clone()
}

async fn migrate(url: &str) {
    let url = DatabaseUrl::parse(url).expect("a database URL");
    let store = Store::connect(&StoreConfig::new(url)).await.expect("connect to the template");
    store.migrate().await.expect("migrate the template");
    store.close().await;
}

async fn connect(url: &str) -> PgConnection {
    PgConnection::connect(url).await.expect("connect to the shared Postgres")
}

async fn execute(connection: &mut PgConnection, sql: String) {
    // A connection that just closed may still count for a moment as a user of the database.
    for _ in 0..100 {
        match connection.execute(AssertSqlSafe(sql.clone())).await {
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some("55006") => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            done => {
                done.unwrap_or_else(|error| panic!("{sql}: {error}"));
                return;
            }
        }
    }
    panic!("{sql}: the database stays in use");
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        // A thread, because the test's own runtime cannot be waited for here.
        let dropped = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let mut connection = PgConnection::connect(&server).await?;
                connection
                    .execute(AssertSqlSafe(format!("drop database if exists {name} with (force)")))
                    .await?;
                connection.close().await
            })?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
        });
        if let Ok(Err(error)) = dropped.join() {
            eprintln!("database {} stays: {error}", self.name);
        }
    }
}

fn with_database(url: &str, name: &str) -> String {
    let mut url = url::Url::parse(url).expect("a Postgres URL");
    url.set_path(name);
    url.into()
}

fn url_at(port: u16) -> String {
    format!("postgres://postgres@127.0.0.1:{port}/postgres")
}

fn init_and_serve(dir: &Path) -> (Daemon, u16) {
    let data = dir.join("data");
    if is_root() {
        let status = Command::new("chown").arg("postgres").arg(dir).status().expect("run chown");
        assert!(status.success(), "this machine has no user `postgres` to run Postgres as");
    }
    let output = as_postgres("initdb")
        .args(["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"])
        .arg("-D")
        .arg(&data)
        .output()
        .expect("run initdb");
    assert!(output.status.success(), "initdb fails: {}", String::from_utf8_lossy(&output.stderr));
    let mut failure = String::new();
    for _ in 0..5 {
        let port = free_port();
        match serve(dir, port) {
            Ok(daemon) => return (daemon, port),
            // Somebody may have taken the port in between.
            Err(log) => failure = log,
        }
    }
    panic!("Postgres does not start: {failure}");
}

fn serve(dir: &Path, port: u16) -> Result<Daemon, String> {
    let data = dir.join("data");
    let state = data.join("postmaster.pid");
    let mut command = as_postgres("postgres");
    command.arg("-D").arg(&data).args(["-p", &port.to_string()]);
    for setting in [
        "listen_addresses=127.0.0.1",
        "unix_socket_directories=",
        "max_connections=400",
        "shared_buffers=64MB",
        "fsync=off",
        "full_page_writes=off",
        "timezone=UTC",
    ] {
        command.args(["-c", setting]);
    }
    // The eighth line of the pid file is Postgres's own word for its state.
    Daemon::start(&mut command, dir, || {
        fs::read_to_string(&state)
            .is_ok_and(|text| text.lines().nth(7).is_some_and(|line| line.trim() == "ready"))
    })
}

/// A Postgres program, as user `postgres` where we are root, which Postgres refuses to serve.
fn as_postgres(program: &str) -> Command {
    let path = binary(program);
    if !is_root() {
        return Command::new(path);
    }
    let mut command = Command::new("setpriv");
    // setpriv replaces itself by the program: the child's pid is the server's.
    command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", "--"]).arg(path);
    command.current_dir("/");
    command
}

fn binary(program: &str) -> PathBuf {
    let mut versions: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("bin"))
        .collect();
    versions.sort();
    versions.reverse();
    find_binary(program, &versions).unwrap_or_else(|| {
        panic!(
            "these tests need Postgres and found no `{program}` in PATH or /usr/lib/postgresql: install it \
             (Debian: apt-get install postgresql), or point TEST_DATABASE_URL at a server whose user may \
             create databases, or run scripts/test, which does it all"
        )
    })
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
