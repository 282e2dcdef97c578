//! Wires everything (top): the only place that knows all floors.

pub mod config;
pub mod files;
pub mod tasks;
