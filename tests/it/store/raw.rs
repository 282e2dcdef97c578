//! The database behind a store's back: for looking at plans and columns, and for spoiling rows.

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row, SqliteConnection, sqlite::SqliteConnectOptions};
use tollway::store::DatabaseUrl;

use super::both::OwnStore;

/// Runs a statement; each row's first column that is a text.
pub async fn raw(store: &OwnStore, sql: &str) -> Vec<String> {
    let sql = AssertSqlSafe(sql.to_owned());
    match &store.config.url {
        DatabaseUrl::Postgres(url) => {
            let mut conn = PgConnection::connect(url.expose()).await.expect("connect");
            let rows = sqlx::query(sql).fetch_all(&mut conn).await.expect("a statement");
            conn.close().await.expect("close");
            rows.iter().filter_map(|row| text(row.len(), |n| row.try_get(n).ok())).collect()
        }
        DatabaseUrl::Sqlite(path) => {
            let options = SqliteConnectOptions::new().filename(path);
            let mut conn = SqliteConnection::connect_with(&options).await.expect("connect");
            let rows = sqlx::query(sql).fetch_all(&mut conn).await.expect("a statement");
            conn.close().await.expect("close");
            rows.iter().filter_map(|row| text(row.len(), |n| row.try_get(n).ok())).collect()
        }
    }
}

fn text(columns: usize, get: impl Fn(usize) -> Option<String>) -> Option<String> {
    (0..columns).find_map(get)
}
