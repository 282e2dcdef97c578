//! Ledger entries and the balances that they add up to.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::{
    domain::{
        clock::Timestamp,
        ids::{LedgerEntryId, RequestId, TenantId},
        ledger::{LedgerEntry, LedgerKind},
        money::Nanos,
    },
    store::{Page, Store, StoreError, Tx, column::Cell},
};

/// Which entries; none everywhere: all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LedgerFilter {
    /// Of this tenant.
    pub tenant_id: Option<TenantId>,
    /// Of this kind.
    pub kind: Option<LedgerKind>,
    /// Of this request.
    pub event_id: Option<RequestId>,
}

#[derive(sqlx::FromRow)]
struct LedgerRow {
    id: Uuid,
    tenant_id: Uuid,
    kind: String,
    amount_nanos: i64,
    event_id: Option<Uuid>,
    note: String,
    actor: String,
    created_at: DateTime<Utc>,
}

impl TryFrom<LedgerRow> for LedgerEntry {
    type Error = StoreError;

    fn try_from(row: LedgerRow) -> Result<Self, StoreError> {
        let id = LedgerEntryId::from_uuid(row.id);
        Ok(Self {
            id,
            tenant_id: TenantId::from_uuid(row.tenant_id),
            kind: Cell::of("ledger_entries", &id).variant("kind", &row.kind)?,
            amount: Nanos::new(row.amount_nanos),
            event_id: row.event_id.map(RequestId::from_uuid),
            note: row.note,
            actor: row.actor,
            created_at: row.created_at.into(),
        })
    }
}

impl Store {
    /// What a tenant has left; zero where nothing was ever booked.
    pub async fn lookup_balance(&self, tenant_id: TenantId) -> Result<Nanos, StoreError> {
        let balance: Option<i64> = reading!(self, conn =>
            sqlx::query_scalar("select balance_nanos from balances where tenant_id = $1")
                .bind(tenant_id.uuid())
                .fetch_optional(conn))?;
        Ok(Nanos::new(balance.unwrap_or(0)))
    }

    /// What these tenants have left; none for a tenant for which nothing was ever booked.
    pub async fn lookup_balances(&self, tenants: &[TenantId]) -> Result<Vec<(TenantId, Nanos)>, StoreError> {
        let rows: Vec<(Uuid, i64)> = reading!(self, conn => async {
            let select = "select tenant_id, balance_nanos from balances where tenant_id in (";
            let mut query = sqlx::QueryBuilder::new(select);
            let mut list = query.separated(", ");
            for tenant in tenants {
                list.push_bind(tenant.uuid());
            }
            query.push(")").build_query_as().fetch_all(conn).await
        })?;
        Ok(rows.into_iter().map(|(id, nanos)| (TenantId::from_uuid(id), Nanos::new(nanos))).collect())
    }

    /// What each tenant has left, by tenant; none for a tenant for which nothing was ever booked.
    pub async fn list_balances(&self) -> Result<Vec<(TenantId, Nanos)>, StoreError> {
        let rows: Vec<(Uuid, i64)> = reading!(self, conn =>
            sqlx::query_as("select tenant_id, balance_nanos from balances order by tenant_id").fetch_all(conn))?;
        Ok(rows.into_iter().map(|(id, nanos)| (TenantId::from_uuid(id), Nanos::new(nanos))).collect())
    }

    /// Ledger entries.
    pub async fn list_ledger_entries(
        &self,
        filter: &LedgerFilter,
        page: Page,
    ) -> Result<Vec<LedgerEntry>, StoreError> {
        let select = "select
                id,
                tenant_id,
                kind,
                amount_nanos,
                event_id,
                note,
                actor,
                created_at
            from ledger_entries
            where true";
        let rows = listing!(self, LedgerRow, select, page, {
            "tenant_id = ?" => filter.tenant_id.map(TenantId::uuid),
            "kind = ?" => filter.kind.map(LedgerKind::as_str),
            // The event's charge has its id, the rest is in the index that holds no charge. As two
            // conditions joined by `or`, SQLite would rather look through all of the tenant's entries.
            "id in (
                select id from ledger_entries where id = ?
                union all
                select id from ledger_entries where event_id = ? and event_id <> id
            )" => filter.event_id.map(RequestId::uuid),
        })?;
        rows.into_iter().map(LedgerEntry::try_from).collect()
    }
}

impl Tx {
    /// Books a movement and gives the balance after it.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] on `id`: it is booked already.
    pub async fn add_ledger_entry(&mut self, entry: &LedgerEntry) -> Result<Nanos, StoreError> {
        executing!(self, conn => sqlx::query(
            "insert into ledger_entries (
                id,
                tenant_id,
                kind,
                amount_nanos,
                event_id,
                note,
                actor,
                created_at
            ) values ($1, $2, $3, $4, $5, $6, $7, $8)",
        )
        .bind(entry.id.uuid())
        .bind(entry.tenant_id.uuid())
        .bind(entry.kind.as_str())
        .bind(entry.amount.get())
        .bind(entry.event_id.map(RequestId::uuid))
        .bind(&entry.note)
        .bind(&entry.actor)
        .bind(entry.created_at.to_utc())
        .execute(conn))?;
        self.move_balance(entry.tenant_id, entry.amount, entry.created_at).await
    }

    async fn move_balance(
        &mut self,
        tenant_id: TenantId,
        amount: Nanos,
        at: Timestamp,
    ) -> Result<Nanos, StoreError> {
        let balance: i64 = writing!(self, conn => sqlx::query_scalar(
            "insert into balances (tenant_id, balance_nanos, updated_at)
            values ($1, $2, $3)
            on conflict (tenant_id) do update set
                balance_nanos = balances.balance_nanos + excluded.balance_nanos,
                updated_at = excluded.updated_at
            returning balance_nanos",
        )
        .bind(tenant_id.uuid())
        .bind(amount.get())
        .bind(at.to_utc())
        .fetch_one(conn))?;
        Ok(Nanos::new(balance))
    }
}
