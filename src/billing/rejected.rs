//! Usage events that the store refuses for what they say, one JSON object a line, beside the
//! journal. Nothing reads the file but people: each line is an alarm.

use std::{
    fs::OpenOptions,
    io::{self, Write},
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::json;

use crate::{domain::event::UsageEvent, store::StoreError};

const NAME: &str = "rejected.jsonl";

/// The file of rejected events of one journal.
#[derive(Debug)]
pub struct Rejected(PathBuf);

impl Rejected {
    /// In the journal's directory.
    #[must_use]
    pub fn in_dir(dir: &Path) -> Self {
        Self(dir.join(NAME))
    }

    /// Keeps an event and why it was refused.
    ///
    /// # Errors
    ///
    /// The system's; the event must stay in the journal then.
    pub fn add(&self, event: &UsageEvent, why: &StoreError) -> io::Result<()> {
        self.append(&json!({ "event": event, "refused": why.to_string() }))
    }

    /// Keeps the payload of an end that no version of ours known here has written.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    pub fn add_unreadable(&self, payload: &[u8]) -> io::Result<()> {
        let payload = STANDARD.encode(payload);
        tracing::error!("the end of a request cannot be read and was set aside");
        self.append(&json!({ "unreadable": payload, "encoding": "base64 of MessagePack" }))
    }

    fn append(&self, line: &serde_json::Value) -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.0)?;
        file.write_all(format!("{line}\n").as_bytes())?;
        file.sync_data()
    }
}
