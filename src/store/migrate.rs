//! The schema: embedded migrations, what is pending, and the refusal to serve on a schema that
//! this build does not know. How to write one: migrations/README.md.

use sqlx::{
    SqlSafeStr,
    migrate::{MigrateError, Migration, MigrationType, Migrator},
};

use crate::store::{Store, StoreError, db::Db};

/// One step of the schema, in both dialects. A step that one database does not need is an empty
/// file there, so that both always have the same versions.
struct Step {
    version: i64,
    name: &'static str,
    postgres: &'static str,
    sqlite: &'static str,
}

macro_rules! steps {
    ($($version:literal $name:literal $file:literal;)*) => {
        &[$(Step {
            version: $version,
            name: $name,
            postgres: include_str!(concat!("../../migrations/postgres/", $file)),
            sqlite: include_str!(concat!("../../migrations/sqlite/", $file)),
        }),*]
    };
}

const STEPS: &[Step] = steps! {
    1 "first tables" "0001_first_tables.sql";
};

/// A migration that the database does not have yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingMigration {
    /// Its number.
    pub version: i64,
    /// What it is for.
    pub name: &'static str,
    /// Its statements in the database's dialect.
    pub sql: &'static str,
}

impl Store {
    /// Brings the schema to this build's. Any number of replicas may call it at once: in Postgres
    /// they wait in line on an advisory lock; the SQLite file has one process by its own lock.
    ///
    /// # Errors
    /// [`StoreError::UnknownSchema`], [`StoreError::ChangedMigration`], or what a statement met;
    /// then the failed step and those after it did not happen.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        let migrator = self.migrator();
        match &self.db {
            Db::Postgres(pool) => {
                // A connection of its own, closed at the end: a step may take longer than any
                // statement of the server may, and a lock left by a failed one goes with it.
                let mut conn = pool.acquire().await?.detach();
                let result = async {
                    sqlx::raw_sql("set statement_timeout = 0").execute(&mut conn).await?;
                    migrator.run_direct(None, &mut conn, false).await
                }
                .await;
                let _ = sqlx::Connection::close(conn).await;
                result
            }
            Db::Sqlite { write, .. } => {
                let mut conn = write.acquire().await?;
                migrator.run_direct(None, &mut *conn, false).await
            }
        }
        .map_err(refusal)
    }

    /// What [`migrate`](Self::migrate) would run.
    ///
    /// # Errors
    /// [`StoreError::UnknownSchema`] or [`StoreError::ChangedMigration`] when it would refuse to.
    pub async fn pending_migrations(&self) -> Result<Vec<PendingMigration>, StoreError> {
        let applied = self.applied().await?;
        let known = STEPS.last().map_or(0, |step| step.version);
        if let Some(&(found, _)) = applied.iter().find(|(found, _)| *found > known) {
            return Err(StoreError::UnknownSchema { found, known });
        }
        let mut pending = Vec::new();
        for (step, migration) in STEPS.iter().zip(self.migrator().iter()) {
            match applied.iter().find(|(version, _)| *version == step.version) {
                None => {
                    pending.push(PendingMigration {
                        version: step.version,
                        name: step.name,
                        sql: self.text(step),
                    });
                }
                Some((_, checksum)) if checksum[..] != migration.checksum[..] => {
                    return Err(StoreError::ChangedMigration { version: step.version });
                }
                Some(_) => {}
            }
        }
        Ok(pending)
    }

    /// Refuses a schema that this build does not know, or that is not complete.
    ///
    /// # Errors
    /// [`StoreError::UnknownSchema`], [`StoreError::IncompleteSchema`],
    /// [`StoreError::ChangedMigration`].
    pub async fn check_schema(&self) -> Result<(), StoreError> {
        let missing: Vec<i64> = self.pending_migrations().await?.iter().map(|step| step.version).collect();
        if missing.is_empty() { Ok(()) } else { Err(StoreError::IncompleteSchema { missing }) }
    }

    /// Versions and checksums of what was applied; nothing where the table of them is missing.
    async fn applied(&self) -> Result<Vec<(i64, Vec<u8>)>, StoreError> {
        let exists: bool = match &self.db {
            Db::Postgres(pool) => reading!(@on pool, self.limit, conn =>
                sqlx::query_scalar("select to_regclass('_sqlx_migrations') is not null").fetch_one(conn))?,
            Db::Sqlite { read, .. } => reading!(@on read, self.limit, conn =>
                sqlx::query_scalar("select exists (select 1 from sqlite_master where name = '_sqlx_migrations')")
                    .fetch_one(conn))?,
        };
        if !exists {
            return Ok(Vec::new());
        }
        reading!(self, conn => sqlx::query_as(
            "select version, checksum from _sqlx_migrations where success order by version",
        )
        .fetch_all(conn))
    }

    const fn text(&self, step: &Step) -> &'static str {
        match &self.db {
            Db::Postgres(_) => step.postgres,
            Db::Sqlite { .. } => step.sqlite,
        }
    }

    fn migrator(&self) -> Migrator {
        let migration = |step: &Step| {
            let sql = self.text(step).into_sql_str();
            Migration::new(step.version, step.name.into(), MigrationType::Simple, sql, false)
        };
        Migrator::with_migrations(STEPS.iter().map(migration).collect())
    }
}

fn refusal(error: MigrateError) -> StoreError {
    match error {
        MigrateError::VersionMissing(found) => {
            StoreError::UnknownSchema { found, known: STEPS.last().map_or(0, |step| step.version) }
        }
        MigrateError::VersionMismatch(version) => StoreError::ChangedMigration { version },
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => error.into(),
        other => StoreError::Driver(Box::new(other)),
    }
}
