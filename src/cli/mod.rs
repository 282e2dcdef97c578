//! The command line (floor 6): one file a command.
//!
//! A command parses its flags, calls what it needs and prints for people; it holds no logic of its
//! own. To add one: a file with a clap `Args` struct and `run`, and its line in `Command`.
//!
//! Exit codes: 0 done; 1 it failed, and standard error says what happened and what to do; 2 the
//! command line or the settings are wrong; 3 a check found something (`migrate --check`,
//! `reconcile`, `healthcheck`); 141 whoever reads standard output left before the end, and the command
//! ended there, as with any other program.

mod apply;
mod config;
mod demo;
mod healthcheck;
mod journal;
mod keys;
mod migrate;
mod names;
mod print;
mod reconcile;
mod serve;
mod table;
mod token;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand};

use self::print::{Unsaid, tell};
use crate::app::config::{ConfigError, Overrides, Settings, load};

/// A multi-tenant relay for LLM APIs.
#[derive(Debug, Parser)]
#[command(name = "tollway", version, about, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Flags of every command.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// The settings file [default: tollway.toml, where it exists]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where files are kept; overrides data.dir
    #[arg(long, global = true, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl Global {
    /// What these flags say about settings.
    fn overrides(&self) -> Overrides {
        let dir = self.data_dir.as_ref().map(|dir| dir.display());
        Overrides { file: self.config.clone(), ..Overrides::default() }.with("data", "dir", "--data-dir", dir)
    }

    /// The settings with nothing but these flags on top.
    fn settings(&self) -> Result<Settings, ConfigError> {
        load(&self.overrides()).map(|(settings, _)| settings)
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start the server
    Serve(serve::ServeArgs),
    /// See one request go through, with a sandbox in place of a provider
    Demo(demo::DemoArgs),
    /// Set up tenants, providers, models and routes by files
    Apply(apply::ApplyArgs),
    /// Issue, list and revoke access tokens
    Token(token::TokenArgs),
    /// List the upstream keys
    Keys(keys::KeysArgs),
    /// Bring the database's schema up to date
    Migrate(migrate::MigrateArgs),
    /// Prove that events, ledger and balances agree
    Reconcile(reconcile::ReconcileArgs),
    /// Take over the journal of a dead replica
    Journal(journal::JournalArgs),
    /// Check or show the settings, or print their reference page
    Config(config::ConfigArgs),
    /// Ask a running server whether it is alive; for container health checks
    Healthcheck(healthcheck::HealthcheckArgs),
}

/// A check found something.
const FOUND: u8 = 3;

/// Nobody reads standard output any more: what a shell says of a program that ended for it, 128 + SIGPIPE.
const UNHEARD: u8 = 141;

/// Runs the command that the arguments name.
#[must_use]
pub fn main() -> ExitCode {
    let Cli { global, command } = Cli::parse();
    let done = match command {
        Command::Serve(args) => serve::run(&global, &args),
        Command::Demo(args) => demo::run(&global, &args),
        Command::Apply(args) => apply::run(&global, &args),
        Command::Token(args) => token::run(&global, &args),
        Command::Keys(args) => keys::run(&global, &args),
        Command::Migrate(args) => migrate::run(&global, &args),
        Command::Reconcile(args) => reconcile::run(&global, &args),
        Command::Journal(args) => journal::run(&global, &args),
        Command::Config(args) => config::run(&global, &args),
        Command::Healthcheck(args) => healthcheck::run(&global, &args),
    };
    done.unwrap_or_else(|error| explain(&error))
}

/// Says what happened, cause by cause, and picks the exit code.
fn explain(error: &anyhow::Error) -> ExitCode {
    if error.downcast_ref::<Unsaid>().is_some_and(Unsaid::is_unheard) {
        return ExitCode::from(UNHEARD);
    }
    tell!("tollway: {error}");
    for cause in error.chain().skip(1) {
        tell!("  because: {cause}");
    }
    ExitCode::from(if error.is::<ConfigError>() { 2 } else { 1 })
}
