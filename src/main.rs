//! Hands its arguments to `cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    tollway::cli::main()
}
