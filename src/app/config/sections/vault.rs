//! `[vault]`: the master key.

use std::path::PathBuf;

use crate::{app::config::section::section, domain::secret::Secret};

section! {
    /// The master key, under which upstream credentials are sealed. Whoever loses it loses them.
    "vault" VaultSection {
        /// The key itself: 32 bytes in base64, as `openssl rand -base64 32` prints them.
        master_key: Option<Secret> = "";
        /// A file that holds the key in the same form. With neither set, `data.dir` keeps one, made on
        /// first start; with Postgres one of the two must be set, so that all replicas have the same.
        master_key_file: Option<PathBuf> = "";
    }
    |vault, check| {
        check.that(
            vault.master_key.is_none() || vault.master_key_file.is_none(),
            "master_key_file",
            "set either this or vault.master_key",
        );
    }
}
