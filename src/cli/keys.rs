//! `tollway keys list`: the upstream keys, without their credentials.

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::Context;
use clap::{Args, Subcommand};

use super::{Global, serve::runtime, table::Table};
use crate::{
    app::{build::connect_ready, config::Settings},
    domain::{ids::ProviderId, key::Key, limits::Limits},
    store::{KeyFilter, Page, Store},
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

/// Rows read at a time.
const PIECE: u32 = 500;

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
    let providers = providers(&store).await?;
    let mut table =
        Table::new(["key", "provider", "label", "state", "priority", "weight", "limits", "of tenant"]);
    let filter = KeyFilter { provider_id, tenant_id: None };
    let mut page = Page::first(PIECE);
    loop {
        let keys = store.list_keys(&filter, page).await?;
        for key in &keys {
            table.row(cells(key, &providers));
        }
        match keys.last() {
            Some(last) if keys.len() == PIECE as usize => page = Page::after(last.id.uuid(), PIECE),
            _ => break,
        }
    }
    table.print();
    store.close().await;
    Ok(())
}

async fn providers(store: &Store) -> anyhow::Result<BTreeMap<ProviderId, String>> {
    let mut names = BTreeMap::new();
    let mut page = Page::first(PIECE);
    loop {
        let providers = store.list_providers(page).await?;
        let last = providers.last().map(|provider| provider.id.uuid());
        let is_last = providers.len() < PIECE as usize;
        names.extend(providers.into_iter().map(|provider| (provider.id, provider.name)));
        match last {
            Some(last) if !is_last => page = Page::after(last, PIECE),
            _ => return Ok(names),
        }
    }
}

fn cells(key: &Key, providers: &BTreeMap<ProviderId, String>) -> [String; 8] {
    [
        key.id.to_string(),
        providers.get(&key.provider_id).cloned().unwrap_or_else(|| key.provider_id.to_string()),
        key.label.clone(),
        key.state.as_str().to_owned(),
        key.priority.to_string(),
        key.weight.to_string(),
        limits(&key.limits),
        key.tenant_id.map(|tenant| tenant.to_string()).unwrap_or_default(),
    ]
}

/// Limits in a few words; `none` where there are none.
pub fn limits(limits: &Limits) -> String {
    let rpm = limits.rpm.map(|rpm| format!("{rpm} rpm"));
    let tpm = limits.tpm.map(|tpm| format!("{tpm} tpm"));
    let concurrency = limits.concurrency.map(|concurrency| format!("{concurrency} at once"));
    let all: Vec<String> = [rpm, tpm, concurrency].into_iter().flatten().collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}
