//! A text that does not print.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A secret in plain text: never logged, never serialised, wiped by its owner when it matters.
///
/// Serialising is left out on purpose; reading from a request body or a file is allowed.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a plain text.
    #[must_use]
    pub const fn new(plain: String) -> Self {
        Self(plain)
    }

    /// The plain text; every call of this is a place to look at in a review.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A secret as the store keeps it: sealed by the vault, useless without the master key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sealed(Vec<u8>);

impl Sealed {
    /// Wraps what the vault made or a column held.
    #[must_use]
    pub const fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The sealed bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({} bytes)", self.0.len())
    }
}
