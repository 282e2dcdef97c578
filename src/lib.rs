//! Tollway: a multi-tenant relay for LLM APIs.
//!
//! The modules are floors; each imports only from floors below it (`tests/it/floors.rs` checks):
//!
//! | floor | modules |
//! |---|---|
//! | top | [`app`] wires everything |
//! | 6 | [`http`] surfaces, [`cli`] commands |
//! | 5 | [`relay`] the request path |
//! | 4 | [`catalog`], [`upstream`], [`billing`], [`identity`] |
//! | 3 | [`store`] durable facts, [`admission`] shared counters |
//! | 2 | [`vault`] sealing, [`net`] the guarded client, [`telemetry`] |
//! | 1 | [`domain`] plain types and rules, [`wire`] the API formats |
//!
//! Floor 1 builds for wasm32; everything above it is server-side.
// The state of a handler nests every await down to the database driver.
#![recursion_limit = "256"]

pub mod domain;
pub mod wire;

#[cfg(not(target_family = "wasm"))]
pub mod admission;
#[cfg(not(target_family = "wasm"))]
pub mod app;
#[cfg(not(target_family = "wasm"))]
pub mod billing;
#[cfg(not(target_family = "wasm"))]
pub mod catalog;
#[cfg(not(target_family = "wasm"))]
pub mod cli;
#[cfg(not(target_family = "wasm"))]
pub mod http;
#[cfg(not(target_family = "wasm"))]
pub mod identity;
#[cfg(not(target_family = "wasm"))]
pub mod net;
#[cfg(not(target_family = "wasm"))]
pub mod relay;
#[cfg(not(target_family = "wasm"))]
pub mod store;
#[cfg(not(target_family = "wasm"))]
pub mod telemetry;
#[cfg(not(target_family = "wasm"))]
pub mod upstream;
#[cfg(not(target_family = "wasm"))]
pub mod vault;
