//! Who gets in, as whom, and when a change takes effect.

use std::{net::IpAddr, time::Duration};

use serde_json::json;
use tollway::{
    domain::{
        grant::{Effect, GrantSubject, Grants, Pattern},
        limits::Limits,
        principal::Role,
    },
    identity::{Denied, TokenForm},
};

use super::world::{LIFETIME, World, add_tenant, grant, shared};

in_both_worlds!(
    a_token_stands_for_its_tenant_and_member,
    a_token_that_was_seen_needs_no_signature_and_no_store,
    a_token_expires_from_memory_too,
    a_revoked_token_is_refused_once_the_change_is_heard_of,
    a_raised_generation_revokes_the_jwts_of_a_member_and_no_other,
    a_shut_out_tenant_or_member_is_refused_and_let_in_again,
    a_changed_grant_or_limit_reaches_a_token_that_was_seen,
    the_backend_speaks_for_members_and_strangers,
    a_revoked_jwt_of_the_backend_is_refused_in_its_tenant_only,
    a_guessing_address_is_slowed_down_and_known_tokens_from_it_are_not,
    made_up_tokens_ask_the_store_once,
);

const SECOND: Duration = Duration::from_secs(1);
const FORMS: [TokenForm; 2] = [TokenForm::Jwt, TokenForm::Opaque];

async fn a_token_stands_for_its_tenant_and_member(world: World) {
    for form in FORMS {
        let (token, text) = world
            .issue_with(form, |new| {
                new.limits = Limits { tpm: Some(5), ..Limits::default() };
                new.grants = Some(Grants { allow: vec![Pattern::parse("gpt-*").unwrap()], deny: vec![] });
            })
            .await;
        let principal = world.identity.verify(&text).await.unwrap();
        assert_eq!(principal.token_id, token.id);
        assert_eq!(principal.role, Role::Member);
        assert_eq!(principal.member, Some(world.member.id));
        assert_eq!(principal.member_limits, world.member.limits);
        assert_eq!(principal.limits.tpm, Some(5));
        assert_eq!(principal.expires_at, token.expires_at);
        let tenant = principal.tenant.as_ref().unwrap();
        assert_eq!(
            (tenant.id, &tenant.name, tenant.limits),
            (world.tenant.id, &world.tenant.name, world.tenant.limits)
        );
        assert!(principal.allows("gpt-4o") && !principal.allows("claude"));
    }
}

async fn a_token_that_was_seen_needs_no_signature_and_no_store(world: World) {
    for form in FORMS {
        let (_, text) = world.issue(form).await;
        let first = world.identity.verify(&text).await.unwrap();
        let before = world.identity.counts();
        for _ in 0..100 {
            assert_eq!(world.identity.verify(&text).await, Ok(first.clone()));
        }
        let after = world.identity.counts();
        assert_eq!((after.signatures, after.reads), (before.signatures, before.reads));
        // The facts are asked for again after a change, the signature is not.
        world.identity.refresh().await.unwrap();
        assert_eq!(world.identity.verify(&text).await, Ok(first));
        let refreshed = world.identity.counts();
        assert_eq!(refreshed.signatures, before.signatures);
        assert!(refreshed.reads > before.reads);
    }
}

async fn a_token_expires_from_memory_too(world: World) {
    for (form, grace) in [(TokenForm::Jwt, 30), (TokenForm::Opaque, 0)] {
        let (_, text) = world.issue(form).await;
        assert!(world.identity.verify(&text).await.is_ok());
        world.clock.advance(LIFETIME.saturating_sub(SECOND) + SECOND * grace);
        assert!(world.identity.verify(&text).await.is_ok(), "{form:?}");
        world.clock.advance(SECOND);
        assert_eq!(world.identity.verify(&text).await, Err(Denied::Expired), "{form:?}");
        assert_eq!(world.replica_verifies(&text).await, Err(Denied::Expired), "{form:?}");
    }
}

