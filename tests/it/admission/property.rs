//! Random interleavings against a naive model: lists of what was granted, looked through each time.
//!
//! The backend's clock and the model's may differ by what passes during a call and, after a step
//! back, by as much as the step; so the model says «surely» and «perhaps», and only what is sure is
//! asserted.

use std::{collections::HashMap, time::Duration};

use proptest::{prelude::*, test_runner::TestRunner};
use tollway::{
    admission::{Acquire, CoolFor, CoolScope, Enter, LEASE_FOR, Lease, Pool, PoolKey, Refused, Subject},
    domain::{
        clock::Timestamp,
        ids::{KeyId, ModelId, TenantId},
        limits::{LimitKind, Limits},
    },
};

use super::world::*;
use crate::harness::rounds;

const MINUTE: Duration = Duration::from_secs(60);
/// The window with its guard and its whole oldest bucket, as the design states it: what was counted
/// longer ago has surely left.
const SURELY_LEFT: Duration = Duration::from_secs(62);
/// Steps back stay below this; a backend waits them out.
const BACK: Duration = Duration::from_millis(800);
/// Redis keeps deadlines in whole milliseconds: what lapses there does so up to two of them later.
const SURELY_LAPSED: Duration = LEASE_FOR.saturating_add(Duration::from_millis(2));

#[derive(Debug, Clone)]
enum Step {
    Admit { tenant: usize, model: usize, tokens: u64 },
    Acquire { tenant: usize, model: usize, tokens: u64, exclude: usize },
    SettleLease { which: usize, used: Option<u64> },
    SettlePass { which: usize, used: Option<u64> },
    Cool { key: usize, model: Option<usize>, span_s: u64 },
    Clear { key: usize, model: Option<usize> },
    Advance { ms: u64 },
    Back { ms: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let used = || prop::option::of(0u64..150);
    let step = prop_oneof![
        6 => (0..2usize, 0..2usize, 0u64..60).prop_map(|(tenant, model, tokens)| Step::Admit { tenant, model, tokens }),
        6 => (0..2usize, 0..2usize, 0u64..60, 0..3usize)
            .prop_map(|(tenant, model, tokens, exclude)| Step::Acquire { tenant, model, tokens, exclude }),
        4 => (any::<usize>(), used()).prop_map(|(which, used)| Step::SettleLease { which, used }),
        4 => (any::<usize>(), used()).prop_map(|(which, used)| Step::SettlePass { which, used }),
        1 => (0..5usize, prop::option::of(0..2usize), 1u64..90)
            .prop_map(|(key, model, span_s)| Step::Cool { key, model, span_s }),
        1 => (0..5usize, prop::option::of(0..2usize)).prop_map(|(key, model)| Step::Clear { key, model }),
        4 => (1u64..20_000).prop_map(|ms| Step::Advance { ms }),
        1 => (1u64..700).prop_map(|ms| Step::Back { ms }),
    ];
    prop::collection::vec(step, 1..120)
}

fn limits() -> impl Strategy<Value = Limits> {
    (prop::option::of(0u32..8), prop::option::of(1u64..200), prop::option::of(1u32..5))
        .prop_map(|(rpm, tpm, concurrency)| Limits { rpm, tpm, concurrency })
}

/// Something counted in one window.
#[derive(Debug, Clone)]
struct Counted {
    /// In the time that truly passes, which no step back touches.
    truly_at: Duration,
    /// The latest instant at which the backend may have counted it.
    latest_at: Timestamp,
    earliest_at: Timestamp,
    /// The least that the backend may count.
    tokens: u64,
    /// The most.
    most: u64,
    /// None once settled.
    live: Option<()>,
}

/// One window: everything ever counted.
#[derive(Debug, Default)]
struct Naive(Vec<Counted>);

impl Naive {
    fn surely_has_room(&self, now: Timestamp, limits: Limits, tokens: u64) -> bool {
        let in_window = |c: &&Counted| now.since(c.latest_at) < SURELY_LEFT + Duration::from_secs(1);
        let requests = self.0.iter().filter(in_window).count();
        let used: u64 = self.0.iter().filter(in_window).map(|c| c.most).sum();
        let in_flight =
            self.0.iter().filter(|c| c.live.is_some() && now.since(c.latest_at) < SURELY_LAPSED).count();
        limits.rpm.is_none_or(|rpm| requests < rpm as usize)
            && limits.tpm.is_none_or(|tpm| tpm > 0 && (used == 0 || used + tokens.max(1) <= tpm))
            && limits.concurrency.is_none_or(|slots| in_flight < slots as usize)
    }

