//! `[database]`: durable facts.

use std::time::Duration;

use crate::app::config::{ConnectionUrl, section::section};

section! {
    /// Where durable facts live: a SQLite file in `data.dir`, or Postgres.
    "database" DatabaseSection {
        /// Postgres, as `postgres://user:password@host/name`; none: SQLite in `data.dir`.
        url: Option<ConnectionUrl> = "" or "DATABASE_URL";
        /// Connections at once, for each replica.
        pool: u32 = "16";
        /// How long to wait for a connection, opening one included.
        timeout: Duration = "2s";
        /// How long one statement may take.
        statement_timeout: Duration = "10s";
        /// Whether a starting server brings the schema up to date by itself; replicas take turns. Switch it
        /// off to run `tollway migrate` as a step of its own. SQLite is always migrated at the start.
        migrate: bool = "true";
    }
    |database, check| {
        let scheme = database.url.as_ref().map(|url| url.scheme.as_str());
        check.that(
            matches!(scheme, None | Some("postgres" | "postgresql")),
            "url",
            "expected a postgres:// URL; for SQLite leave it out and set data.dir",
        );
        check.that(database.pool >= 2, "pool", "expected at least 2");
        check.that(database.timeout >= Duration::from_millis(100), "timeout", "expected at least 100ms");
        check.that(
            database.statement_timeout >= Duration::from_millis(100),
            "statement_timeout",
            "expected at least 100ms",
        );
    }
}
