//! `tollway keys list`: the upstream keys, without their credentials.

use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Subcommand};

use super::{Global, names, serve::runtime, table::Table};
use crate::{
    app::{build::connect_ready, config::Settings},
    domain::limits::Limits,
    store::{KeyFilter, every},
};

/// What to do with keys.
#[derive(Debug, Args)]
pub struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    /// Print the upstream keys, provider by provider; credentials are never printed
    List {
        /// Of this provider only
        #[arg(long, value_name = "NAME")]
        provider: Option<String>,
    },
}

/// Prints the keys.
///
/// # Errors
/// When the settings are wrong, the database does not answer, or there is no such provider.
pub fn run(global: &Global, args: &KeysArgs) -> anyhow::Result<ExitCode> {
    let settings = global.settings()?;
    let KeysCommand::List { provider } = &args.command;
    runtime()?.block_on(list(&settings, provider.as_deref()))?;
    Ok(ExitCode::SUCCESS)
}

async fn list(settings: &Settings, provider: Option<&str>) -> anyhow::Result<()> {
    let store = connect_ready(settings).await?;
    let provider_id = match provider {
        Some(name) => {
            let found = store.find_provider_by_name(name).await?;
            Some(found.with_context(|| format!("there is no provider {name}"))?.id)
        }
        None => None,
    };
    let providers = names::providers(&store).await?;
    let tenants = names::tenants(&store).await?;
    let filter = KeyFilter { provider_id, tenant_id: None };
    let keys = every(async |page| store.list_keys(&filter, page).await, |key| key.id.uuid()).await?;
    let mut table =
        Table::new(["key", "provider", "label", "state", "priority", "weight", "limits", "of tenant"]);
    for key in &keys {
        table.row([
            key.id.to_string(),
            names::of(&providers, key.provider_id),
            key.label.clone(),
            key.state.as_str().to_owned(),
            key.priority.to_string(),
            key.weight.to_string(),
            limits(&key.limits),
            key.tenant_id.map(|id| names::of(&tenants, id)).unwrap_or_default(),
        ]);
    }
    table.print()?;
    store.close().await;
    Ok(())
}

/// Limits in a few words; `none` where there are none.
pub fn limits(limits: &Limits) -> String {
    let rpm = limits.rpm.map(|rpm| format!("{rpm} rpm"));
    let tpm = limits.tpm.map(|tpm| format!("{tpm} tpm"));
    let concurrency = limits.concurrency.map(|concurrency| format!("{concurrency} at once"));
    let all: Vec<String> = [rpm, tpm, concurrency].into_iter().flatten().collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}
