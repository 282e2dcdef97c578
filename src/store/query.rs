//! One query text for both databases: each macro expands its body once per driver.

/// Runs one query, or an async block, on any connection that may read.
macro_rules! reading {
    ($store:expr, $conn:ident => $query:expr) => {
        match &$store.db {
            $crate::store::db::Db::Postgres(pool) => reading!(@on pool, $store.limit, $conn => $query),
            $crate::store::db::Db::Sqlite { read, .. } => reading!(@on read, $store.limit, $conn => $query),
        }
    };
    (@on $pool:expr, $limit:expr, $conn:ident => $query:expr) => {
        match $crate::store::db::Held::acquire($pool, $limit).await {
            Ok(mut held) => {
                held.spoil();
                let $conn = held.conn();
                let result = tokio::time::timeout($limit, $query).await;
                held.restore();
                held.outcome(result)
            }
            Err(error) => Err(error),
        }
    };
}

/// Runs one query, or an async block, inside a [`Tx`](crate::store::Tx).
macro_rules! writing {
    ($tx:expr, $conn:ident => $query:expr) => {
        match &mut $tx.open {
            $crate::store::tx::Open::Postgres(held) => writing!(@on held, $conn => $query),
            $crate::store::tx::Open::Sqlite(held) => writing!(@on held, $conn => $query),
        }
    };
    (@on $held:expr, $conn:ident => $query:expr) => {{
        let limit = $held.limit();
        let $conn = $held.conn();
        let result = tokio::time::timeout(limit, $query).await;
        $held.outcome(result)
    }};
}

/// As [`writing!`], for a statement without rows; gives how many rows it touched.
macro_rules! executing {
    ($tx:expr, $conn:ident => $query:expr) => {
        writing!($tx, $conn => async { $query.await.map(|done| done.rows_affected()) })
    };
}

/// Binds the values of a row, in the order of its insert's columns.
macro_rules! bind_row {
    ($query:ident, $($value:expr),+ $(,)?) => {
        $($query.try_bind($value).map_err(sqlx::Error::Encode)?;)+
    };
}

/// A list: the select up to `where true`, what narrows it (each only where there is a value, which
/// stands in for every `?`), and the page, ordered by id. A select of several tables says whose id.
macro_rules! listing {
    ($store:expr, $row:ty, $select:expr, $page:expr, { $($conditions:tt)* }) => {
        listing!($store, $row, $select, $page, by "id", { $($conditions)* })
    };
    (
        $store:expr, $row:ty, $select:expr, $page:expr, by $id:literal,
        { $($condition:literal => $value:expr),* $(,)? }
    ) => {
        reading!($store, conn => async {
            let mut query = sqlx::QueryBuilder::new($select);
            $(if let Some(value) = $value {
                let mut around = concat!(" and ", $condition).split('?');
                query.push(around.next().unwrap_or_default());
                for text in around {
                    query.push_bind(value).push(text);
                }
            })*
            if let Some(after) = $page.after {
                query.push(concat!(" and ", $id, " > ")).push_bind(after);
            }
            query.push(concat!(" order by ", $id, " limit ")).push_bind(i64::from($page.limit));
            query.build_query_as::<$row>().fetch_all(conn).await
        })
    };
}
