//! What commands print. `say!` and `put!` write to standard output and `tell!` to standard error; the
//! `print` macros of the standard library would end the process without cleaning up when nobody reads.

use std::{
    fmt::Arguments,
    io::{self, Write},
};

/// Standard output cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output")]
pub struct Unsaid(#[from] io::Error);

impl Unsaid {
    /// Whether its reader has left, as `head` does when it has seen enough. The command ends and has
    /// nothing to explain.
    pub fn is_unheard(&self) -> bool {
        self.0.kind() == io::ErrorKind::BrokenPipe
    }
}

/// Prints an answer, to be seen at once.
pub fn write_out(text: Arguments<'_>) -> Result<(), Unsaid> {
    let mut out = io::stdout().lock();
    out.write_fmt(text)?;
    Ok(out.flush()?)
}

/// Tells what is not the answer.
pub fn write_err(text: Arguments<'_>) {
    // Nobody to hear it is no reason to fail.
    let _ = io::stderr().lock().write_fmt(text);
}

/// Prints a line.
macro_rules! say {
    () => { $crate::cli::print::write_out(format_args!("\n")) };
    ($($text:tt)+) => { $crate::cli::print::write_out(format_args!("{}\n", format_args!($($text)+))) };
}

/// Prints text as it is.
macro_rules! put {
    ($($text:tt)+) => { $crate::cli::print::write_out(format_args!($($text)+)) };
}

/// Tells a line.
macro_rules! tell {
    ($($text:tt)+) => { $crate::cli::print::write_err(format_args!("{}\n", format_args!($($text)+))) };
}

pub(super) use {put, say, tell};
