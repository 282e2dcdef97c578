//! Keys made and rotated, tokens issued, set-up tokens redeemed.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tollway::{
    domain::{principal::Role, tenant::AccessTokenKind},
    identity::{Denied, Identity, IdentityError, NewToken, TokenForm, looks_like_ours},
};

use super::world::{LIFETIME, World, add_tenant};

in_both_worlds!(
    replicas_that_start_together_agree_on_one_signing_key,
    a_rotation_lets_old_tokens_live_through_the_overlap,
    a_token_signed_by_another_replicas_new_key_is_taken_at_once,
    a_set_up_token_makes_one_operator_however_many_redeem_it,
    set_up_tokens_are_worth_nothing_while_there_is_an_operator,
    several_set_up_tokens_make_one_operator,
    a_lapsed_operator_is_none,
    a_set_up_token_lapses_after_a_day,
    an_operator_stands_beside_the_tenants,
    nobody_gets_a_token_that_is_more_than_its_holder,
);

fn kids(identity: &Identity) -> BTreeSet<String> {
    let set = identity.jwks();
    set["keys"].as_array().unwrap().iter().map(|key| key["kid"].as_str().unwrap().to_owned()).collect()
}

async fn replicas_that_start_together_agree_on_one_signing_key(world: World) {
    let mut tx = world.store.begin().await.unwrap();
    for key in world.store.list_signing_keys().await.unwrap() {
        tx.retire_signing_key(&key.kid, super::world::NOW).await.unwrap();
    }
    tx.commit().await.unwrap();
    let starts = (0..8).map(|_| {
        let replica = world.replica();
        tokio::spawn(async move {
            replica.start().await.unwrap();
            kids(&replica)
        })
    });
    let seen = futures_util::future::join_all(starts).await;
    let first = seen[0].as_ref().unwrap();
    assert_eq!(first.len(), 1);
    assert!(seen.iter().all(|kids| kids.as_ref().unwrap() == first), "{seen:?}");
}

async fn a_rotation_lets_old_tokens_live_through_the_overlap(world: World) {
    let (overlap, second) = (Duration::from_secs(3_600), Duration::from_secs(1));
    let (_, old) = world.issue(TokenForm::Jwt).await;
    assert!(world.identity.verify(&old).await.is_ok());
    let before = kids(&world.identity);
    world.identity.rotate_signing_key(overlap).await.unwrap();
    let (_, new) = world.issue(TokenForm::Jwt).await;
    let during = kids(&world.identity);
    assert!(during.is_superset(&before) && during.len() == 2);
    for text in [&old, &new] {
        assert!(world.identity.verify(text).await.is_ok());
    }
    world.clock.advance(overlap.saturating_sub(second));
    assert!(world.identity.verify(&old).await.is_ok());
    // The token was remembered and has a day to live; its key has not.
    world.clock.advance(second);
    assert_eq!(world.identity.verify(&old).await, Err(Denied::BadSignature));
    assert!(world.identity.verify(&new).await.is_ok());
    assert!(kids(&world.identity).is_disjoint(&before));
}

async fn a_token_signed_by_another_replicas_new_key_is_taken_at_once(world: World) {
    let replica = world.replica();
    replica.start().await.unwrap();
    world.identity.rotate_signing_key(LIFETIME).await.unwrap();
    let (_, text) = world.issue(TokenForm::Jwt).await;
    assert!(replica.verify(&text).await.is_ok());
}

async fn a_set_up_token_makes_one_operator_however_many_redeem_it(world: World) {
    let text = world.identity.issue_setup_token().await.unwrap();
    assert!(text.expose().starts_with("tw_setup_"));
    let tries = (0..20).map(|n| {
        let (identity, text) =
            (if n % 2 == 0 { Arc::clone(&world.identity) } else { world.replica() }, text.clone());
        tokio::spawn(async move { identity.redeem_setup_token(text.expose()).await })
    });
    let mut operators = vec![];
    for tried in futures_util::future::join_all(tries).await {
        match tried.unwrap() {
            Ok(issued) => operators.push(issued),
            Err(refused) => assert!(matches!(refused, IdentityError::OperatorExists), "{refused}"),
        }
    }
    let [(token, operator)] = operators.as_slice() else { panic!("{} operators", operators.len()) };
    assert_eq!(token.kind, AccessTokenKind::Opaque);
    assert_eq!(world.identity.verify(operator.expose()).await.unwrap().role, Role::Operator);
}

