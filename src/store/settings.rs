//! Facts about the deployment that all replicas share, such as its id and its currency.

use serde::{Serialize, de::DeserializeOwned};
use sqlx::types::Json;

use crate::{
    domain::clock::Timestamp,
    store::{Store, StoreError, Tx, column::Cell},
};

impl Store {
    /// The setting of this name.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] when it is not a `T`.
    pub async fn lookup_setting<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, StoreError> {
        let value: Option<Json<serde_json::Value>> = reading!(self, conn =>
            sqlx::query_scalar("select value from settings where name = $1").bind(name).fetch_optional(conn))?;
        let read = |Json(value)| serde_json::from_value(value);
        value.map(read).transpose().map_err(|_| Cell::of("settings", name).bad("value"))
    }
}

impl Tx {
    /// Adds a setting unless there is one: the first caller decides for all. `value` has to be a
    /// JSON object. Says whether it was added.
    pub async fn add_setting<T: Serialize + Sync>(
        &mut self,
        name: &str,
        value: &T,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let added = executing!(self, conn => sqlx::query(
            "insert into settings (name, value, updated_at) values ($1, $2, $3)
            on conflict (name) do nothing",
        )
        .bind(name)
        .bind(Json(value))
        .bind(now.to_utc())
        .execute(conn))?;
        Ok(added > 0)
    }

    /// Sets a setting, whatever it was. `value` has to be a JSON object.
    pub async fn put_setting<T: Serialize + Sync>(
        &mut self,
        name: &str,
        value: &T,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        executing!(self, conn => sqlx::query(
            "insert into settings (name, value, updated_at) values ($1, $2, $3)
            on conflict (name) do update set
                value = excluded.value,
                updated_at = excluded.updated_at",
        )
        .bind(name)
        .bind(Json(value))
        .bind(now.to_utc())
        .execute(conn))
        .map(|_| ())
    }
}
