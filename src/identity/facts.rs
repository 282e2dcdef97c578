//! Facts of the store, read through and remembered.
//!
//! A fact is fresh while nothing that identity depends on has changed (the epoch, raised by
//! `refresh`) and for five minutes at most, should the news of a change never arrive. A fact
//! that is not fresh is read again at its next use, once for all who ask at that moment. When
//! the store does not answer, the last known fact goes on being used, up to a bound; what was
//! never known is refused as unchecked, not as wrong.

use std::{
    future::Future,
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use moka::{
    ops::compute::{CompResult, Op},
    sync::Cache,
};
use tokio::sync::OnceCell;

use crate::{
    domain::clock::Timestamp,
    identity::{Denied, denied::STORE_RETRY},
    store::StoreError,
};

/// A fact is read again after this even when no change was announced.
const FRESH_FOR: Duration = Duration::from_secs(5 * 60);
/// How long the store is waited for where a last known fact would do.
const PATIENCE: Duration = Duration::from_secs(1);

/// How old facts may grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Before they are read again.
    pub(super) fresh_for: Duration,
    /// While the store is away.
    pub(super) max_stale: Duration,
}

impl Bounds {
    /// The difference of both is the outage that every token in use survives: at least half.
    pub(super) fn within(max_stale: Duration) -> Self {
        Self { fresh_for: FRESH_FOR.min(max_stale / 2), max_stale }
    }
}

/// The moment at which facts are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    /// The clock.
    pub(super) now: Timestamp,
    /// How many changes were announced before.
    pub(super) epoch: u64,
}

/// Asking for the facts that one answer rests on.
#[derive(Debug)]
pub(super) struct Inquiry {
    pub(super) at: Moment,
    /// When the oldest of the facts given so far was read: the answer is no fresher.
    pub(super) oldest: Timestamp,
}

impl Inquiry {
    pub(super) const fn new(at: Moment) -> Self {
        Self { at, oldest: at.now }
    }

    fn given<V: Clone>(&mut self, known: &Known<V>) -> V {
        self.oldest = self.oldest.min(known.read_at);
        known.value.clone()
    }
}

/// When the store last failed to answer: it is left alone for a second, so that an outage does
/// not make every request wait for it.
#[derive(Debug)]
pub(super) struct Reachability {
    failed_at_us: AtomicI64,
    reads: AtomicU64,
}

impl Reachability {
    pub(super) const fn unknown() -> Self {
        Self { failed_at_us: AtomicI64::new(i64::MIN), reads: AtomicU64::new(0) }
    }

    fn is_away(&self, now: Timestamp) -> bool {
        let failed_at = self.failed_at_us.load(Ordering::Relaxed);
        // Also false when the clock stepped back.
        (0..i64::try_from(STORE_RETRY.as_micros()).unwrap_or(i64::MAX))
            .contains(&now.unix_us().saturating_sub(failed_at))
    }

    fn failed(&self, now: Timestamp) {
        self.failed_at_us.store(now.unix_us(), Ordering::Relaxed);
    }

    /// How often the store was asked.
    pub(super) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }
}

/// Facts of one kind by key, bounded.
pub(super) struct Facts<K, V> {
    slots: Cache<K, Arc<Slot<V>>>,
    bounds: Bounds,
    store: Arc<Reachability>,
}

/// One reading of a fact, to come or done, and what was known before it.
struct Slot<V> {
    epoch: u64,
    reading: OnceCell<Known<V>>,
    before: Option<Known<V>>,
}

#[derive(Clone)]
struct Known<V> {
    value: V,
    read_at: Timestamp,
}

impl<V: Clone> Slot<V> {
    /// A reading that failed or is under way serves the same epoch.
    fn serves(&self, at: Moment, fresh_for: Duration) -> bool {
        let is_recent = |known: &Known<V>| at.now.since(known.read_at) < fresh_for;
        self.epoch == at.epoch && self.reading.get().is_none_or(is_recent)
    }

    fn after(previous: Option<&Self>, at: Moment) -> Self {
        let before = previous.and_then(|slot| slot.reading.get().or(slot.before.as_ref()).cloned());
        Self { epoch: at.epoch, reading: OnceCell::new(), before }
    }
}

