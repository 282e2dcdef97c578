//! Writing usage events: once each, with attempts, ledger and balance, in one transaction.

use std::collections::{BTreeMap, HashSet};

use sqlx::{FromRow, Row};
use uuid::Uuid;

use crate::{
    domain::{
        clock::Timestamp,
        event::{Attempt, UsageEvent},
        failure::FailureClass,
        ids::RequestId,
    },
    store::{
        Store, StoreError, Tx,
        column::signed,
        dimensions::{Dimensions, Named},
        insert::{Insert, Size, batches},
    },
};

const EVENT_COLUMNS: &[&str] = &[
    "id",
    "tenant_id",
    "caller_id",
    "outcome",
    "status",
    "input_tokens",
    "cache_read_tokens",
    "cache_write_5m_tokens",
    "cache_write_1h_tokens",
    "output_tokens",
    "reasoning_tokens",
    "audio_input_tokens",
    "audio_output_tokens",
    "images",
    "requests",
    "usage_source",
    "charge_nanos",
    "cost_nanos",
    "started_at",
    "first_content_ms",
    "duration_ms",
    "upstream_id",
    "attempt_after_us",
    "attempt_duration_ms",
    "attempt_status",
    "attempt_class",
];
static NEW_EVENTS: Insert = Insert::into("usage_events", EVENT_COLUMNS).or_give_up();
static EVENTS: Insert =
    Insert::into("usage_events", EVENT_COLUMNS).then("on conflict (id) do nothing returning id");

// An event whose partition was dropped may leave its attempts behind for a while.
static ATTEMPTS: Insert = Insert::into(
    "attempts",
    &["event_id", "n", "upstream_id", "started_at", "duration_ms", "status", "class"],
)
.then("on conflict (event_id, n) do nothing");

const CHARGE_COLUMNS: &[&str] = &["id", "tenant_id", "amount_nanos", "event_id", "created_at"];
const CHARGE_CONSTANTS: &[(&str, &str)] = &[("kind", "'charge'"), ("note", "''"), ("actor", "'system'")];
static NEW_CHARGES: Insert =
    Insert::into("ledger_entries", CHARGE_COLUMNS).with(CHARGE_CONSTANTS).or_give_up();
static CHARGES: Insert = Insert::into("ledger_entries", CHARGE_COLUMNS)
    .with(CHARGE_CONSTANTS)
    .then("on conflict (id) do nothing returning tenant_id, amount_nanos");

static BALANCES: Insert = Insert::into("balances", &["tenant_id", "balance_nanos", "updated_at"]).then(
    "on conflict (tenant_id) do update set
            balance_nanos = balances.balance_nanos + excluded.balance_nanos,
            updated_at = excluded.updated_at",
);

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
        // Every recorder goes by caller, by upstream, by id, then by tenant: two never wait for each other
        // in a circle.
        let mut sorted: Vec<&UsageEvent> = events.iter().collect();
        sorted.sort_by_key(|event| event.id);
        sorted.dedup_by_key(|event| event.id);
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
            Err(conflict @ StoreError::Conflict { .. }) => {
                // The connection is sound and needed again at once; whether this succeeds changes nothing.
                let _ = tx.rollback().await;
                Err(conflict)
            }
            // Dropped, the connection is closed: after a statement out of time it must not be used again.
            Err(error) => Err(error),
        }
    }
}

impl Tx {
    /// Records events in the order of their ids; gives those that were new.
    async fn record(&mut self, events: &[&UsageEvent], guess: Guess) -> Result<Vec<RequestId>, StoreError> {
        let (mut dimensions, named) = Dimensions::of(events);
        self.insert_dimensions(&dimensions).await?;
        let mut fresh: Vec<Named<'_>> = Vec::with_capacity(named.len());
        for (size, batch) in batches(&named) {
            let new = self.insert_events(size, batch, guess).await?;
            match guess {
                Guess::AllNew => fresh.extend_from_slice(batch),
                Guess::SomeKnown => {
                    let new: HashSet<Uuid> = new.into_iter().collect();
                    fresh.extend(batch.iter().filter(|one| new.contains(&one.event.id.uuid())));
                }
            }
        }
        self.insert_attempts(&fresh, &mut dimensions).await?;
        self.charge(&fresh, guess).await?;
        Ok(fresh.iter().map(|one| one.event.id).collect())
    }

