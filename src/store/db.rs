//! Both databases behind one type: pools, connections and their time limits.

use std::{fmt, io, path::PathBuf, str::FromStr, time::Duration};

use sqlx::{
    ConnectOptions, Database, Pool, SqlitePool,
    pool::PoolConnection,
    postgres::{PgConnectOptions, PgPool, PgPoolOptions},
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use tokio::time::{error::Elapsed, timeout};

use crate::{
    domain::secret::Secret,
    store::error::{StoreError, unavailable},
};

/// Which database, and how long it may take.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// Where the facts are.
    pub url: DatabaseUrl,
    /// Most connections to Postgres, or readers of the SQLite file; at least 1.
    pub max_connections: u32,
    /// How long to wait for a connection, opening one included.
    pub acquire_timeout: Duration,
    /// How long one statement may take.
    pub statement_timeout: Duration,
}

impl StoreConfig {
    /// The usual bounds: 16 connections, 2 s for one, 10 s a statement.
    #[must_use]
    pub const fn new(url: DatabaseUrl) -> Self {
        Self {
            url,
            max_connections: 16,
            acquire_timeout: Duration::from_secs(2),
            statement_timeout: Duration::from_secs(10),
        }
    }
}

/// Where the facts are.
#[derive(Clone)]
pub enum DatabaseUrl {
    /// `postgres://…`; TLS as its `sslmode` says.
    Postgres(Secret),
    /// A file, made if there is none.
    Sqlite(PathBuf),
}

impl DatabaseUrl {
    /// Reads `postgres://…`, `postgresql://…` or `sqlite:path`.
    ///
    /// # Errors
    /// [`StoreError::InvalidUrl`], which does not repeat the text.
    pub fn parse(text: &str) -> Result<Self, StoreError> {
        if let Some(path) = text.strip_prefix("sqlite:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return if path.is_empty() { Err(StoreError::InvalidUrl) } else { Ok(Self::Sqlite(path.into())) };
        }
        let is_postgres = text.starts_with("postgres://") || text.starts_with("postgresql://");
        if !is_postgres || PgConnectOptions::from_str(text).is_err() {
            return Err(StoreError::InvalidUrl);
        }
        Ok(Self::Postgres(Secret::new(text.to_owned())))
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Postgres(_) => f.write_str("Postgres(…)"),
            Self::Sqlite(path) => write!(f, "Sqlite({})", path.display()),
        }
    }
}

/// The durable facts. Cheap to clone; all clones share their connections.
#[derive(Clone)]
pub struct Store {
    pub(super) db: Db,
    /// How long one operation may take, from our side.
    pub(super) limit: Duration,
}

/// The two databases. SQLite has one writer: a second would wait on the file's lock instead of in
/// line, and unfairly.
#[derive(Clone)]
pub(super) enum Db {
    Postgres(PgPool),
    Sqlite { read: SqlitePool, write: SqlitePool },
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_shared() { "Store(postgres)" } else { "Store(sqlite)" })
    }
}

impl Store {
    /// Opens the pools and checks that the database answers.
    ///
    /// # Errors
    /// [`StoreError::InvalidUrl`], or [`StoreError::Unavailable`] within the acquire timeout.
    pub async fn connect(config: &StoreConfig) -> Result<Self, StoreError> {
        let db = match &config.url {
            DatabaseUrl::Postgres(url) => Db::Postgres(open_postgres(url, config)?),
            DatabaseUrl::Sqlite(path) => open_sqlite(path, config).await?,
        };
        // The server cancels first, which keeps the connection; ours is for a server that is gone.
        let store = Self { db, limit: config.statement_timeout + Duration::from_secs(1) };
        match (store.ping().await, &config.url) {
            (Ok(()), _) => Ok(store),
            (Err(error), DatabaseUrl::Postgres(url)) => Err(why_away(url, config).await.unwrap_or(error)),
            (Err(error), DatabaseUrl::Sqlite(_)) => Err(error),
        }
    }

    /// Whether several replicas can share it: Postgres.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        matches!(self.db, Db::Postgres(_))
    }

    /// Whether the database answers.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if it does not.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let _: i32 = reading!(self, conn => sqlx::query_scalar("select 1").fetch_one(conn))?;
        Ok(())
    }

    /// Closes every connection, waiting for those in use.
    pub async fn close(&self) {
        match &self.db {
            Db::Postgres(pool) => pool.close().await,
            Db::Sqlite { read, write } => {
                read.close().await;
                // The last connection out folds the write-ahead log into the file.
                write.close().await;
            }
        }
    }
}

