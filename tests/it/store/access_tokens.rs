//! Access tokens: found by hash, revoked once, set-up tokens taken once.

use std::time::Duration;

use tollway::{
    domain::{
        clock::Timestamp,
        grant::{Grant, GrantSubject},
        ids::AccessTokenId,
        tenant::{AccessToken, AccessTokenKind},
    },
    store::{AccessTokenFilter, GrantFilter, Page, RevokedToken, StoreError},
};

use super::{
    both::OwnStore,
    fixtures::{self, NOW, added_tenant, commit},
};

on_both!(
    a_token_is_found_by_the_hash_of_its_text_alone,
    a_revocation_counts_from_its_first_time,
    revoked_tokens_are_listed_until_they_lapse,
    a_set_up_token_is_taken_by_one_of_many,
    a_lapsed_or_ordinary_token_sets_nothing_up,
    a_tenant_takes_its_tokens_and_grants_along,
    a_member_takes_its_tokens_and_grants_along,
    tokens_are_listed_by_tenant_and_by_member,
);

const HASH: [u8; 32] = [7; 32];

fn later(seconds: u64) -> Timestamp {
    NOW.plus(Duration::from_secs(seconds))
}

async fn a_token_is_found_by_the_hash_of_its_text_alone(store: OwnStore) {
    let tenant = added_tenant(&store, "t").await;
    let token = fixtures::token(&tenant);
    let operator =
        AccessToken { tenant_id: None, grants: None, expires_at: None, ..fixtures::token(&tenant) };
    commit!(store, add_access_token(&token, Some(&HASH)), add_access_token(&operator, None));
    assert_eq!(store.find_access_token_by_hash(&HASH).await.unwrap(), Some(token.clone()));
    assert_eq!(store.find_access_token_by_hash(&[8; 32]).await.unwrap(), None);
    assert_eq!(store.lookup_access_token(token.id).await.unwrap(), Some(token));
    assert_eq!(store.lookup_access_token(operator.id).await.unwrap(), Some(operator));

    let mut tx = store.begin().await.unwrap();
    let again = tx.add_access_token(&fixtures::token(&tenant), Some(&HASH)).await;
    assert!(matches!(again, Err(StoreError::Conflict { field, .. }) if field == "text_hash"));
}

async fn a_revocation_counts_from_its_first_time(store: OwnStore) {
    let tenant = added_tenant(&store, "t").await;
    let token = fixtures::token(&tenant);
    commit!(store, add_access_token(&token, Some(&HASH)));
    let revoked = AccessToken { revoked_at: Some(NOW), ..token.clone() };
    assert_eq!(commit!(store, revoke_access_token(token.id, NOW)), Some(revoked.clone()));
    assert_eq!(commit!(store, revoke_access_token(token.id, later(9))), Some(revoked.clone()));
    assert_eq!(store.find_access_token_by_hash(&HASH).await.unwrap(), Some(revoked));
    let ghost = AccessTokenId::generate(NOW, fixtures::fresh());
    assert_eq!(commit!(store, revoke_access_token(ghost, NOW)), None);
}

async fn revoked_tokens_are_listed_until_they_lapse(store: OwnStore) {
    let tenant = added_tenant(&store, "t").await;
    let member = fixtures::member(&tenant, "ann");
    let forever = AccessToken { expires_at: None, ..fixtures::token(&tenant) };
    let short = AccessToken { expires_at: Some(later(60)), ..fixtures::token(&tenant) };
    let untouched = fixtures::token(&tenant);
    let hers = AccessToken { member_id: Some(member.id), expires_at: None, ..fixtures::token(&tenant) };
    commit!(
        store,
        add_member(&member),
        add_access_token(&forever, None),
        add_access_token(&short, None),
        add_access_token(&untouched, None),
        add_access_token(&hers, None),
    );
    commit!(store, revoke_access_token(forever.id, later(10)));
    commit!(store, revoke_access_token(short.id, later(20)));
    assert_eq!(commit!(store, revoke_member_tokens(member.id, later(5))), 1);
    assert_eq!(commit!(store, revoke_member_tokens(member.id, later(6))), 0);

    let listed = async |since, now| {
        let mut tokens = store.list_revoked_tokens(since, now).await.unwrap();
        tokens.sort_by_key(|token| token.revoked_at);
        tokens
    };
    let revoked =
        |token: &AccessToken, at| RevokedToken { id: token.id, revoked_at: at, expires_at: token.expires_at };
    let (hers, forever, short) =
        (revoked(&hers, later(5)), revoked(&forever, later(10)), revoked(&short, later(20)));
    assert_eq!(listed(None, later(30)).await, [hers, forever, short]);
    assert_eq!(listed(Some(later(10)), later(30)).await, [forever, short]);
    assert_eq!(listed(None, later(60)).await, [hers, forever]);
}

