//! `[data]`: where files are kept.

use std::path::PathBuf;

use crate::app::config::section::section;

section! {
    /// Where this server keeps its files.
    "data" DataSection {
        /// Holds the SQLite database, the master key made on first start, and the journal, unless their
        /// own settings name another place. Made with mode 0700 when it does not exist.
        dir: PathBuf = "tollway-data";
    }
    |_data, _check| {}
}