    /// Inserts events; gives the ids of those that were not there yet, where some may be.
    async fn insert_events(
        &mut self,
        size: Size,
        events: &[Named<'_>],
        guess: Guess,
    ) -> Result<Vec<Uuid>, StoreError> {
        let insert = match guess {
            Guess::AllNew => &NEW_EVENTS,
            Guess::SomeKnown => &EVENTS,
        };
        let text = insert.text(&self.open, size);
        writing!(self, conn => async {
            let mut query = sqlx::query(text);
            for Named { event, caller_id, upstream_id } in events {
                let last = event.attempts.last();
                bind_row!(
                    query,
                    event.id.uuid(),
                    event.tenant_id.uuid(),
                    *caller_id,
                    event.outcome.as_str(),
                    i64::from(event.status),
                    signed(event.usage.input_tokens),
                    signed(event.usage.cache_read_tokens),
                    signed(event.usage.cache_write_5m_tokens),
                    signed(event.usage.cache_write_1h_tokens),
                    signed(event.usage.output_tokens),
                    signed(event.usage.reasoning_tokens),
                    signed(event.usage.audio_input_tokens),
                    signed(event.usage.audio_output_tokens),
                    signed(event.usage.images),
                    signed(event.usage.requests),
                    event.usage.source.as_str(),
                    event.charge.get(),
                    event.cost.get(),
                    event.started_at.to_utc(),
                    event.first_content_ms.map(i64::from),
                    i64::from(event.duration_ms),
                    *upstream_id,
                    last.map(|attempt| after_us(event, attempt)),
                    last.map(|attempt| i64::from(attempt.duration_ms)),
                    last.and_then(|attempt| attempt.status).map(i64::from),
                    last.and_then(|attempt| attempt.class).map(FailureClass::as_str),
                );
            }
            query.fetch_all(conn).await?.iter().map(|row| row.try_get(0)).collect()
        })
    }

    /// Inserts the attempts before each event's last, which its own row has.
    async fn insert_attempts<'a>(
        &mut self,
        events: &[Named<'a>],
        dimensions: &mut Dimensions<'a>,
    ) -> Result<(), StoreError> {
        let mut attempts: Vec<(Uuid, i64, Uuid, &Attempt)> = Vec::new();
        for Named { event, .. } in events {
            if let Some((_, earlier)) = event.attempts.split_last() {
                let row = |(n, attempt)| (event.id.uuid(), n, dimensions.upstream_id(attempt), attempt);
                attempts.extend((1..).zip(earlier).map(row));
            }
        }
        for (size, batch) in batches(&attempts) {
            let text = ATTEMPTS.text(&self.open, size);
            executing!(self, conn => async {
                let mut query = sqlx::query(text);
                for (event_id, n, upstream_id, attempt) in batch {
                    bind_row!(
                        query,
                        *event_id,
                        *n,
                        *upstream_id,
                        attempt.started_at.to_utc(),
                        i64::from(attempt.duration_ms),
                        attempt.status.map(i64::from),
                        attempt.class.map(FailureClass::as_str),
                    );
                }
                query.execute(conn).await
            })?;
        }
        Ok(())
    }

    /// Books the charges of new events, and moves the balances by what was booked.
    async fn charge(&mut self, events: &[Named<'_>], guess: Guess) -> Result<(), StoreError> {
        let charged: Vec<&UsageEvent> =
            events.iter().map(|one| one.event).filter(|event| event.charge.get() != 0).collect();
        let mut owed: BTreeMap<Uuid, i64> = BTreeMap::new();
        for (size, batch) in batches(&charged) {
            for (tenant_id, amount) in self.insert_charges(size, batch, guess).await? {
                let sum = owed.entry(tenant_id).or_default();
                *sum = sum.saturating_add(amount);
            }
        }
        let latest = charged.iter().map(|event| ended_at(event)).max().unwrap_or_default();
        let owed: Vec<(Uuid, i64)> = owed.into_iter().collect();
        for (size, batch) in batches(&owed) {
            let text = BALANCES.text(&self.open, size);
            executing!(self, conn => async {
                let mut query = sqlx::query(text);
                for (tenant_id, amount) in batch {
                    bind_row!(query, *tenant_id, *amount, latest.to_utc());
                }
                query.execute(conn).await
            })?;
        }
        Ok(())
    }

    /// Inserts the charges that are not booked yet: an event whose partition was dropped counts as
    /// new above, but not here. Gives the tenants and amounts of those inserted.
    async fn insert_charges(
        &mut self,
        size: Size,
        events: &[&UsageEvent],
        guess: Guess,
    ) -> Result<Vec<(Uuid, i64)>, StoreError> {
        let insert = match guess {
            Guess::AllNew => &NEW_CHARGES,
            Guess::SomeKnown => &CHARGES,
        };
        let text = insert.text(&self.open, size);
        let inserted = writing!(self, conn => async {
            let mut query = sqlx::query(text);
            for event in events {
                bind_row!(
                    query,
                    event.id.uuid(),
                    event.tenant_id.uuid(),
                    event.charge.negated().get(),
                    event.id.uuid(),
                    ended_at(event).to_utc(),
                );
            }
            query.fetch_all(conn).await?.iter().map(FromRow::from_row).collect()
        })?;
        Ok(match guess {
            Guess::SomeKnown => inserted,
            Guess::AllNew => {
                events.iter().map(|event| (event.tenant_id.uuid(), event.charge.negated().get())).collect()
            }
        })
    }
}

fn ended_at(event: &UsageEvent) -> Timestamp {
    event.started_at.plus(std::time::Duration::from_millis(event.duration_ms.into()))
}

/// From when the request came to when the attempt was sent, µs.
fn after_us(event: &UsageEvent, attempt: &Attempt) -> i64 {
    attempt.started_at.unix_us().saturating_sub(event.started_at.unix_us())
}