    /// Checks what was just counted against every limit.
    fn assert_within(&self, limits: Limits, until: Timestamp) {
        let newest = self.0.last().expect("something was counted");
        let of_minute: Vec<_> =
            self.0.iter().filter(|c| newest.truly_at.saturating_sub(c.truly_at) < MINUTE).collect();
        if let Some(rpm) = limits.rpm {
            assert!(of_minute.len() <= rpm as usize, "{} in a minute of {rpm}", of_minute.len());
        }
        let live = |c: &&Counted| {
            c.live.is_some() && until.since(c.earliest_at) + Duration::from_millis(1) < LEASE_FOR
        };
        let in_flight = self.0.iter().filter(live).count();
        assert!(limits.concurrency.is_none_or(|slots| in_flight <= slots as usize), "{in_flight} in flight");
        if let Some(tpm) = limits.tpm {
            let before: u64 = of_minute.iter().rev().skip(1).map(|c| c.tokens).sum();
            assert!(before == 0 || before + newest.tokens <= tpm, "{before} + {} of {tpm}", newest.tokens);
        }
    }
}

struct Model<'a> {
    world: &'a World,
    pool: Pool,
    tenants: [TenantId; 2],
    models: [ModelId; 2],
    limits: [Limits; 2],
    truly: Duration,
    latest: Timestamp,
    keys: HashMap<KeyId, Naive>,
    doors: HashMap<TenantId, Naive>,
    used: HashMap<KeyId, u64>,
    uses: u64,
    cooled: HashMap<(KeyId, Option<ModelId>), (Timestamp, Timestamp)>,
    leases: Vec<(Lease, Acquire, usize)>,
    passes: Vec<(Enter, usize)>,
}