async fn a_set_up_token_is_taken_by_one_of_many(store: OwnStore) {
    let tenant = added_tenant(&store, "t").await;
    let token = AccessToken { kind: AccessTokenKind::Setup, tenant_id: None, ..fixtures::token(&tenant) };
    commit!(store, add_access_token(&token, Some(&HASH)));
    let callers = (0..8).map(|_| async { commit!(store, take_setup_token(&HASH, NOW)) });
    let winners: Vec<AccessToken> =
        futures_util::future::join_all(callers).await.into_iter().flatten().collect();
    assert_eq!(winners, [AccessToken { revoked_at: Some(NOW), ..token }]);
}

async fn a_lapsed_or_ordinary_token_sets_nothing_up(store: OwnStore) {
    let tenant = added_tenant(&store, "t").await;
    let lapsed =
        AccessToken { kind: AccessTokenKind::Setup, expires_at: Some(NOW), ..fixtures::token(&tenant) };
    commit!(store, add_access_token(&lapsed, Some(&HASH)));
    commit!(store, add_access_token(&fixtures::token(&tenant), Some(&[8; 32])));
    assert_eq!(commit!(store, take_setup_token(&HASH, NOW)), None);
    assert_eq!(commit!(store, take_setup_token(&[8; 32], NOW)), None);
    assert_eq!(commit!(store, take_setup_token(&[9; 32], NOW)), None);
}

async fn all_grants(store: &OwnStore) -> Vec<Grant> {
    store.list_grants(&GrantFilter::default(), Page::first(99)).await.unwrap()
}

async fn a_tenant_takes_its_tokens_and_grants_along(store: OwnStore) {
    let (gone, stays) = (added_tenant(&store, "gone").await, added_tenant(&store, "stays").await);
    let token = fixtures::token(&gone);
    let member = fixtures::member(&gone, "ann");
    let kept = fixtures::grant(&stays, GrantSubject::Tenant, "*");
    commit!(
        store,
        add_member(&member),
        add_access_token(&token, None),
        add_grant(&fixtures::grant(&gone, GrantSubject::Tenant, "*")),
        add_grant(&kept),
        add_ledger_entry(&fixtures::top_up(gone.id, 5)),
    );
    commit!(store, remove_tenant(gone.id, None));
    assert_eq!(store.lookup_access_token(token.id).await.unwrap(), None);
    assert_eq!(store.lookup_member(member.id).await.unwrap(), None);
    assert_eq!(all_grants(&store).await, [kept]);
    assert_eq!(store.lookup_balance(gone.id).await.unwrap().get(), 5, "books stay");
}

async fn a_member_takes_its_tokens_and_grants_along(store: OwnStore) {
    let tenant = added_tenant(&store, "t").await;
    let (ann, bob) = (fixtures::member(&tenant, "ann"), fixtures::member(&tenant, "bob"));
    let token = AccessToken { member_id: Some(ann.id), ..fixtures::token(&tenant) };
    let kept =
        [GrantSubject::Tenant, GrantSubject::Member(bob.id)].map(|who| fixtures::grant(&tenant, who, "*"));
    commit!(
        store,
        add_member(&ann),
        add_member(&bob),
        add_access_token(&token, None),
        add_grant(&kept[0]),
        add_grant(&kept[1]),
        add_grant(&fixtures::grant(&tenant, GrantSubject::Member(ann.id), "*")),
        add_grant(&fixtures::grant(&tenant, GrantSubject::AccessToken(token.id), "*")),
    );
    commit!(store, remove_member(ann.id, Some(1)));
    assert_eq!(store.lookup_access_token(token.id).await.unwrap(), None);
    assert_eq!(all_grants(&store).await, kept);
}

async fn tokens_are_listed_by_tenant_and_by_member(store: OwnStore) {
    let (t, u) = (added_tenant(&store, "t").await, added_tenant(&store, "u").await);
    let ann = fixtures::member(&t, "ann");
    let (plain, hers) = (fixtures::token(&t), AccessToken { member_id: Some(ann.id), ..fixtures::token(&t) });
    let other = fixtures::token(&u);
    commit!(
        store,
        add_member(&ann),
        add_access_token(&plain, None),
        add_access_token(&hers, None),
        add_access_token(&other, None),
    );
    let listed =
        async |filter: AccessTokenFilter| store.list_access_tokens(&filter, Page::first(9)).await.unwrap();
    let of_tenant = AccessTokenFilter { tenant_id: Some(t.id), member_id: None };
    assert_eq!(listed(of_tenant).await, [plain, hers.clone()]);
    assert_eq!(listed(AccessTokenFilter { tenant_id: None, member_id: Some(ann.id) }).await, [hers]);
    assert_eq!(listed(AccessTokenFilter::default()).await.len(), 3);
}