/// Why a server is not there, in its own words: a pool says no more than that there was no connection.
async fn why_away(url: &Secret, config: &StoreConfig) -> Option<StoreError> {
    let options = postgres_options(url).ok()?;
    let place = format!("{}:{}", options.get_host(), options.get_port());
    let error = match timeout(config.acquire_timeout, options.connect()).await {
        Ok(connected) => connected.err()?,
        Err(_) => return Some(unavailable("no answer in time", io::Error::other(place))),
    };
    Some(match &error {
        sqlx::Error::Database(refusal) => {
            unavailable("it refuses the connection", io::Error::other(refusal.message().to_owned()))
        }
        sqlx::Error::Io(cause) => {
            unavailable("nothing answers there", io::Error::other(format!("{place}: {cause}")))
        }
        _ => error.into(),
    })
}

/// The options of every Postgres connection but the migrator's.
fn postgres_options(url: &Secret) -> Result<PgConnectOptions, StoreError> {
    let options = PgConnectOptions::from_str(url.expose()).map_err(|_| StoreError::InvalidUrl)?;
    Ok(options.application_name("tollway"))
}

fn open_postgres(url: &Secret, config: &StoreConfig) -> Result<PgPool, StoreError> {
    let statement_ms = config.statement_timeout.as_millis().to_string();
    let options = postgres_options(url)?.options([("statement_timeout", statement_ms)]);
    let pool = PgPoolOptions::new()
        .max_connections(config.max_connections.max(1))
        .acquire_timeout(config.acquire_timeout)
        .connect_lazy_with(options);
    Ok(pool)
}

async fn open_sqlite(path: &PathBuf, config: &StoreConfig) -> Result<Db, StoreError> {
    create_private(path).map_err(|error| unavailable("the SQLite file cannot be opened", error))?;
    let options = SqliteConnectOptions::new()
        .filename(path)
        .foreign_keys(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(config.statement_timeout);
    let pool = |connections| {
        SqlitePoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(config.acquire_timeout)
            .idle_timeout(None)
            .max_lifetime(None)
    };
    // The writer comes first: it is the one that turns the write-ahead log on.
    let write = pool(1).connect_with(options.clone()).await?;
    let read = pool(config.max_connections.max(1)).connect_lazy_with(options.pragma("query_only", "on"));
    Ok(Db::Sqlite { read, write })
}

/// Makes the file readable by its owner alone; the log and index beside it inherit that.
fn create_private(path: &PathBuf) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path).map(|_| ())
}

/// A connection in use, with its time limit. One that ends inside a transaction or out of time is
/// closed instead of going back to the pool: the database rolls back, and no later caller meets an
/// answer that was meant for an earlier one.
pub(super) struct Held<DB: Database> {
    conn: PoolConnection<DB>,
    limit: Duration,
    spoilt: bool,
}

impl<DB: Database> Held<DB> {
    pub(super) async fn acquire(pool: &Pool<DB>, limit: Duration) -> Result<Self, StoreError> {
        let conn = pool.acquire().await?;
        Ok(Self { conn, limit, spoilt: false })
    }

    pub(super) const fn limit(&self) -> Duration {
        self.limit
    }

    pub(super) const fn allow(&mut self, limit: Duration) {
        self.limit = limit;
    }

    pub(super) fn conn(&mut self) -> &mut DB::Connection {
        &mut self.conn
    }

    /// Called before a statement goes out: dropped while waiting for it counts as out of time.
    pub(super) const fn spoil(&mut self) {
        self.spoilt = true;
    }

    /// The connection may go back to the pool.
    pub(super) const fn restore(&mut self) {
        self.spoilt = false;
    }

    /// What came of a statement.
    pub(super) fn outcome<T>(&mut self, result: Result<sqlx::Result<T>, Elapsed>) -> Result<T, StoreError> {
        match result {
            Ok(result) => result.map_err(StoreError::from),
            Err(elapsed) => {
                self.spoil();
                Err(unavailable("a statement took too long", elapsed))
            }
        }
    }
}

impl<DB: Database> Drop for Held<DB> {
    fn drop(&mut self) {
        if self.spoilt {
            self.conn.close_on_drop();
        }
    }
}
