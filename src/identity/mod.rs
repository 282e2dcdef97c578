//! Who is calling (floor 4): access tokens verified, issued, revoked and remembered.
//!
//! - [`presented`] tells the forms of a presented text apart: JWT, opaque, set-up;
//! - `jwt` signs and verifies, `claims` judges what was signed, `roles` what a claimed role comes
//!   to, `standing` what all that makes of a tenant's facts: the principal;
//! - `keys` holds our issuer's key pairs: made on first start, rotated with an overlap;
//! - `facts` remembers what the store says of tenants, members and tokens, `revoked` what was
//!   taken back;
//! - `floor` is the state, [`Identity`], and keeps it current;
//! - `verify` is the way in: [`Identity::verify_from`];
//! - `issue` makes access tokens and redeems set-up tokens;
//! - [`throttle`] slows down guessing.
//!
//! May use: `domain`, `store`, `vault`, `telemetry`. A form of token more is a variant in
//! `presented` and one of `verify`'s bases, asserting what `standing` judges.
//!
//! Whatever cannot be verified is not let in. A store that is away never turns a token that was
//! seen into a refusal, within [`IdentityConfig::max_stale`].

mod claims;
mod config;
mod denied;
mod error;
mod facts;
mod floor;
mod issue;
mod jwt;
mod keys;
pub mod presented;
mod revoked;
mod roles;
mod standing;
pub mod throttle;
mod verify;

pub use config::IdentityConfig;
pub use denied::Denied;
pub use error::IdentityError;
pub use floor::{Identity, IdentityCounts};
pub use issue::{NewToken, TokenForm};
pub use presented::{TokenHash, looks_like_ours};
pub use standing::foreign_token_id;
pub use throttle::AuthThrottle;
