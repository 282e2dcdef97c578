//! `tollway journal adopt DIR`.

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use clap::{Args, Subcommand};

use super::{
    Global,
    print::say,
    serve::{runtime, start_telemetry},
};
use crate::{
    app::{build::connect_ready, config::Settings},
    billing::adopt::adopt,
    domain::clock::SystemClock,
    telemetry::Metrics,
    vault::OsEntropy,
};

/// What to do with a journal.
#[derive(Debug, Args)]
pub struct JournalArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Bring the journal of a replica that will not come back into the store
    Adopt {
        /// Its directory, on its volume
        dir: PathBuf,
        /// How long the store may take, in seconds
        #[arg(long, default_value_t = 600)]
        within_s: u64,
    },
}

/// Runs it.
///
/// # Errors
/// When the settings are wrong, the replica lives, or the store does not take everything.
pub fn run(global: &Global, args: &JournalArgs) -> anyhow::Result<ExitCode> {
    let settings = global.settings()?;
    let _telemetry = start_telemetry(&settings)?;
    let What::Adopt { dir, within_s } = &args.what;
    runtime()?.block_on(take_over(&settings, dir.clone(), Duration::from_secs(*within_s)))?;
    Ok(ExitCode::SUCCESS)
}

async fn take_over(settings: &Settings, dir: PathBuf, within: Duration) -> anyhow::Result<()> {
    let store = connect_ready(settings).await?;
    let metrics = Arc::new(Metrics::new());
    let adopted = adopt(&dir, store.clone(), Arc::new(SystemClock), &OsEntropy, metrics, within).await?;
    let mut tx = store.begin().await?;
    tx.remove_replica(adopted.replica).await?;
    tx.commit().await?;
    store.close().await;
    say!(
        "adopted the journal of {}: {} events brought into the store, {} of them interrupted by its end",
        adopted.replica,
        adopted.drained,
        adopted.recovered.interrupted.len()
    )?;
    Ok(())
}
