//! `tollway apply -f FILE`: sets up by files.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;

use super::{
    Global,
    print::{Unsaid, say},
    serve::runtime,
};
use crate::{
    app::{
        apply::{Plan, Source, Tools, Verdict, plan, sources},
        build::{connect_ready, install_crypto},
        config::Settings,
        keys, parts,
    },
    domain::clock::SystemClock,
    net::Guard,
    vault::OsEntropy,
};

/// What to set up.
#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// A .yaml or .toml file, or a directory of them; may be given several times
    #[arg(short, long = "file", value_name = "PATH", required = true, num_args = 1..)]
    file: Vec<PathBuf>,
    /// Change nothing; print what would be done
    #[arg(long)]
    dry_run: bool,
    /// Also remove keys and routes that a list of the files does not have
    #[arg(long)]
    prune: bool,
}

/// Brings the store to what the files say, all of it or nothing.
///
/// # Errors
/// When the settings or files are wrong, the database does not answer, or somebody else changed the
/// same things at the same time.
pub fn run(global: &Global, args: &ApplyArgs) -> anyhow::Result<ExitCode> {
    let settings = global.settings()?;
    let files = sources(&args.file)?;
    let plan = runtime()?.block_on(apply(&settings, &files, args))?;
    print(&plan, args.dry_run)?;
    Ok(ExitCode::SUCCESS)
}

async fn apply(settings: &Settings, files: &[Source], args: &ApplyArgs) -> anyhow::Result<Plan> {
    install_crypto();
    let store = connect_ready(settings).await?;
    let vault = keys::open_existing(&store, settings).await?;
    let tools = Tools {
        store: &store,
        vault: &vault,
        guard: &Guard::new(parts::guard(settings)),
        clock: &SystemClock,
        entropy: &OsEntropy,
        environment: &|name| std::env::var_os(name)?.into_string().ok(),
    };
    let plan = plan(&tools, files, args.prune).await?;
    if !args.dry_run {
        plan.carry_out(&store).await?;
    }
    store.close().await;
    Ok(plan)
}

fn print(plan: &Plan, is_dry: bool) -> Result<(), Unsaid> {
    let differing: Vec<_> = plan.steps.iter().filter(|step| step.verdict != Verdict::Unchanged).collect();
    for step in &differing {
        say!("{step}")?;
    }
    let (changed, all) = (differing.len(), plan.steps.len());
    let kept = all - changed;
    match (changed, is_dry) {
        (0, _) => say!("nothing to do: all {all} objects are as the files say"),
        (_, true) => say!("dry run: {changed} to change, {kept} as the files say already"),
        (_, false) => say!("done: {changed} changed, {kept} as the files say already"),
    }
}
