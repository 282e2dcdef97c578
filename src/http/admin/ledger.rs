//! A tenant's money: its balance, its ledger, and what an operator books.

use actix_web::{HttpRequest, HttpResponse, http::Method, web};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    domain::{
        clock::Timestamp,
        faults::{Fault, is_label},
        ids::{LedgerEntryId, RequestId, TenantId},
        ledger::{LedgerEntry, LedgerKind},
        money::{Currency, Nanos},
    },
    http::{
        admin::{
            Answer, Desk, PREFIX,
            idempotency::{self, Created},
            input, operator,
            page::Wanted,
            problem::Problem,
            resource::id_in_path,
            schema::{self, amount},
            surface::{Operation, Surface},
        },
        failure::Refusal,
    },
    store::{LedgerFilter, Page},
};

pub(super) fn register(surface: &mut Surface) {
    let describe = |method, path: &str, summary: &str| {
        Operation::new(method, path.to_owned(), "ledger", summary.to_owned())
    };
    let balance = surface.schema::<BalanceView>();
    let (entry, booking) = (surface.schema::<EntryView>(), surface.schema::<Booking>());
    surface.add(
        describe(Method::GET, "/tenants/{id}/balance", "Read what a tenant has left").gives(200, balance),
        web::get().to(read_balance),
    );
    surface.add(
        describe(Method::GET, "/tenants/{id}/ledger", "List a tenant's ledger entries")
            .listing::<Filter>()
            .gives(200, Surface::list_of(&entry)),
        web::get().to(list),
    );
    surface.add(
        describe(Method::POST, "/tenants/{id}/ledger", "Book a top-up, refund or adjustment")
            .idempotent()
            .takes(booking)
            .gives(201, entry),
        web::post().to(book),
    );
}

/// What a tenant has left.
#[derive(Serialize, ToSchema)]
#[schema(as = Balance)]
pub struct BalanceView {
    /// Whose.
    #[schema(value_type = String)]
    tenant_id: TenantId,
    /// The sum of its ledger entries.
    #[serde(with = "amount")]
    #[schema(schema_with = schema::money)]
    balance: Option<Nanos>,
    /// What it is in, by ISO 4217.
    #[schema(example = "USD")]
    currency: String,
}

/// A movement to be booked.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Booking {
    /// What for.
    #[schema(schema_with = schema::booking_kind)]
    kind: LedgerKind,
    /// How much; an adjustment may be negative.
    #[serde(with = "amount")]
    #[schema(schema_with = schema::money)]
    amount: Option<Nanos>,
    /// Why, in people's words.
    #[schema(example = "invoice 4711")]
    note: String,
}

/// A ledger entry as it is shown.
#[derive(Serialize, ToSchema)]
#[schema(as = LedgerEntry)]
pub struct EntryView {
    /// Its id.
    #[schema(value_type = String)]
    id: LedgerEntryId,
    /// Whose money.
    #[schema(value_type = String)]
    tenant_id: TenantId,
    /// What for.
    #[schema(schema_with = schema::ledger_kind)]
    kind: LedgerKind,
    /// How much; a charge is negative.
    #[serde(with = "amount")]
    #[schema(schema_with = schema::money)]
    amount: Option<Nanos>,
    /// The request that was charged or refunded.
    #[schema(value_type = Option<String>)]
    event_id: Option<RequestId>,
    /// Why, in people's words.
    note: String,
    /// Who booked it.
    actor: String,
    /// When it was booked.
    #[schema(schema_with = schema::instant)]
    created_at: Timestamp,
}

/// Narrows a list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// Of this kind.
    #[param(schema_with = schema::ledger_kind)]
    kind: Option<LedgerKind>,
    /// Of this request.
    #[param(value_type = Option<String>)]
    event_id: Option<RequestId>,
}

impl From<LedgerEntry> for EntryView {
    fn from(entry: LedgerEntry) -> Self {
        Self {
            id: entry.id,
            tenant_id: entry.tenant_id,
            kind: entry.kind,
            amount: Some(entry.amount),
            event_id: entry.event_id,
            note: entry.note,
            actor: entry.actor,
            created_at: entry.created_at,
        }
    }
}

