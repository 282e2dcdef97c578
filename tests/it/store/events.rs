//! Usage events: recorded once, whoever records them and however often, and booked to the nano.

use std::time::{Duration, Instant};

use tollway::{
    domain::{
        clock::Timestamp,
        event::UsageEvent,
        ids::{KeyId, LedgerEntryId, RequestId, TenantId},
        ledger::{LedgerEntry, LedgerKind},
        money::Nanos,
    },
    store::{DatabaseUrl, EventFilter, LedgerFilter, Page, RecordOutcome, StoreError},
};

use super::{
    both::OwnStore,
    fixtures::{self, NOW, commit, event, fresh},
    raw::raw,
};

on_both!(
    an_event_reads_back_with_its_attempts,
    the_attempt_that_answered_stands_in_the_event_itself,
    an_event_is_recorded_and_charged_once,
    nothing_to_record_is_fine,
    a_free_request_is_an_event_without_a_charge,
    recorders_of_the_same_events_do_not_meet,
    a_large_batch_is_one_transaction,
    events_are_listed_by_what_they_are,
    money_moves_by_ledger_entries_alone,
    a_movement_is_booked_once,
    ledger_entries_are_listed_by_what_they_are,
);

fn tenant_id() -> TenantId {
    TenantId::generate(NOW, fresh())
}

async fn balance(store: &OwnStore, tenant: TenantId) -> i64 {
    store.lookup_balance(tenant).await.unwrap().get()
}

async fn an_event_reads_back_with_its_attempts(store: OwnStore) {
    let first = event(tenant_id(), 250);
    let mut second = event(tenant_id(), i64::MAX);
    (second.member_id, second.first_content_ms, second.attempts) = (None, None, vec![]);
    (second.status, second.stream) = (0, false);
    let mut third = event(tenant_id(), 1);
    // Sent, as the clock has it, before the request came.
    third.attempts[1].started_at = Timestamp::from_unix_us(NOW.unix_us() - 1);
    third.attempts.rotate_left(1);
    let events = [first, second, third];
    store.record_events(&[events[2].clone(), events[1].clone(), events[0].clone()]).await.unwrap();
    for event in &events {
        assert_eq!(store.lookup_event(event.id).await.unwrap().as_ref(), Some(event));
    }
    assert_eq!(store.lookup_event(event(tenant_id(), 1).id).await.unwrap(), None);
    assert_eq!(store.list_events(&EventFilter::default(), Page::first(9)).await.unwrap(), events);
}

/// Which attempts have a row of their own, and who answered, as SQL tells.
async fn the_attempt_that_answered_stands_in_the_event_itself(store: OwnStore) {
    let retried = event(tenant_id(), 1);
    let mut usual = event(tenant_id(), 1);
    usual.attempts.remove(0);
    store.record_events(&[retried.clone(), usual.clone()]).await.unwrap();
    let rows = raw(&store, "select cast(n as text) from attempts").await;
    assert_eq!(rows, ["1"], "the first attempt of the first event");
    let of_key = |key: KeyId| match &store.config.url {
        DatabaseUrl::Postgres(_) => format!("key_id = '{}'", key.uuid()),
        DatabaseUrl::Sqlite(_) => format!("key_id = x'{}'", key.uuid().simple()),
    };
    for event in [retried, usual] {
        let last = event.attempts.last().unwrap();
        let by_key = format!(
            "select model from usage_events
            join usage_callers on usage_callers.id = caller_id
            join usage_upstreams on usage_upstreams.id = upstream_id
            where {}",
            of_key(last.key_id)
        );
        assert_eq!(raw(&store, &by_key).await, [event.model]);
    }
}

async fn an_event_is_recorded_and_charged_once(store: OwnStore) {
    let tenant = tenant_id();
    let (a, b, c) = (event(tenant, 100), event(tenant, 20), event(tenant, 3));
    let first = store.record_events(&[b.clone(), a.clone(), a.clone()]).await.unwrap();
    assert_eq!(first, RecordOutcome { new: vec![a.id, b.id] });
    // The same with other content is the same: the first word stands.
    let changed = UsageEvent { charge: Nanos::new(999), ..a.clone() };
    let again = store.record_events(&[changed, c.clone()]).await.unwrap();
    assert_eq!(again, RecordOutcome { new: vec![c.id] });
    assert_eq!(store.lookup_event(a.id).await.unwrap(), Some(a.clone()));
    assert_eq!(balance(&store, tenant).await, -123);

    let charges = store.list_ledger_entries(&LedgerFilter::default(), Page::first(9)).await.unwrap();
    assert_eq!(charges.len(), 3);
    let of_a = LedgerEntry {
        id: LedgerEntryId::from_uuid(a.id.uuid()),
        tenant_id: tenant,
        kind: LedgerKind::Charge,
        amount: Nanos::new(-100),
        event_id: Some(a.id),
        note: String::new(),
        actor: "system".to_owned(),
        created_at: NOW.plus(Duration::from_millis(1_500)),
    };
    assert_eq!(charges[0], of_a);
}

