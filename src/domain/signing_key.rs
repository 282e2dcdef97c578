//! The key pairs that our own access tokens are signed with.

use crate::domain::{clock::Timestamp, secret::Sealed};

/// A key pair. Several overlap while one takes over from another: all verify, the newest that is
/// not retiring signs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningKey {
    /// The `kid` of the JWTs that it signed.
    pub kid: String,
    /// The `alg`, such as `EdDSA`.
    pub algorithm: String,
    /// The public half, as the algorithm encodes it.
    pub public_key: Vec<u8>,
    /// The private half, sealed.
    pub private_key: Sealed,
    /// Since when it is.
    pub created_at: Timestamp,
    /// From then on nothing that it signed is taken; none: it signs.
    pub retires_at: Option<Timestamp>,
}
