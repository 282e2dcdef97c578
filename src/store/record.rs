//! Writing usage events: once each, with attempts, ledger and balance, in one transaction.

use std::collections::{BTreeMap, HashSet};

use sqlx::QueryBuilder;
use uuid::Uuid;

use crate::{
    domain::{
        clock::Timestamp,
        event::{Attempt, UsageEvent},
        failure::FailureClass,
        ids::{MemberId, RequestId},
        ledger::LedgerKind,
    },
    store::{Store, StoreError, Tx, column::signed},
};

/// Rows of one insert. Few sizes, so that every connection prepares each statement once and keeps
/// it: preparing costs more than running. The widest, of 28 columns, stays below SQLite's 32 766
/// parameters and Postgres's 65 535.
const SIZES: [usize; 5] = [128, 32, 8, 2, 1];

/// Whether events may be there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guess {
    /// None is, as nearly always: one that is there after all refuses the transaction.
    AllNew,
    /// Some are: they are left as they stand, and each insert tells which were not.
    SomeKnown,
}

/// What was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordOutcome {
    /// The events that were not there yet, by id. The others change nothing.
    pub new: Vec<RequestId>,
}

impl Store {
    /// Records events, in one transaction and each once, however often it is given and by how many
    /// replicas at a time. Of those that are new: the event, its attempts, a ledger entry of kind
    /// `charge` unless the charge is zero, and the tenants' balances.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: it is not known whether it happened; record the same again.
    pub async fn record_events(&self, events: &[UsageEvent]) -> Result<RecordOutcome, StoreError> {
        // Every recorder goes by id, then by tenant: two never wait for each other in a circle.
        let sorted: BTreeMap<Uuid, &UsageEvent> =
            events.iter().map(|event| (event.id.uuid(), event)).collect();
        let sorted: Vec<&UsageEvent> = sorted.into_values().collect();
        if sorted.is_empty() {
            return Ok(RecordOutcome::default());
        }
        match self.record_sorted(&sorted, Guess::AllNew).await {
            Err(StoreError::Conflict { .. }) => self.record_sorted(&sorted, Guess::SomeKnown).await,
            done => done,
        }
    }

    async fn record_sorted(&self, events: &[&UsageEvent], guess: Guess) -> Result<RecordOutcome, StoreError> {
        let mut tx = self.begin().await?;
        match tx.record(events, guess).await {
            Ok(new) => {
                tx.commit().await?;
                Ok(RecordOutcome { new })
            }
            Err(error) => {
                // Whether this succeeds changes nothing: dropped, it has not happened either.
                let _ = tx.rollback().await;
                Err(error)
            }
        }
    }
}

impl Tx {
    /// Records events in the order of their ids; gives those that were new.
    async fn record(&mut self, events: &[&UsageEvent], guess: Guess) -> Result<Vec<RequestId>, StoreError> {
        let mut fresh = Vec::with_capacity(events.len());
        for batch in batches(events) {
            match guess {
                Guess::AllNew => {
                    self.insert_events(batch, guess).await?;
                    fresh.extend_from_slice(batch);
                }
                Guess::SomeKnown => {
                    let new: HashSet<Uuid> = self.insert_events(batch, guess).await?.into_iter().collect();
                    fresh.extend(batch.iter().filter(|event| new.contains(&event.id.uuid())));
                }
            }
        }
        self.insert_attempts(&fresh).await?;
        self.charge(&fresh, guess).await?;
        Ok(fresh.iter().map(|event| event.id).collect())
    }

