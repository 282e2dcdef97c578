//! What is out, for whom, and until when.

use std::time::Duration;

use tollway::{
    admission::{CoolFor, CoolScope},
    domain::{failure::FailureClass, limits::Limits},
};

use super::super::world::*;

const SECOND: Duration = Duration::from_secs(1);

pub async fn a_cooldown_is_never_shortened(w: &World) {
    let team = tenant();
    let one = key(0, Limits::default());
    let pool = pool([one]);
    let attempt = acquire(&pool, team, model());
    w.admission.acquire(&attempt).await.unwrap();
    let scope = CoolScope::Key(one.id);
    let long = w.cool(&pool, scope, CoolFor::Span(60 * SECOND)).await.unwrap();
    let still = w.cool(&pool, scope, CoolFor::Span(SECOND)).await.unwrap();
    assert!(still.since(long) < SECOND && long.since(still) < SECOND, "{still} is not {long}");
    let later = w.cool(&pool, scope, CoolFor::Span(90 * SECOND)).await.unwrap();
    assert!(later.since(long) > 29 * SECOND);
    w.advance(80 * SECOND);
    let none = no_key(w.admission.acquire(&again(&attempt)).await);
    assert_eq!((none.limited, none.failing, none.full), (1, 0, 0));
    w.advance(none.retry_after.unwrap());
    w.admission.acquire(&again(&attempt)).await.unwrap();
}

pub async fn cooldowns_have_their_scope_and_can_be_cleared(w: &World) {
    let team = tenant();
    let one = key(0, Limits::default());
    let pool = pool([one]);
    let (a, b) = (acquire(&pool, team, model()), acquire(&pool, team, model()));
    w.admission.acquire(&again(&a)).await.unwrap();
    w.admission.acquire(&again(&b)).await.unwrap();

    w.cool(&pool, CoolScope::KeyModel(one.id, a.model), CoolFor::Span(60 * SECOND)).await.unwrap();
    no_key(w.admission.acquire(&again(&a)).await);
    w.admission.acquire(&again(&b)).await.unwrap();
    w.admission.clear(pool.provider, CoolScope::KeyModel(one.id, a.model)).await;
    w.admission.acquire(&again(&a)).await.unwrap();

    for scope in [CoolScope::Key(one.id), CoolScope::Provider] {
        w.cool(&pool, scope, CoolFor::Span(60 * SECOND)).await.unwrap();
        assert_eq!(no_key(w.admission.acquire(&again(&a)).await).limited, 1);
        assert_eq!(no_key(w.admission.acquire(&again(&b)).await).limited, 1);
        w.admission.clear(pool.provider, scope).await;
        w.admission.acquire(&again(&a)).await.unwrap();
        w.admission.acquire(&again(&b)).await.unwrap();
    }
}

