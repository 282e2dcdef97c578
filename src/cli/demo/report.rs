//! What the demo prints.

use std::{io::IsTerminal, net::SocketAddr, path::Path};

use anyhow::Context;

use super::TENANT;
use crate::{
    app::{apply::Plan, sandbox::MODEL},
    cli::print::{Unsaid, put, say},
    domain::{
        event::{Attempt, UsageEvent},
        ids::KeyId,
        money::Nanos,
        secret::Secret,
    },
    store::{LedgerFilter, Page, Store},
};

/// Where texts begin, below their labels.
const INDENT: usize = 14;
/// Where they end.
const WIDTH: usize = 92;

/// Prints the demo, step by step.
pub struct Report {
    /// Where the provider listens.
    pub sandbox: SocketAddr,
    /// Where the server listens.
    pub relay: SocketAddr,
    has_colours: bool,
}

impl Report {
    /// Prints on standard output, in colours where it is a terminal.
    pub fn new(sandbox: SocketAddr, relay: SocketAddr) -> Self {
        Self { sandbox, relay, has_colours: std::io::stdout().is_terminal() }
    }

    /// What runs where.
    pub fn greet(&self, directory: &Path) -> Result<(), Unsaid> {
        say!("{}", self.bold("Tollway demo"))?;
        say!("A whole deployment in one process, in {}, gone when it ends.", directory.display())?;
        say!("The provider is a sandbox on this machine: no model is behind it, its prices are made up.\n")?;
        self.line("relay", &format!("http://{}  the server of `tollway serve`", self.relay))?;
        self.line(
            "sandbox",
            &format!("http://{}  a provider with two keys, one over its limit", self.sandbox),
        )
    }

    /// What was set up.
    pub fn set_up(&self, plan: &Plan) -> Result<(), Unsaid> {
        for (at, step) in plan.steps.iter().enumerate() {
            self.line(if at == 0 { "set up" } else { "" }, &step.to_string())?;
        }
        say!()
    }

    /// The question.
    pub fn ask(&self, question: &str) -> Result<(), Unsaid> {
        say!("{}", self.bold(&format!("POST /v1/chat/completions, {MODEL}, streamed")))?;
        self.line("question", question)
    }

    /// The answer, to be printed as it comes.
    pub fn answer(&self) -> Result<Streamed, Unsaid> {
        put!("  {}", self.dim(&format!("{:<12}", "answer")))?;
        Ok(Streamed { column: INDENT })
    }

    /// What the store says of the request.
    pub async fn happened(&self, store: &Store, event: &UsageEvent) -> anyhow::Result<()> {
        say!("\n\n{}", self.bold(&format!("What happened ({})", event.id)))?;
        for (at, attempt) in event.attempts.iter().enumerate() {
            let is_last = at + 1 == event.attempts.len();
            let label = format!("attempt {}", at + 1);
            self.line(&label, &attempt_text(store, attempt, is_last).await?)?;
        }
        let usage = &event.usage;
        self.line(
            "usage",
            &format!(
                "{} tokens in, {} tokens out, counted by: {}",
                usage.total_input_tokens(),
                usage.total_output_tokens(),
                usage.source.as_str()
            ),
        )?;
        self.line("cost", &format!("{TENANT} pays {}, the provider takes {}", event.charge, event.cost))?;
        self.line("", &price_text(store, event).await?)?;
        self.line("ledger", &ledger_text(store, event).await?)?;
        Ok(())
    }

    /// How to go on.
    pub fn invite(&self, token: &Secret, operator: &Secret) -> Result<(), Unsaid> {
        let (relay, token, operator) = (self.relay, token.expose(), operator.expose());
        say!("\n{}", self.bold("Try it yourself"))?;
        say!("  curl -N http://{relay}/v1/chat/completions \\")?;
        say!("    -H 'authorization: Bearer {token}' \\")?;
        say!("    -H 'content-type: application/json' \\")?;
        say!(
            "    -d '{{\"model\":\"{MODEL}\",\"stream\":true,\"messages\":[{{\"role\":\"user\",\"content\":\"Hello\"}}]}}'\n"
        )?;
        self.line("OpenAI SDK", &format!("base_url http://{relay}/v1  api_key {token}"))?;
        self.line(
            "admin",
            &format!("curl http://{relay}/admin/v1/keys -H 'authorization: Bearer {operator}'"),
        )?;
        self.line("health", &format!("http://{relay}/readyz"))?;
        self.line("metrics", &format!("http://{relay}/metrics"))?;
        say!("\nThe server stays up until Ctrl-C.")
    }

    fn line(&self, label: &str, text: &str) -> Result<(), Unsaid> {
        say!("  {}{text}", self.dim(&format!("{label:<12}")))
    }

    fn bold(&self, text: &str) -> String {
        self.styled("1", text)
    }

    fn dim(&self, text: &str) -> String {
        self.styled("2", text)
    }

    fn styled(&self, style: &str, text: &str) -> String {
        if self.has_colours { format!("\x1b[{style}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Text that comes in pieces, broken between words.
pub struct Streamed {
    column: usize,
}

impl Streamed {
    /// Prints a piece; the sandbox's are words.
    pub fn push(&mut self, piece: &str) -> Result<(), Unsaid> {
        let width = piece.chars().count();
        if self.column + width > WIDTH {
            put!("\n{:INDENT$}", "")?;
            self.column = INDENT;
        }
        self.column += width;
        put!("{piece}")
    }
}

async fn attempt_text(store: &Store, attempt: &Attempt, is_last: bool) -> anyhow::Result<String> {
    let status = attempt.status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
    let outcome = match attempt.class {
        None => "served".to_owned(),
        Some(class) if is_last => class.as_str().to_owned(),
        Some(class) => format!("{} → next key", class.as_str()),
    };
    let key = key_label(store, attempt.key_id).await?;
    Ok(format!("key {key}: {status}, {outcome}, {} ms", attempt.duration_ms))
}

async fn key_label(store: &Store, id: KeyId) -> anyhow::Result<String> {
    Ok(store.lookup_key(id).await?.context("the key is gone")?.label)
}

async fn price_text(store: &Store, event: &UsageEvent) -> anyhow::Result<String> {
    let prices = store.lookup_model(event.model_id).await?.context("the model is gone")?.prices;
    let (input, output) = (prices.input.unwrap_or_default(), prices.output.unwrap_or_default());
    Ok(format!("sold at {input} per million tokens in, {output} per million tokens out"))
}

async fn ledger_text(store: &Store, event: &UsageEvent) -> anyhow::Result<String> {
    let filter = LedgerFilter { event_id: Some(event.id), ..LedgerFilter::default() };
    let entry = store.list_ledger_entries(&filter, Page::first(1)).await?.pop();
    let entry = entry.context("the request is not in the ledger")?;
    let balance: Nanos = store.lookup_balance(event.tenant_id).await?;
    let at = entry.created_at.to_utc().format("%Y-%m-%d %H:%M:%S UTC");
    Ok(format!("{at}  {}  {}  balance {balance}", entry.kind.as_str(), entry.amount))
}
