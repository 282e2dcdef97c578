//! Monthly partitions in Postgres.

use chrono::{DateTime, Utc};
use tollway::{
    domain::{clock::Timestamp, event::UsageEvent, ids::RequestId},
    store::PartitionReport,
};

use super::{
    both::{self, OwnStore},
    fixtures::{event, fresh, tenant},
    raw::raw,
};

fn at(text: &str) -> Timestamp {
    text.parse::<DateTime<Utc>>().expect("an instant").into()
}

fn event_at(text: &str) -> UsageEvent {
    UsageEvent { id: RequestId::generate(at(text), fresh()), ..event(tenant("t").id, 1) }
}

/// Which partition holds each event.
async fn homes(store: &OwnStore) -> Vec<String> {
    raw(store, "select cast(cast(tableoid as regclass) as text) from usage_events order by id").await
}

#[tokio::test]
async fn partitions_of_this_month_and_the_next_two_are_made_once() {
    let store = both::postgres().await;
    let report = store.ensure_partitions(at("2026-11-30T23:59:59Z")).await.unwrap();
    let made = ["2026_11", "2026_12", "2027_01"]
        .map(|month| [format!("usage_events_{month}"), format!("attempts_{month}")]);
    assert_eq!(report, PartitionReport { made: made.concat(), blocked: vec![] });
    assert_eq!(
        store.ensure_partitions(at("2026-11-30T23:59:59Z")).await.unwrap(),
        PartitionReport::default()
    );
    let next = store.ensure_partitions(at("2026-12-01T00:00:00Z")).await.unwrap();
    assert_eq!(next.made, ["usage_events_2027_02", "attempts_2027_02"]);
}

#[tokio::test]
async fn an_event_lands_in_its_month_and_without_one_in_the_default() {
    let store = both::postgres().await;
    store.ensure_partitions(at("2026-11-15T00:00:00Z")).await.unwrap();
    let events = [
        event_at("2026-10-31T23:59:59.999Z"),
        event_at("2026-11-01T00:00:00Z"),
        event_at("2026-12-31T23:59:59.999Z"),
    ];
    assert_eq!(store.record_events(&events).await.unwrap().new.len(), 3);
    assert_eq!(homes(&store).await, ["usage_events_default", "usage_events_2026_11", "usage_events_2026_12"]);
    assert_eq!(store.record_events(&events).await.unwrap().new.len(), 0, "once in any partition");
    for event in &events {
        assert_eq!(store.lookup_event(event.id).await.unwrap().as_ref(), Some(event));
    }
}

#[tokio::test]
async fn a_month_that_has_begun_in_the_default_partition_stays_there_and_is_reported() {
    let store = both::postgres().await;
    store.record_events(&[event_at("2026-12-24T00:00:00Z")]).await.unwrap();
    let report = store.ensure_partitions(at("2026-11-15T00:00:00Z")).await.unwrap();
    assert_eq!(report.blocked, ["usage_events_2026_12", "attempts_2026_12"]);
    assert_eq!(report.made.len(), 4);
    assert_eq!(homes(&store).await, ["usage_events_default"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_may_make_partitions_at_once_and_while_events_come() {
    let store = both::postgres().await;
    let now = at("2026-11-15T00:00:00Z");
    let making = futures_util::future::join_all((0..5).map(|_| store.ensure_partitions(now)));
    let recording = async {
        for _ in 0..10 {
            store.record_events(&[event_at("2026-10-01T00:00:00Z")]).await.unwrap();
        }
    };
    let (reports, ()) = tokio::join!(making, recording);
    let made: usize = reports.into_iter().map(|report| report.unwrap().made.len()).sum();
    assert_eq!(made, 6);
}

#[tokio::test]
async fn sqlite_has_no_partitions_to_make() {
    let store = both::sqlite().await;
    assert_eq!(
        store.ensure_partitions(at("2026-11-15T00:00:00Z")).await.unwrap(),
        PartitionReport::default()
    );
}
