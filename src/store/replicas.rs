//! Running copies of the server: what they report, and the lock that proves one is alive.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::{ConnectOptions, Connection, PgConnection};
use uuid::Uuid;

use crate::{
    domain::{clock::Timestamp, ids::ReplicaId, replica::Replica},
    store::{
        Store, StoreError, Tx,
        column::{Cell, signed},
        db::Db,
        error::unavailable,
    },
};

/// First half of the advisory locks that replicas hold; `toll` in ASCII. The second half is the
/// replica's own.
const LOCK_CLASS: i32 = 0x746f_6c6c;
/// First half of a second lock of those that count limits by themselves.
const LONER_CLASS: i32 = LOCK_CLASS + 1;

/// How a replica counts limits, which must be how all on its database do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// By itself: there must be no other.
    ByItself,
    /// Together with the others.
    Together,
}

#[derive(sqlx::FromRow)]
struct ReplicaRow {
    id: Uuid,
    build: String,
    started_at: DateTime<Utc>,
    heartbeat_at: DateTime<Utc>,
    journal_records: i64,
    journal_bytes: i64,
}

impl TryFrom<ReplicaRow> for Replica {
    type Error = StoreError;

    fn try_from(row: ReplicaRow) -> Result<Self, StoreError> {
        let id = ReplicaId::from_uuid(row.id);
        let cell = Cell::of("replicas", &id);
        Ok(Self {
            id,
            build: row.build,
            started_at: row.started_at.into(),
            heartbeat_at: row.heartbeat_at.into(),
            journal_records: cell.number("journal_records", row.journal_records)?,
            journal_bytes: cell.number("journal_bytes", row.journal_bytes)?,
        })
    }
}

impl Store {
    /// The replicas that reported at or after `since`.
    pub async fn list_replicas(&self, since: Timestamp) -> Result<Vec<Replica>, StoreError> {
        let rows: Vec<ReplicaRow> = reading!(self, conn => sqlx::query_as(
            "select
                id,
                build,
                started_at,
                heartbeat_at,
                journal_records,
                journal_bytes
            from replicas
            where heartbeat_at >= $1
            order by id",
        )
        .bind(since.to_utc())
        .fetch_all(conn))?;
        rows.into_iter().map(Replica::try_from).collect()
    }

    /// Takes the lock of a replica, on a connection of its own. None: a living process holds it.
    /// In SQLite always taken: the lock on the data directory stands in for it.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn lock_replica(
        &self,
        id: ReplicaId,
        counting: Counting,
    ) -> Result<Option<ReplicaLock>, StoreError> {
        let Db::Postgres(pool) = &self.db else {
            return Ok(Some(ReplicaLock { conn: None, limit: self.limit }));
        };
        // Without these the server keeps the lock of a machine that vanished for two hours.
        let keepalive =
            [("tcp_keepalives_idle", "10"), ("tcp_keepalives_interval", "5"), ("tcp_keepalives_count", "3")];
        let options = pool.connect_options().as_ref().clone().options(keepalive);
        let take = async {
            let mut conn = options.connect().await?;
            let classes =
                [LOCK_CLASS].into_iter().chain((counting == Counting::ByItself).then_some(LONER_CLASS));
            for class in classes {
                let taken: bool = sqlx::query_scalar("select pg_try_advisory_lock($1, $2)")
                    .bind(class)
                    .bind(lock_number(id))
                    .fetch_one(&mut conn)
                    .await?;
                if !taken {
                    return Ok(None);
                }
            }
            Ok::<_, sqlx::Error>(Some(conn))
        };
        let conn = within(self.limit, take).await?;
        Ok(conn.map(|conn| ReplicaLock { conn: Some(conn), limit: self.limit }))
    }
}

impl Tx {
    /// Adds a replica, or replaces what it was before a restart.
    pub async fn put_replica(&mut self, replica: &Replica) -> Result<(), StoreError> {
        executing!(self, conn => sqlx::query(
            "insert into replicas (
                id,
                build,
                started_at,
                heartbeat_at,
                journal_records,
                journal_bytes
            ) values ($1, $2, $3, $4, $5, $6)
            on conflict (id) do update set
                build = excluded.build,
                started_at = excluded.started_at,
                heartbeat_at = excluded.heartbeat_at,
                journal_records = excluded.journal_records,
                journal_bytes = excluded.journal_bytes",
        )
        .bind(replica.id.uuid())
        .bind(&replica.build)
        .bind(replica.started_at.to_utc())
        .bind(replica.heartbeat_at.to_utc())
        .bind(signed(replica.journal_records))
        .bind(signed(replica.journal_bytes))
        .execute(conn))
        .map(|_| ())
    }

    /// Removes a replica that went for good. Says whether there was one.
    pub async fn remove_replica(&mut self, id: ReplicaId) -> Result<bool, StoreError> {
        let removed = executing!(self, conn =>
            sqlx::query("delete from replicas where id = $1").bind(id.uuid()).execute(conn))?;
        Ok(removed > 0)
    }
}

/// Held while a replica lives. Dropped, or with its process gone, it is free.
pub struct ReplicaLock {
    /// None in SQLite.
    conn: Option<PgConnection>,
    limit: Duration,
}

impl ReplicaLock {
    /// How many other replicas hold theirs. Take one's own before asking: then of two that start
    /// at once at least one sees the other.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: the lock is lost, too; take it again.
    pub async fn others(&mut self) -> Result<u64, StoreError> {
        self.others_of(LOCK_CLASS).await
    }

    /// How many other replicas count limits by themselves, as [`Self::others`].
    ///
    /// # Errors
    /// As there.
    pub async fn loners(&mut self) -> Result<u64, StoreError> {
        self.others_of(LONER_CLASS).await
    }

    async fn others_of(&mut self, class: i32) -> Result<u64, StoreError> {
        let limit = self.limit;
        let Some(conn) = &mut self.conn else {
            return Ok(0);
        };
        let count = sqlx::query_scalar(
            "select count(*)
            from pg_locks
            where locktype = 'advisory'
                and database = (select oid from pg_database where datname = current_database())
                and classid = cast($1 as oid)
                and objsubid = 2
                and granted
                and pid <> pg_backend_pid()",
        )
        .bind(i64::from(class))
        .fetch_one(conn);
        let count: i64 = within(limit, count).await?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// Whether it is still held: not if the server ended the session.
    pub async fn is_held(&mut self) -> bool {
        self.others().await.is_ok()
    }

    /// Gives it back; then it is free. Should the server not answer, it is free when the server
    /// notices that the session ended.
    pub async fn release(self) {
        if let Some(mut conn) = self.conn {
            let unlock = async {
                sqlx::query("select pg_advisory_unlock_all()").execute(&mut conn).await?;
                conn.close().await
            };
            let _ = within(self.limit, unlock).await;
        }
    }
}

/// The random end of the id: its start is a time, and two replicas may be of one moment.
const fn lock_number(id: ReplicaId) -> i32 {
    let [.., a, b, c, d] = *id.uuid().as_bytes();
    i32::from_be_bytes([a, b, c, d])
}

async fn within<T>(limit: Duration, work: impl Future<Output = sqlx::Result<T>>) -> Result<T, StoreError> {
    match tokio::time::timeout(limit, work).await {
        Ok(result) => result.map_err(StoreError::from),
        Err(elapsed) => Err(unavailable("a statement took too long", elapsed)),
    }
}
