//! Durable facts in Postgres or SQLite (floor 3), the only floor that contains SQL.
