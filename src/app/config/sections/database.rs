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
        check.that(
            database.url.as_ref().is_none_or(has_known_parameters),
            "url",
            "has a parameter that connections to Postgres do not know",
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

/// The parameters of a Postgres URL that sqlx knows. Others it would print, with their value: a misspelt
/// `password` would stand in the log.
const PARAMETERS: &[&str] = &[
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "statement-cache-capacity",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
    "options",
];

fn has_known_parameters(url: &ConnectionUrl) -> bool {
    let Ok(url) = url::Url::parse(url.secret.expose()) else { return false };
    url.query_pairs().all(|(name, _)| PARAMETERS.contains(&&*name) || name.starts_with("options["))
}
