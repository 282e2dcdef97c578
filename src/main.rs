//! Hands its arguments to `cli`.

use std::process::ExitCode;

/// A request makes some hundred small allocations, many of which another thread frees: measured,
/// this one takes a tenth less time for them than the system's, and a quarter less memory a stream.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    tollway::cli::main()
}