async fn nothing_to_record_is_fine(store: OwnStore) {
    assert_eq!(store.record_events(&[]).await.unwrap(), RecordOutcome::default());
}

async fn a_free_request_is_an_event_without_a_charge(store: OwnStore) {
    let free = event(tenant_id(), 0);
    assert_eq!(store.record_events(std::slice::from_ref(&free)).await.unwrap().new, [free.id]);
    assert_eq!(store.list_ledger_entries(&LedgerFilter::default(), Page::first(9)).await.unwrap(), []);
    assert_eq!(store.list_balances().await.unwrap(), []);
    assert!(store.reconcile(&[]).await.unwrap().is_balanced());
}

/// Replicas that took over each other's journals: overlapping batches, in every order, at once.
async fn recorders_of_the_same_events_do_not_meet(store: OwnStore) {
    let tenants = [tenant_id(), tenant_id(), tenant_id()];
    let events: Vec<UsageEvent> =
        (0..240).map(|n| event(tenants[n % 3], i64::try_from(n).unwrap() + 1)).collect();
    let mut recorders = Vec::new();
    for n in 0..8 {
        let mut events = events.clone();
        events.rotate_left(n * 30);
        if n % 2 == 1 {
            events.reverse();
        }
        let replica = store.replica().await;
        recorders.push(tokio::spawn(async move {
            let mut new = 0;
            for batch in events.chunks(60) {
                new += replica.record_events(batch).await.expect("no deadlock, no conflict").new.len();
            }
            new
        }));
    }
    let mut new = 0;
    for recorder in recorders {
        new += recorder.await.unwrap();
    }
    assert_eq!(new, 240);
    let mut expected = [0; 3];
    for (n, event) in events.iter().enumerate() {
        expected[n % 3] -= event.charge.get();
    }
    for (tenant, expected) in tenants.into_iter().zip(expected) {
        assert_eq!(balance(&store, tenant).await, expected);
    }
    assert!(store.reconcile(&[]).await.unwrap().is_balanced());
}

async fn a_large_batch_is_one_transaction(store: OwnStore) {
    let tenants: Vec<TenantId> = (0..700).map(|_| tenant_id()).collect();
    let events: Vec<UsageEvent> = (0..5_000).map(|n| event(tenants[n % 700], 1)).collect();
    let start = Instant::now();
    assert_eq!(store.record_events(&events).await.unwrap().new.len(), 5_000);
    eprintln!("5 000 events with 2 attempts each recorded in {:?} on {:?}", start.elapsed(), *store);
    assert_eq!(store.list_balances().await.unwrap().len(), 700);
    assert!(store.reconcile(&[]).await.unwrap().is_balanced());
    // One that cannot be booked takes the whole batch with it.
    let (good, too_dear) = (event(tenants[0], 5), event(tenants[0], i64::MAX));
    let refused = store.record_events(&[good.clone(), too_dear]).await;
    assert!(matches!(refused, Err(StoreError::Driver(_))), "{refused:?}");
    assert_eq!(store.lookup_event(good.id).await.unwrap(), None);
    assert!(store.reconcile(&[]).await.unwrap().is_balanced());
}

async fn events_are_listed_by_what_they_are(store: OwnStore) {
    let at = |seconds| RequestId::generate(NOW.plus(Duration::from_secs(seconds)), fresh());
    let tenants = [tenant_id(), tenant_id()];
    let events: Vec<UsageEvent> = (0..6)
        .map(|n| UsageEvent { id: at(n), ..event(tenants[usize::try_from(n).unwrap() % 2], 1) })
        .collect();
    store.record_events(&events).await.unwrap();
    let listed = async |filter: EventFilter| -> Vec<RequestId> {
        store.list_events(&filter, Page::first(99)).await.unwrap().into_iter().map(|event| event.id).collect()
    };
    let ids = |which: &[usize]| which.iter().map(|&n| events[n].id).collect::<Vec<_>>();
    let all = EventFilter::default();
    assert_eq!(listed(all).await, ids(&[0, 1, 2, 3, 4, 5]));
    assert_eq!(listed(EventFilter { tenant_id: Some(tenants[1]), ..all }).await, ids(&[1, 3, 5]));
    assert_eq!(listed(EventFilter { model_id: Some(events[2].model_id), ..all }).await, ids(&[2]));
    assert_eq!(listed(EventFilter { member_id: events[3].member_id, ..all }).await, ids(&[3]));
    assert_eq!(listed(EventFilter { token_id: Some(events[4].token_id), ..all }).await, ids(&[4]));
    let second = |n: u64| Some(NOW.plus(Duration::from_secs(n)));
    assert_eq!(listed(EventFilter { since: second(2), until: second(4), ..all }).await, ids(&[2, 3]));
    let page = store.list_events(&all, Page::after(events[3].id.uuid(), 1)).await.unwrap();
    assert_eq!(page, [events[4].clone()]);
}

