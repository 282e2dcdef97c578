//! Reading usage events with their attempts. Writing is `record.rs`.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use sqlx::QueryBuilder;
use uuid::Uuid;

use crate::{
    domain::{
        clock::Timestamp,
        event::{Attempt, UsageEvent},
        ids::{AccessTokenId, KeyId, MemberId, ModelId, ProviderId, ReplicaId, RequestId, RouteId, TenantId},
        money::Nanos,
        usage::Usage,
    },
    store::{Page, Store, StoreError, column::Cell},
};

/// Which events; none everywhere: all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventFilter {
    /// Of this tenant.
    pub tenant_id: Option<TenantId>,
    /// Of this member.
    pub member_id: Option<MemberId>,
    /// Of this access token.
    pub token_id: Option<AccessTokenId>,
    /// For this model.
    pub model_id: Option<ModelId>,
    /// Whose id was made at or after this instant, to the millisecond.
    pub since: Option<Timestamp>,
    /// Whose id was made before this instant, to the millisecond.
    pub until: Option<Timestamp>,
}

#[derive(sqlx::FromRow)]
struct EventRow {
    id: Uuid,
    tenant_id: Uuid,
    member_id: Option<Uuid>,
    token_id: Uuid,
    model_id: Uuid,
    model: String,
    format: String,
    stream: bool,
    outcome: String,
    status: i64,
    input_tokens: i64,
    cache_read_tokens: i64,
    cache_write_5m_tokens: i64,
    cache_write_1h_tokens: i64,
    output_tokens: i64,
    reasoning_tokens: i64,
    audio_input_tokens: i64,
    audio_output_tokens: i64,
    images: i64,
    requests: i64,
    usage_source: String,
    charge_nanos: i64,
    cost_nanos: i64,
    started_at: DateTime<Utc>,
    first_content_ms: Option<i64>,
    duration_ms: i64,
    replica_id: Uuid,
    upstream_id: Option<Uuid>,
    route_id: Option<Uuid>,
    provider_id: Option<Uuid>,
    key_id: Option<Uuid>,
    upstream_model: Option<String>,
    attempt_after_us: Option<i64>,
    attempt_duration_ms: Option<i64>,
    attempt_status: Option<i64>,
    attempt_class: Option<String>,
}

impl TryFrom<EventRow> for UsageEvent {
    type Error = StoreError;

    /// With its last attempt alone, if there was one.
    fn try_from(row: EventRow) -> Result<Self, StoreError> {
        let id = RequestId::from_uuid(row.id);
        let cell = Cell::of("usage_events", &id);
        Ok(Self {
            id,
            usage: usage(&cell, &row)?,
            attempts: last_attempt(&cell, &row)?.into_iter().collect(),
            format: cell.variant("format", &row.format)?,
            outcome: cell.variant("outcome", &row.outcome)?,
            status: cell.number("status", row.status)?,
            first_content_ms: cell.maybe("first_content_ms", row.first_content_ms)?,
            duration_ms: cell.number("duration_ms", row.duration_ms)?,
            tenant_id: TenantId::from_uuid(row.tenant_id),
            member_id: row.member_id.map(MemberId::from_uuid),
            token_id: AccessTokenId::from_uuid(row.token_id),
            model_id: ModelId::from_uuid(row.model_id),
            model: row.model,
            stream: row.stream,
            charge: Nanos::new(row.charge_nanos),
            cost: Nanos::new(row.cost_nanos),
            started_at: row.started_at.into(),
            replica_id: ReplicaId::from_uuid(row.replica_id),
        })
    }
}

fn usage(cell: &Cell, row: &EventRow) -> Result<Usage, StoreError> {
    Ok(Usage {
        input_tokens: cell.number("input_tokens", row.input_tokens)?,
        cache_read_tokens: cell.number("cache_read_tokens", row.cache_read_tokens)?,
        cache_write_5m_tokens: cell.number("cache_write_5m_tokens", row.cache_write_5m_tokens)?,
        cache_write_1h_tokens: cell.number("cache_write_1h_tokens", row.cache_write_1h_tokens)?,
        output_tokens: cell.number("output_tokens", row.output_tokens)?,
        reasoning_tokens: cell.number("reasoning_tokens", row.reasoning_tokens)?,
        audio_input_tokens: cell.number("audio_input_tokens", row.audio_input_tokens)?,
        audio_output_tokens: cell.number("audio_output_tokens", row.audio_output_tokens)?,
        images: cell.number("images", row.images)?,
        requests: cell.number("requests", row.requests)?,
        source: cell.variant("usage_source", &row.usage_source)?,
    })
}