pub async fn keys_out_for_a_limit_and_keys_out_for_a_failure_are_told_apart(w: &World) {
    let (team, span) = (tenant(), CoolFor::Span(60 * SECOND));
    let keys = [key(0, Limits::default()), key(0, Limits::default()), key(0, rpm(1))];
    let pool = pool(keys);
    let mut attempt = acquire(&pool, team, model());
    for _ in keys {
        w.admission.acquire(&again(&attempt)).await.unwrap();
    }
    let [one, two] = [keys[0].id, keys[1].id];
    w.cool_for(FailureClass::RateLimited, &pool, CoolScope::KeyModel(one, attempt.model), span).await;
    w.cool_for(FailureClass::RefusedCredential, &pool, CoolScope::Key(two), span).await;
    let none = no_key(w.admission.acquire(&again(&attempt)).await);
    assert_eq!((none.limited, none.failing, none.full, none.is_limit()), (1, 1, 1, false));
    attempt.exclude = vec![two];
    let none = no_key(w.admission.acquire(&again(&attempt)).await);
    assert_eq!((none.limited, none.failing, none.full, none.is_limit()), (1, 0, 1, true));
    attempt.exclude = vec![one];
    let none = no_key(w.admission.acquire(&again(&attempt)).await);
    assert_eq!((none.limited, none.failing, none.full, none.is_limit()), (0, 1, 1, false));
    attempt.exclude.clear();

    // What keeps a key out longest is why it is out.
    let longer = CoolFor::Span(600 * SECOND);
    w.cool_for(FailureClass::Overloaded, &pool, CoolScope::Key(one), longer).await;
    w.admission.clear(pool.provider, CoolScope::Key(two)).await;
    let lease = w.admission.acquire(&again(&attempt)).await.unwrap();
    w.settle(lease, served(&attempt)).await;
    w.cool_for(FailureClass::RateLimited, &pool, CoolScope::KeyModel(two, attempt.model), longer).await;
    w.advance(70 * SECOND);
    w.admission.acquire(&again(&attempt)).await.unwrap();
    let none = no_key(w.admission.acquire(&again(&attempt)).await);
    assert_eq!((none.limited, none.failing, none.full), (1, 1, 1));

    for (reason, told) in [(FailureClass::RateLimited, (3, 0)), (FailureClass::Broken, (0, 3))] {
        w.cool_for(reason, &pool, CoolScope::Provider, longer).await;
        let none = no_key(w.admission.acquire(&again(&attempt)).await);
        assert_eq!((none.limited, none.failing), told);
        w.admission.clear(pool.provider, CoolScope::Provider).await;
    }
}

pub async fn back_off_rises_with_failures_in_a_row_and_falls_with_success(w: &World) {
    let team = tenant();
    let one = key(0, Limits::default());
    let pool = pool([one]);
    let attempt = acquire(&pool, team, model());
    let lease = w.admission.acquire(&attempt).await.unwrap();
    let scope = CoolScope::KeyModel(one.id, attempt.model);
    for expected in [2, 4, 8, 16] {
        let until = w.cool(&pool, scope, CoolFor::Backoff { jitter: 0 }).await.unwrap();
        let span = until.since(w.now());
        assert!(span <= expected * SECOND && span > (expected - 1) * SECOND, "{span:?} is not {expected} s");
        // A request under way fails with the first: no higher level, no shorter deadline.
        let same = w.cool(&pool, scope, CoolFor::Backoff { jitter: 0 }).await.unwrap();
        assert!(same >= until.minus(SECOND / 10) && same.since(until) < SECOND);
        w.advance(expected * SECOND + SECOND);
    }
    w.settle(lease, served(&attempt)).await;
    let until = w.cool(&pool, scope, CoolFor::Backoff { jitter: 0 }).await.unwrap();
    assert!(until.since(w.now()) <= 2 * SECOND);
}

pub async fn the_first_lenient_failure_is_free(w: &World) {
    let team = tenant();
    let one = key(0, Limits::default());
    let pool = pool([one]);
    let attempt = acquire(&pool, team, model());
    w.admission.acquire(&attempt).await.unwrap();
    let scope = CoolScope::KeyModel(one.id, attempt.model);
    let lenient = CoolFor::Lenient { jitter: 0 };
    assert_eq!(w.cool(&pool, scope, lenient).await, None);
    w.admission.acquire(&again(&attempt)).await.unwrap();
    for expected in [30, 32, 64] {
        let span = w.cool(&pool, scope, lenient).await.unwrap().since(w.now());
        assert!(span <= expected * SECOND && span > (expected - 1) * SECOND, "{span:?} is not {expected} s");
        w.advance((expected + 1) * SECOND);
    }
}

pub async fn no_cooldown_is_longer_than_half_an_hour(w: &World) {
    let team = tenant();
    let one = key(0, Limits::default());
    let pool = pool([one]);
    w.admission.acquire(&acquire(&pool, team, model())).await.unwrap();
    let until = w.cool(&pool, CoolScope::Key(one.id), CoolFor::Span(86_400 * SECOND)).await.unwrap();
    assert!(until.since(w.now()) <= 1_800 * SECOND);
}