async fn money_moves_by_ledger_entries_alone(store: OwnStore) {
    let tenant = tenant_id();
    assert_eq!(balance(&store, tenant).await, 0);
    assert_eq!(commit!(store, add_ledger_entry(&fixtures::top_up(tenant, 1_000))).get(), 1_000);
    let charged = event(tenant, 300);
    store.record_events(std::slice::from_ref(&charged)).await.unwrap();
    let refund =
        LedgerEntry { kind: LedgerKind::Refund, event_id: Some(charged.id), ..fixtures::top_up(tenant, 300) };
    assert_eq!(commit!(store, add_ledger_entry(&refund)).get(), 1_000);
    let correction = LedgerEntry { kind: LedgerKind::Adjustment, ..fixtures::top_up(tenant, -1_500) };
    assert_eq!(commit!(store, add_ledger_entry(&correction)).get(), -500);
    assert_eq!(store.list_balances().await.unwrap(), [(tenant, Nanos::new(-500))]);
    assert_eq!(store.lookup_balances(&[tenant]).await.unwrap(), [(tenant, Nanos::new(-500))]);
    assert!(store.reconcile(&[]).await.unwrap().is_balanced());
}

async fn a_movement_is_booked_once(store: OwnStore) {
    let entry = fixtures::top_up(tenant_id(), 10);
    commit!(store, add_ledger_entry(&entry));
    let again = store.begin().await.unwrap().add_ledger_entry(&entry).await;
    assert!(matches!(again, Err(StoreError::Conflict { field, .. }) if field == "id"));
    assert_eq!(balance(&store, entry.tenant_id).await, 10);
}

async fn ledger_entries_are_listed_by_what_they_are(store: OwnStore) {
    let (t, u) = (tenant_id(), tenant_id());
    let (paid, other) = (fixtures::top_up(t, 1), fixtures::top_up(u, 2));
    let charged = UsageEvent { id: RequestId::generate(Timestamp::from_unix_ms(1), fresh()), ..event(t, 5) };
    commit!(store, add_ledger_entry(&paid), add_ledger_entry(&other));
    store.record_events(std::slice::from_ref(&charged)).await.unwrap();
    let of_event = |amount| LedgerEntry {
        kind: LedgerKind::Refund,
        event_id: Some(charged.id),
        ..fixtures::top_up(t, amount)
    };
    commit!(store, add_ledger_entry(&of_event(3)), add_ledger_entry(&of_event(4)));
    let listed = async |filter: LedgerFilter| -> Vec<i64> {
        let entries = store.list_ledger_entries(&filter, Page::first(9)).await.unwrap();
        entries.iter().map(|entry| entry.amount.get()).collect()
    };
    let all = LedgerFilter::default();
    assert_eq!(listed(all).await, [-5, 1, 2, 3, 4]);
    assert_eq!(listed(LedgerFilter { tenant_id: Some(t), ..all }).await, [-5, 1, 3, 4]);
    assert_eq!(listed(LedgerFilter { kind: Some(LedgerKind::TopUp), ..all }).await, [1, 2]);
    let event = LedgerFilter { event_id: Some(charged.id), ..all };
    assert_eq!(listed(event).await, [-5, 3, 4]);
    assert_eq!(listed(LedgerFilter { kind: Some(LedgerKind::Refund), ..event }).await, [3, 4]);
    assert_eq!(listed(LedgerFilter { tenant_id: Some(t), ..event }).await, [-5, 3, 4]);
    assert_eq!(listed(LedgerFilter { tenant_id: Some(u), ..event }).await, Vec::<i64>::new());
    let behind = Page::after(charged.id.uuid(), 1);
    assert_eq!(store.list_ledger_entries(&event, behind).await.unwrap()[0].amount, Nanos::new(3));
}
