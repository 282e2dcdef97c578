//! `tollway config check|show|reference`.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::{
    Global,
    print::{put, say},
};
use crate::{
    app::{
        config::{load, reference, show},
        preflight,
    },
    telemetry,
};

/// What to do with the settings.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Say what would keep a server from starting on these settings; exit code 2 when something would
    Check,
    /// Print every setting, its value and where it was set; secrets are masked
    Show,
    /// Print the reference page of all settings (docs/settings.md)
    Reference,
    /// Print the reference page of all metrics (docs/metrics.md)
    Metrics,
}

/// Runs it.
///
/// # Errors
/// When the settings are wrong.
pub fn run(global: &Global, args: &ConfigArgs) -> anyhow::Result<ExitCode> {
    match args.what {
        What::Check => {
            let (settings, sources) = load(&global.overrides())?;
            preflight::check(&settings, &sources)?;
            say!("the settings are right")?;
        }
        What::Show => put!("{}", show(&load(&global.overrides())?.1))?,
        What::Reference => put!("{}", reference())?,
        What::Metrics => put!("{}", telemetry::reference())?,
    }
    Ok(ExitCode::SUCCESS)
}
