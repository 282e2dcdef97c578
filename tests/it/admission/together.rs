//! What is asked of Redis in one moment goes out in one call: it is decided as if each had come alone.

use std::time::Duration;

use futures_util::future::join_all;
use proptest::{prelude::*, test_runner::TestRunner};
use tollway::{
    admission::{Acquire, CoolFor, CoolScope, Enter, KeyLive, Lease, Pool, Refused, Subject, SubjectLive},
    domain::{
        ids::{KeyId, ModelId, TenantId},
        limits::Limits,
    },
};

use super::world::*;
use crate::harness::rounds;

#[derive(Debug, Clone)]
enum Moment {
    /// Keys are acquired: for which tenant and model, with how many tokens.
    Acquire(Vec<(usize, usize, u64)>),
    /// Requests enter: of which tenant, with how many tokens.
    Enter(Vec<(usize, u64)>),
    /// So many of the oldest attempts and requests end, with what they used.
    End(Vec<Option<u64>>),
    /// A key is taken out.
    Cool(usize),
}

fn moments() -> impl Strategy<Value = Vec<Moment>> {
    let moment = prop_oneof![
        4 => prop::collection::vec((0..2usize, 0..2usize, 0u64..60), 1..12).prop_map(Moment::Acquire),
        4 => prop::collection::vec((0..2usize, 0u64..60), 1..12).prop_map(Moment::Enter),
        4 => prop::collection::vec(prop::option::of(0u64..150), 1..20).prop_map(Moment::End),
        1 => (0..3usize).prop_map(Moment::Cool),
    ];
    prop::collection::vec(moment, 1..20)
}

fn limits() -> impl Strategy<Value = Limits> {
    (prop::option::of(0u32..30), prop::option::of(1u64..600), prop::option::of(1u32..12))
        .prop_map(|(rpm, tpm, concurrency)| Limits { rpm, tpm, concurrency })
}

/// One of two alike: the same is asked of both, of one in whole moments, of the other one by one.
struct Side {
    world: World,
    at_once: bool,
    /// Its keys have limits.
    pool: Pool,
    /// Its one key has none: what enters is not held up by it.
    open: Pool,
    tenants: [(TenantId, Limits); 2],
    models: [ModelId; 2],
    leases: Vec<(Lease, Acquire)>,
    passes: Vec<(Enter, Lease, Acquire)>,
}

impl Side {
    fn new(at_once: bool, keys: &[Limits], tenants: [Limits; 2]) -> Self {
        Self {
            world: World::shared_redis(),
            at_once,
            pool: pool(keys.iter().map(|limits| key(0, *limits))),
            open: pool([key(0, Limits::default())]),
            tenants: tenants.map(|limits| (tenant(), limits)),
            models: [model(), model()],
            leases: Vec::new(),
            passes: Vec::new(),
        }
    }

    async fn all<T>(&self, asked: Vec<impl Future<Output = T>>) -> Vec<T> {
        if self.at_once {
            return join_all(asked).await;
        }
        let mut answers = Vec::new();
        for one in asked {
            answers.push(one.await);
        }
        answers
    }

    fn place_of(&self, key: KeyId) -> usize {
        self.pool.keys.iter().position(|known| known.id == key).expect("a key of the pool")
    }