    /// Inserts events; gives the ids of those that were not there yet, where some may be.
    async fn insert_events(&mut self, events: &[&UsageEvent], guess: Guess) -> Result<Vec<Uuid>, StoreError> {
        writing!(self, conn => async {
            let mut query = QueryBuilder::new(
                "insert into usage_events (
                    id,
                    tenant_id,
                    member_id,
                    token_id,
                    model_id,
                    model,
                    format,
                    stream,
                    outcome,
                    status,
                    input_tokens,
                    cache_read_tokens,
                    cache_write_5m_tokens,
                    cache_write_1h_tokens,
                    output_tokens,
                    reasoning_tokens,
                    audio_input_tokens,
                    audio_output_tokens,
                    images,
                    requests,
                    usage_source,
                    charge_nanos,
                    cost_nanos,
                    started_at,
                    hour,
                    first_content_ms,
                    duration_ms,
                    replica_id
                ) ",
            );
            query.push_values(events, |mut row, event| {
                row.push_bind(event.id.uuid())
                    .push_bind(event.tenant_id.uuid())
                    .push_bind(event.member_id.map(MemberId::uuid))
                    .push_bind(event.token_id.uuid())
                    .push_bind(event.model_id.uuid())
                    .push_bind(event.model.as_str())
                    .push_bind(event.format.as_str())
                    .push_bind(event.stream)
                    .push_bind(event.outcome.as_str())
                    .push_bind(i64::from(event.status))
                    .push_bind(signed(event.usage.input_tokens))
                    .push_bind(signed(event.usage.cache_read_tokens))
                    .push_bind(signed(event.usage.cache_write_5m_tokens))
                    .push_bind(signed(event.usage.cache_write_1h_tokens))
                    .push_bind(signed(event.usage.output_tokens))
                    .push_bind(signed(event.usage.reasoning_tokens))
                    .push_bind(signed(event.usage.audio_input_tokens))
                    .push_bind(signed(event.usage.audio_output_tokens))
                    .push_bind(signed(event.usage.images))
                    .push_bind(signed(event.usage.requests))
                    .push_bind(event.usage.source.as_str())
                    .push_bind(event.charge.get())
                    .push_bind(event.cost.get())
                    .push_bind(event.started_at.to_utc())
                    .push_bind(hour_of(event.started_at))
                    .push_bind(event.first_content_ms.map(i64::from))
                    .push_bind(i64::from(event.duration_ms))
                    .push_bind(event.replica_id.uuid());
            });
            if guess == Guess::SomeKnown {
                query.push(" on conflict (id) do nothing returning id");
            }
            query.build_query_scalar().fetch_all(conn).await
        })
    }

    async fn insert_attempts(&mut self, events: &[&UsageEvent]) -> Result<(), StoreError> {
        let numbered = |event: &&UsageEvent| {
            let id = event.id.uuid();
            (1i64..).zip(event.attempts.clone()).map(move |(n, attempt)| (id, n, attempt))
        };
        let attempts: Vec<(Uuid, i64, Attempt)> = events.iter().flat_map(numbered).collect();
        for batch in batches(&attempts) {
            // An event whose partition was dropped may leave its attempts behind for a while.
            executing!(self, conn => async {
                let mut query = QueryBuilder::new(
                    "insert into attempts (
                        event_id,
                        n,
                        route_id,
                        provider_id,
                        key_id,
                        upstream_model,
                        started_at,
                        duration_ms,
                        status,
                        class
                    ) ",
                );
                query.push_values(batch, |mut row, (event_id, n, attempt)| {
                    row.push_bind(*event_id)
                        .push_bind(*n)
                        .push_bind(attempt.route_id.uuid())
                        .push_bind(attempt.provider_id.uuid())
                        .push_bind(attempt.key_id.uuid())
                        .push_bind(attempt.upstream_model.as_str())
                        .push_bind(attempt.started_at.to_utc())
                        .push_bind(i64::from(attempt.duration_ms))
                        .push_bind(attempt.status.map(i64::from))
                        .push_bind(attempt.class.map(FailureClass::as_str));
                });
                query.push(" on conflict (event_id, n) do nothing");
                query.build().execute(conn).await
            })?;
        }
        Ok(())
    }

    /// Books the charges of new events, and moves the balances by what was booked.
    async fn charge(&mut self, events: &[&UsageEvent], guess: Guess) -> Result<(), StoreError> {
        let charged: Vec<&UsageEvent> =
            events.iter().copied().filter(|event| event.charge.get() != 0).collect();
        let mut owed: BTreeMap<Uuid, i64> = BTreeMap::new();
        for batch in batches(&charged) {
            for (tenant_id, amount) in self.insert_charges(batch, guess).await? {
                let sum = owed.entry(tenant_id).or_default();
                *sum = sum.saturating_add(amount);
            }
        }
        let latest = charged.iter().map(|event| ended_at(event)).max().unwrap_or_default();
        let owed: Vec<(Uuid, i64)> = owed.into_iter().collect();
        for batch in batches(&owed) {
            executing!(self, conn => async {
                let mut query = QueryBuilder::new("insert into balances (tenant_id, balance_nanos, updated_at) ");
                query.push_values(batch, |mut row, (tenant_id, amount)| {
                    row.push_bind(*tenant_id).push_bind(*amount).push_bind(latest.to_utc());
                });
                query.push(
                    " on conflict (tenant_id) do update set
                        balance_nanos = balances.balance_nanos + excluded.balance_nanos,
                        updated_at = excluded.updated_at",
                );
                query.build().execute(conn).await
            })?;
        }
        Ok(())
    }

    /// Inserts the charges that are not booked yet: an event whose partition was dropped counts as
    /// new above, but not here. Gives the tenants and amounts of those inserted.
    async fn insert_charges(
        &mut self,
        events: &[&UsageEvent],
        guess: Guess,
    ) -> Result<Vec<(Uuid, i64)>, StoreError> {
        let inserted = writing!(self, conn => async {
            let mut query = QueryBuilder::new(
                "insert into ledger_entries (
                    id,
                    tenant_id,
                    kind,
                    amount_nanos,
                    event_id,
                    note,
                    actor,
                    created_at
                ) ",
            );
            query.push_values(events, |mut row, event| {
                row.push_bind(event.id.uuid())
                    .push_bind(event.tenant_id.uuid())
                    .push_bind(LedgerKind::Charge.as_str())
                    .push_bind(event.charge.negated().get())
                    .push_bind(event.id.uuid())
                    .push_bind("")
                    .push_bind("system")
                    .push_bind(ended_at(event).to_utc());
            });
            if guess == Guess::SomeKnown {
                query.push(" on conflict (id) do nothing returning tenant_id, amount_nanos");
            }
            query.build_query_as().fetch_all(conn).await
        })?;
        Ok(match guess {
            Guess::SomeKnown => inserted,
            Guess::AllNew => {
                events.iter().map(|event| (event.tenant_id.uuid(), event.charge.negated().get())).collect()
            }
        })
    }
}

/// `rows` in pieces of [`SIZES`], largest first.
fn batches<T>(mut rows: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let size = SIZES.into_iter().find(|size| *size <= rows.len())?;
        let (batch, rest) = rows.split_at(size);
        rows = rest;
        Some(batch)
    })
}

fn ended_at(event: &UsageEvent) -> Timestamp {
    event.started_at.plus(std::time::Duration::from_millis(event.duration_ms.into()))
}

/// The start of an instant's hour, in seconds since 1970.
fn hour_of(at: Timestamp) -> i64 {
    at.unix_s().div_euclid(3_600) * 3_600
}
