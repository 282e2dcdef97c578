//! Running the sandbox provider, for as long as the process does.

use std::{io, net::SocketAddr};

use super::tasks::run_once;
pub use crate::http::sandbox::{GOOD_KEY, LIMITED_KEY, MODEL};
use crate::http::sandbox::{Sandbox, bind};

/// Starts it on a free port of the loopback interface and says where.
///
/// # Errors
/// When no port can be bound.
pub fn start() -> io::Result<SocketAddr> {
    let Sandbox { address, server, .. } = bind()?;
    drop(run_once(server));
    Ok(address)
}
