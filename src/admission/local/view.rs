//! The keys of one owner as one model sees them: who is next, and who is out until when.
//!
//! Moves are lazy. A key acquired for another model keeps its old place here until it is met; a key
//! that cannot serve is parked when it is met and comes back at its time. So each event of a key
//! costs a view one move at most, and a selection costs the same among ten keys and ten thousand.

use std::collections::BTreeSet;

use crate::domain::ids::IdMap;

/// A place in the order of ready keys: priority, last use, slot in the pool.
pub type Rank = (i32, u64, u32);

/// Why a key is parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parked {
    /// In cooldown because the provider limits it.
    Limited,
    /// In cooldown after any other failure.
    Failing,
    /// A window has no room before its time.
    Full,
    /// No free slot; comes back when one is released.
    Busy,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    Ready(Rank),
    Parked(i64, Parked),
}

#[derive(Debug, Default)]
pub struct View {
    ready: BTreeSet<Rank>,
    parked: BTreeSet<(i64, u32)>,
    places: IdMap<u32, Place>,
    limited: u32,
    failing: u32,
    busy: u32,
}

impl View {
    pub fn of(keys: impl Iterator<Item = Rank>) -> Self {
        let ready: BTreeSet<Rank> = keys.collect();
        let places = ready.iter().map(|rank| (rank.2, Place::Ready(*rank))).collect();
        Self { ready, places, ..Self::default() }
    }

    /// The first ready key behind `after`.
    pub fn next(&self, after: Option<Rank>) -> Option<Rank> {
        match after {
            None => self.ready.first().copied(),
            Some(after) => self
                .ready
                .range((std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded))
                .next()
                .copied(),
        }
    }

    /// Puts a key at its present rank, wherever it was.
    pub fn put(&mut self, rank: Rank) {
        self.leave(rank.2);
        self.ready.insert(rank);
        self.places.insert(rank.2, Place::Ready(rank));
    }

    pub fn park(&mut self, slot: u32, until: i64, why: Parked) {
        self.leave(slot);
        self.parked.insert((until, slot));
        self.places.insert(slot, Place::Parked(until, why));
        self.limited += u32::from(why == Parked::Limited);
        self.failing += u32::from(why == Parked::Failing);
        self.busy += u32::from(why == Parked::Busy);
    }

    /// The next parked key whose time has come.
    pub fn due(&self, now: i64) -> Option<u32> {
        self.parked.first().filter(|(until, _)| *until <= now).map(|(_, slot)| *slot)
    }

    pub fn parked_as(&self, slot: u32) -> Option<Parked> {
        match self.places.get(&slot) {
            Some(Place::Parked(_, why)) => Some(*why),
            _ => None,
        }
    }

    /// When the first parked key that is not in `except` comes back; `slot_free_at` for one that
    /// waits for a slot.
    pub fn first_back(&self, except: &[u32], slot_free_at: i64) -> Option<i64> {
        let timed = self.parked.iter().find(|(_, slot)| !except.contains(slot)).map(|(until, _)| *until);
        let except_busy = except.iter().filter(|slot| self.parked_as(**slot) == Some(Parked::Busy)).count();
        let waits = (self.busy as usize > except_busy).then_some(slot_free_at);
        timed.into_iter().chain(waits).min()
    }

    /// How many keys are limited, how many failing, and how many full or busy.
    pub fn counts(&self) -> [u32; 3] {
        let parked = u32::try_from(self.parked.len()).unwrap_or(u32::MAX);
        [self.limited, self.failing, parked - self.limited - self.failing]
    }

    fn leave(&mut self, slot: u32) {
        match self.places.remove(&slot) {
            Some(Place::Ready(rank)) => {
                self.ready.remove(&rank);
            }
            Some(Place::Parked(until, why)) => {
                self.parked.remove(&(until, slot));
                self.limited -= u32::from(why == Parked::Limited);
                self.failing -= u32::from(why == Parked::Failing);
                self.busy -= u32::from(why == Parked::Busy);
            }
            None => {}
        }
    }
}
