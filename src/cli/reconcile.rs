//! `tollway reconcile`: proves that events, ledger and balances agree.

use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use super::{
    FOUND, Global,
    print::{Unsaid, say},
    serve::runtime,
};
use crate::{
    app::{build::connect_ready, config::Settings, files},
    billing::reconcile::{Books, reconcile},
    domain::money::Currency,
};

/// What to add up.
#[derive(Debug, Args)]
pub struct ReconcileArgs {
    /// Leave out the journal in journal.dir, such as when it is on another machine
    #[arg(long)]
    no_journal: bool,
}

/// Adds up and prints, tenant by tenant; 0 when everything agrees, 3 when something does not.
///
/// # Errors
/// When the settings are wrong or the database does not answer.
pub fn run(global: &Global, args: &ReconcileArgs) -> anyhow::Result<ExitCode> {
    let settings = global.settings()?;
    let books = runtime()?.block_on(read(&settings, args))?;
    print(&books, settings.billing.currency)?;
    Ok(if books.is_balanced() { ExitCode::SUCCESS } else { ExitCode::from(FOUND) })
}

async fn read(settings: &Settings, args: &ReconcileArgs) -> anyhow::Result<Books> {
    let store = connect_ready(settings).await?;
    let journal = (!args.no_journal).then(|| files::journal(settings));
    let books = reconcile(&store, journal.as_deref()).await.context("the books cannot be read")?;
    store.close().await;
    Ok(books)
}

fn print(books: &Books, currency: Currency) -> Result<(), Unsaid> {
    say!("amounts in {currency}")?;
    say!(
        "tenant                               events  charged by events  charged in ledger  ledger total  balance"
    )?;
    for (tenant, sums) in &books.store.tenants {
        let verdict = if sums.is_balanced() { "" } else { "  DIFFERS" };
        say!(
            "{tenant}  {}  {}  {}  {}  {}{verdict}",
            sums.events,
            sums.event_charges,
            sums.ledger_charges,
            sums.ledger_total,
            sums.balance
        )?;
    }
    for (tenant, waiting) in &books.waiting {
        if waiting.events > 0 {
            say!("{tenant}: {} events of {} wait in the journal", waiting.events, waiting.charges)?;
        }
        if waiting.open > 0 {
            say!("{tenant}: {} requests in the journal have not ended", waiting.open)?;
        }
    }
    for request in &books.store.misbooked {
        say!("{request}: its charge is not in the ledger, or with another amount or tenant")?;
    }
    say!("{}", if books.is_balanced() { "the books agree" } else { "the books DO NOT agree" })
}
