//! Setting up by files, each test on Postgres and on SQLite with one body; and the commands that do
//! it beside a running server.

mod commands;
mod files;
mod world;