/// The tenant that the path names.
async fn tenant(desk: &Desk, request: &HttpRequest) -> Result<TenantId, Problem> {
    let id = id_in_path(request, "tenant")?;
    let found = desk.store.lookup_tenant(id).await?;
    Ok(found.ok_or_else(|| Problem::missing("tenant"))?.id)
}

/// The tenant that the path names, or one that was removed and whose books stay.
async fn tenant_with_books(desk: &Desk, request: &HttpRequest) -> Result<TenantId, Problem> {
    let id = id_in_path(request, "tenant")?;
    if desk.store.lookup_tenant(id).await?.is_some() {
        return Ok(id);
    }
    let filter = LedgerFilter { tenant_id: Some(id), ..LedgerFilter::default() };
    let booked = desk.store.list_ledger_entries(&filter, Page::first(1)).await?;
    if booked.is_empty() { Err(Problem::missing("tenant")) } else { Ok(id) }
}

async fn read_balance(request: HttpRequest) -> Answer {
    operator(&request).await?;
    let desk = Desk::of(&request)?;
    let tenant_id = tenant_with_books(desk, &request).await?;
    let balance = Some(desk.store.lookup_balance(tenant_id).await?);
    let currency = request.app_data::<Currency>().ok_or(Refusal::NotHere)?.to_string();
    Ok(HttpResponse::Ok().json(BalanceView { tenant_id, balance, currency }))
}

async fn list(request: HttpRequest) -> Answer {
    operator(&request).await?;
    let desk = Desk::of(&request)?;
    let tenant_id = Some(tenant_with_books(desk, &request).await?);
    let wanted = Wanted::<Filter>::of(&request)?;
    let filter = LedgerFilter { tenant_id, kind: wanted.filter.kind, event_id: wanted.filter.event_id };
    let rows = desk.store.list_ledger_entries(&filter, wanted.page()).await?;
    wanted.answer(rows, |entry| entry.id.uuid(), EntryView::from)
}

async fn book(request: HttpRequest, payload: web::Payload) -> Answer {
    let caller = operator(&request).await?;
    let desk = Desk::of(&request)?;
    let tenant_id = tenant(desk, &request).await?;
    let (bytes, value) = input::read(&request, payload).await?;
    let booking: Booking = input::decode(&value)?;
    let amount = booking.checked_amount()?;
    let now = desk.clock.now();
    let entry = LedgerEntry {
        id: LedgerEntryId::generate(now, desk.entropy.id_bytes()),
        tenant_id,
        kind: booking.kind,
        amount,
        event_id: None,
        note: booking.note,
        actor: caller.token_id.to_string(),
        created_at: now,
    };
    let created = idempotency::once(desk, (caller.token_id, &request, &bytes), async |tx| {
        tx.add_ledger_entry(&entry).await?;
        Created::new(format!("{PREFIX}/tenants/{tenant_id}/ledger"), 1, EntryView::from(entry))
    });
    let created = created.await?;
    desk.funds.changed(tenant_id);
    created.answer()
}

impl Booking {
    fn checked_amount(&self) -> Result<Nanos, Problem> {
        let mut faults = Vec::new();
        let amount = self.amount.unwrap_or_default();
        let fits = match self.kind {
            LedgerKind::TopUp | LedgerKind::Refund => amount > Nanos::ZERO,
            LedgerKind::Adjustment => amount != Nanos::ZERO,
            LedgerKind::Charge => {
                faults.push(Fault::new("kind", "expected top_up, refund or adjustment"));
                true
            }
        };
        if !fits {
            let reason = "expected more than 0; an adjustment may be negative, but not 0";
            faults.push(Fault::new("amount", reason));
        }
        if !is_label(&self.note) {
            faults.push(Fault::new("note", "expected 1 to 256 characters that say why"));
        }
        input::sound(faults)?;
        Ok(amount)
    }
}
