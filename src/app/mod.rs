//! Wires everything (top): the only place that knows all floors.
//!
//! [`preflight`] judges settings together; [`build::start`] makes a server of [`config::Settings`], bottom-up in one function;
//! [`shutdown`] ends it in order. Background work is listed in [`background`] and spawned by
//! [`tasks`], the only spawner. [`apply`] sets up by files.

pub mod apply;
pub mod background;
pub mod build;
pub mod config;
pub mod files;
pub mod keys;
pub mod parts;
pub mod preflight;
pub mod replica;
pub mod sandbox;
pub mod shutdown;
pub mod tasks;