async fn a_revoked_token_is_refused_once_the_change_is_heard_of(world: World) {
    for form in FORMS {
        let (token, text) = world.issue(form).await;
        let (_, other) = world.issue(form).await;
        assert!(world.identity.verify(&text).await.is_ok());
        world.revoke(&token).await;
        assert!(world.identity.verify(&text).await.is_ok(), "nobody has said so yet");
        world.identity.refresh().await.unwrap();
        for _ in 0..2 {
            assert_eq!(world.identity.verify(&text).await, Err(Denied::Revoked), "{form:?}");
        }
        assert!(world.identity.verify(&other).await.is_ok());
        assert_eq!(world.replica_verifies(&text).await, Err(Denied::Revoked), "{form:?}");
    }
}

async fn a_raised_generation_revokes_the_jwts_of_a_member_and_no_other(mut world: World) {
    let (_, jwt) = world.issue(TokenForm::Jwt).await;
    let (_, opaque) = world.issue(TokenForm::Opaque).await;
    let (_, of_tenant) = world.issue_with(TokenForm::Jwt, |new| new.member = None).await;
    for text in [&jwt, &opaque, &of_tenant] {
        assert!(world.identity.verify(text).await.is_ok());
    }
    world.change_member(|member| member.token_generation += 1).await;
    world.identity.refresh().await.unwrap();
    assert_eq!(world.identity.verify(&jwt).await, Err(Denied::Revoked));
    assert!(world.identity.verify(&opaque).await.is_ok());
    assert!(world.identity.verify(&of_tenant).await.is_ok());
    let (_, renewed) = world.issue(TokenForm::Jwt).await;
    assert!(world.identity.verify(&renewed).await.is_ok());
}

async fn a_shut_out_tenant_or_member_is_refused_and_let_in_again(mut world: World) {
    let mut texts = vec![shared(&world.claims(&json!({"sub": "ada@example.com"})))];
    for form in FORMS {
        texts.push(world.issue(form).await.1);
    }
    let all = async |world: &World, expected: Option<Denied>| {
        world.identity.refresh().await.unwrap();
        for text in &texts {
            assert_eq!(world.identity.verify(text).await.err(), expected);
        }
    };
    all(&world, None).await;
    world.change_member(|member| member.enabled = false).await;
    all(&world, Some(Denied::MemberDisabled)).await;
    world.change_member(|member| member.enabled = true).await;
    all(&world, None).await;
    world.change_tenant(|tenant| tenant.enabled = false).await;
    all(&world, Some(Denied::TenantDisabled)).await;
    world.change_tenant(|tenant| tenant.enabled = true).await;
    all(&world, None).await;
}

async fn a_changed_grant_or_limit_reaches_a_token_that_was_seen(mut world: World) {
    for form in FORMS {
        let (token, text) = world.issue(form).await;
        assert!(world.identity.verify(&text).await.unwrap().allows("gpt-4o"));
        let mut tx = world.store.begin().await.unwrap();
        let subject = GrantSubject::AccessToken(token.id);
        tx.add_grant(&grant(&world.tenant, subject, "claude-*", Effect::Allow)).await.unwrap();
        tx.commit().await.unwrap();
        world.change_tenant(|tenant| tenant.limits.rpm = tenant.limits.rpm.map(|rpm| rpm - 1)).await;
        world.identity.refresh().await.unwrap();
        let principal = world.identity.verify(&text).await.unwrap();
        assert!(principal.allows("claude-4") && !principal.allows("gpt-4o"), "{form:?}");
        assert_eq!(principal.tenant.as_ref().unwrap().limits, world.tenant.limits);
    }
}