impl Model<'_> {
    /// What the backend may take for now: no earlier than the clock, no later than the latest
    /// reading before a step back.
    fn now(&mut self) -> (Timestamp, Timestamp) {
        let now = self.world.now();
        self.latest = self.latest.max(now);
        (now, self.latest)
    }

    fn counted(&self, before: Timestamp, after: Timestamp, tokens: u64) -> Counted {
        Counted {
            truly_at: self.truly,
            latest_at: after,
            earliest_at: before,
            tokens,
            most: tokens,
            live: Some(()),
        }
    }

    fn is_visible(key: &PoolKey, acquire: &Acquire) -> bool {
        key.tenant.is_none_or(|owner| owner == acquire.tenant) && !acquire.exclude.contains(&key.id)
    }

    fn surely_usable(&self, key: &PoolKey, acquire: &Acquire, now: Timestamp) -> bool {
        let cool =
            |model| self.cooled.get(&(key.id, model)).is_some_and(|(_, latest)| now < latest.plus(BACK));
        Self::is_visible(key, acquire)
            && !cool(None)
            && !cool(Some(acquire.model))
            && key.limits.rpm != Some(0)
            && self.keys.get(&key.id).unwrap_or(&Naive::default()).surely_has_room(
                now,
                key.limits,
                acquire.tokens,
            )
    }

    fn attempt(&self, tenant: usize, model: usize, tokens: u64) -> Acquire {
        Acquire { tokens, ..acquire(&self.pool, self.tenants[tenant], self.models[model]) }
    }

    fn acquired(&mut self, attempt: &Acquire, lease: Lease, before: Timestamp, after: Timestamp) {
        let key = *self.pool.keys.iter().find(|key| key.id == lease.key).expect("a key of the pool");
        assert!(Self::is_visible(&key, attempt));
        for model in [None, Some(attempt.model)] {
            let cool = self.cooled.get(&(key.id, model));
            assert!(cool.is_none_or(|(earliest, _)| after >= *earliest), "{key:?} is cooling");
        }
        let counted = self.counted(before, after, attempt.tokens);
        let window = self.keys.entry(key.id).or_default();
        window.0.push(counted);
        window.assert_within(key.limits, before);
        let at = window.0.len() - 1;
        // Whoever was surely usable stands behind it in the order.
        let rank = |key: &PoolKey| (key.priority, self.used.get(&key.id).copied().unwrap_or(0));
        for other in self.pool.keys.iter().filter(|other| other.id != key.id) {
            if self.surely_usable(other, attempt, before) {
                assert!(rank(&key) <= rank(other), "{other:?} was next, not {key:?}");
            }
        }
        self.uses += 1;
        self.used.insert(key.id, self.uses);
        self.leases.push((lease, attempt.clone(), at));
    }

    fn refused(&self, attempt: &Acquire, before: Timestamp) {
        let usable = self.pool.keys.iter().find(|key| self.surely_usable(key, attempt, before));
        assert_eq!(usable, None, "is usable, and was not found");
    }

    async fn play(&mut self, step: Step) {
        let (before, _) = self.now();
        match step {
            Step::Admit { tenant, model, tokens } => {
                let attempt = self.attempt(tenant, model, tokens);
                let limits = self.limits[tenant];
                let door = Enter { tokens, ..enter(self.tenants[tenant], limits) };
                let answer = self.world.admission.admit(&door, &attempt).await;
                self.world.told().await;
                let (_, after) = self.now();
                match answer {
                    Ok(lease) => {
                        let counted = self.counted(before, after, tokens);
                        let window = self.doors.entry(door.tenant).or_default();
                        window.0.push(counted);
                        window.assert_within(limits, before);
                        let at = window.0.len() - 1;
                        self.passes.push((door, at));
                        self.acquired(&attempt, lease, before, after);
                    }
                    Err(Refused::NoKey(_)) => self.refused(&attempt, before),
                    Err(Refused::Limit { kind, .. }) => {
                        assert_ne!(kind, LimitKind::Funds);
                        let empty = Naive::default();
                        let window = self.doors.get(&door.tenant).unwrap_or(&empty);
                        assert!(!window.surely_has_room(before, limits, tokens), "{kind:?} had room");
                    }
                    Err(other) => panic!("{other:?}"),
                }
            }
            Step::Acquire { tenant, model, tokens, exclude } => {
                let mut attempt = self.attempt(tenant, model, tokens);
                attempt.exclude = self.pool.keys.iter().take(exclude).map(|key| key.id).collect();
                let answer = self.world.admission.acquire(&attempt).await;
                let (_, after) = self.now();
                match answer {
                    Ok(lease) => self.acquired(&attempt, lease, before, after),
                    Err(Refused::NoKey(_)) => self.refused(&attempt, before),
                    Err(other) => panic!("{other:?}"),
                }
            }
            Step::SettleLease { which, used } => {
                if self.leases.is_empty() {
                    return;
                }
                let (lease, attempt, at) = self.leases.swap_remove(which % self.leases.len());
                self.world.settle(lease, Settle { used, ..served(&attempt) }).await;
                let (_, after) = self.now();
                end(&mut self.keys.get_mut(&lease.key).expect("it was counted").0[at], used, after);
            }
            Step::SettlePass { which, used } => {
                if self.passes.is_empty() {
                    return;
                }
                let (door, at) = self.passes.swap_remove(which % self.passes.len());
                self.world.leave(&door, used).await;
                let (_, after) = self.now();
                end(&mut self.doors.get_mut(&door.tenant).expect("it was counted").0[at], used, after);
            }
            Step::Cool { key, model, span_s } => {
                let key = self.pool.keys[key].id;
                let model = model.map(|model| self.models[model]);
                let scope = model.map_or(CoolScope::Key(key), |model| CoolScope::KeyModel(key, model));
                let span = Duration::from_secs(span_s);
                self.world.cool(&self.pool, scope, CoolFor::Span(span)).await.expect("a deadline");
                let (_, after) = self.now();
                let cooled = self.cooled.entry((key, model)).or_default();
                *cooled = (cooled.0.max(before.plus(span)), cooled.1.max(after.plus(span)));
            }
            Step::Clear { key, model } => {
                let key = self.pool.keys[key].id;
                let model = model.map(|model| self.models[model]);
                let scope = model.map_or(CoolScope::Key(key), |model| CoolScope::KeyModel(key, model));
                self.world.admission.clear(self.pool.provider, scope).await;
                self.cooled.remove(&(key, model));
            }
            Step::Advance { ms } => {
                self.truly += Duration::from_millis(ms);
                self.world.advance(Duration::from_millis(ms));
            }
            Step::Back { ms } => self.world.turn(-i64::try_from(ms).unwrap()),
        }
    }

    async fn settle_all(&mut self) {
        for (lease, attempt, _) in std::mem::take(&mut self.leases) {
            self.world.settle(lease, served(&attempt)).await;
        }
        for (door, _) in std::mem::take(&mut self.passes) {
            self.world.leave(&door, None).await;
        }
        for (key, live) in self.world.admission.inspect_pool(&self.pool).await {
            assert_eq!(live.in_flight, 0, "{key} has a lease left");
        }
        for tenant in self.tenants {
            let live = self.world.admission.inspect_tenant(tenant, &[Subject::Tenant]).await;
            assert_eq!(live[0].in_flight, 0, "{tenant} has a pass left");
        }
    }
}

