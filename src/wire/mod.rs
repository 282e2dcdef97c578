//! The API formats: bytes in, bytes out (floor 1). No I/O, no clock, no other module of ours;
//! builds for wasm32.
//!
//! [`sse`] turns bytes into event frames and [`json`] scans and splices documents without a tree; each
//! format stands on these two. To add a format: one folder beside `openai_chat`.

pub mod json;
pub mod openai_chat;
pub mod sse;
