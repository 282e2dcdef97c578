//! The one HTTP client for everything a tenant or admin can influence (floor 2).
//!
//! Guarded: addresses are checked when dialled (literals and resolved names), no proxies from the
//! environment, no redirects, answers decoded here and nowhere else.