impl<K, V> Facts<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    pub(super) fn new(entries: u64, bounds: Bounds, store: Arc<Reachability>) -> Self {
        Self { slots: Cache::new(entries.max(1)), bounds, store }
    }

    /// The fact of `key`, read by `read` unless it is fresh.
    ///
    /// # Errors
    /// [`Denied::StoreAway`] when the store does not answer and nothing recent enough is known.
    ///
    /// # Cancellation
    /// Safe: who waits for the same reading takes it over.
    pub(super) async fn get<F, R>(&self, key: &K, inquiry: &mut Inquiry, read: F) -> Result<V, Denied>
    where
        F: FnOnce() -> R,
        R: Future<Output = Result<V, StoreError>>,
    {
        let at = inquiry.at;
        let slot = self.slot(key, at);
        if let Some(known) = slot.reading.get() {
            return Ok(inquiry.given(known));
        }
        let before = slot.before.as_ref().filter(|known| at.now.since(known.read_at) < self.bounds.max_stale);
        if !self.store.is_away(at.now)
            && let Some(known) = self.read(&slot, at.now, before.is_some(), read).await
        {
            return Ok(inquiry.given(known));
        }
        before.map(|known| inquiry.given(known)).ok_or(Denied::StoreAway)
    }

    /// Forgets a fact that is none.
    pub(super) fn forget(&self, key: &K) {
        self.slots.invalidate(key);
    }

    async fn read<'a, F, R>(
        &self,
        slot: &'a Slot<V>,
        now: Timestamp,
        has_other: bool,
        read: F,
    ) -> Option<&'a Known<V>>
    where
        F: FnOnce() -> R,
        R: Future<Output = Result<V, StoreError>>,
    {
        let reading = slot.reading.get_or_try_init(|| async {
            self.store.reads.fetch_add(1, Ordering::Relaxed);
            read().await.map(|value| Known { value, read_at: now })
        });
        let read =
            if has_other { tokio::time::timeout(PATIENCE, reading).await.ok() } else { Some(reading.await) };
        match read {
            Some(Ok(known)) => return Some(known),
            Some(Err(failure)) if !failure.is_unavailable() => {
                tracing::error!(error = %failure, "a fact about an access token cannot be read");
            }
            Some(Err(_)) | None => self.store.failed(now),
        }
        None
    }

    /// The slot that serves `at`, a new one in place of one that no longer does.
    fn slot(&self, key: &K, at: Moment) -> Arc<Slot<V>> {
        if let Some(slot) = self.slots.get(key).filter(|slot| slot.serves(at, self.bounds.fresh_for)) {
            return slot;
        }
        let replaced = self.slots.entry_by_ref(key).and_compute_with(|entry| {
            let current = entry.map(moka::Entry::into_value);
            match current {
                // Another caller was faster; an older moment must not displace a newer one.
                Some(slot) if slot.serves(at, self.bounds.fresh_for) || slot.epoch > at.epoch => Op::Nop,
                stale => Op::Put(Arc::new(Slot::after(stale.as_deref(), at))),
            }
        });
        match replaced {
            CompResult::Inserted(entry) | CompResult::ReplacedWith(entry) | CompResult::Unchanged(entry) => {
                entry.into_value()
            }
            CompResult::StillNone(_) | CompResult::Removed(_) => Arc::new(Slot::after(None, at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    /// A store of one number, which counts how often it is asked.
    #[derive(Default)]
    struct Source {
        asked: AtomicU32,
        is_away: std::sync::atomic::AtomicBool,
    }

    impl Source {
        async fn read(&self, value: u32) -> Result<u32, StoreError> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            if self.is_away.load(Ordering::SeqCst) {
                let cause = Box::new(std::io::Error::other("gone"));
                return Err(StoreError::Unavailable { reason: "gone", cause });
            }
            Ok(value)
        }

        fn asked(&self) -> u32 {
            self.asked.load(Ordering::SeqCst)
        }

        fn goes_away(&self, is_away: bool) {
            self.is_away.store(is_away, Ordering::SeqCst);
        }
    }

    fn facts() -> Facts<u8, u32> {
        Facts::new(100, Bounds::within(Duration::from_secs(3_600)), Arc::new(Reachability::unknown()))
    }

    fn at(second: i64, epoch: u64) -> Moment {
        Moment { now: Timestamp::from_unix_s(1_000_000 + second), epoch }
    }

    async fn ask<F, R>(facts: &Facts<u8, u32>, key: u8, at: Moment, read: F) -> Result<u32, Denied>
    where
        F: FnOnce() -> R,
        R: Future<Output = Result<u32, StoreError>>,
    {
        facts.get(&key, &mut Inquiry::new(at), read).await
    }

    #[tokio::test]
    async fn a_fresh_fact_is_read_once_and_again_after_a_change_or_five_minutes() {
        let (facts, source) = (facts(), Source::default());
        for (moment, reads) in
            [(at(0, 0), 1), (at(299, 0), 1), (at(299, 1), 2), (at(598, 1), 2), (at(599, 1), 3)]
        {
            assert_eq!(ask(&facts, 1, moment, || source.read(7)).await, Ok(7));
            assert_eq!(source.asked(), reads, "{moment:?}");
        }
    }

    #[tokio::test]
    async fn all_who_ask_at_a_time_share_one_reading() {
        let (facts, source) = (facts(), Source::default());
        let asks = (0..50).map(|_| ask(&facts, 1, at(0, 0), || source.read(7)));
        let answers = futures_util::future::join_all(asks).await;
        assert!(answers.iter().all(|answer| *answer == Ok(7)));
        assert_eq!(source.asked(), 1);
    }

    #[tokio::test]
    async fn an_abandoned_reading_is_taken_over() {
        let (facts, source) = (facts(), Source::default());
        let first = tokio::time::timeout(
            Duration::from_millis(1),
            ask(&facts, 1, at(0, 0), std::future::pending::<Result<u32, StoreError>>),
        );
        assert!(first.await.is_err());
        assert_eq!(ask(&facts, 1, at(0, 0), || source.read(7)).await, Ok(7));
    }

    #[tokio::test]
    async fn the_last_known_fact_serves_an_outage_up_to_the_bound() {
        let (facts, source) = (facts(), Source::default());
        assert_eq!(ask(&facts, 1, at(0, 0), || source.read(7)).await, Ok(7));
        source.goes_away(true);
        for second in [1, 600, 3_599] {
            assert_eq!(ask(&facts, 1, at(second, 1), || source.read(8)).await, Ok(7), "{second}");
        }
        assert_eq!(ask(&facts, 1, at(3_600, 1), || source.read(8)).await, Err(Denied::StoreAway));
        assert_eq!(ask(&facts, 2, at(1, 1), || source.read(8)).await, Err(Denied::StoreAway));
        source.goes_away(false);
        assert_eq!(ask(&facts, 1, at(3_602, 1), || source.read(8)).await, Ok(8));
    }

    #[tokio::test]
    async fn a_store_that_is_away_is_asked_once_a_second() {
        let (facts, source) = (facts(), Source::default());
        source.goes_away(true);
        for _ in 0..100 {
            assert_eq!(ask(&facts, 1, at(0, 0), || source.read(7)).await, Err(Denied::StoreAway));
        }
        assert_eq!(source.asked(), 1);
        source.goes_away(false);
        assert_eq!(ask(&facts, 1, at(1, 0), || source.read(7)).await, Ok(7));
    }

    #[tokio::test]
    async fn a_store_that_hangs_does_not_hold_up_who_has_a_known_fact() {
        let facts = facts();
        assert_eq!(ask(&facts, 1, at(0, 0), async || Ok(7)).await, Ok(7));
        let hung = ask(&facts, 1, at(1, 1), std::future::pending::<Result<u32, StoreError>>);
        assert_eq!(hung.await, Ok(7));
    }

    #[tokio::test]
    async fn an_older_moment_never_displaces_a_newer_fact() {
        let (facts, source) = (facts(), Source::default());
        assert_eq!(ask(&facts, 1, at(0, 5), || source.read(8)).await, Ok(8));
        assert_eq!(ask(&facts, 1, at(0, 4), || source.read(7)).await, Ok(8));
        assert_eq!(source.asked(), 1);
    }

    #[tokio::test]
    async fn an_answer_is_no_fresher_than_its_oldest_fact() {
        let (facts, source) = (facts(), Source::default());
        assert_eq!(ask(&facts, 1, at(0, 0), || source.read(7)).await, Ok(7));
        let mut inquiry = Inquiry::new(at(60, 0));
        assert_eq!(facts.get(&2, &mut inquiry, || source.read(8)).await, Ok(8));
        assert_eq!(inquiry.oldest, at(60, 0).now);
        assert_eq!(facts.get(&1, &mut inquiry, || source.read(8)).await, Ok(7));
        assert_eq!(inquiry.oldest, at(0, 0).now);
    }

    #[test]
    fn a_short_bound_leaves_half_of_it_to_an_outage() {
        let seconds = Duration::from_secs;
        assert_eq!(Bounds::within(seconds(3_600)).fresh_for, seconds(300));
        assert_eq!(Bounds::within(seconds(60)).fresh_for, seconds(30));
    }
}