/// Settles what was counted. What has lapsed is corrected only if nobody has swept it away yet, so both
/// numbers count then: the smaller for what must fit, the larger for what surely has room.
fn end(counted: &mut Counted, used: Option<u64>, after: Timestamp) {
    counted.live = None;
    let surely_live = after.since(counted.earliest_at) < LEASE_FOR;
    if let Some(used) = used {
        let or = |unsure: u64| if surely_live { used } else { unsure };
        (counted.tokens, counted.most) = (or(counted.tokens.min(used)), or(counted.most.max(used)));
    }
}

fn holds_on(world: impl Fn() -> World, cases: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = ProptestConfig { cases: u32::try_from(cases).unwrap(), ..ProptestConfig::default() };
    let keys = prop::collection::vec((limits(), -1..1i32, prop::option::of(0..2usize)), 5);
    let input = (keys, limits(), limits(), steps());
    TestRunner::new(config)
        .run(&input, |(keys, first, second, steps)| {
            let world = world();
            let tenants = [tenant(), tenant()];
            let keys = keys.into_iter().map(|(limits, priority, owner)| PoolKey {
                tenant: owner.map(|owner| tenants[owner]),
                ..key(priority, limits)
            });
            let mut model = Model {
                latest: world.now(),
                world: &world,
                pool: pool(keys),
                tenants,
                models: [self::model(), self::model()],
                limits: [first, second],
                truly: Duration::ZERO,
                keys: HashMap::new(),
                doors: HashMap::new(),
                used: HashMap::new(),
                uses: 0,
                cooled: HashMap::new(),
                leases: Vec::new(),
                passes: Vec::new(),
            };
            runtime.block_on(async {
                // The pool is known from its first use on.
                let probe = Acquire {
                    exclude: model.pool.keys.iter().map(|key| key.id).collect(),
                    ..model.attempt(0, 0, 0)
                };
                let _ = world.admission.acquire(&probe).await;
                for step in steps {
                    model.play(step).await;
                }
                model.settle_all().await;
            });
            Ok(())
        })
        .unwrap();
}

#[test]
fn any_interleaving_keeps_the_promises_in_process() {
    holds_on(World::local, rounds(400, 20_000));
}

#[test]
fn any_interleaving_keeps_the_promises_in_redis() {
    holds_on(World::shared_redis, rounds(40, 1_000));
}