async fn set_up_tokens_are_worth_nothing_while_there_is_an_operator(world: World) {
    let (printed, used) = (
        world.identity.issue_setup_token().await.unwrap(),
        world.identity.issue_setup_token().await.unwrap(),
    );
    let (operator, _) = world
        .issue_with(TokenForm::Opaque, |new| {
            (new.tenant, new.member, new.role) = (None, None, Role::Operator);
        })
        .await;
    for setup in [printed.expose(), used.expose(), "tw_setup_madeup"] {
        let refused = world.identity.redeem_setup_token(setup).await;
        assert!(matches!(refused, Err(IdentityError::OperatorExists)), "{refused:?}");
    }
    world.revoke(&operator).await;
    assert!(world.identity.redeem_setup_token(used.expose()).await.is_ok());
    world.clock.advance(Duration::from_secs(60));
    let refused = world.identity.redeem_setup_token(printed.expose()).await;
    assert!(
        matches!(refused, Err(IdentityError::OperatorExists)),
        "one of several printed makes one operator"
    );
}

async fn several_set_up_tokens_make_one_operator(world: World) {
    let mut tries = vec![];
    for _ in 0..8 {
        let (identity, text) = (world.replica(), world.identity.issue_setup_token().await.unwrap());
        tries.push(tokio::spawn(async move { identity.redeem_setup_token(text.expose()).await }));
    }
    let redeemed = futures_util::future::join_all(tries).await;
    assert_eq!(redeemed.iter().filter(|one| one.as_ref().unwrap().is_ok()).count(), 1);
}

async fn a_lapsed_operator_is_none(world: World) {
    world
        .issue_with(TokenForm::Opaque, |new| {
            (new.tenant, new.member, new.role) = (None, None, Role::Operator);
            new.expires_at = Some(super::world::NOW.plus(Duration::from_secs(60)));
        })
        .await;
    world.clock.advance(Duration::from_secs(60));
    let text = world.identity.issue_setup_token().await.unwrap();
    assert!(world.identity.redeem_setup_token(text.expose()).await.is_ok());
}

async fn a_set_up_token_lapses_after_a_day(world: World) {
    let text = world.identity.issue_setup_token().await.unwrap();
    world.clock.advance(Duration::from_secs(24 * 3_600));
    for text in [text.expose(), "tw_setup_", "", "tw_setup_madeup"] {
        let refused = world.identity.redeem_setup_token(text).await;
        assert!(matches!(refused, Err(IdentityError::SetupTokenSpent)));
    }
}

async fn an_operator_stands_beside_the_tenants(world: World) {
    for form in [TokenForm::Jwt, TokenForm::Opaque] {
        let (_, text) = world
            .issue_with(form, |new| {
                new.tenant = None;
                new.member = None;
                new.role = Role::Operator;
            })
            .await;
        assert!(looks_like_ours(&text));
        let principal = world.identity.verify(&text).await.unwrap();
        assert_eq!((principal.role, &principal.tenant, principal.member), (Role::Operator, &None, None));
        assert!(!principal.allows("gpt-4o") && !principal.role.may_relay());
    }
}

async fn nobody_gets_a_token_that_is_more_than_its_holder(world: World) {
    let (_, stranger) = add_tenant(&world.store, "other").await;
    let refused = async |form, change: &dyn Fn(&mut NewToken)| {
        let mut new = world.new_token(form);
        change(&mut new);
        world.identity.issue(new).await.unwrap_err()
    };
    let jwt = TokenForm::Jwt;
    assert!(matches!(refused(jwt, &|new| new.expires_at = None).await, IdentityError::NoExpiry));
    let past = super::world::NOW;
    assert!(matches!(refused(jwt, &|new| new.expires_at = Some(past)).await, IdentityError::NoExpiry));
    for form in [jwt, TokenForm::Opaque] {
        assert!(matches!(refused(form, &|new| new.role = Role::Owner).await, IdentityError::WrongRole));
        assert!(matches!(refused(form, &|new| new.role = Role::Operator).await, IdentityError::WrongRole));
        assert!(matches!(refused(form, &|new| new.tenant = None).await, IdentityError::WrongRole));
        let of_stranger = |new: &mut NewToken| new.member = Some(stranger.id);
        assert!(matches!(refused(form, &of_stranger).await, IdentityError::NoSuchMember));
    }
}
