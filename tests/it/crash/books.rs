//! Whether what is in the store is what happened.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use tollway::{
    domain::{
        event::{Outcome, UsageEvent},
        ledger::{LedgerEntry, LedgerKind},
        money::Nanos,
    },
    store::{EventFilter, LedgerFilter, Page, Store},
};

use crate::harness::{
    eventually,
    load::{Sample, charge_of},
    server::Server,
    upstream::Upstream,
};

/// Rows read at once.
const PAGE: u32 = 500;

/// Everything in the store about requests, by the text of their ids.
pub struct Books {
    /// Usage events.
    pub events: HashMap<String, UsageEvent>,
    charges: HashMap<String, Vec<LedgerEntry>>,
}

impl Books {
    /// Reads all of it.
    pub async fn read(store: &Store) -> Self {
        let mut events = HashMap::new();
        let mut page = Page::first(PAGE);
        loop {
            let rows = store.list_events(&EventFilter::default(), page).await.expect("read events");
            let Some(last) = rows.last() else { break };
            page = Page::after(last.id.uuid(), PAGE);
            events.extend(rows.into_iter().map(|event| (event.id.to_string(), event)));
        }
        let mut charges: HashMap<String, Vec<LedgerEntry>> = HashMap::new();
        let mut page = Page::first(PAGE);
        let filter = LedgerFilter { kind: Some(LedgerKind::Charge), ..LedgerFilter::default() };
        loop {
            let rows = store.list_ledger_entries(&filter, page).await.expect("read the ledger");
            let Some(last) = rows.last() else { break };
            page = Page::after(last.id.uuid(), PAGE);
            for entry in rows {
                let event = entry.event_id.expect("a charge is for a request");
                charges.entry(event.to_string()).or_default().push(entry);
            }
        }
        Self { events, charges }
    }

    /// Checks them against what the upstream saw and what the clients have.
    pub fn check(&self, upstream: &Upstream, samples: &[Sample]) {
        let called: HashSet<String> = upstream
            .requests()
            .iter()
            .map(|request| request.header("x-request-id").expect("our id upstream").to_owned())
            .collect();
        for id in &called {
            assert!(self.events.contains_key(id), "the upstream was called for {id}, which has no event");
        }
        for (id, event) in &self.events {
            let booked: Vec<_> =
                self.charges.get(id).into_iter().flatten().map(|entry| entry.amount).collect();
            assert!(booked.len() <= 1, "{id} is charged more than once: {booked:?}");
            let sum = booked.first().copied().unwrap_or(Nanos::ZERO).negated();
            assert_eq!(sum, event.charge, "the charge of {id} in the ledger and in its event");
            assert!(
                called.contains(id) || event.charge == Nanos::ZERO,
                "{id} cost without a call: {event:?}"
            );
        }
        for id in self.charges.keys() {
            assert!(self.events.contains_key(id), "{id} is charged and has no event");
        }
        let mut whole = HashSet::new();
        for sample in samples.iter().filter(|sample| sample.is_served()) {
            let id = sample.request.as_ref().expect("an answer has an id");
            assert!(whole.insert(id), "{id} was answered twice");
            let event = self.events.get(id).unwrap_or_else(|| panic!("{id} was served and has no event"));
            assert_eq!(event.outcome, Outcome::Completed, "{id} was served whole: {event:?}");
            assert_eq!(event.charge, charge_of(sample.n), "the charge of {id}, request number {}", sample.n);
        }
    }
}

/// How much of a journal is not in the store.
pub async fn undrained(server: &Server) -> u64 {
    let ready = server.anonymous().get("/readyz").await.json();
    ready["parts"]["journal"]["undrained_records"].as_u64().expect("a number of records")
}

/// Waits until a server's journal is in the store.
pub async fn drained(server: &Server) {
    eventually("the journal to drain", Duration::from_secs(30), async || undrained(server).await == 0).await;
}