async fn the_backend_speaks_for_members_and_strangers(world: World) {
    let verify = async |changes: serde_json::Value| {
        let principal = world.identity.verify(&shared(&world.claims(&changes))).await;
        principal.map(|principal| (principal.role, principal.member))
    };
    let member = Some(world.member.id);
    assert_eq!(verify(json!({})).await, Ok((Role::Member, None)));
    assert_eq!(verify(json!({"sub": "a customer's customer"})).await, Ok((Role::Member, None)));
    assert_eq!(verify(json!({"sub": "ada@example.com"})).await, Ok((Role::Admin, member)));
    assert_eq!(verify(json!({"sub": world.member.id.to_string()})).await, Ok((Role::Admin, member)));
    assert_eq!(verify(json!({"role": "owner"})).await, Ok((Role::Member, None)));
    assert_eq!(verify(json!({"role": "operator"})).await, Err(Denied::WrongRole));
    assert_eq!(verify(json!({"tid": null, "role": "operator"})).await, Err(Denied::Malformed));
    let nobody = "mem_00000000000000000000000000000000";
    assert_eq!(verify(json!({"sub": nobody})).await, Err(Denied::MemberDisabled));
    // A member of another tenant is nobody in this one.
    let (_, theirs) = add_tenant(&world.store, "other").await;
    assert_eq!(verify(json!({"sub": theirs.id.to_string()})).await, Err(Denied::MemberDisabled));
    let gone = "ten_00000000000000000000000000000000";
    assert_eq!(verify(json!({"tid": gone})).await, Err(Denied::TenantDisabled));
}

async fn a_revoked_jwt_of_the_backend_is_refused_in_its_tenant_only(world: World) {
    let (other, _) = add_tenant(&world.store, "other").await;
    let ours = shared(&world.claims(&json!({"jti": "7"})));
    let theirs = shared(&world.claims(&json!({"jti": "7", "tid": other.id.to_string()})));
    assert!(world.identity.verify(&ours).await.is_ok() && world.identity.verify(&theirs).await.is_ok());
    let lapses = super::world::NOW.plus(LIFETIME);
    world.identity.revoke_foreign(world.tenant.id, "7", lapses).await.unwrap();
    assert_eq!(world.identity.verify(&ours).await, Err(Denied::Revoked));
    assert!(world.identity.verify(&theirs).await.is_ok());
    // Still remembered while the token would be taken for the leeway.
    world.clock.set(lapses.plus(Duration::from_secs(29)));
    assert_eq!(world.replica_verifies(&ours).await, Err(Denied::Revoked));
}

async fn a_guessing_address_is_slowed_down_and_known_tokens_from_it_are_not(world: World) {
    let guesser: IpAddr = "192.0.2.1".parse().unwrap();
    let (_, known) = world.issue(TokenForm::Opaque).await;
    let (_, fresh) = world.issue(TokenForm::Opaque).await;
    assert!(world.identity.verify_from(&known, guesser).await.is_ok());
    for _ in 0..21 {
        assert_eq!(world.identity.verify_from("sk-guess", guesser).await, Err(Denied::Malformed));
    }
    let refused = world.identity.verify_from(&fresh, guesser).await;
    assert!(matches!(refused, Err(Denied::Throttled { .. })), "{refused:?}");
    assert!(world.identity.verify_from(&known, guesser).await.is_ok());
    assert!(world.identity.verify_from(&fresh, "192.0.2.2".parse().unwrap()).await.is_ok());
    world.clock.advance(SECOND);
    assert!(world.identity.verify_from(&fresh, guesser).await.is_ok());
}

async fn made_up_tokens_ask_the_store_once(world: World) {
    // Well formed, of another deployment.
    let (_, text) = World::sqlite().await.issue(TokenForm::Opaque).await;
    for _ in 0..50 {
        assert_eq!(world.identity.verify(&text).await, Err(Denied::Unknown));
    }
    assert_eq!(world.identity.counts().reads, 1);
    // However many keys are made up in a second, they are looked for once.
    for kid in 0..50 {
        let mut header = jsonwebtoken::Header::new(jsonwebtoken::Algorithm::EdDSA);
        header.kid = Some(kid.to_string());
        let key = jsonwebtoken::EncodingKey::from_ed_der(super::forgery::FOREIGN_PAIR);
        let text = jsonwebtoken::encode(&header, &world.claims(&json!({})), &key).unwrap();
        assert_eq!(world.identity.verify(&text).await, Err(Denied::BadSignature));
    }
    assert_eq!(world.identity.counts().reads, 2);
}

impl World {
    /// What a replica says that has not seen the token.
    async fn replica_verifies(&self, text: &str) -> Result<(), Denied> {
        let replica = self.replica();
        replica.start().await.unwrap();
        replica.verify(text).await.map(|_| ())
    }
}
