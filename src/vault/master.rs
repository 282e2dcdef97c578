//! The master key: the one secret that stays outside the database.

use std::{
    fmt, fs,
    io::{Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use zeroize::Zeroizing;

use crate::{
    domain::{clock::Entropy, secret::Secret},
    vault::VaultError,
};

/// Longer files are not read on: no key file has more than one short line.
const LONGEST_FILE: u64 = 1_024;

/// 32 random bytes that seal the data keys; wiped from memory when dropped.
pub struct MasterKey {
    bytes: Zeroizing<[u8; 32]>,
    origin: String,
}

impl MasterKey {
    /// Reads the base64 text of a setting; `origin` names that setting in error messages, such as
    /// `TOLLWAY_MASTER_KEY`.
    ///
    /// # Errors
    /// [`VaultError::MalformedMasterKey`].
    pub fn from_base64(origin: &str, text: &Secret) -> Result<Self, VaultError> {
        let malformed = || VaultError::MalformedMasterKey { origin: origin.to_owned() };
        let decoded = BASE64_STANDARD.decode(text.expose().trim()).map_err(|_| malformed())?;
        let decoded = Zeroizing::new(decoded);
        let bytes = <[u8; 32]>::try_from(decoded.as_slice()).map_err(|_| malformed())?;
        Ok(Self { bytes: Zeroizing::new(bytes), origin: origin.to_owned() })
    }

    /// Reads a key file: one line of base64, readable by its owner alone.
    ///
    /// # Errors
    /// [`VaultError::MasterKeyFile`], [`VaultError::ExposedMasterKey`] or
    /// [`VaultError::MalformedMasterKey`].
    pub fn from_file(path: &Path) -> Result<Self, VaultError> {
        let failed = |source| VaultError::MasterKeyFile { path: path.to_owned(), source };
        let file = fs::File::open(path).map_err(failed)?;
        // The mode is asked of the open file, so that nobody swaps it between the two calls.
        let mode = file.metadata().map_err(failed)?.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(VaultError::ExposedMasterKey { path: path.to_owned(), mode });
        }
        let mut text = String::with_capacity(64);
        file.take(LONGEST_FILE).read_to_string(&mut text).map_err(failed)?;
        Self::from_base64(&path.display().to_string(), &Secret::new(text))
    }

    /// Makes a new key and writes it to `path` with mode 0600, safely on disk before it is used.
    /// The caller tells the operator to back the file up.
    ///
    /// # Errors
    /// [`VaultError::MasterKeyFile`]; in particular a file that is there is never overwritten.
    pub fn create_file(path: &Path, entropy: &dyn Entropy) -> Result<Self, VaultError> {
        let mut bytes = Zeroizing::new([0; 32]);
        entropy.fill(bytes.as_mut_slice());
        let line = Zeroizing::new(BASE64_STANDARD.encode(bytes.as_slice()) + "\n");
        write_new(path, line.as_bytes())
            .map_err(|source| VaultError::MasterKeyFile { path: path.to_owned(), source })?;
        Ok(Self { bytes, origin: path.display().to_string() })
    }

    /// Where it came from: a setting's name or a file's path.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.bytes
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MasterKey(from {})", self.origin)
    }
}

/// Writes a file that must not exist, and its directory entry, to disk.
fn write_new(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if written.is_err() {
        // Half a key would stop every later start; best effort, the first error is what counts.
        let _ = fs::remove_file(path);
    }
    written?;
    let directory = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    fs::File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::vault::SeededEntropy;

    #[test]
    fn a_created_file_reads_back_and_only_its_owner_may_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("master.key");
        let made = MasterKey::create_file(&path, &SeededEntropy::from_seed(1)).unwrap();
        assert_eq!(made.bytes(), MasterKey::from_file(&path).unwrap().bytes());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_is_there_is_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("master.key");
        fs::write(&path, "precious").unwrap();
        let refused = MasterKey::create_file(&path, &SeededEntropy::from_seed(1)).unwrap_err();
        assert!(matches!(refused, VaultError::MasterKeyFile { .. }));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn a_file_that_others_may_read_is_refused_with_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("master.key");
        MasterKey::create_file(&path, &SeededEntropy::from_seed(1)).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o666] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let said = MasterKey::from_file(&path).unwrap_err().to_string();
            assert!(said.contains("chmod 600") && said.contains(&format!("{mode:03o}")), "{said}");
        }
    }

    #[test]
    fn what_is_not_32_bytes_of_base64_is_refused_by_the_name_of_its_setting() {
        for text in ["", "short", "AAAA", "!!!!", &"A".repeat(88)] {
            let said =
                MasterKey::from_base64("TOLLWAY_MASTER_KEY", &Secret::new(text.to_owned())).unwrap_err();
            assert!(said.to_string().starts_with("TOLLWAY_MASTER_KEY"), "{said}");
        }
    }

    #[test]
    fn debug_prints_where_it_came_from_and_nothing_of_the_key() {
        let text = BASE64_STANDARD.encode([0xAB; 32]);
        let key = MasterKey::from_base64("TOLLWAY_MASTER_KEY", &Secret::new(text)).unwrap();
        assert_eq!(format!("{key:?}"), "MasterKey(from TOLLWAY_MASTER_KEY)");
    }
}
