//! What every surface owes its clients.

mod cors;
mod currency;
mod metrics;
mod proxies;
