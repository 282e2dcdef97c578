//! Processes killed at a bad moment.

mod journal;
