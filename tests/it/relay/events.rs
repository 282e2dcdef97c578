//! Waiting for what the recorder has written.

use std::time::Duration;

use tollway::{
    domain::{event::UsageEvent, ids::RequestId},
    store::Store,
};

/// The usage event of a request, once the recorder has stored it.
///
/// # Panics
/// When it does not come within 10 s.
pub async fn event_of(store: &Store, request: &str) -> UsageEvent {
    let id: RequestId = request.parse().expect("a request id");
    for _ in 0..500 {
        if let Some(event) = store.lookup_event(id).await.expect("read events") {
            return event;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("no event for {request}");
}
