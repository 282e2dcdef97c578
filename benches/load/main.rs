//! Load for `scripts/bench`: a fast scripted upstream, and a driver that measures what stands before it.
//!
//! `load upstream` answers by path prefix (`/small/…`, `/burst/…`, `/paced/COUNT/MILLISECONDS/…`), `load drive` keeps
//! a number of connections busy, `load hold` keeps many slow streams open. Results are one JSON object on
//! standard output.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measuring tool: it spawns, reads clocks, and gives up loudly"
)]

mod answer;
mod drive;
mod hold;
mod process;
mod setup;
mod upstream;

use std::{net::SocketAddr, time::Duration};

use clap::{Args, Parser, Subcommand};

#[derive(Parser)]
struct Cli {
    /// Given by `cargo bench`; means nothing here.
    #[arg(long, hide = true)]
    bench: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve; prints the port
    Upstream {
        /// Threads, each with its own event loop
        #[arg(long, default_value_t = 1)]
        threads: usize,
    },
    /// Set a relay up that has not booted yet; prints an access token
    Setup(setup::Setup),
    /// Keep connections busy, each sending its next request when the last is answered
    Drive {
        #[command(flatten)]
        target: Target,
        #[arg(long)]
        connections: usize,
        #[arg(long, default_value_t = 3.0)]
        seconds: f64,
        /// Stop after this many requests instead
        #[arg(long)]
        requests: Option<usize>,
    },
    /// Open many slow streams at once and hold them to their end
    Hold {
        #[command(flatten)]
        target: Target,
        #[arg(long)]
        streams: usize,
        /// How long after the start memory is looked at
        #[arg(long, default_value_t = 2.0)]
        look_after: f64,
    },
}

/// Whom to call and whom to watch.
#[derive(Args, Clone)]
struct Target {
    #[arg(long)]
    address: SocketAddr,
    #[arg(long, default_value = "/v1/chat/completions")]
    path: String,
    #[arg(long, default_value = "small")]
    model: String,
    #[arg(long)]
    token: Option<String>,
    #[arg(long)]
    stream: bool,
    /// Processes whose CPU time and memory are reported
    #[arg(long, value_delimiter = ',')]
    watch: Vec<u32>,
}

impl Target {
    /// The request's bytes: about 1 KB, as a short conversation has.
    fn request(&self) -> Vec<u8> {
        let said = "The quick brown fox jumps over the lazy dog and wonders what it was for. ".repeat(11);
        let stream =
            if self.stream { r#","stream":true,"stream_options":{"include_usage":true}"# } else { "" };
        let body = format!(
            r#"{{"model":"{}","messages":[{{"role":"user","content":"{said}"}}],"max_tokens":64{stream}}}"#,
            self.model
        );
        let credential =
            self.token.as_ref().map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
        format!(
            "POST {} HTTP/1.1\r\nhost: bench\r\n{credential}content-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            self.path,
            body.len()
        )
        .into_bytes()
    }
}

fn main() {
    match Cli::parse().command {
        Command::Upstream { threads } => upstream::serve(threads),
        Command::Setup(setup) => println!("{}", block_on(setup::run(setup))),
        Command::Drive { target, connections, seconds, requests } => {
            let limit = drive::Limit { span: Duration::from_secs_f64(seconds), requests };
            println!("{}", block_on(drive::run(target, connections, limit)));
        }
        Command::Hold { target, streams, look_after } => {
            println!("{}", block_on(hold::run(target, streams, Duration::from_secs_f64(look_after))));
        }
    }
}

/// One thread: what it uses beside the measured process is the same for all.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("build a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, work)
}
