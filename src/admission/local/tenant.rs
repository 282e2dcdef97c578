//! One tenant's door: subjects' windows, passes, holds.

use std::{sync::Arc, time::Duration};

use super::{
    MICROS, NEVER, RETRY_FUNDS, lease_until, micros, span,
    told::{Gathered, Told, Whose},
    window::{SPAN_S, Share, Window},
};
use crate::{
    admission::{Enter, HOLD_FOR, Refused, SettlePass, Subject, SubjectLive},
    domain::{
        ids::{IdMap, RequestId},
        limits::{LimitKind, Limits, WINDOW},
        money::Nanos,
    },
};

/// The wait named for a full concurrency limit: nobody knows when a request ends.
const RETRY_SLOT: Duration = Duration::from_secs(1);

/// One tenant's counters.
#[derive(Debug)]
pub struct Door {
    subjects: IdMap<Subject, Counted>,
    passes: IdMap<RequestId, Pass>,
    held: Nanos,
    holds: u32,
    /// No pass lapses before.
    lapses_at: i64,
    pub told: Told,
}

impl Default for Door {
    fn default() -> Self {
        Self {
            subjects: IdMap::default(),
            passes: IdMap::default(),
            held: Nanos::ZERO,
            holds: 0,
            lapses_at: NEVER,
            told: Told::default(),
        }
    }
}

#[derive(Debug)]
struct Counted {
    window: Box<Window>,
    in_flight: u32,
    last_at: i64,
}

/// A request that is in.
#[derive(Debug, Clone)]
pub struct Pass {
    /// The second whose buckets it is counted in.
    pub second: i64,
    pub tokens: u64,
    pub subjects: Box<[Subject]>,
    pub hold: Nanos,
    /// Its slots are free from here.
    slot_until: i64,
    /// Its hold is free from here.
    hold_until: i64,
    has_slot: bool,
    /// The second of the shared counters, where it is counted there too.
    pub shared_second: Option<i64>,
}

impl Door {
    /// Counts a request in every window, or in none.
    pub fn enter(&mut self, now: i64, enter: &Enter, share: Share) -> Result<(), Refused> {
        self.lapse(now);
        self.check_funds(enter, share)?;
        for (subject, limits) in &enter.windows {
            self.check(now, *subject, limits, enter.tokens, share)?;
        }
        self.count(now, enter, None);
        Ok(())
    }

    fn check_funds(&self, enter: &Enter, share: Share) -> Result<(), Refused> {
        let Some(funds) = enter.funds else { return Ok(()) };
        if funds <= Nanos::ZERO {
            return Err(Refused::FundsSpent);
        }
        let part = Nanos::new(funds.get() / i64::from(share.0));
        if self.holds > 0 && enter.hold > part.minus(self.held) {
            return Err(Refused::FundsHeld { retry_after: RETRY_FUNDS });
        }
        Ok(())
    }

    fn check(
        &mut self,
        now: i64,
        subject: Subject,
        limits: &Limits,
        tokens: u64,
        share: Share,
    ) -> Result<(), Refused> {
        let full = |kind, retry_after| Err(Refused::Limit { subject, kind, retry_after });
        let Some(counted) = self.subjects.get_mut(&subject) else {
            return match (limits.rpm, limits.tpm, limits.concurrency) {
                (Some(0), _, _) => full(LimitKind::Rpm, WINDOW),
                (_, Some(0), _) => full(LimitKind::Tpm, WINDOW),
                (_, _, Some(0)) => full(LimitKind::Concurrency, WINDOW),
                _ => Ok(()),
            };
        };
        counted.window.advance(now.div_euclid(MICROS));
        let window = &counted.window;
        if let Some(until) =
            limits.rpm.and_then(|rpm| share.room_for_request(window, counted.last_at, now, rpm))
        {
            return full(LimitKind::Rpm, span(until - now));
        }
        let room = |tpm| window.room_for_tokens(now, share.of_tokens(tpm), tokens);
        if let Some(until) = limits.tpm.and_then(room) {
            return full(LimitKind::Tpm, span(until - now));
        }
        if limits.concurrency.is_some_and(|limit| counted.in_flight >= share.of_slots(limit)) {
            return full(LimitKind::Concurrency, RETRY_SLOT);
        }
        Ok(())
    }

    /// Counts a request that is in, whoever let it in.
    pub fn count(&mut self, now: i64, enter: &Enter, shared_second: Option<i64>) {
        let second = now.div_euclid(MICROS);
        self.told.counted(now);
        for (subject, _) in &enter.windows {
            self.count_in(*subject, now, enter.tokens).in_flight += 1;
        }
        let pass = Pass {
            second,
            tokens: enter.tokens,
            subjects: enter.windows.iter().map(|(subject, _)| *subject).collect(),
            hold: enter.hold,
            slot_until: lease_until(now),
            hold_until: now + micros(HOLD_FOR),
            has_slot: true,
            shared_second,
        };
        self.lapses_at = self.lapses_at.min(pass.slot_until);
        self.held = self.held.plus(pass.hold);
        self.holds += u32::from(pass.hold > Nanos::ZERO);
        self.passes.insert(enter.request, pass);
    }

    /// Counts a request of an earlier life.
    pub fn remember(&mut self, subjects: &[Subject], at: i64, tokens: u64) {
        self.told.counted(at);
        for subject in subjects {
            self.count_in(*subject, at, tokens);
        }
    }

