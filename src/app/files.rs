//! The files that a server keeps beside itself: its directory, the lock on it, the master key.

use std::{
    fs::{DirBuilder, File, TryLockError},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use anyhow::Context;

use crate::{
    app::config::{Settings, sections::VaultSection},
    domain::clock::Entropy,
    vault::MasterKey,
};

/// The lock's name in the data directory.
const LOCK: &str = "lock";
/// The made master key's name in the data directory.
const MASTER_KEY: &str = "master.key";
/// The SQLite file's name in the data directory.
const DATABASE: &str = "tollway.db";
/// The journal's name in the data directory.
const JOURNAL: &str = "journal";

/// Where the SQLite file is.
#[must_use]
pub fn database(settings: &Settings) -> PathBuf {
    settings.data.dir.join(DATABASE)
}

/// Whether there is a SQLite database in `dir`.
fn has_database(dir: &Path) -> bool {
    dir.join(DATABASE).exists()
}

/// Where the journal is.
#[must_use]
pub fn journal(settings: &Settings) -> PathBuf {
    settings.journal.dir.clone().unwrap_or_else(|| settings.data.dir.join(JOURNAL))
}

/// Makes the data directory, readable by its owner alone, where there is none.
///
/// # Errors
/// When it cannot be made.
pub fn make_data_dir(dir: &Path) -> anyhow::Result<()> {
    make_private_dir(dir, "data.dir")
}

/// Makes the journal's directory, readable by its owner alone, where there is none.
///
/// # Errors
/// When it cannot be made.
pub fn make_journal_dir(dir: &Path) -> anyhow::Result<()> {
    make_private_dir(dir, "journal.dir")
}

fn make_private_dir(dir: &Path, setting: &str) -> anyhow::Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.with_context(|| {
        format!("cannot make {}: set {setting} to a place that can be written", dir.display())
    })
}

/// Holds the data directory against a second server on the same SQLite file, as long as it lives.
#[derive(Debug)]
pub struct DataLock {
    _file: File,
}

/// Takes the data directory for this process.
///
/// # Errors
/// When another process has it.
pub fn lock_data_dir(dir: &Path) -> anyhow::Result<DataLock> {
    let path = dir.join(LOCK);
    let opened = File::options().create(true).truncate(false).write(true).open(&path);
    let file = opened.map_err(|error| {
        let what = match error.kind() {
            io::ErrorKind::PermissionDenied => format!(
                "this user may not write {}: run as the one who owns {}, or set data.dir to another place",
                path.display(),
                dir.display()
            ),
            _ => format!("cannot open {}", path.display()),
        };
        anyhow::Error::new(error).context(what)
    })?;
    match file.try_lock() {
        Ok(()) => Ok(DataLock { _file: file }),
        Err(TryLockError::WouldBlock) => anyhow::bail!(
            "{} is in use by another tollway process; stop it, or give this one another data.dir. Several \
             replicas need Postgres and Redis: set DATABASE_URL and REDIS_URL",
            dir.display()
        ),
        Err(TryLockError::Error(error)) => Err(error).context(format!("cannot lock {}", path.display())),
    }
}

/// The master key, and whether it was made just now and so has no backup.
#[derive(Debug)]
pub struct FoundKey {
    /// The key.
    pub key: MasterKey,
    /// The file it was written to just now.
    pub made: Option<PathBuf>,
}

/// Why a server on Postgres does not start without a master key.
pub const NO_MASTER_KEY: &str = "there is no master key: all replicas on one Postgres need the same. Make one with \
                                 `openssl rand -base64 32` and set TOLLWAY_VAULT_MASTER_KEY, or \
                                 vault.master_key_file, on each";

/// The master key from the settings, or the one kept in the data directory; none where there is none.
///
/// # Errors
/// When it cannot be read.
pub fn find_master_key(settings: &VaultSection, dir: &Path) -> anyhow::Result<Option<MasterKey>> {
    if let Some(text) = &settings.master_key {
        return Ok(Some(MasterKey::from_base64("vault.master_key", text)?));
    }
    if let Some(path) = &settings.master_key_file {
        return Ok(Some(MasterKey::from_file(path)?));
    }
    let path = dir.join(MASTER_KEY);
    match std::fs::metadata(&path) {
        Ok(_) => Ok(Some(MasterKey::from_file(&path)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context(format!("cannot look at {}", path.display())),
    }
}

/// The master key as [`find_master_key`] finds it, made where there is none and `may_make`.
///
/// # Errors
/// When it cannot be read, or there is none and none may be made.
pub fn master_key(
    settings: &VaultSection,
    dir: &Path,
    may_make: bool,
    entropy: &dyn Entropy,
) -> anyhow::Result<FoundKey> {
    if let Some(key) = find_master_key(settings, dir)? {
        return Ok(FoundKey { key, made: None });
    }
    let path = dir.join(MASTER_KEY);
    anyhow::ensure!(
        may_make || !has_database(dir),
        "{} is missing, and this database was sealed with it: restore it from its backup",
        path.display()
    );
    anyhow::ensure!(may_make, NO_MASTER_KEY);
    let key = MasterKey::create_file(&path, entropy)?;
    Ok(FoundKey { key, made: Some(path) })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::vault::SeededEntropy;

    const NONE: VaultSection = VaultSection { master_key: None, master_key_file: None };

    #[test]
    fn a_second_server_in_one_directory_is_refused_until_the_first_is_gone() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("made/here");
        make_private_dir(&dir, "data.dir").unwrap();
        assert_eq!(std::fs::metadata(&dir).unwrap().mode() & 0o777, 0o700);
        let held = lock_data_dir(&dir).unwrap();
        let refused = lock_data_dir(&dir).unwrap_err().to_string();
        assert!(refused.contains("another tollway process"), "{refused}");
        drop(held);
        lock_data_dir(&dir).unwrap();
    }

    #[test]
    fn the_master_key_is_made_once_and_only_where_it_may_be() {
        let dir = tempfile::tempdir().unwrap();
        let entropy = SeededEntropy::from_seed(1);
        let refused = master_key(&NONE, dir.path(), false, &entropy).unwrap_err().to_string();
        assert!(refused.contains("TOLLWAY_VAULT_MASTER_KEY"), "{refused}");
        std::fs::write(dir.path().join(DATABASE), "").unwrap();
        let refused = master_key(&NONE, dir.path(), false, &entropy).unwrap_err().to_string();
        assert!(refused.contains("restore it from its backup"), "{refused}");
        assert!(master_key(&NONE, dir.path(), true, &entropy).unwrap().made.is_some());
        assert!(master_key(&NONE, dir.path(), true, &entropy).unwrap().made.is_none());
        assert!(master_key(&NONE, dir.path(), false, &entropy).unwrap().made.is_none());
    }
}
