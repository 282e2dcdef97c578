//! Several writes that happen together or not at all.

use sqlx::{Postgres, Sqlite};

use crate::store::{
    Store, StoreError,
    changes::Change,
    db::{Db, Held},
};

/// Any number that nothing else locks; `tollway1` in ASCII.
const FIRST_START_LOCK: i64 = 0x746f_6c6c_7761_7931;

/// An open transaction. Writes are its methods, in one file an aggregate. Dropped without
/// [`commit`](Self::commit), none of it happened.
///
/// After an error the transaction is of no more use in Postgres: drop it.
pub struct Tx {
    pub(super) open: Open,
    pub(super) changed: Vec<Change>,
}

/// The connection that the transaction is open on; spoilt until it has ended.
pub(super) enum Open {
    Postgres(Held<Postgres>),
    Sqlite(Held<Sqlite>),
}

/// What became of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateOutcome {
    /// Done.
    Updated {
        /// The version that it has now.
        version: i64,
    },
    /// Somebody else changed it first.
    Stale {
        /// The version that it has.
        current: i64,
    },
    /// There is no such row.
    Missing,
}

/// What became of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoveOutcome {
    /// It is gone.
    Removed,
    /// Somebody changed it first.
    Stale {
        /// The version that it has.
        current: i64,
    },
    /// There was no such row.
    Missing,
}

impl Store {
    /// Opens a transaction. In SQLite it takes the writer's place at once, so that it cannot fail
    /// for contention half-way.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn begin(&self) -> Result<Tx, StoreError> {
        match &self.db {
            Db::Postgres(pool) => Tx::open_postgres(pool, self.limit, "begin").await,
            Db::Sqlite { write, .. } => Tx::open_sqlite(write, self.limit, "begin immediate").await,
        }
    }

    /// Opens a transaction that reads one state of the database.
    pub(super) async fn snapshot(&self) -> Result<Tx, StoreError> {
        match &self.db {
            Db::Postgres(pool) => {
                Tx::open_postgres(pool, self.limit, "begin isolation level repeatable read, read only").await
            }
            Db::Sqlite { read, .. } => Tx::open_sqlite(read, self.limit, "begin").await,
        }
    }
}

impl Tx {
    async fn open_postgres(
        pool: &sqlx::Pool<Postgres>,
        limit: std::time::Duration,
        begin: &'static str,
    ) -> Result<Self, StoreError> {
        let mut held = Held::acquire(pool, limit).await?;
        held.spoil();
        Self { open: Open::Postgres(held), changed: Vec::new() }.begun(begin).await
    }

    async fn open_sqlite(
        pool: &sqlx::Pool<Sqlite>,
        limit: std::time::Duration,
        begin: &'static str,
    ) -> Result<Self, StoreError> {
        let mut held = Held::acquire(pool, limit).await?;
        held.spoil();
        Self { open: Open::Sqlite(held), changed: Vec::new() }.begun(begin).await
    }

    async fn begun(mut self, begin: &'static str) -> Result<Self, StoreError> {
        self.control(begin).await?;
        Ok(self)
    }

    /// Makes everything written so far last, and tells the replicas what kind of thing changed.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]; then it is not known whether it happened.
    pub async fn commit(mut self) -> Result<(), StoreError> {
        self.announce().await?;
        self.control("commit").await?;
        self.ended();
        Ok(())
    }

    /// Takes everything back. Dropping does the same, at the price of the connection.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]; taken back all the same.
    pub async fn rollback(mut self) -> Result<(), StoreError> {
        self.control("rollback").await?;
        self.ended();
        Ok(())
    }

    async fn control(&mut self, statement: &'static str) -> Result<(), StoreError> {
        executing!(self, conn => sqlx::raw_sql(statement).execute(conn)).map(|_| ())
    }

    const fn ended(&mut self) {
        match &mut self.open {
            Open::Postgres(held) => held.restore(),
            Open::Sqlite(held) => held.restore(),
        }
    }

    /// Waits until no other replica is setting up a new deployment, and keeps others waiting until
    /// this transaction ends. What [`Store`] reads after it includes all that they made.
    pub async fn lock_first_start(&mut self) -> Result<(), StoreError> {
        // In SQLite the transaction is the only writer already.
        if let Open::Postgres(held) = &mut self.open {
            writing!(@on held, conn => sqlx::query("select pg_advisory_xact_lock($1)")
                .bind(FIRST_START_LOCK)
                .execute(conn))?;
        }
        Ok(())
    }

    /// Lets each of this transaction's statements take `limit`.
    pub(super) async fn allow(&mut self, limit: std::time::Duration) -> Result<(), StoreError> {
        match &mut self.open {
            Open::Postgres(held) => {
                writing!(@on held, conn => sqlx::query("select set_config('statement_timeout', $1, true)")
                    .bind(limit.as_millis().to_string())
                    .execute(conn))?;
                held.allow(limit);
            }
            Open::Sqlite(held) => held.allow(limit),
        }
        Ok(())
    }

    /// Why an update of row `id` touched nothing: `sql` selects the version that the row has.
    pub(super) async fn update_outcome(
        &mut self,
        updated: Option<i64>,
        sql: &'static str,
        id: uuid::Uuid,
    ) -> Result<UpdateOutcome, StoreError> {
        if let Some(version) = updated {
            return Ok(UpdateOutcome::Updated { version });
        }
        let current = writing!(self, conn => sqlx::query_scalar(sql).bind(id).fetch_optional(conn))?;
        Ok(current.map_or(UpdateOutcome::Missing, |current| UpdateOutcome::Stale { current }))
    }

    /// The same for a removal.
    pub(super) async fn remove_outcome(
        &mut self,
        removed: Option<i64>,
        sql: &'static str,
        id: uuid::Uuid,
    ) -> Result<RemoveOutcome, StoreError> {
        if removed.is_some() {
            return Ok(RemoveOutcome::Removed);
        }
        let current = writing!(self, conn => sqlx::query_scalar(sql).bind(id).fetch_optional(conn))?;
        Ok(current.map_or(RemoveOutcome::Missing, |current| RemoveOutcome::Stale { current }))
    }
}
