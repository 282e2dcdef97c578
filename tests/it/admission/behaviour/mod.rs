//! What admission promises, whatever counts.

mod cooldowns;

use std::{collections::HashMap, sync::Arc, time::Duration};

use tollway::{
    admission::{CoolFor, CoolScope, LEASE_FOR, NoKey, Pool, PoolKey, Refused, Subject, SubjectLive},
    domain::{
        ids::{KeyId, MemberId},
        limits::{LimitKind, Limits},
        money::Nanos,
    },
};

pub use self::cooldowns::*;
use super::world::*;

const SECOND: Duration = Duration::from_secs(1);

fn limited(result: Result<impl std::fmt::Debug, Refused>, kind: LimitKind) -> Duration {
    match result {
        Err(Refused::Limit { kind: met, retry_after, .. }) if met == kind => retry_after,
        other => panic!("expected a full {kind:?} window, got {other:?}"),
    }
}

pub async fn an_rpm_limit_is_kept_and_comes_back_when_named(w: &World) {
    let (pool, team) = (pool([key(0, Limits::default())]), tenant());
    let (door, attempt) = (enter(team, rpm(3)), acquire(&pool, team, model()));
    w.to_next_second();
    for _ in 0..3 {
        w.admission.admit(&another(&door), &again(&attempt)).await.unwrap();
    }
    let wait = limited(w.admission.admit(&another(&door), &again(&attempt)).await, LimitKind::Rpm);
    assert!(wait > 60 * SECOND && wait <= 62 * SECOND, "{wait:?}");
    w.advance(wait.saturating_sub(SECOND));
    limited(w.admission.admit(&another(&door), &again(&attempt)).await, LimitKind::Rpm);
    w.advance(SECOND);
    w.admission.admit(&another(&door), &again(&attempt)).await.unwrap();
}

