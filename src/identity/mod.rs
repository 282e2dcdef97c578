//! Who is calling (floor 4): access tokens verified, issued, revoked and remembered.
//!
//! - [`presented`] tells the forms of a presented text apart: JWT, opaque, set-up;
//! - [`jwt`] signs and verifies, `claims` judges what was signed, `roles` what a claimed role
//!   comes to;
//! - `keys` holds our issuer's key pairs: made on first start, rotated with an overlap;
//! - `facts` remembers what the store says of tenants, members and tokens;
//! - [`verify`] puts it together: [`Identity::verify_from`];
//! - [`issue`] makes access tokens and redeems set-up tokens;
//! - [`throttle`] slows down guessing.
//!
//! May use: `domain`, `store`, `vault`, `telemetry`.
//!
//! Whatever cannot be verified is not let in. A store that is away never turns a token that was
//! seen into a refusal, within [`IdentityConfig::max_stale`].

mod claims;
mod config;
mod denied;
mod jwt;
pub mod presented;
mod roles;
pub mod throttle;

pub use config::IdentityConfig;
pub use denied::Denied;
pub use presented::{TokenHash, looks_like_ours};
pub use throttle::AuthThrottle;
