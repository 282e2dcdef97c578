//! What tests stand on: private services, a scripted upstream, a cuttable proxy, the real server as a child.
//!
//! Nothing here knows a rule of the product; a test says what it expects, the harness makes it happen.
#![allow(dead_code, unused_imports, reason = "each floor's tests use their own part of the harness")]

pub mod proxy;
pub mod services;
pub mod upstream;
