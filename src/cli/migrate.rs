//! `tollway migrate [--check] [--dry-run]`.

use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use super::{FOUND, Global, print::say};
use crate::{
    app::{config::Settings, files, parts},
    cli::serve::runtime,
    store::Store,
};

/// What to do about the schema.
#[derive(Debug, Args)]
pub struct MigrateArgs {
    /// Change nothing; exit code 3 when something is to be done
    #[arg(long)]
    check: bool,
    /// Change nothing; print the statements that would run
    #[arg(long)]
    dry_run: bool,
}

/// Brings the schema up to date, or says what that would take.
///
/// # Errors
/// When the settings are wrong, the database does not answer, or a step fails.
pub fn run(global: &Global, args: &MigrateArgs) -> anyhow::Result<ExitCode> {
    let settings = global.settings()?;
    runtime()?.block_on(migrate(&settings, args))
}

async fn migrate(settings: &Settings, args: &MigrateArgs) -> anyhow::Result<ExitCode> {
    let is_alone = settings.database.url.is_none();
    let is_look = args.check || args.dry_run;
    if is_alone && is_look && !files::database(settings).exists() {
        say!("there is no database yet; `tollway serve` makes it")?;
        return Ok(if args.check { ExitCode::from(FOUND) } else { ExitCode::SUCCESS });
    }
    files::make_data_dir(&settings.data.dir)?;
    // A look may happen beside a running server, a change may not.
    let _lock = (is_alone && !is_look).then(|| files::lock_data_dir(&settings.data.dir)).transpose()?;
    let store = Store::connect(&parts::store(settings)).await.context("the database does not answer")?;
    let pending = store.pending_migrations().await?;
    if pending.is_empty() {
        say!("the schema is up to date")?;
        return Ok(ExitCode::SUCCESS);
    }
    // Before anything is printed: a reader that leaves must not leave it half done.
    if !is_look {
        store.migrate().await.context("a step failed; it and those after it did not happen")?;
    }
    for step in &pending {
        say!("-- {:04} {}", step.version, step.name)?;
        if args.dry_run {
            say!("{}", step.sql.trim_end())?;
        }
    }
    if args.check {
        return Ok(ExitCode::from(FOUND));
    }
    if !is_look {
        say!("done: {} steps", pending.len())?;
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