    /// What came of it, without what differs between two worlds.
    async fn play(&mut self, moment: &Moment) -> Vec<Result<usize, String>> {
        let counted = |refused: Refused| match refused {
            Refused::Limit { subject, kind, .. } => format!("{subject:?} {kind:?}"),
            Refused::NoKey(none) => format!("{} {} {}", none.limited, none.failing, none.full),
            other => format!("{other:?}"),
        };
        match moment {
            Moment::Acquire(asked) => {
                let asked: Vec<Acquire> = asked
                    .iter()
                    .map(|(tenant, model, tokens)| Acquire {
                        tokens: *tokens,
                        ..acquire(&self.pool, self.tenants[*tenant].0, self.models[*model])
                    })
                    .collect();
                let answers =
                    self.all(asked.iter().map(|one| self.world.admission.acquire(one)).collect()).await;
                let got = asked
                    .iter()
                    .zip(&answers)
                    .filter_map(|(one, got)| Some((got.clone().ok()?, one.clone())));
                self.leases.extend(got.collect::<Vec<_>>());
                answers
                    .into_iter()
                    .map(|got| got.map(|lease| self.place_of(lease.key)).map_err(counted))
                    .collect()
            }
            Moment::Enter(asked) => {
                let asked: Vec<(Enter, Acquire)> = asked
                    .iter()
                    .map(|(tenant, tokens)| {
                        let (tenant, limits) = self.tenants[*tenant];
                        let door = Enter { tokens: *tokens, ..enter(tenant, limits) };
                        (door, acquire(&self.open, tenant, self.models[0]))
                    })
                    .collect();
                let answers = self
                    .all(asked.iter().map(|(door, one)| self.world.admission.admit(door, one)).collect())
                    .await;
                let got = asked.into_iter().zip(&answers);
                self.passes.extend(got.filter_map(|((door, one), got)| Some((door, got.clone().ok()?, one))));
                self.world.told().await;
                answers.into_iter().map(|got| got.map(|_| 0).map_err(counted)).collect()
            }
            Moment::End(used) => {
                for used in used {
                    if !self.leases.is_empty() {
                        let (lease, one) = self.leases.remove(0);
                        let end = Settle { used: *used, ..served(&one) };
                        self.settle(lease, end).await;
                    }
                    if !self.passes.is_empty() {
                        let (door, lease, one) = self.passes.remove(0);
                        self.settle(lease, served(&one)).await;
                        self.world.end(&door, *used);
                        self.told_if_alone().await;
                    }
                }
                self.world.told().await;
                Vec::new()
            }
            Moment::Cool(place) => {
                let key = self.pool.keys[*place].id;
                self.world
                    .cool(&self.pool, CoolScope::Key(key), CoolFor::Span(Duration::from_secs(3_600)))
                    .await;
                Vec::new()
            }
        }
    }

    async fn settle(&self, lease: Lease, how: Settle) {
        self.world.end_lease(lease, how);
        self.told_if_alone().await;
    }

    async fn told_if_alone(&self) {
        if !self.at_once {
            self.world.told().await;
        }
    }

    /// What the counters say in the end.
    async fn counters(&self) -> (Vec<(u32, u64, u32)>, Vec<SubjectLive>) {
        let keys = self.world.admission.inspect_pool(&self.pool).await;
        let keys = keys
            .into_iter()
            .map(|(_, KeyLive { rpm_used, tpm_used, in_flight, .. })| (rpm_used, tpm_used, in_flight));
        let mut doors = Vec::new();
        for (tenant, _) in self.tenants {
            doors.extend(self.world.admission.inspect_tenant(tenant, &[Subject::Tenant]).await);
        }
        self.world.assert_counted_together();
        (keys.collect(), doors)
    }
}

#[test]
fn what_goes_out_together_is_decided_as_if_each_came_alone() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cases = u32::try_from(rounds(30, 500)).unwrap();
    let input = (prop::collection::vec(limits(), 3), limits(), limits(), moments());
    TestRunner::new(ProptestConfig { cases, ..ProptestConfig::default() })
        .run(&input, |(keys, first, second, moments)| {
            let mut sides = [true, false].map(|at_once| Side::new(at_once, &keys, [first, second]));
            runtime.block_on(async {
                for moment in &moments {
                    let [at_once, alone] = &mut sides;
                    prop_assert_eq!(at_once.play(moment).await, alone.play(moment).await, "{:?}", moment);
                }
                prop_assert_eq!(sides[0].counters().await, sides[1].counters().await);
                Ok(())
            })
        })
        .unwrap();
}

#[tokio::test]
async fn under_a_steady_load_nobody_goes_on_telling_for_ever() {
    let world = World::shared_redis();
    let (pool, team) = (pool([key(0, Limits::default())]), tenant());
    let attempt = acquire(&pool, team, model());
    let lease = world.admission.acquire(&attempt).await.expect("a key");
    // A few end in the time that telling the last few takes.
    for n in 0..60_000 {
        if n % 20 == 0 {
            world.end_lease(lease, served(&attempt));
        }
        tokio::task::yield_now().await;
    }
    let alive = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert!(alive < 20, "{alive} tasks");
}
