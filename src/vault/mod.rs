//! Sealing of secrets (floor 2): what the store keeps of an upstream secret or a signing key is
//! AES-256-GCM under a data key, and the data key is sealed by the master key, which the store
//! never sees. A copy of the database without the master key opens nothing.
//!
//! - [`master`]: the master key, from a setting or a file of its own;
//! - [`seal`]: the [`Vault`] that seals, unseals and fingerprints;
//! - [`entropy`]: randomness, the system's and a seeded one for tests.
//!
//! May use: `domain`. To rotate data keys, add one with the next id and open the vault with it
//! as the active one: what older ones sealed stays readable, for the id stands in the header.

pub mod entropy;
pub mod master;
pub mod seal;

pub use entropy::{OsEntropy, SeededEntropy};
pub use master::MasterKey;
pub use seal::{SealedDataKey, Vault};

use std::path::PathBuf;

/// What can go wrong with keys and sealed values. No variant carries secret material; the texts
/// are for the operator, not for clients.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// The master key is not 32 bytes in base64.
    #[error("{origin} is not a master key: expected 32 bytes in base64 (44 characters)")]
    MalformedMasterKey {
        /// The setting or file it came from.
        origin: String,
    },
    /// The master key file cannot be read or written.
    #[error("master key file {}: {source}", path.display())]
    MasterKeyFile {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Others than the owner may read the master key file.
    #[error(
        "master key file {} has mode {mode:03o}: others may read it; run `chmod 600` on it, and \
         take a new master key if somebody else had access",
        path.display()
    )]
    ExposedMasterKey {
        /// Which file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The master key does not open the data keys of this database.
    #[error(
        "the master key from {origin} does not open data key {id} of this database: check that \
         it is the key this database was set up with, or restore it from its backup"
    )]
    WrongMasterKey {
        /// The setting or file it came from.
        origin: String,
        /// The data key that did not open.
        id: u32,
    },
    /// A data key is named that the vault was not given.
    #[error("data key {0} is unknown: its row is missing, or another replica added it just now")]
    UnknownDataKey(u32),
    /// The sealed value was changed, cut short, moved to another owner, or has an unknown version.
    #[error("a sealed value does not open: damaged, or sealed for another purpose")]
    Damaged,
    /// The value is larger than the cipher takes (64 GiB).
    #[error("the value is too large to seal")]
    TooLarge,
}
