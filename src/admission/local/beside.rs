//! What a replica keeps here of its own doing while Redis counts for all.

use std::sync::Arc;

use super::{
    Leased, Local, MICROS, Pass, Share, span,
    told::{ANY_EPOCH, Gathered, Told},
};
use crate::{
    admission::{Acquire, Cool, CoolFor, Enter, Refused, SettleLease, SettlePass},
    domain::ids::{KeyId, LeaseId, ProviderId, RequestId, TenantId},
};

/// Whose counters: all of one owner live together, here behind one lock and in Redis in one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Owner {
    Tenant(TenantId),
    Provider(ProviderId),
}

/// What has ended, and whether the shared counters know of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The second of the shared counters in which it was counted; none: it was counted here alone.
    pub shared_second: Option<i64>,
    /// The second in which it was counted here.
    second: i64,
    /// How often its owner's counts had been gathered by then.
    turn: u32,
}

impl Local {
    /// Enters within one replica's share of every limit.
    pub(in crate::admission) fn enter_within(&self, share: Share, enter: &Enter) -> Result<(), Refused> {
        self.door(enter.tenant).lock().enter(self.steady.now().us, enter, share)
    }

    /// Counts an entry that the shared counters granted, in their second and epoch; zero where they had
    /// nothing to count.
    pub(in crate::admission) fn note_enter(&self, enter: &Enter, second: i64, epoch: i64) {
        let door = self.door(enter.tenant);
        let mut door = door.lock();
        let now = self.steady.now().us;
        let stands = epoch == ANY_EPOCH || door.told.counted_in(now, epoch);
        door.count(now, enter, stands.then_some(second));
    }

    /// Counts an acquire that the shared counters granted, in their second and epoch.
    pub(in crate::admission) fn note_acquire(&self, acquire: &Acquire, key: KeyId, second: i64, epoch: i64) {
        let keys = self.keys(acquire.pool.provider);
        let mut keys = keys.lock();
        let now = self.steady.now().us;
        let stands = keys.told.counted_in(now, epoch);
        keys.note(now, acquire, key, stands.then_some(second));
    }

    /// Undoes an entry.
    pub(in crate::admission) fn undo_enter(&self, tenant: TenantId, request: RequestId) {
        self.door(tenant).lock().undo(self.steady.now().us, request);
    }

    /// Ends an attempt; none: its lease was not live.
    pub(in crate::admission) fn end_lease(&self, end: &SettleLease) -> Option<Ended> {
        let keys = self.keys(end.lease.provider);
        let mut keys = keys.lock();
        let Leased { shared_second, second, .. } = keys.settle(self.steady.now().us, end)?;
        Some(Ended { shared_second, second, turn: keys.told.turn() })
    }

    /// Ends a request; none: it was not in.
    pub(in crate::admission) fn end_pass(&self, end: &SettlePass) -> Option<Ended> {
        let door = self.door(end.tenant);
        let mut door = door.lock();
        let Pass { shared_second, second, .. } = door.settle(self.steady.now().us, end)?;
        Some(Ended { shared_second, second, turn: door.told.turn() })
    }

    /// How long ago, in seconds, something was counted that the shared counters do not know of; none:
    /// they do, or what was gathered since tells it.
    pub(in crate::admission) fn untold_for(&self, owner: Owner, ended: Ended) -> Option<i64> {
        let (now, turn) = self.told(owner, |now, told| (now, told.turn()));
        (ended.shared_second.is_none() && ended.turn == turn).then(|| now.div_euclid(MICROS) - ended.second)
    }

    /// The seconds that live by this process's clock.
    pub(in crate::admission) fn second(&self) -> i64 {
        self.steady.now().second()
    }

    /// The epoch that a call on an owner's shared counters must find.
    pub(in crate::admission) fn expects(&self, owner: Owner) -> i64 {
        self.told(owner, |now, told| told.expects(now))
    }

    /// Whether something of an owner was counted here that may still be in a window.
    pub(in crate::admission) fn has_past(&self, owner: Owner) -> bool {
        self.told(owner, |now, told| told.has_past(now))
    }

    /// Whether an owner's shared counters of this epoch are still there, for all that is known.
    pub(in crate::admission) fn stands(&self, owner: Owner, epoch: i64) -> bool {
        self.told(owner, |now, told| told.stands(now, epoch))
    }

    /// The epoch that what is counted here of an owner is part of; zero: none.
    pub(in crate::admission) fn epoch(&self, owner: Owner) -> i64 {
        self.told(owner, |_, told| told.epoch())
    }