    fn count_in(&mut self, subject: Subject, at: i64, tokens: u64) -> &mut Counted {
        let second = at.div_euclid(MICROS);
        let counted = self.subjects.entry(subject).or_insert_with(|| Counted {
            window: Box::new(Window::starting_at(second)),
            in_flight: 0,
            last_at: 0,
        });
        counted.window.add(second, 1, tokens);
        counted.last_at = at;
        counted
    }

    /// Undoes an entry, window entries included.
    pub fn undo(&mut self, now: i64, request: RequestId) {
        if let Some(pass) = self.leave(now, request) {
            self.correct(&pass, 1, 0);
        }
    }

    /// Ends a request; returns its pass if it was in.
    pub fn settle(&mut self, now: i64, end: &SettlePass) -> Option<Pass> {
        let pass = self.leave(now, end.request)?;
        if let Some(used) = end.used {
            self.correct(&pass, 0, used);
        }
        Some(pass)
    }

    fn correct(&mut self, pass: &Pass, requests: u32, used: u64) {
        for subject in &pass.subjects {
            let Some(counted) = self.subjects.get_mut(subject) else { continue };
            counted.window.take_back(pass.second, requests, pass.tokens.saturating_sub(used));
            counted.window.add(pass.second, 0, used.saturating_sub(pass.tokens));
        }
    }

    fn leave(&mut self, now: i64, request: RequestId) -> Option<Pass> {
        self.lapse(now);
        let mut pass = self.passes.remove(&request)?;
        self.free_slots(&mut pass);
        self.held = self.held.minus(pass.hold);
        self.holds -= u32::from(pass.hold > Nanos::ZERO);
        for subject in &pass.subjects {
            if let Some(counted) = self.subjects.get_mut(subject) {
                counted.window.advance(now.div_euclid(MICROS));
            }
        }
        Some(pass)
    }

    fn free_slots(&mut self, pass: &mut Pass) {
        if !std::mem::take(&mut pass.has_slot) {
            return;
        }
        for subject in &pass.subjects {
            if let Some(counted) = self.subjects.get_mut(subject) {
                counted.in_flight -= 1;
            }
        }
    }

    /// Frees the slots, later the holds, of passes that nobody renewed.
    fn lapse(&mut self, now: i64) {
        if now < self.lapses_at {
            return;
        }
        let lapsed: Vec<RequestId> =
            self.passes.iter().filter(|(_, pass)| pass.lapses_at() <= now).map(|(id, _)| *id).collect();
        for id in lapsed {
            let Some(mut pass) = self.passes.remove(&id) else { continue };
            self.free_slots(&mut pass);
            if pass.hold > Nanos::ZERO && pass.hold_until > now {
                self.passes.insert(id, pass);
            } else if pass.hold > Nanos::ZERO {
                self.held = self.held.minus(pass.hold);
                self.holds -= 1;
            }
        }
        self.lapses_at = self.passes.values().map(Pass::lapses_at).min().unwrap_or(NEVER);
    }

    /// Renews every pass that has not lapsed.
    pub fn renew(&mut self, now: i64) {
        self.lapse(now);
        for pass in self.passes.values_mut().filter(|pass| pass.has_slot) {
            pass.slot_until = lease_until(now);
            pass.hold_until = now + micros(HOLD_FOR);
        }
        let gone = now.div_euclid(MICROS) - SPAN_S;
        self.subjects.retain(|_, counted| counted.in_flight > 0 || counted.last_at.div_euclid(MICROS) > gone);
    }

    /// What the shared counters of epoch `there` must be told again; none: all stands there.
    pub fn tell_again(&mut self, now: i64, there: Option<i64>, is_kept: bool) -> Option<Arc<Gathered>> {
        self.lapse(now);
        let windows =
            self.subjects.iter().map(|(id, counted)| (Whose::Subject(*id), (*counted.window).clone()));
        let live = self.passes.values().filter(|pass| pass.has_slot).flat_map(|pass| {
            pass.subjects.iter().map(|subject| (Whose::Subject(*subject), pass.second, pass.tokens))
        });
        let gathered = self.told.again(now, there, is_kept, windows, live)?;
        for pass in self.passes.values_mut() {
            pass.shared_second = None;
        }
        Some(gathered)
    }

    pub fn passes(&self) -> impl Iterator<Item = (RequestId, &Pass)> {
        self.passes.iter().filter(|(_, pass)| pass.has_slot).map(|(id, pass)| (*id, pass))
    }

    pub fn is_idle(&self) -> bool {
        self.passes.is_empty() && self.subjects.is_empty()
    }

    pub fn inspect(&mut self, now: i64, subject: Subject) -> SubjectLive {
        self.lapse(now);
        let held = if subject == Subject::Tenant { self.held } else { Nanos::ZERO };
        let Some(counted) = self.subjects.get_mut(&subject) else {
            return SubjectLive { held, ..SubjectLive::default() };
        };
        counted.window.advance(now.div_euclid(MICROS));
        SubjectLive {
            rpm_used: counted.window.request_sum(),
            tpm_used: counted.window.token_sum(),
            in_flight: counted.in_flight,
            held,
        }
    }
}

impl Pass {
    const fn lapses_at(&self) -> i64 {
        if self.has_slot { self.slot_until } else { self.hold_until }
    }
}
