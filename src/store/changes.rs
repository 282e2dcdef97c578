//! How replicas learn of each other's changes: two versions that rise with every committed change,
//! and in Postgres a notification beside them. The notification is for speed; the versions are
//! what is true.

use sqlx::postgres::PgListener;

use crate::store::{Store, StoreError, db::Db, tx::Tx};

/// The Postgres channel.
const CHANNEL: &str = "tollway_catalog";

/// What kind of thing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// Providers, keys, models, routes.
    Catalog,
    /// Tenants, members, grants, and access tokens revoked or changed. A new access token is no
    /// change: nobody has seen it yet, and who remembers unknown tokens must forget them by itself.
    Access,
}

impl Change {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Catalog => "catalog",
            Self::Access => "access",
        }
    }
}

/// How often each kind has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Versions {
    /// Of providers, keys, models, routes.
    pub catalog: i64,
    /// Of tenants, members, grants, access tokens.
    pub access: i64,
}

impl Store {
    /// The versions now.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn versions(&self) -> Result<Versions, StoreError> {
        let rows: Vec<(String, i64)> = reading!(self, conn =>
            sqlx::query_as("select name, version from versions").fetch_all(conn))?;
        let of =
            |change: Change| rows.iter().find(|(name, _)| name == change.as_str()).map_or(0, |row| row.1);
        Ok(Versions { catalog: of(Change::Catalog), access: of(Change::Access) })
    }

    /// The version of the catalog now.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn catalog_version(&self) -> Result<i64, StoreError> {
        Ok(self.versions().await?.catalog)
    }

    /// Listens for changes; none in SQLite, where the one process that writes also reads. Takes
    /// one connection for good.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn listen(&self) -> Result<Option<Changes>, StoreError> {
        let Db::Postgres(pool) = &self.db else {
            return Ok(None);
        };
        let connect = async {
            let mut listener = PgListener::connect_with(pool).await?;
            listener.listen(CHANNEL).await?;
            Ok::<_, sqlx::Error>(listener)
        };
        match tokio::time::timeout(self.limit, connect).await {
            Ok(listener) => Ok(Some(Changes { listener: listener? })),
            Err(elapsed) => Err(super::error::unavailable("no answer in time", elapsed)),
        }
    }
}

/// Notifications of other replicas' changes, and our own.
pub struct Changes {
    listener: PgListener,
}

impl Changes {
    /// Waits for the next change. None: the connection was lost and changes may have been missed;
    /// look at the versions, then call again, which connects anew.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]; calling again connects anew. Pause between such calls.
    ///
    /// # Cancellation
    /// Safe: a notification not yet returned is returned by the next call.
    pub async fn next(&mut self) -> Result<Option<Change>, StoreError> {
        loop {
            let Some(notification) = self.listener.try_recv().await? else {
                return Ok(None);
            };
            // An unknown kind comes from a newer replica: not for us.
            let known = [Change::Catalog, Change::Access];
            if let Some(change) = known.into_iter().find(|kind| kind.as_str() == notification.payload()) {
                return Ok(Some(change));
            }
        }
    }
}

impl Tx {
    /// Remembers what kind of thing this transaction changes.
    pub(super) fn changes(&mut self, change: Change) {
        if !self.changed.contains(&change) {
            self.changed.push(change);
        }
    }

    /// Raises the versions and notifies, as part of the transaction. Always in the same order, so
    /// that two transactions cannot wait for each other.
    pub(super) async fn announce(&mut self) -> Result<(), StoreError> {
        for change in [Change::Catalog, Change::Access] {
            if !self.changed.contains(&change) {
                continue;
            }
            executing!(self, conn => sqlx::query("update versions set version = version + 1 where name = $1")
                .bind(change.as_str())
                .execute(conn))?;
            if let super::tx::Open::Postgres(held) = &mut self.open {
                writing!(@on held, conn => sqlx::query("select pg_notify($1, $2)")
                    .bind(CHANNEL)
                    .bind(change.as_str())
                    .execute(conn))?;
            }
        }
        Ok(())
    }
}