    /// Notes that something of an owner is counted in an epoch, which says nothing of the rest.
    pub(in crate::admission) fn counted_in(&self, owner: Owner, epoch: i64) {
        self.told(owner, |now, told| {
            told.counted_in(now, epoch);
        });
    }

    /// Notes that all that is counted here of an owner is part of an epoch.
    pub(in crate::admission) fn arrived(&self, owner: Owner, epoch: i64) {
        self.told(owner, |_, told| told.arrived(epoch));
    }

    /// What an owner's shared counters of epoch `there` must be told again; none: all stands there. `is_kept`:
    /// nothing was lost there since this replica was last on the roll.
    pub(in crate::admission) fn tell_again(
        &self,
        owner: Owner,
        there: Option<i64>,
        is_kept: bool,
    ) -> Option<Arc<Gathered>> {
        let now = self.steady.now().us;
        match owner {
            Owner::Tenant(tenant) => self.door(tenant).lock().tell_again(now, there, is_kept),
            Owner::Provider(provider) => self.keys(provider).lock().tell_again(now, there, is_kept),
        }
    }

    /// What is out of a provider's, as far as it was taken out here.
    pub(in crate::admission) fn cooling(&self, provider: ProviderId) -> Vec<Cool> {
        let now = self.steady.now().us;
        let keys = self.keys(provider);
        let keys = keys.lock();
        let cooling = keys.cooling(now);
        cooling
            .map(|(scope, us, reason)| Cool { provider, scope, span: CoolFor::Span(span(us)), reason })
            .collect()
    }

    /// Everyone of whom something is counted here.
    pub(in crate::admission) fn owners(&self) -> Vec<Owner> {
        let tenants: Vec<_> = self.tenants.read().keys().copied().map(Owner::Tenant).collect();
        let providers: Vec<_> = self.providers.read().keys().copied().map(Owner::Provider).collect();
        [tenants, providers].concat()
    }

    fn told<R>(&self, owner: Owner, look: impl FnOnce(i64, &mut Told) -> R) -> R {
        let now = self.steady.now().us;
        match owner {
            Owner::Tenant(tenant) => look(now, &mut self.door(tenant).lock().told),
            Owner::Provider(provider) => look(now, &mut self.keys(provider).lock().told),
        }
    }

    /// Whether a request is in.
    pub(in crate::admission) fn has_pass(&self, tenant: TenantId, request: RequestId) -> bool {
        self.door(tenant).lock().passes().any(|(id, _)| id == request)
    }

    /// Whether a lease of this key is live.
    pub(in crate::admission) fn has_lease(&self, provider: ProviderId, lease: LeaseId, key: KeyId) -> bool {
        self.keys(provider).lock().lease_mut(lease).is_some_and(|lease| lease.key == key)
    }

    /// Every live lease.
    pub(in crate::admission) fn live_leases(&self) -> Vec<(ProviderId, Vec<(LeaseId, Leased)>)> {
        let providers: Vec<_> =
            self.providers.read().iter().map(|(id, keys)| (*id, Arc::clone(keys))).collect();
        providers
            .into_iter()
            .map(|(id, keys)| (id, keys.lock().leases().map(|(id, lease)| (id, *lease)).collect::<Vec<_>>()))
            .filter(|(_, leases)| !leases.is_empty())
            .collect()
    }

    /// Every live pass.
    pub(in crate::admission) fn live_passes(&self) -> Vec<(TenantId, Vec<(RequestId, Pass)>)> {
        let tenants: Vec<_> = self.tenants.read().iter().map(|(id, door)| (*id, Arc::clone(door))).collect();
        tenants
            .into_iter()
            .map(|(id, door)| {
                (id, door.lock().passes().map(|(id, pass)| (id, pass.clone())).collect::<Vec<_>>())
            })
            .filter(|(_, passes)| !passes.is_empty())
            .collect()
    }

    /// Remembers the seconds of the shared counters in which leases stand, those that had none yet.
    pub(in crate::admission) fn mark_shared(
        &self,
        provider: ProviderId,
        leases: impl Iterator<Item = (LeaseId, i64)>,
    ) {
        let keys = self.keys(provider);
        let mut keys = keys.lock();
        for (id, second) in leases {
            if let Some(lease) = keys.lease_mut(id) {
                lease.shared_second.get_or_insert(second);
            }
        }
    }
}