pub async fn ninety_five_percent_of_an_rpm_limit_are_usable(w: &World) {
    let team = tenant();
    let attempt = acquire(&pool([key(0, rpm(20))]), team, model());
    let began = w.now();
    let mut used = 0;
    while w.now().since(began) < 600 * SECOND {
        match w.admission.acquire(&again(&attempt)).await {
            Ok(_) => used += 1,
            Err(Refused::NoKey(NoKey { retry_after: Some(wait), .. })) => w.advance(wait),
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(used >= 200 * 95 / 100, "{used} of 200");
}

pub async fn every_subject_must_agree_and_none_is_counted_when_one_does_not(w: &World) {
    let team = tenant();
    let member = Subject::Member(MemberId::generate(w.now(), ten_bytes()));
    let mut door = enter(team, rpm(10));
    door.windows.push((member, rpm(1)));
    let attempt = acquire(&pool([key(0, Limits::default())]), team, model());
    w.admission.admit(&door, &attempt).await.unwrap();
    let refused = w.admission.admit(&another(&door), &again(&attempt)).await.unwrap_err();
    assert!(matches!(refused, Refused::Limit { subject, kind: LimitKind::Rpm, .. } if subject == member));
    let live = w.admission.inspect_tenant(team, &[Subject::Tenant, member]).await;
    assert_eq!(live.iter().map(|live| live.rpm_used).collect::<Vec<_>>(), [1, 1]);
}

pub async fn a_refused_key_undoes_the_entry(w: &World) {
    let team = tenant();
    let door = enter(team, Limits { rpm: Some(5), tpm: Some(100), concurrency: Some(1) });
    let door =
        tollway::admission::Enter { tokens: 40, hold: Nanos::new(7), funds: Some(Nanos::new(9)), ..door };
    let nothing = acquire(&pool([key(0, rpm(0))]), team, model());
    assert_eq!(no_key(w.admission.admit(&door, &nothing).await).retry_after, None);
    w.told().await;
    let live = w.admission.inspect_tenant(team, &[Subject::Tenant]).await;
    assert_eq!(live, [SubjectLive::default()]);
}

pub async fn a_refused_entry_undoes_the_lease(w: &World) {
    let team = tenant();
    let one = key(0, Limits { rpm: Some(5), tpm: None, concurrency: Some(1) });
    let pool = pool([one]);
    let attempt = acquire(&pool, team, model());
    limited(w.admission.admit(&enter(team, rpm(0)), &attempt).await, LimitKind::Rpm);
    w.told().await;
    let live = w.admission.inspect_pool(&pool).await;
    assert_eq!((live[0].1.rpm_used, live[0].1.in_flight), (0, 0));
    w.admission.acquire(&again(&attempt)).await.unwrap();
}

pub async fn a_slot_comes_back_when_settled(w: &World) {
    let team = tenant();
    let pool = pool([key(0, slots(1))]);
    let (door, attempt) = (enter(team, slots(2)), acquire(&pool, team, model()));
    let first = w.admission.admit(&door, &attempt).await.unwrap();
    let none = no_key(w.admission.acquire(&again(&attempt)).await);
    assert_eq!((none.full, none.is_limit(), none.retry_after), (1, true, Some(SECOND)));
    w.settle(first, served(&attempt)).await;
    let second = w.admission.admit(&another(&door), &again(&attempt)).await.unwrap();
    w.settle(second, served(&attempt)).await;
    limited(w.admission.admit(&another(&door), &again(&attempt)).await, LimitKind::Concurrency);
    w.leave(&door, None).await;
    w.admission.admit(&another(&door), &again(&attempt)).await.unwrap();
}

pub async fn a_slot_nobody_renews_is_free_again(w: &World) {
    let team = tenant();
    let pool = pool([key(0, slots(1))]);
    let (door, attempt) = (enter(team, slots(1)), acquire(&pool, team, model()));
    w.admission.admit(&door, &attempt).await.unwrap();
    w.advance(LEASE_FOR.saturating_sub(5 * SECOND));
    no_key(w.admission.acquire(&again(&attempt)).await);
    w.advance(6 * SECOND);
    w.admission.admit(&another(&door), &again(&attempt)).await.unwrap();
}

pub async fn tokens_are_reserved_and_corrected_where_they_were_counted(w: &World) {
    let team = tenant();
    let pool = pool([key(0, tpm(1_000))]);
    let mut attempt = acquire(&pool, team, model());
    attempt.tokens = 700;
    w.to_next_second();
    let lease = w.admission.acquire(&attempt).await.unwrap();
    let wait = no_key(w.admission.acquire(&again(&attempt)).await).retry_after.unwrap();
    assert!(wait > 60 * SECOND, "{wait:?}");
    w.advance(10 * SECOND);
    w.settle(lease, Settle { used: Some(100), ..served(&attempt) }).await;
    w.admission.acquire(&again(&attempt)).await.unwrap();
    // The corrected tokens leave with the second in which they were reserved.
    w.advance(wait.saturating_sub(10 * SECOND));
    let live = w.admission.inspect_pool(&pool).await;
    assert_eq!(live[0].1.tpm_used, 700);
}

pub async fn a_request_larger_than_the_tpm_limit_passes_an_empty_window(w: &World) {
    let team = tenant();
    let mut door = enter(team, tpm(100));
    door.tokens = 5_000;
    let mut attempt = acquire(&pool([key(0, tpm(100))]), team, model());
    attempt.tokens = 5_000;
    w.admission.admit(&door, &attempt).await.unwrap();
    limited(w.admission.admit(&another(&door), &again(&attempt)).await, LimitKind::Tpm);
    w.advance(62 * SECOND);
    w.admission.admit(&another(&door), &again(&attempt)).await.unwrap();
}

pub async fn a_thousand_acquires_are_shared_fairly(w: &World) {
    let team = tenant();
    let attempt = acquire(&pool((0..10).map(|_| key(0, Limits::default()))), team, model());
    let mut used: HashMap<KeyId, u32> = HashMap::new();
    for n in 0..1_000 {
        let lease = w.admission.acquire(&again(&attempt)).await.unwrap();
        *used.entry(lease.key).or_default() += 1;
        if n % 3 == 0 {
            w.settle(lease, served(&attempt)).await;
        }
    }
    assert_eq!((used.len(), used.values().min(), used.values().max()), (10, Some(&100), Some(&100)));
}

pub async fn requests_refused_at_the_door_leave_the_order_of_keys_alone(w: &World) {
    let team = tenant();
    let attempt = acquire(&pool((0..2).map(|_| key(0, Limits::default()))), team, model());
    let mut order = Vec::new();
    for _ in 0..4 {
        order.push(w.admission.acquire(&again(&attempt)).await.unwrap().key);
        limited(w.admission.admit(&enter(team, rpm(0)), &again(&attempt)).await, LimitKind::Rpm);
        w.told().await;
    }
    assert!(order[0] != order[1] && order[..2] == order[2..], "{order:?}");
}

pub async fn lower_priority_is_tried_first_and_other_tenants_keys_do_not_exist(w: &World) {
    let (team, other) = (tenant(), tenant());
    let owned = |priority, limits, tenant| PoolKey { tenant: Some(tenant), ..key(priority, limits) };
    let keys = [
        owned(-5, Limits::default(), other),
        key(3, Limits::default()),
        owned(1, rpm(2), team),
        key(-1, rpm(1)),
    ];
    let attempt = acquire(&pool(keys), team, model());
    let mut order = Vec::new();
    for _ in 0..5 {
        order.push(w.admission.acquire(&again(&attempt)).await.unwrap().key);
    }
    assert_eq!(order, [keys[3].id, keys[2].id, keys[2].id, keys[1].id, keys[1].id]);
}

pub async fn a_key_used_for_one_model_waits_its_turn_for_another(w: &World) {
    let team = tenant();
    let pool = pool((0..4).map(|_| key(0, Limits::default())));
    let (a, b) = (acquire(&pool, team, model()), acquire(&pool, team, model()));
    let mut order = Vec::new();
    for n in 0..40 {
        let attempt = if n % 3 == 0 { &a } else { &b };
        order.push(w.admission.acquire(&again(attempt)).await.unwrap().key);
    }
    for turn in order.windows(5) {
        assert_eq!(turn[0], turn[4], "{order:?}");
    }
}

pub async fn a_full_key_is_skipped_and_found_again(w: &World) {
    let team = tenant();
    let attempt = acquire(&pool((0..5).map(|_| key(0, rpm(2)))), team, model());
    w.to_next_second();
    for _ in 0..10 {
        w.admission.acquire(&again(&attempt)).await.unwrap();
    }
    let none = no_key(w.admission.acquire(&again(&attempt)).await);
    assert_eq!((none.limited, none.failing, none.full), (0, 0, 5));
    w.advance(none.retry_after.unwrap());
    for _ in 0..10 {
        w.admission.acquire(&again(&attempt)).await.unwrap();
    }
}

pub async fn excluded_keys_leave_nothing_to_wait_for(w: &World) {
    let team = tenant();
    let pool = pool((0..3).map(|_| key(0, rpm(1))));
    let mut attempt = acquire(&pool, team, model());
    for _ in 0..3 {
        attempt = again(&attempt);
        let lease = w.admission.acquire(&attempt).await.unwrap();
        assert!(!attempt.exclude.contains(&lease.key));
        attempt.exclude.push(lease.key);
    }
    assert_eq!(no_key(w.admission.acquire(&again(&attempt)).await), NoKey::default());
    let other = acquire(&pool, team, attempt.model);
    assert_eq!(no_key(w.admission.acquire(&other).await).full, 3);
    // Parked by the caller before, they are still not worth this one's waiting.
    assert_eq!(no_key(w.admission.acquire(&again(&attempt)).await), NoKey::default());
    attempt.exclude.pop();
    assert_eq!(no_key(w.admission.acquire(&again(&attempt)).await).full, 1);
}

pub async fn funds_spent_and_funds_held_are_told_apart(w: &World) {
    let team = tenant();
    let attempt = acquire(&pool([key(0, Limits::default())]), team, model());
    let mut door = enter(team, Limits::default());
    (door.hold, door.funds) = (Nanos::new(80), Some(Nanos::new(0)));
    assert_eq!(w.admission.admit(&another(&door), &again(&attempt)).await, Err(Refused::FundsSpent));
    // With money left and no hold open one request enters, however large its hold.
    door.funds = Some(Nanos::new(10));
    let first = another(&door);
    w.admission.admit(&first, &again(&attempt)).await.unwrap();
    let refused = w.admission.admit(&another(&door), &again(&attempt)).await.unwrap_err();
    assert!(matches!(refused, Refused::FundsHeld { .. }), "{refused:?}");
    door.funds = Some(Nanos::new(160));
    let second = another(&door);
    w.admission.admit(&second, &again(&attempt)).await.unwrap();
    assert_eq!(w.admission.inspect_tenant(team, &[Subject::Tenant]).await[0].held, Nanos::new(160));
    w.leave(&first, None).await;
    w.leave(&second, None).await;
    assert_eq!(w.admission.inspect_tenant(team, &[Subject::Tenant]).await[0].held, Nanos::ZERO);
}

pub async fn a_hold_outlives_its_slot_until_it_is_settled_by_id(w: &World) {
    let team = tenant();
    let attempt = acquire(&pool([key(0, Limits::default())]), team, model());
    let mut door = enter(team, slots(1));
    (door.hold, door.funds) = (Nanos::new(80), Some(Nanos::new(100)));
    w.admission.admit(&door, &attempt).await.unwrap();
    w.advance(LEASE_FOR + SECOND);
    let refused = w.admission.admit(&another(&door), &again(&attempt)).await.unwrap_err();
    assert!(matches!(refused, Refused::FundsHeld { .. }), "{refused:?}");
    let replayed = tollway::admission::Enter { windows: Vec::new(), ..door.clone() };
    w.leave(&replayed, Some(0)).await;
    w.admission.admit(&another(&door), &again(&attempt)).await.unwrap();
    w.advance(601 * SECOND);
    w.admission.admit(&another(&door), &again(&attempt)).await.unwrap();
}

pub async fn a_newer_pool_wins_and_an_older_caller_gets_keys_it_knows(w: &World) {
    let team = tenant();
    let (old, both, new) = (key(5, rpm(1)), key(4, Limits::default()), key(0, Limits::default()));
    let before = pool([old, both]);
    let after = Pool { version: 2, keys: Arc::from([both, new]), ..before.clone() };
    let name = model();
    let get = async |pool: &Pool| w.admission.acquire(&acquire(pool, team, name)).await.unwrap().key;
    assert_eq!(get(&before).await, both.id);
    assert_eq!(get(&after).await, new.id);
    assert_eq!(get(&before).await, both.id);
    assert_eq!(get(&after).await, new.id);
    w.told().await;
    let live = w.admission.inspect_pool(&after).await;
    assert_eq!(live.iter().map(|(_, live)| live.rpm_used).collect::<Vec<_>>(), [2, 2]);
}

pub async fn a_step_back_of_the_clock_frees_nothing(w: &World) {
    let team = tenant();
    let one = key(0, rpm(2));
    let pool = pool([one]);
    let attempt = acquire(&pool, team, model());
    for back in [300_000, 30_000_000] {
        for _ in 0..2 {
            w.admission.acquire(&again(&attempt)).await.unwrap();
        }
        w.turn(-back);
        no_key(w.admission.acquire(&again(&attempt)).await);
        w.advance(59 * SECOND);
        no_key(w.admission.acquire(&again(&attempt)).await);
        w.advance(5 * SECOND);
    }
    w.admission.acquire(&again(&attempt)).await.unwrap();
}

pub async fn a_small_request_finds_the_room_that_a_large_one_does_not(w: &World) {
    let team = tenant();
    let pool = pool((0..20).map(|_| key(0, tpm(100))));
    let mut attempt = acquire(&pool, team, model());
    attempt.tokens = 60;
    for _ in 0..20 {
        w.admission.acquire(&again(&attempt)).await.unwrap();
    }
    assert_eq!(no_key(w.admission.acquire(&again(&attempt)).await).full, 20);
    attempt.tokens = 40;
    for _ in 0..20 {
        w.admission.acquire(&again(&attempt)).await.unwrap();
    }
    no_key(w.admission.acquire(&again(&attempt)).await);
}

pub async fn an_operator_sees_what_is_counted(w: &World) {
    let team = tenant();
    let (one, two) = (key(0, Limits::default()), key(9, Limits::default()));
    let pool = pool([one, two]);
    let mut attempt = acquire(&pool, team, model());
    attempt.tokens = 30;
    let mut door = enter(team, rpm(10));
    (door.tokens, door.hold) = (50, Nanos::new(5));
    w.admission.admit(&door, &attempt).await.unwrap();
    w.cool(&pool, CoolScope::KeyModel(one.id, attempt.model), CoolFor::Span(60 * SECOND)).await;
    let live = w.admission.inspect_pool(&pool).await;
    assert_eq!(live.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [one.id, two.id]);
    let used = &live[0].1;
    assert_eq!((used.rpm_used, used.tpm_used, used.in_flight), (1, 30, 1));
    assert!(w.now().since(used.last_used_at.unwrap()) < 5 * SECOND);
    let (model, until, reason) = &used.cooldowns[0];
    assert_eq!((*model, reason.as_str()), (Some(attempt.model), "rate_limited"));
    assert!(until.since(w.now()) > 50 * SECOND);
    assert_eq!(live[1].1, tollway::admission::KeyLive::default());
    let tenant = w.admission.inspect_tenant(team, &[Subject::Tenant]).await;
    assert_eq!(tenant, [SubjectLive { rpm_used: 1, tpm_used: 50, in_flight: 1, held: Nanos::new(5) }]);
}
