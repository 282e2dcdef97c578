//! What repeats from usage event to usage event, told once: who asked for what, and what served it.
//! An event's row names both by ids that are computed from what they stand for, so that every replica
//! arrives at the same ones without asking, and a row that is there already is the right one.

use std::{collections::hash_map::Entry, hash::Hash};

use sha2::{Digest, Sha256};
use uuid::{Builder, Uuid};

use crate::{
    domain::{
        event::{Attempt, UsageEvent},
        ids::{AccessTokenId, IdMap, KeyId, MemberId, ModelId, ProviderId, ReplicaId, RouteId, TenantId},
        provider::ApiFormat,
    },
    store::{
        StoreError, Tx,
        insert::{Insert, batches},
    },
};

static CALLERS: Insert = Insert::into(
    "usage_callers",
    &["id", "tenant_id", "member_id", "token_id", "model_id", "model", "format", "stream", "replica_id"],
)
.then("on conflict (id) do nothing");
static UPSTREAMS: Insert =
    Insert::into("usage_upstreams", &["id", "route_id", "provider_id", "key_id", "upstream_model"])
        .then("on conflict (id) do nothing");

/// Who asked for what, and where it came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Caller<'a> {
    tenant_id: TenantId,
    member_id: Option<MemberId>,
    token_id: AccessTokenId,
    model_id: ModelId,
    model: &'a str,
    format: ApiFormat,
    stream: bool,
    replica_id: ReplicaId,
}

impl<'a> Caller<'a> {
    /// The caller of an event.
    pub(super) fn of(event: &'a UsageEvent) -> Self {
        Self {
            tenant_id: event.tenant_id,
            member_id: event.member_id,
            token_id: event.token_id,
            model_id: event.model_id,
            model: &event.model,
            format: event.format,
            stream: event.stream,
            replica_id: event.replica_id,
        }
    }
}

/// What served an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Upstream<'a> {
    route_id: RouteId,
    provider_id: ProviderId,
    key_id: KeyId,
    model: &'a str,
}

impl<'a> Upstream<'a> {
    /// What served this attempt.
    pub(super) fn of(attempt: &'a Attempt) -> Self {
        Self {
            route_id: attempt.route_id,
            provider_id: attempt.provider_id,
            key_id: attempt.key_id,
            model: &attempt.upstream_model,
        }
    }
}

/// A row whose id follows from its fields.
pub(super) trait Dimension: Copy + Eq + Hash {
    /// The id: the same wherever and whenever it is computed, and another for other fields.
    fn id(&self) -> Uuid;
}

impl Dimension for Caller<'_> {
    fn id(&self) -> Uuid {
        Fields::default()
            .id(self.tenant_id.uuid())
            .maybe_id(self.member_id.map(MemberId::uuid))
            .id(self.token_id.uuid())
            .id(self.model_id.uuid())
            .text(self.model)
            .text(self.format.as_str())
            .flag(self.stream)
            .id(self.replica_id.uuid())
            .into_uuid()
    }
}

impl Dimension for Upstream<'_> {
    fn id(&self) -> Uuid {
        Fields::default()
            .id(self.route_id.uuid())
            .id(self.provider_id.uuid())
            .id(self.key_id.uuid())
            .text(self.model)
            .into_uuid()
    }
}

/// Fields on their way into an id, each so written that no two rows' fields run together to the same.
/// Databases hold what came of it: it never changes.
#[derive(Default)]
struct Fields(Sha256);

impl Fields {
    fn id(self, id: Uuid) -> Self {
        Self(self.0.chain_update(id.as_bytes()))
    }

    fn maybe_id(self, id: Option<Uuid>) -> Self {
        let marked = self.flag(id.is_some());
        match id {
            Some(id) => marked.id(id),
            None => marked,
        }
    }

    fn flag(self, flag: bool) -> Self {
        Self(self.0.chain_update([u8::from(flag)]))
    }

    fn text(self, text: &str) -> Self {
        Self(self.0.chain_update((text.len() as u64).to_be_bytes()).chain_update(text))
    }

    fn into_uuid(self) -> Uuid {
        let hash: [u8; 32] = self.0.finalize().into();
        let mut id = [0; 16];
        id.copy_from_slice(&hash[..16]);
        Builder::from_custom_bytes(id).into_uuid()
    }
}

/// The distinct rows of a batch with their ids, each computed once.
struct Distinct<T>(IdMap<T, Uuid>);

impl<T: Dimension> Distinct<T> {
    fn new() -> Self {
        Self(IdMap::default())
    }

    fn id_of(&mut self, row: T) -> Uuid {
        match self.0.entry(row) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => *new.insert(row.id()),
        }
    }

    /// By id, in which order every recorder goes: two never wait for each other in a circle.
    fn sorted(&self) -> Vec<(Uuid, T)> {
        let mut rows: Vec<(Uuid, T)> = self.0.iter().map(|(row, id)| (*id, *row)).collect();
        rows.sort_unstable_by_key(|(id, _)| *id);
        rows
    }
}

/// An event and the rows that it names.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) event: &'a UsageEvent,
    pub(super) caller_id: Uuid,
    /// Of the last attempt.
    pub(super) upstream_id: Option<Uuid>,
}

/// The callers and upstreams of a batch of events.
pub(super) struct Dimensions<'a> {
    callers: Distinct<Caller<'a>>,
    upstreams: Distinct<Upstream<'a>>,
}

