//! What can go wrong when access tokens are set up, issued or redeemed.

use crate::{store::StoreError, vault::VaultError};

/// Why identity did not do what it was asked; texts are for the operator.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The vault, over a signing key.
    #[error("a signing key does not open: {0}")]
    Vault(#[from] VaultError),
    /// A row of `signing_keys` is not an Ed25519 pair.
    #[error("signing key {kid} is damaged or of an unknown kind")]
    SigningKey {
        /// Its `kid`.
        kid: String,
    },
    /// There is no pair to sign with; `ensure_signing_key` makes one at start.
    #[error("there is no signing key yet")]
    NoSigningKey,
    /// The shared secret is shorter than HMAC-SHA256 asks for (RFC 7518 §3.2).
    #[error("the HS256 secret must have at least {min} bytes", min = super::config::MIN_SECRET_BYTES)]
    ShortSecret,
    /// A JWT lives on in the hands of its holder: it must lapse by itself.
    #[error("a JWT needs a time at which it expires, in the future")]
    NoExpiry,
    /// A member of another tenant, or of none.
    #[error("there is no such member in this tenant")]
    NoSuchMember,
    /// A role that the holder does not have: an operator's inside a tenant, a tenant's outside, or
    /// more than the member's own.
    #[error(
        "the token cannot have this role: owner, admin, member and auditor are roles in a tenant, which it must name; \
         an operator's token names none; a member's token has at most its member's role"
    )]
    WrongRole,
    /// A set-up token that is unknown, used up or lapsed, while there is no operator.
    #[error("this set-up token is unknown, was used, or has lapsed; restart the server for a new one")]
    SetupTokenSpent,
    /// A set-up token, good or not, while there is an operator.
    #[error(
        "there is an operator already, and set-up tokens are for the first one only: use an operator's access \
         token, or make one beside the server with `tollway token issue --operator`"
    )]
    OperatorExists,
}
