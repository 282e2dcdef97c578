//! What the store can fail with.

use std::error::Error;

/// Why the store did not do what it was asked.
///
/// No text here holds a URL, a password or a row's content, so that an error may be logged.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database is away, too slow, full, or gave up on contention: the same call may succeed
    /// later.
    #[error("the database is not available: {reason}")]
    Unavailable {
        /// What was seen, for the operator.
        reason: &'static str,
        /// The driver's own error.
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    /// Another row has this value already.
    #[error("{field} is taken in {table}")]
    Conflict {
        /// The table.
        table: String,
        /// The field that has to be unique.
        field: String,
    },
    /// The row names one that does not exist, or is still named by others and cannot go.
    #[error("a row that is referred to is missing, or one that is still referred to was to go")]
    Reference,
    /// A column holds what no version of ours writes.
    #[error("{table}.{column} of {id} cannot be read")]
    BadRow {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// The row's key.
        id: String,
    },
    /// The schema is newer than this build.
    #[error("the database has schema {found}, this build knows schemas up to {known}: use a newer build")]
    UnknownSchema {
        /// The newest migration found.
        found: i64,
        /// The newest migration known.
        known: i64,
    },
    /// The schema is older than this build.
    #[error("the database lacks the migrations {missing:?}: run `tollway migrate`")]
    IncompleteSchema {
        /// The migrations it lacks.
        missing: Vec<i64>,
    },
    /// A migration was applied with another text than this build has.
    #[error("migration {version} was applied with another text than this build's")]
    ChangedMigration {
        /// Which.
        version: i64,
    },
    /// The database URL cannot be used.
    #[error("the database URL is not a postgres:// or sqlite: URL")]
    InvalidUrl,
    /// Anything else: a defect of ours or a broken database.
    #[error("the database refused a statement")]
    Driver(#[source] Box<dyn Error + Send + Sync>),
}

impl StoreError {
    /// Whether the same call may succeed later.
    #[must_use]
    pub const fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}

/// An [`StoreError::Unavailable`].
pub(super) fn unavailable(reason: &'static str, cause: impl Error + Send + Sync + 'static) -> StoreError {
    StoreError::Unavailable { reason, cause: Box::new(cause) }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        use sqlx::{Error as E, error::ErrorKind};
        let reason = match &error {
            E::PoolTimedOut => "no connection in time",
            E::PoolClosed => "the store is closed",
            E::Io(_) | E::WorkerCrashed | E::BeginFailed => "the connection broke",
            E::Tls(_) => "no TLS connection",
            E::Database(refusal) => match refusal.kind() {
                ErrorKind::UniqueViolation => return conflict(refusal.as_ref()),
                ErrorKind::ForeignKeyViolation => return Self::Reference,
                _ => match refusal.code().and_then(|code| passing_reason(&code)) {
                    Some(reason) => reason,
                    None => return Self::Driver(Box::new(error)),
                },
            },
            _ => return Self::Driver(Box::new(error)),
        };
        unavailable(reason, error)
    }
}

/// What a code means that goes away by itself: SQLSTATE has five characters
/// (<https://www.postgresql.org/docs/current/errcodes-appendix.html>), an SQLite result code
/// fewer digits, its low byte being the class (<https://www.sqlite.org/rescode.html>).
fn passing_reason(code: &str) -> Option<&'static str> {
    if code.len() == 5 {
        return match code {
            "57014" => Some("a statement took too long"),
            "55P03" => Some("a lock was not free in time"),
            "40001" | "40P01" => Some("transactions got in each other's way"),
            "25006" => Some("the server is read-only"),
            _ if code.starts_with("08") || code.starts_with("57P") => Some("the server is going or coming"),
            _ if code.starts_with("53") || code.starts_with("58") => Some("the server is out of resources"),
            _ => None,
        };
    }
    match code.parse::<i32>().ok()? & 0xff {
        5 | 6 => Some("the file is locked"),
        9 => Some("a statement took too long"),
        10 | 14 => Some("the file cannot be read or written"),
        13 => Some("the disk is full"),
        _ => None,
    }
}

/// Which field was taken. In Postgres from the constraint, named `<table>_<field>_unique`; in
/// SQLite from the last column that the message lists.
fn conflict(refusal: &dyn sqlx::error::DatabaseError) -> StoreError {
    if let (Some(table), Some(constraint)) = (refusal.table(), refusal.constraint()) {
        let field = constraint.strip_prefix(table).unwrap_or(constraint);
        let field = field.strip_prefix('_').unwrap_or(field);
        let field = if field == "pkey" { "id" } else { field.strip_suffix("_unique").unwrap_or(field) };
        return StoreError::Conflict { table: table.to_owned(), field: field.to_owned() };
    }
    let column = refusal.message().rsplit(&[' ', ','][..]).next().unwrap_or_default();
    let (table, field) = column.split_once('.').unwrap_or(("", column));
    StoreError::Conflict { table: table.to_owned(), field: field.to_owned() }
}
