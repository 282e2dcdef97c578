//! Reconciliation finds what does not add up, and nothing else.

use tollway::{
    domain::{ids::TenantId, money::Nanos},
    store::TenantBooks,
};

use super::{
    both::OwnStore,
    fixtures::{self, NOW, commit, event, fresh},
    raw::raw,
};

on_both!(
    books_that_agree_are_shown_per_tenant,
    a_lost_charge_is_found,
    a_charge_of_the_wrong_amount_is_found_even_where_the_sums_agree,
    a_lost_event_is_found,
    a_wrong_balance_is_found,
);

/// A tenant with 1 000 paid in and two events of 30 and 70.
async fn books(store: &OwnStore) -> TenantId {
    let tenant = TenantId::generate(NOW, fresh());
    commit!(store, add_ledger_entry(&fixtures::top_up(tenant, 1_000)));
    store.record_events(&[event(tenant, 30), event(tenant, 70)]).await.unwrap();
    tenant
}

const RIGHT: TenantBooks = TenantBooks {
    events: 2,
    event_charges: Nanos::new(100),
    ledger_charges: Nanos::new(100),
    ledger_total: Nanos::new(900),
    balance: Nanos::new(900),
};

async fn books_that_agree_are_shown_per_tenant(store: OwnStore) {
    assert!(store.reconcile(&[]).await.unwrap().is_balanced());
    let tenants = [books(&store).await, books(&store).await];
    let known = event(tenants[0], 0);
    store.record_events(std::slice::from_ref(&known)).await.unwrap();
    let report = store.reconcile(&[known.id, event(tenants[0], 0).id]).await.unwrap();
    assert!(report.is_balanced());
    let right = [TenantBooks { events: 3, ..RIGHT }, RIGHT];
    assert_eq!(report.tenants, tenants.into_iter().zip(right).collect());
    assert_eq!(report.recorded, [known.id].into());
}

async fn a_lost_charge_is_found(store: OwnStore) {
    let (tenant, untouched) = (books(&store).await, books(&store).await);
    let sql = "delete from ledger_entries where amount_nanos = -30 and tenant_id in (select min_id from (select tenant_id as min_id from ledger_entries order by tenant_id limit 1) as first)";
    raw(&store, sql).await;
    let report = store.reconcile(&[]).await.unwrap();
    let wrong = TenantBooks { ledger_charges: Nanos::new(70), ledger_total: Nanos::new(930), ..RIGHT };
    assert_eq!(report.differences().collect::<Vec<_>>(), [(tenant, &wrong)]);
    assert_eq!(report.misbooked.len(), 1);
    assert_eq!(report.tenants[&untouched], RIGHT);
    assert!(!report.is_balanced());
}

async fn a_charge_of_the_wrong_amount_is_found_even_where_the_sums_agree(store: OwnStore) {
    books(&store).await;
    raw(&store, "update ledger_entries set amount_nanos = amount_nanos - 1 where amount_nanos = -30").await;
    raw(&store, "update ledger_entries set amount_nanos = amount_nanos + 1 where amount_nanos = -70").await;
    let report = store.reconcile(&[]).await.unwrap();
    assert_eq!(report.differences().count(), 0);
    assert_eq!(report.misbooked.len(), 2);
    assert!(!report.is_balanced());
}

async fn a_lost_event_is_found(store: OwnStore) {
    let tenant = books(&store).await;
    raw(&store, "delete from usage_events where charge_nanos = 70").await;
    let report = store.reconcile(&[]).await.unwrap();
    let wrong = TenantBooks { events: 1, event_charges: Nanos::new(30), ..RIGHT };
    assert_eq!(report.differences().collect::<Vec<_>>(), [(tenant, &wrong)]);
}

async fn a_wrong_balance_is_found(store: OwnStore) {
    let tenant = books(&store).await;
    raw(&store, "update balances set balance_nanos = balance_nanos + 1").await;
    let report = store.reconcile(&[]).await.unwrap();
    let wrong = TenantBooks { balance: Nanos::new(901), ..RIGHT };
    assert_eq!(report.differences().collect::<Vec<_>>(), [(tenant, &wrong)]);
}
