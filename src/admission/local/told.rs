//! How the counts here stand to those that all replicas share.

use std::sync::Arc;

use super::{
    MICROS,
    window::{Bucket, SPAN_S, Window},
};
use crate::{
    admission::Subject,
    domain::ids::{IdMap, KeyId},
};

/// What a call must find in the shared counters; their epochs are greater.
pub const ANY_EPOCH: i64 = 0;
/// What a call must find when there may be none yet.
pub const ANY_EPOCH_OR_NONE: i64 = -1;

/// Of one tenant's or provider's counts, what is known to the shared counters.
#[derive(Debug, Default)]
pub struct Told {
    /// The epoch of the shared counters that ours are part of; zero: of none yet. Counters that were
    /// lost begin again with another.
    epoch: i64,
    /// How often everything was gathered. What ended before the last time is part of it.
    turn: u32,
    counted_at: i64,
    /// Not known to have arrived yet.
    gathered: Option<Arc<Gathered>>,
}

/// Everything that ended within the window, to be told again. What is live tells itself when it is
/// renewed.
#[derive(Debug)]
pub struct Gathered {
    /// Told twice under one number it counts once.
    pub number: i64,
    pub windows: Vec<(Whose, Vec<Bucket>)>,
}

/// Whose window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Whose {
    Subject(Subject),
    Key(KeyId),
}

impl Told {
    /// Notes that something was counted.
    pub fn counted(&mut self, at: i64) {
        self.counted_at = self.counted_at.max(at);
    }

    /// Whether something was counted that may still be in a window.
    pub const fn has_past(&self, now: i64) -> bool {
        self.counted_at > 0 && now - self.counted_at < SPAN_S * MICROS
    }

    /// The epoch that a call must find, so that it does not count where our past is missing.
    pub const fn expects(&self, now: i64) -> i64 {
        if self.has_past(now) { self.epoch } else { ANY_EPOCH }
    }

    pub const fn turn(&self) -> u32 {
        self.turn
    }

    /// Notes that something was counted there in this epoch; whether it still stands. The answer that
    /// said so may be older than a loss, and does not speak for what was counted before.
    pub fn counted_in(&mut self, now: i64, epoch: i64) -> bool {
        let stands = self.stands(now, epoch);
        if stands {
            self.epoch = epoch;
        }
        stands
    }

    /// Whether counters of this epoch are still there, for all that is known.
    pub fn stands(&self, now: i64, epoch: i64) -> bool {
        let knows_none = self.gathered.is_none() && (self.epoch == ANY_EPOCH || !self.has_past(now));
        knows_none || self.epoch == epoch
    }

    /// Notes that all of ours is part of this epoch.
    pub fn arrived(&mut self, epoch: i64) {
        self.epoch = epoch;
        self.gathered = None;
    }

    pub const fn epoch(&self) -> i64 {
        self.epoch
    }

    /// Gathers what `windows` hold beside what is `live`, unless it is part of the epoch `there`.
    /// `is_kept`: nothing was lost there since this replica was last told of, perhaps in a former life, of which
    /// it remembers what it counted and not in which epoch.
    pub fn again(
        &mut self,
        now: i64,
        there: Option<i64>,
        is_kept: bool,
        windows: impl Iterator<Item = (Whose, Window)>,
        live: impl Iterator<Item = (Whose, i64, u64)>,
    ) -> Option<Arc<Gathered>> {
        match (there, &self.gathered) {
            (Some(there), None) if self.epoch == there || self.epoch == ANY_EPOCH && is_kept => {
                self.epoch = there;
                return None;
            }
            // It may have arrived without our having heard of it.
            (Some(_), Some(gathered)) => return Some(Arc::clone(gathered)),
            _ => {}
        }
        let mut windows: IdMap<Whose, Window> = windows.collect();
        for (whose, second, tokens) in live {
            if let Some(window) = windows.get_mut(&whose) {
                window.take_back(second, 1, tokens);
            }
        }
        let second = now.div_euclid(MICROS);
        let windows = windows.into_iter().filter_map(|(whose, mut window)| {
            window.advance(second);
            let buckets: Vec<_> = window.buckets().collect();
            (!buckets.is_empty()).then_some((whose, buckets))
        });
        let gathered = Arc::new(Gathered { number: now, windows: windows.collect() });
        self.epoch = ANY_EPOCH;
        self.turn += 1;
        self.gathered = Some(Arc::clone(&gathered));
        Some(gathered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Whose = Whose::Subject(Subject::Tenant);

    fn again(told: &mut Told, there: Option<i64>, window: &Window, live: u64) -> Option<Arc<Gathered>> {
        let live = (live > 0).then_some((OWN, 10, live));
        told.again(20 * MICROS, there, true, [(OWN, window.clone())].into_iter(), live.into_iter())
    }

    #[test]
    fn what_stands_there_is_not_told_again_and_what_was_lost_is_less_what_is_live() {
        let (mut told, mut window) = (Told::default(), Window::starting_at(0));
        window.add(10, 3, 70);
        told.counted(10 * MICROS);
        told.arrived(7);
        assert!(again(&mut told, Some(7), &window, 20).is_none());
        let gathered = again(&mut told, Some(8), &window, 20).unwrap();
        assert_eq!(gathered.windows, [(OWN, vec![Bucket { second: 10, requests: 2, tokens: 50 }])]);
        told.arrived(8);
        assert!(again(&mut told, Some(8), &window, 20).is_none());
    }

    #[test]
    fn what_is_remembered_of_a_former_life_is_told_unless_it_is_still_there() {
        let mut window = Window::starting_at(0);
        window.add(10, 3, 0);
        for (is_kept, is_told) in [(true, false), (false, true)] {
            let mut told = Told::default();
            told.counted(10 * MICROS);
            let windows = [(OWN, window.clone())].into_iter();
            let gathered = told.again(20 * MICROS, Some(7), is_kept, windows, std::iter::empty());
            assert_eq!(gathered.is_some(), is_told);
        }
    }

    #[test]
    fn what_may_have_arrived_keeps_its_number_until_it_was_surely_lost() {
        let (mut told, mut window) = (Told::default(), Window::starting_at(0));
        window.add(10, 3, 0);
        let first = again(&mut told, None, &window, 0).unwrap();
        window.add(11, 1, 0);
        let repeated = again(&mut told, Some(9), &window, 0).unwrap();
        assert!(Arc::ptr_eq(&first, &repeated));
        assert_eq!(told.turn(), 1);
        let anew = again(&mut told, None, &window, 0).unwrap();
        assert_eq!(anew.windows[0].1.len(), 2);
        assert_eq!(told.turn(), 2);
    }

    #[test]
    fn an_answer_from_before_a_loss_is_known_by_its_epoch() {
        let mut told = Told::default();
        assert!(told.counted_in(10 * MICROS, 7));
        told.counted(10 * MICROS);
        told.arrived(8);
        assert!(!told.counted_in(11 * MICROS, 7) && told.epoch() == 8);
        assert!(told.counted_in((10 + SPAN_S) * MICROS, 9), "all that it could speak for is this");
    }

    #[test]
    fn nothing_is_expected_where_nothing_of_ours_can_be_missing() {
        let mut told = Told::default();
        told.arrived(7);
        told.counted(10 * MICROS);
        assert_eq!(told.expects(11 * MICROS), 7);
        assert_eq!(told.expects((10 + SPAN_S) * MICROS), ANY_EPOCH);
    }
}
