//! What repeats from event to event is told once, whoever records it, and reads back in every event.

use std::sync::Arc;

use tokio::sync::Barrier;
use tollway::{
    domain::{
        event::{Outcome, UsageEvent},
        failure::FailureClass,
        ids::{KeyId, MemberId, RequestId, TenantId},
    },
    store::{EventFilter, Page},
};

use super::{
    both::{self, OwnStore},
    fixtures::{NOW, event, fresh},
    raw::raw,
};

on_both!(
    a_caller_and_its_upstreams_have_one_row_however_often_they_come,
    callers_that_differ_in_anything_have_rows_of_their_own,
    every_kind_of_event_reads_back_as_it_was_written,
    what_a_restored_database_lacks_is_written_again,
    an_event_whose_caller_is_lost_does_not_hide,
);

/// The same request once more.
fn again(event: &UsageEvent) -> UsageEvent {
    UsageEvent { id: RequestId::generate(NOW, fresh()), ..event.clone() }
}

fn one() -> UsageEvent {
    event(TenantId::generate(NOW, fresh()), 7)
}

async fn counts(store: &OwnStore) -> [String; 2] {
    let count =
        async |table: &str| raw(store, &format!("select cast(count(*) as text) from {table}")).await.concat();
    [count("usage_callers").await, count("usage_upstreams").await]
}

async fn a_caller_and_its_upstreams_have_one_row_however_often_they_come(store: OwnStore) {
    let first = one();
    store.record_events(&[first.clone(), again(&first)]).await.unwrap();
    assert_eq!(counts(&store).await, ["1", "2"]);
    store.replica().await.record_events(&[again(&first)]).await.unwrap();
    // Known as events, too.
    store.record_events(&[first.clone(), again(&first)]).await.unwrap();
    assert_eq!(counts(&store).await, ["1", "2"]);
    assert_eq!(store.list_events(&EventFilter::default(), Page::first(9)).await.unwrap().len(), 4);
}

async fn callers_that_differ_in_anything_have_rows_of_their_own(store: OwnStore) {
    let first = one();
    let mut other_key = again(&first);
    other_key.attempts[1].key_id = KeyId::generate(NOW, fresh());
    let events = [
        UsageEvent { stream: false, ..again(&first) },
        UsageEvent { member_id: None, ..again(&first) },
        UsageEvent { member_id: Some(MemberId::generate(NOW, fresh())), ..again(&first) },
        UsageEvent { model: "gpt-4o-mini".to_owned(), ..again(&first) },
        other_key,
        first,
    ];
    store.record_events(&events).await.unwrap();
    assert_eq!(counts(&store).await, ["5", "3"]);
    for event in &events {
        assert_eq!(store.lookup_event(event.id).await.unwrap().as_ref(), Some(event));
    }
}

async fn every_kind_of_event_reads_back_as_it_was_written(store: OwnStore) {
    let tenant_id = TenantId::generate(NOW, fresh());
    let mut events = Vec::new();
    for (n, stream) in [true, false].into_iter().enumerate() {
        for has_member in [true, false] {
            for attempts in 0..=3 {
                let mut one = UsageEvent { stream, ..event(tenant_id, 7) };
                one.model = format!("model-ü-{n}");
                one.attempts.extend(one.attempts.clone());
                one.attempts.truncate(attempts);
                if !has_member {
                    one.member_id = None;
                }
                if attempts == 0 {
                    (one.outcome, one.first_content_ms, one.status) = (Outcome::Failed, None, 503);
                }
                if let Some(last) = one.attempts.last_mut() {
                    (last.status, last.class) = (Some(502), Some(FailureClass::Broken));
                }
                events.push(one);
            }
        }
    }
    store.record_events(&events).await.unwrap();
    for event in &events {
        assert_eq!(store.lookup_event(event.id).await.unwrap().as_ref(), Some(event));
    }
    let of_tenant = EventFilter { tenant_id: Some(tenant_id), ..EventFilter::default() };
    for filter in [EventFilter::default(), of_tenant] {
        let mut read = store.list_events(&filter, Page::first(5)).await.unwrap();
        while let Some(last) = read.last().filter(|_| read.len() < events.len()) {
            let page = Page::after(last.id.uuid(), 5);
            read.extend(store.list_events(&filter, page).await.unwrap());
        }
        assert_eq!(read, events);
    }
    let filter = EventFilter { member_id: events[1].member_id, ..of_tenant };
    assert_eq!(store.list_events(&filter, Page::first(9)).await.unwrap(), events[1..2]);
}

async fn what_a_restored_database_lacks_is_written_again(store: OwnStore) {
    let first = one();
    store.record_events(std::slice::from_ref(&first)).await.unwrap();
    for table in ["usage_callers", "usage_upstreams", "usage_events", "attempts", "ledger_entries"] {
        raw(&store, &format!("delete from {table}")).await;
    }
    store.record_events(std::slice::from_ref(&first)).await.unwrap();
    assert!(store.reconcile(&[]).await.unwrap().nameless.is_empty());
    assert_eq!(store.lookup_event(first.id).await.unwrap(), Some(first));
}

/// Nothing of ours deletes one; a hand that does is to be noticed.
async fn an_event_whose_caller_is_lost_does_not_hide(store: OwnStore) {
    let first = one();
    store.record_events(std::slice::from_ref(&first)).await.unwrap();
    assert!(store.reconcile(&[]).await.unwrap().is_balanced());
    raw(&store, "delete from usage_callers").await;
    assert!(store.lookup_event(first.id).await.is_err());
    assert_eq!(store.reconcile(&[]).await.unwrap().nameless, [first.id]);
    store.record_events(&[again(&first)]).await.unwrap();
    raw(&store, "delete from usage_upstreams").await;
    assert!(store.lookup_event(first.id).await.is_err());
    let report = store.reconcile(&[]).await.unwrap();
    assert!(report.nameless.contains(&first.id) && !report.is_balanced());
    store.record_events(&[again(&first)]).await.unwrap();
    assert!(store.reconcile(&[]).await.unwrap().is_balanced());
    assert_eq!(store.lookup_event(first.id).await.unwrap(), Some(first));
}

/// Two recorders that bring the same new callers and upstreams at the same moment, in opposite orders.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorders_of_the_same_new_callers_do_not_meet() {
    let store = both::postgres().await;
    for _ in 0..20 {
        let kinds: Vec<UsageEvent> = (0..100).map(|_| one()).collect();
        let start = Arc::new(Barrier::new(2));
        let recorders = [false, true].map(|reversed| {
            let mut events: Vec<UsageEvent> = kinds.iter().map(again).collect();
            if reversed {
                // Ids rise with the list: reversed, the callers come in the opposite order.
                let mut ids: Vec<RequestId> = events.iter().map(|event| event.id).collect();
                ids.reverse();
                events.iter_mut().zip(ids).for_each(|(event, id)| event.id = id);
            }
            let (replica, start) = (store.replica(), Arc::clone(&start));
            async move {
                let replica = replica.await;
                tokio::spawn(async move {
                    start.wait().await;
                    replica.record_events(&events).await.expect("no deadlock").new.len()
                })
                .await
                .unwrap()
            }
        });
        assert_eq!(futures_util::future::join_all(recorders).await, [100, 100]);
    }
    assert_eq!(counts(&store).await, ["2000", "4000"]);
    assert!(store.reconcile(&[]).await.unwrap().is_balanced());
}