/// The attempt that stands in the event's row.
fn last_attempt(cell: &Cell, row: &EventRow) -> Result<Option<Attempt>, StoreError> {
    if row.upstream_id.is_none() {
        return Ok(None);
    }
    let bad = |column| move || cell.bad(column);
    let after_us = row.attempt_after_us.ok_or_else(bad("attempt_after_us"))?;
    let started_us = Timestamp::from(row.started_at).unix_us();
    let duration_ms = row.attempt_duration_ms.ok_or_else(bad("attempt_duration_ms"))?;
    let class = row.attempt_class.as_deref().map(|class| cell.variant("attempt_class", class));
    Ok(Some(Attempt {
        route_id: RouteId::from_uuid(row.route_id.ok_or_else(bad("upstream_id"))?),
        provider_id: ProviderId::from_uuid(row.provider_id.ok_or_else(bad("upstream_id"))?),
        key_id: KeyId::from_uuid(row.key_id.ok_or_else(bad("upstream_id"))?),
        upstream_model: row.upstream_model.clone().ok_or_else(bad("upstream_id"))?,
        started_at: Timestamp::from_unix_us(started_us.saturating_add(after_us)),
        duration_ms: cell.number("attempt_duration_ms", duration_ms)?,
        status: cell.maybe("attempt_status", row.attempt_status)?,
        class: class.transpose()?,
    }))
}

/// An attempt before the last.
#[derive(sqlx::FromRow)]
struct AttemptRow {
    event_id: Uuid,
    route_id: Uuid,
    provider_id: Uuid,
    key_id: Uuid,
    upstream_model: String,
    started_at: DateTime<Utc>,
    duration_ms: i64,
    status: Option<i64>,
    class: Option<String>,
}

impl TryFrom<AttemptRow> for Attempt {
    type Error = StoreError;

    fn try_from(row: AttemptRow) -> Result<Self, StoreError> {
        let cell = Cell::of("attempts", &RequestId::from_uuid(row.event_id));
        Ok(Self {
            route_id: RouteId::from_uuid(row.route_id),
            provider_id: ProviderId::from_uuid(row.provider_id),
            key_id: KeyId::from_uuid(row.key_id),
            upstream_model: row.upstream_model,
            started_at: row.started_at.into(),
            duration_ms: cell.number("duration_ms", row.duration_ms)?,
            status: cell.maybe("status", row.status)?,
            class: row.class.map(|class| cell.variant("class", &class)).transpose()?,
        })
    }
}

/// An event is read first, by an index, and what it names is looked up: the joins are outer ones so that
/// no database is tempted to begin elsewhere, and an event whose caller is gone fails instead of hiding.
const SELECT: &str = "select
        usage_events.id,
        usage_events.tenant_id,
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
        first_content_ms,
        duration_ms,
        replica_id,
        upstream_id,
        route_id,
        provider_id,
        key_id,
        upstream_model,
        attempt_after_us,
        attempt_duration_ms,
        attempt_status,
        attempt_class
    from usage_events
    left join usage_callers on usage_callers.id = usage_events.caller_id
    left join usage_upstreams on usage_upstreams.id = usage_events.upstream_id
    where true";

impl Store {
    /// The event of this id with its attempts.
    pub async fn lookup_event(&self, id: RequestId) -> Result<Option<UsageEvent>, StoreError> {
        let rows = listing!(self, EventRow, SELECT, Page::first(1), by "usage_events.id", {
            "usage_events.id = ?" => Some(id.uuid()),
        })?;
        Ok(self.with_attempts(rows).await?.pop())
    }

    /// Events with their attempts.
    pub async fn list_events(&self, filter: &EventFilter, page: Page) -> Result<Vec<UsageEvent>, StoreError> {
        let rows = listing!(self, EventRow, SELECT, page, by "usage_events.id", {
            "usage_events.tenant_id = ?" => filter.tenant_id.map(TenantId::uuid),
            "member_id = ?" => filter.member_id.map(MemberId::uuid),
            "token_id = ?" => filter.token_id.map(AccessTokenId::uuid),
            "model_id = ?" => filter.model_id.map(ModelId::uuid),
            "usage_events.id >= ?" => filter.since.map(first_id_at),
            "usage_events.id < ?" => filter.until.map(first_id_at),
        })?;
        self.with_attempts(rows).await
    }

    /// Puts the attempts before the last, which few events have, in front of it.
    async fn with_attempts(&self, rows: Vec<EventRow>) -> Result<Vec<UsageEvent>, StoreError> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let attempts: Vec<AttemptRow> = reading!(self, conn => async {
            let mut query = QueryBuilder::new(
                "select
                    event_id,
                    route_id,
                    provider_id,
                    key_id,
                    upstream_model,
                    started_at,
                    duration_ms,
                    status,
                    class
                from attempts
                left join usage_upstreams on usage_upstreams.id = attempts.upstream_id
                where event_id in (",
            );
            let mut ids = query.separated(", ");
            for row in &rows {
                ids.push_bind(row.id);
            }
            query.push(") order by event_id, n");
            query.build_query_as().fetch_all(conn).await
        })?;
        let mut by_event: HashMap<Uuid, Vec<Attempt>> = HashMap::new();
        for row in attempts {
            by_event.entry(row.event_id).or_default().push(row.try_into()?);
        }
        let joined = |row: EventRow| {
            let mut attempts = by_event.remove(&row.id).unwrap_or_default();
            let mut event: UsageEvent = row.try_into()?;
            attempts.append(&mut event.attempts);
            Ok(UsageEvent { attempts, ..event })
        };
        rows.into_iter().map(joined).collect()
    }
}

/// The lowest id that can have been made at `at`, to the millisecond.
pub(super) fn first_id_at(at: Timestamp) -> Uuid {
    Uuid::from_u128(u128::from(at.unix_ms().unsigned_abs()) << 80)
}
