//! The walk to the next usable key.

use super::{
    MICROS,
    pool::Keys,
    span,
    view::{Parked, Rank},
    window::Share,
};
use crate::{
    admission::{Acquire, NoKey},
    domain::ids::TenantId,
};

/// What stands between a key and this request.
enum Standing {
    Usable,
    Out(i64, Parked),
    /// Has tokens left, but not as many as this request needs.
    Misfit(i64),
}

/// One request's way through the views it may see.
pub struct Selection<'a> {
    acquire: &'a Acquire,
    excluded: Vec<u32>,
    now: i64,
    share: Share,
    misfits: u32,
    misfit_back: Option<i64>,
}

impl<'a> Selection<'a> {
    pub const fn new(acquire: &'a Acquire, excluded: Vec<u32>, now: i64, share: Share) -> Self {
        Self { acquire, excluded, now, share, misfits: 0, misfit_back: None }
    }

    const fn owners(&self) -> [Option<TenantId>; 2] {
        [None, Some(self.acquire.tenant)]
    }

    /// The first usable key by priority, then last use, over the platform's keys and the tenant's.
    pub fn walk(&mut self, keys: &mut Keys) -> Option<u32> {
        let owners = self.owners();
        let mut behind: [Option<Rank>; 2] = [None; 2];
        loop {
            let heads = [0, 1].map(|side| {
                keys.views.get(&(owners[side], self.acquire.model)).and_then(|view| view.next(behind[side]))
            });
            let side = match heads {
                [None, None] => return None,
                [Some(a), Some(b)] => usize::from(b < a),
                [Some(_), None] => 0,
                [None, Some(_)] => 1,
            };
            let rank = heads[side]?;
            let at = rank.2;
            let fresh = keys.rank(at);
            if fresh != rank {
                // Used for another model since it was put here.
                keys.views.get_mut(&(owners[side], self.acquire.model))?.put(fresh);
                continue;
            }
            if self.excluded.contains(&at) {
                behind[side] = Some(rank);
                continue;
            }
            match self.standing(keys, at) {
                Standing::Usable => return Some(at),
                Standing::Out(until, why) => self.park(keys, side, at, until, why)?,
                Standing::Misfit(until) => {
                    self.misfits += 1;
                    if self.misfits > Keys::misfits_allowed() {
                        // Rests until its oldest second may have left, so that a pool of thousands
                        // of nearly spent keys is not walked for every large request.
                        self.park(keys, side, at, until.min(self.now + MICROS), Parked::Full)?;
                    } else {
                        behind[side] = Some(rank);
                        self.misfit_back = Some(self.misfit_back.map_or(until, |back| back.min(until)));
                    }
                }
            }
        }
    }

    fn park(&self, keys: &mut Keys, side: usize, at: u32, until: i64, why: Parked) -> Option<()> {
        keys.views.get_mut(&(self.owners()[side], self.acquire.model))?.park(at, until, why);
        if matches!(why, Parked::Full | Parked::Busy) {
            keys.wait(at, self.acquire.model);
        }
        Some(())
    }

    fn standing(&self, keys: &mut Keys, at: u32) -> Standing {
        let now = self.now;
        let share = self.share;
        let slot = &mut keys.slots[at as usize];
        let model = keys.models.get(&(slot.key.id, self.acquire.model)).and_then(|cooled| cooled.parks(now));
        let longest = slot.cooled.parks(now).into_iter().chain(model).max_by_key(|(until, _)| *until);
        if let Some((until, why)) = longest {
            return Standing::Out(until, why);
        }
        let limits = slot.key.limits;
        if limits.rpm == Some(0) || limits.tpm == Some(0) || limits.concurrency == Some(0) {
            return Standing::Out(super::NO_TIME, Parked::Full);
        }
        if limits.concurrency.is_some_and(|limit| slot.in_flight >= share.of_slots(limit)) {
            return Standing::Out(super::NEVER, Parked::Busy);
        }
        let last_at = slot.used_at;
        let Some(window) = slot.window.as_deref_mut() else {
            return Standing::Usable;
        };
        window.advance(now.div_euclid(MICROS));
        if let Some(until) = limits.rpm.and_then(|rpm| share.room_for_request(window, last_at, now, rpm)) {
            return Standing::Out(until, Parked::Full);
        }
        let Some(tpm) = limits.tpm.map(|tpm| share.of_tokens(tpm)) else { return Standing::Usable };
        match (window.room_for_tokens(now, tpm, 1), window.room_for_tokens(now, tpm, self.acquire.tokens)) {
            (Some(until), Some(_)) => Standing::Out(until, Parked::Full),
            (None, Some(until)) => Standing::Misfit(until),
            (_, None) => Standing::Usable,
        }
    }

    /// Why nothing was found.
    pub fn none_left(&self, keys: &Keys) -> NoKey {
        let mut none = NoKey { full: self.misfits.min(Keys::misfits_allowed()), ..NoKey::default() };
        let mut back = self.misfit_back;
        for owner in self.owners() {
            let Some(view) = keys.views.get(&(owner, self.acquire.model)) else { continue };
            let [limited, failing, full] = view.counts();
            none.limited += limited;
            none.failing += failing;
            none.full += full;
            for at in &self.excluded {
                match view.parked_as(*at) {
                    Some(Parked::Limited) => none.limited -= 1,
                    Some(Parked::Failing) => none.failing -= 1,
                    Some(Parked::Full | Parked::Busy) => none.full -= 1,
                    None => {}
                }
            }
            let first = view.first_back(&self.excluded, Keys::slot_free_at(self.now));
            back = back.into_iter().chain(first).min();
        }
        none.retry_after = back.filter(|back| *back < super::NO_TIME).map(|back| span(back - self.now));
        none
    }
}
