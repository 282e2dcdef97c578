//! Whether the books agree: events, ledger and balances, per tenant.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use uuid::Uuid;

use crate::{
    domain::{
        ids::{RequestId, TenantId},
        money::Nanos,
    },
    store::{Store, StoreError},
};

/// How long one of the sums may take: they read whole tables.
const LIMIT: Duration = Duration::from_secs(3_600);
/// Requests in one question.
const AT_ONCE: usize = 1_000;
/// At most this many events are named.
const NAMED: i64 = 100;

/// What the books of a tenant add up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TenantBooks {
    /// Usage events.
    pub events: i64,
    /// Sum of their charges.
    pub event_charges: Nanos,
    /// Sum of the ledger's charges, turned positive.
    pub ledger_charges: Nanos,
    /// Sum of all ledger entries.
    pub ledger_total: Nanos,
    /// The balance.
    pub balance: Nanos,
}

impl TenantBooks {
    /// Whether they agree.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        self.event_charges == self.ledger_charges && self.ledger_total == self.balance
    }
}

/// What a reconciliation found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReconcileReport {
    /// Each tenant with any book, also one that was removed, by id.
    pub tenants: BTreeMap<TenantId, TenantBooks>,
    /// Events whose charge is not in the ledger, or with another amount or tenant; the first 100.
    pub misbooked: Vec<RequestId>,
    /// Events that name a caller or an upstream whose row is not there; the first 100.
    pub nameless: Vec<RequestId>,
    /// Which of the requests that were asked about have an event.
    pub recorded: BTreeSet<RequestId>,
}

impl ReconcileReport {
    /// Whether everything agrees.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        self.misbooked.is_empty() && self.nameless.is_empty() && self.differences().next().is_none()
    }

    /// The tenants whose books do not agree.
    pub fn differences(&self) -> impl Iterator<Item = (TenantId, &TenantBooks)> {
        self.tenants.iter().filter(|(_, books)| !books.is_balanced()).map(|(id, books)| (*id, books))
    }
}

impl Store {
    /// Adds up all books, and looks for the events of the requests in `asked`, as of one instant.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn reconcile(&self, asked: &[RequestId]) -> Result<ReconcileReport, StoreError> {
        let mut snapshot = self.snapshot().await?;
        snapshot.allow(LIMIT).await?;
        let mut report = ReconcileReport::default();
        let events: Vec<(Uuid, i64, i64)> = writing!(snapshot, conn => sqlx::query_as(
            "select
                tenant_id,
                count(*),
                cast(sum(charge_nanos) as bigint)
            from usage_events
            group by tenant_id",
        )
        .fetch_all(conn))?;
        for (tenant_id, count, charges) in events {
            let books = report.tenants.entry(TenantId::from_uuid(tenant_id)).or_default();
            books.events = count;
            books.event_charges = Nanos::new(charges);
        }
        let entries: Vec<(Uuid, i64, i64)> = writing!(snapshot, conn => sqlx::query_as(
            "select
                tenant_id,
                cast(sum(case when kind = 'charge' then amount_nanos else 0 end) as bigint),
                cast(sum(amount_nanos) as bigint)
            from ledger_entries
            group by tenant_id",
        )
        .fetch_all(conn))?;
        for (tenant_id, charges, total) in entries {
            let books = report.tenants.entry(TenantId::from_uuid(tenant_id)).or_default();
            books.ledger_charges = Nanos::new(charges).negated();
            books.ledger_total = Nanos::new(total);
        }
        let balances: Vec<(Uuid, i64)> = writing!(snapshot, conn =>
            sqlx::query_as("select tenant_id, balance_nanos from balances").fetch_all(conn))?;
        for (tenant_id, balance) in balances {
            report.tenants.entry(TenantId::from_uuid(tenant_id)).or_default().balance = Nanos::new(balance);
        }
        let misbooked: Vec<Uuid> = writing!(snapshot, conn => sqlx::query_scalar(
            "select usage_events.id
            from usage_events
            left join ledger_entries
                on ledger_entries.id = usage_events.id
                and ledger_entries.kind = 'charge'
                and ledger_entries.tenant_id = usage_events.tenant_id
            where usage_events.charge_nanos <> -coalesce(ledger_entries.amount_nanos, 0)
            order by usage_events.id
            limit $1",
        )
        .bind(NAMED)
        .fetch_all(conn))?;
        report.misbooked = misbooked.into_iter().map(RequestId::from_uuid).collect();
        let nameless: Vec<Uuid> = writing!(snapshot, conn => sqlx::query_scalar(
            "select id
            from (
                select usage_events.id
                from usage_events
                left join usage_callers on usage_callers.id = usage_events.caller_id
                left join usage_upstreams on usage_upstreams.id = usage_events.upstream_id
                where usage_callers.id is null
                    or (usage_events.upstream_id is not null and usage_upstreams.id is null)
                union
                select attempts.event_id
                from attempts
                left join usage_upstreams on usage_upstreams.id = attempts.upstream_id
                where usage_upstreams.id is null
            ) as nameless
            order by id
            limit $1",
        )
        .bind(NAMED)
        .fetch_all(conn))?;
        report.nameless = nameless.into_iter().map(RequestId::from_uuid).collect();
        for asked in asked.chunks(AT_ONCE) {
            let recorded: Vec<Uuid> = writing!(snapshot, conn => async {
                let mut query = sqlx::QueryBuilder::new("select id from usage_events where id in (");
                let mut list = query.separated(", ");
                for request in asked {
                    list.push_bind(request.uuid());
                }
                query.push(")").build_query_scalar().fetch_all(conn).await
            })?;
            report.recorded.extend(recorded.into_iter().map(RequestId::from_uuid));
        }
        snapshot.rollback().await?;
        Ok(report)
    }
}
