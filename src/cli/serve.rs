//! `tollway serve`.

use std::{process::ExitCode, sync::Arc};

use anyhow::Context;
use clap::Args;
use tokio::runtime::{Builder, Runtime};

use super::{
    Global,
    print::{Unsaid, say},
};
use crate::{
    app::{
        build::{self, Ambient, Running},
        config::{Settings, load},
        parts, preflight, shutdown,
    },
    domain::clock::SystemClock,
    telemetry::{self, LogGuard, Metrics, Traces},
    vault::OsEntropy,
};

/// How to serve.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The address and port to listen on, such as 0.0.0.0:8080 for every address of this machine, or
    /// port 0 for a free one; overrides server.listen
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<String>,
}

/// Threads for what runs beside the request path; the workers have their own.
const THREADS: usize = 2;
/// Threads for blocking work of those, such as name lookups.
const BLOCKING_THREADS: usize = 8;

/// Serves until it is asked to stop.
///
/// # Errors
/// When the settings are wrong or the server cannot start.
pub fn run(global: &Global, args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let overrides = global.overrides().with("server", "listen", "--listen", args.listen.as_ref());
    let (settings, sources) = load(&overrides)?;
    preflight::check(&settings, &sources)?;
    let (logs, traces) = start_telemetry(&settings)?;
    let runtime = runtime()?;
    runtime.block_on(serve(&settings, &logs))?;
    if let Some(traces) = traces {
        traces.shut_down();
    }
    Ok(ExitCode::SUCCESS)
}

/// Installs the log and, where they are on, traces.
///
/// # Errors
/// When either cannot be set up.
pub fn start_telemetry(settings: &Settings) -> anyhow::Result<(LogGuard, Option<Traces>)> {
    build::install_crypto();
    let traces = parts::traces(settings).map(|config| Traces::start(&config));
    let traces = traces.transpose().context("traces cannot be sent to otel.endpoint")?;
    let logs =
        telemetry::install(&parts::logs(settings)?, traces.as_ref()).context("the log cannot be set up")?;
    Ok((logs, traces))
}

/// The runtime of a command that serves.
///
/// # Errors
/// When threads cannot be started.
pub fn runtime() -> std::io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(THREADS)
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_name("tollway")
        .enable_all()
        .build()
}

/// What the process gives a server.
#[must_use]
pub fn ambient(logs: &LogGuard) -> Ambient {
    Ambient {
        clock: Arc::new(SystemClock),
        entropy: Arc::new(OsEntropy),
        metrics: Arc::new(Metrics::new()),
        log_lines_dropped: logs.dropped_counter(),
    }
}

async fn serve(settings: &Settings, logs: &LogGuard) -> anyhow::Result<()> {
    // Asked to stop during the start, a server ends like a killed one: there is nothing to lose.
    let running = tokio::select! {
        running = build::start(settings, ambient(logs)) => running?,
        signal = shutdown::requested() => {
            tracing::info!(signal = signal?, "stopped before the start was complete");
            return Ok(());
        }
    };
    // Nobody to greet is no reason to stop: clients may come all the same.
    let _ = greet(&running);
    tracing::info!(address = %running.address, version = env!("CARGO_PKG_VERSION"), "listening");
    let signal = shutdown::requested().await?;
    tracing::info!(signal, "stopping; a second signal stops at once");
    tokio::select! {
        () = running.stop() => Ok(()),
        signal = shutdown::requested() => {
            tracing::warn!(signal = signal?, "stopped at once; the journal keeps what was open");
            Ok(())
        }
    }
}

/// Tells a person where it is and what comes first.
fn greet(running: &Running) -> Result<(), Unsaid> {
    let url = format!("http://{}", running.address);
    say!("tollway {} listening on {url}", env!("CARGO_PKG_VERSION"))?;
    if let Some(path) = &running.made_master_key {
        say!(
            "Made the master key {}. Back it up: without it the upstream credentials in the database are lost.",
            path.display()
        )?;
    }
    if let Some(token) = &running.set_up_token {
        say!(
            "There is no operator yet. Within a day, trade this one-time set-up token for an operator's access \
             token:\n  curl {url}/admin/v1/setup -H 'content-type: application/json' \\\n    -d \
             '{{\"setup_token\": \"{}\"}}'\nThen add a provider, a key, a \
             model, a route and a tenant: docs/first-provider.md",
            token.expose()
        )?;
    }
    Ok(())
}
