//! `tollway healthcheck`: for container health checks, so that an image needs no `curl`.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context;
use clap::Args;

use super::{FOUND, Global, print::tell};

/// Where to ask.
#[derive(Debug, Args)]
pub struct HealthcheckArgs {
    /// The server's address [default: server.listen of the settings]
    #[arg(long, value_name = "ADDR:PORT")]
    address: Option<SocketAddr>,
    /// Ask whether it can serve requests, not only whether it is alive
    #[arg(long)]
    ready: bool,
}

/// A server that does not answer within this is not alive.
const PATIENCE: Duration = Duration::from_secs(2);

/// Asks `/healthz` or `/readyz`; 0 when the answer is 200, 3 when it is another.
///
/// # Errors
/// When the settings are wrong or nothing answers.
pub fn run(global: &Global, args: &HealthcheckArgs) -> anyhow::Result<ExitCode> {
    let address = match args.address {
        Some(address) => address,
        None => global.settings()?.server.listen,
    };
    let path = if args.ready { "/readyz" } else { "/healthz" };
    let address = dialled(address);
    let answer = ask(address, path).with_context(|| format!("no answer from http://{address}{path}"))?;
    if answer.starts_with("HTTP/1.1 200") {
        return Ok(ExitCode::SUCCESS);
    }
    tell!("http://{address}{path}: {}", answer.lines().next().unwrap_or("an empty answer"));
    Ok(ExitCode::from(FOUND))
}

/// An unspecified address is listened on, not dialled.
fn dialled(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        let loopback =
            if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
        address.set_ip(loopback);
    }
    address
}

/// One GET by hand: the guarded client is for calls to others.
fn ask(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(64 << 10).read_to_string(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unspecified_address_is_dialled_on_loopback() {
        assert_eq!(dialled("0.0.0.0:80".parse().unwrap()), "127.0.0.1:80".parse().unwrap());
        assert_eq!(dialled("[::]:80".parse().unwrap()), "[::1]:80".parse().unwrap());
        assert_eq!(dialled("10.0.0.1:80".parse().unwrap()), "10.0.0.1:80".parse().unwrap());
    }
}