impl<'a> Dimensions<'a> {
    /// Those of `events`, all their attempts included; and the events with what they name.
    pub(super) fn of(events: &[&'a UsageEvent]) -> (Self, Vec<Named<'a>>) {
        let mut all = Self { callers: Distinct::new(), upstreams: Distinct::new() };
        let named = events
            .iter()
            .map(|&event| {
                let mut upstream_id = None;
                for attempt in &event.attempts {
                    upstream_id = Some(all.upstream_id(attempt));
                }
                Named { event, caller_id: all.callers.id_of(Caller::of(event)), upstream_id }
            })
            .collect();
        (all, named)
    }

    /// The id of what served an attempt.
    pub(super) fn upstream_id(&mut self, attempt: &'a Attempt) -> Uuid {
        self.upstreams.id_of(Upstream::of(attempt))
    }
}

impl Tx {
    /// Sees to it that the callers and upstreams are there. Also those that an earlier batch wrote: a
    /// database that was put back to an older state has them no more.
    pub(super) async fn insert_dimensions(&mut self, all: &Dimensions<'_>) -> Result<(), StoreError> {
        for (size, batch) in batches(&all.callers.sorted()) {
            let text = CALLERS.text(&self.open, size);
            executing!(self, conn => async {
                let mut query = sqlx::query(text);
                for (id, caller) in batch {
                    bind_row!(
                        query,
                        *id,
                        caller.tenant_id.uuid(),
                        caller.member_id.map(MemberId::uuid),
                        caller.token_id.uuid(),
                        caller.model_id.uuid(),
                        caller.model,
                        caller.format.as_str(),
                        caller.stream,
                        caller.replica_id.uuid(),
                    );
                }
                query.execute(conn).await
            })?;
        }
        for (size, batch) in batches(&all.upstreams.sorted()) {
            let text = UPSTREAMS.text(&self.open, size);
            executing!(self, conn => async {
                let mut query = sqlx::query(text);
                for (id, upstream) in batch {
                    bind_row!(
                        query,
                        *id,
                        upstream.route_id.uuid(),
                        upstream.provider_id.uuid(),
                        upstream.key_id.uuid(),
                        upstream.model,
                    );
                }
                query.execute(conn).await
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const fn id(n: u128) -> Uuid {
        Uuid::from_u128(n)
    }

    const CALLER: Caller<'_> = Caller {
        tenant_id: TenantId::from_uuid(id(1)),
        member_id: Some(MemberId::from_uuid(id(2))),
        token_id: AccessTokenId::from_uuid(id(3)),
        model_id: ModelId::from_uuid(id(4)),
        model: "gpt-4o",
        format: ApiFormat::OpenAiChat,
        stream: true,
        replica_id: ReplicaId::from_uuid(id(5)),
    };
    const UPSTREAM: Upstream<'_> = Upstream {
        route_id: RouteId::from_uuid(id(6)),
        provider_id: ProviderId::from_uuid(id(7)),
        key_id: KeyId::from_uuid(id(8)),
        model: "upstream/name:1",
    };

    /// Computed apart from this code. Databases hold such ids: other ones would give every caller a
    /// second row.
    #[test]
    fn ids_are_what_they_have_always_been() {
        let without = Caller { member_id: None, ..CALLER };
        assert_eq!(CALLER.id().to_string(), "27a0c134-6ca1-82f0-9ef0-7f835e2475f2");
        assert_eq!(without.id().to_string(), "78b0a587-0255-8716-b7b3-965bdcab480f");
        assert_eq!(UPSTREAM.id().to_string(), "851dc105-d321-8d0d-82b7-dc84e08b5b2e");
        assert_eq!(CALLER.id().get_version_num(), 8);
    }

    #[test]
    fn every_field_has_its_part_in_the_id() {
        let callers = [
            CALLER,
            Caller { tenant_id: TenantId::from_uuid(id(9)), ..CALLER },
            Caller { member_id: Some(MemberId::from_uuid(id(9))), ..CALLER },
            Caller { member_id: Some(MemberId::from_uuid(id(0))), ..CALLER },
            Caller { member_id: None, ..CALLER },
            Caller { token_id: AccessTokenId::from_uuid(id(9)), ..CALLER },
            Caller { model_id: ModelId::from_uuid(id(9)), ..CALLER },
            Caller { model: "gpt-4o\0", ..CALLER },
            Caller { model: "", ..CALLER },
            Caller { stream: false, ..CALLER },
            Caller { replica_id: ReplicaId::from_uuid(id(9)), ..CALLER },
        ];
        let upstreams = [
            UPSTREAM,
            Upstream { route_id: RouteId::from_uuid(id(9)), ..UPSTREAM },
            Upstream { provider_id: ProviderId::from_uuid(id(9)), ..UPSTREAM },
            Upstream { key_id: KeyId::from_uuid(id(9)), ..UPSTREAM },
            Upstream { model: "upstream/name", ..UPSTREAM },
        ];
        assert_eq!(callers.iter().map(Caller::id).collect::<HashSet<_>>().len(), callers.len());
        assert_eq!(upstreams.iter().map(Upstream::id).collect::<HashSet<_>>().len(), upstreams.len());
    }

    #[test]
    fn texts_do_not_run_together() {
        let id = |one: &str, other: &str| Fields::default().text(one).text(other).into_uuid();
        assert_ne!(id("ab", "c"), id("a", "bc"));
        assert_ne!(id("", "a"), id("a", ""));
    }

    #[test]
    fn equal_rows_are_one_and_the_rows_go_by_id() {
        let mut distinct = Distinct::new();
        let rows: Vec<String> = (0..20).map(|n| format!("m{}", n % 10)).collect();
        for model in &rows {
            let caller = Caller { model, ..CALLER };
            assert_eq!(distinct.id_of(caller), caller.id());
        }
        let sorted = distinct.sorted();
        assert_eq!(sorted.len(), 10);
        assert!(sorted.is_sorted_by(|(one, _), (next, _)| one < next));
    }
}
