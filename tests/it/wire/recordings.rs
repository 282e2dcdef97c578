//! Recorded traffic of real providers. It is not part of the repository.

use std::path::PathBuf;

use serde_json::Value;

/// The records of one file; none, with a plain message, where the folder is absent.
pub fn load(file: &str) -> Vec<Value> {
    #[expect(clippy::disallowed_methods, reason = "a test reads its own environment")]
    let folder = std::env::var("TOLLWAY_RECORDINGS").map_or_else(
        |_| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/recordings"),
        PathBuf::from,
    );
    let path = folder.join(file);
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("no recordings at {}: nothing replayed", path.display());
        return Vec::new();
    };
    text.lines().map(|line| serde_json::from_str(line).expect("a record is JSON")).collect()
}
