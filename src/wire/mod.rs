//! The API formats: bytes in, bytes out (floor 1). No I/O, no clock, no other module of ours;
//! builds for wasm32.
//!
//! To add a format: one folder beside `openai_chat`.

pub mod json;
pub mod openai_chat;
pub mod sse;
