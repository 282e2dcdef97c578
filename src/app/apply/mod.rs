//! Setting up by files: tenants, providers, models and routes as they are to be, by name.
//!
//! [`plan`] reads the files, compares them with the store and says what is to be done, or everything
//! that is wrong with them; [`Plan::carry_out`] does it in one transaction. Files may be applied any
//! number of times: what is as it should be stays untouched. docs/files.md is the format's page.
//!
//! `document` reads both notations and remembers lines, `entries` is what may stand in a file,
//! `read` gets from one to the other, `known` is what the store has, `planner`, `people` and `pool`
//! compare, `step` is one thing to do. To add a kind of object: its entry, how it compares, its arms in `step`.

mod document;
mod entries;
mod known;
mod people;
mod plan;
mod planner;
mod pool;
mod read;
mod secrets;
mod source;
mod step;

use std::fmt;

pub use document::Notation;
pub use plan::{Plan, plan};
pub use planner::Tools;
pub use source::{Source, sources};
pub use step::{Step, Verdict};

use crate::{store::StoreError, vault::VaultError};

/// One thing that is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, as it was named.
    pub file: String,
    /// The line, counted from 1.
    pub line: u64,
    /// The path of what is wrong, such as `providers[0].base_url`; empty: the file itself.
    pub field: String,
    /// What is expected instead.
    pub reason: String,
}

impl Problem {
    /// The file and line.
    fn position(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = if self.field.is_empty() { "" } else { ": " };
        write!(f, "{}: {}{colon}{}", self.position(), self.field, self.reason)
    }
}

/// Why nothing was set up.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The files are wrong: at least one problem, in the order of the files.
    #[error("nothing was changed:{}", lines(.0))]
    Refused(Vec<Problem>),
    /// Somebody else changed the same things between reading and writing.
    #[error("nothing was changed: {0} was changed by somebody else meanwhile; run it again")]
    Overtaken(String),
    /// The store did not do it; nothing was changed.
    #[error("nothing was changed")]
    Store(#[from] StoreError),
    /// A credential could not be sealed; nothing was changed.
    #[error("nothing was changed")]
    Vault(#[from] VaultError),
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().fold(String::new(), |text, problem| format!("{text}\n  {problem}"))
}
