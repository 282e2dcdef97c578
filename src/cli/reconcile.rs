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
    for fault in faults(books) {
        say!("{fault}")?;
    }
    say!("{}", if books.is_balanced() { "the books agree" } else { "the books DO NOT agree" })
}

/// What is wrong with single events, and what helps.
fn faults(books: &Books) -> Vec<String> {
    let misbooked = books.store.misbooked.iter();
    let nameless = books.store.nameless.iter();
    let mut faults: Vec<String> = misbooked
        .map(|request| {
            format!("{request}: its charge is not in the ledger, or with another amount or tenant")
        })
        .chain(nameless.map(|request| format!("{request}: who asked for it, or what served it, is gone")))
        .collect();
    if !books.store.nameless.is_empty() {
        faults.push(
            "restore the lost rows of usage_callers and usage_upstreams from a backup; those that are there are right"
                .to_owned(),
        );
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::RequestId;

    #[test]
    fn an_event_that_has_lost_its_caller_is_named_with_what_helps() {
        let mut books = Books::default();
        assert_eq!(faults(&books), [""; 0]);
        let lost = RequestId::generate(crate::domain::clock::Timestamp::from_unix_us(0), [7; 10]);
        books.store.nameless.push(lost);
        let told = faults(&books);
        assert!(told[0].starts_with(&lost.to_string()) && told[1].contains("usage_callers"), "{told:?}");
        assert!(!books.is_balanced());
    }
}
