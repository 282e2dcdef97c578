//! Grants, and what a principal is loaded with.

use tollway::{
    domain::{
        grant::{Effect, GrantSubject, Grants},
        money::Nanos,
    },
    store::{GrantFilter, MemberAccess, Page, RemoveOutcome, StoreError, TenantAccess, UpdateOutcome},
};

use super::{
    both::OwnStore,
    fixtures::{self, added_tenant, commit, pattern},
};

on_both!(
    a_grant_reads_back_changes_and_goes,
    one_line_per_subject_and_pattern,
    a_tenant_is_loaded_with_its_grants_and_balance,
    a_member_is_loaded_within_its_tenant_only,
    lines_of_one_subject_are_not_anothers,
);

async fn a_grant_reads_back_changes_and_goes(store: OwnStore) {
    let tenant = added_tenant(&store, "t").await;
    let mut grant = fixtures::grant(&tenant, GrantSubject::Tenant, "gpt-*");
    commit!(store, add_grant(&grant));
    assert_eq!(store.lookup_grant(grant.id).await.unwrap().as_ref(), Some(&grant));
    (grant.pattern, grant.effect) = (pattern("claude-*"), Effect::Deny);
    assert_eq!(commit!(store, update_grant(&grant, 2)), UpdateOutcome::Stale { current: 1 });
    assert_eq!(commit!(store, update_grant(&grant, 1)), UpdateOutcome::Updated { version: 2 });
    grant.version = 2;
    assert_eq!(store.lookup_grant(grant.id).await.unwrap(), Some(grant.clone()));
    assert_eq!(commit!(store, remove_grant(grant.id, Some(1))), RemoveOutcome::Stale { current: 2 });
    assert_eq!(commit!(store, remove_grant(grant.id, Some(2))), RemoveOutcome::Removed);
    assert_eq!(commit!(store, remove_grant(grant.id, None)), RemoveOutcome::Missing);
}

async fn one_line_per_subject_and_pattern(store: OwnStore) {
    let tenant = added_tenant(&store, "t").await;
    let member = fixtures::member(&tenant, "ann");
    commit!(
        store,
        add_member(&member),
        add_grant(&fixtures::grant(&tenant, GrantSubject::Tenant, "*")),
        add_grant(&fixtures::grant(&tenant, GrantSubject::Member(member.id), "*")),
    );
    let mut tx = store.begin().await.unwrap();
    let mut twice = fixtures::grant(&tenant, GrantSubject::Tenant, "*");
    twice.effect = Effect::Deny;
    let refused = tx.add_grant(&twice).await;
    assert!(matches!(refused, Err(StoreError::Conflict { field, .. }) if field == "pattern"));
}

async fn a_tenant_is_loaded_with_its_grants_and_balance(store: OwnStore) {
    let tenant = added_tenant(&store, "t").await;
    let bare = TenantAccess { tenant: tenant.clone(), grants: Grants::default(), balance: Nanos::ZERO };
    assert_eq!(store.load_tenant_access(tenant.id).await.unwrap(), Some(bare));
    let mut deny = fixtures::grant(&tenant, GrantSubject::Tenant, "*-mini");
    deny.effect = Effect::Deny;
    commit!(
        store,
        add_grant(&fixtures::grant(&tenant, GrantSubject::Tenant, "gpt-*")),
        add_grant(&deny),
        add_ledger_entry(&fixtures::top_up(tenant.id, 70)),
    );
    let grants = Grants { allow: vec![pattern("gpt-*")], deny: vec![pattern("*-mini")] };
    let access = TenantAccess { tenant: tenant.clone(), grants, balance: Nanos::new(70) };
    assert_eq!(store.load_tenant_access(tenant.id).await.unwrap(), Some(access));
    assert_eq!(store.load_tenant_access(fixtures::tenant("ghost").id).await.unwrap(), None);
}

async fn a_member_is_loaded_within_its_tenant_only(store: OwnStore) {
    let (t, u) = (added_tenant(&store, "t").await, added_tenant(&store, "u").await);
    let ann = fixtures::member(&t, "ann");
    commit!(store, add_member(&ann));
    let bare = Some(MemberAccess { member: ann.clone(), grants: None });
    assert_eq!(store.load_member_access(t.id, ann.id).await.unwrap(), bare);
    assert_eq!(store.load_member_access_by_subject(t.id, "ann").await.unwrap(), bare);
    assert_eq!(store.load_member_access(u.id, ann.id).await.unwrap(), None);
    assert_eq!(store.load_member_access_by_subject(u.id, "ann").await.unwrap(), None);

    commit!(store, add_grant(&fixtures::grant(&t, GrantSubject::Member(ann.id), "gpt-4o")));
    let narrowed = store.load_member_access(t.id, ann.id).await.unwrap().unwrap();
    assert_eq!(narrowed.grants, Some(Grants { allow: vec![pattern("gpt-4o")], deny: vec![] }));
}

async fn lines_of_one_subject_are_not_anothers(store: OwnStore) {
    let (t, u) = (added_tenant(&store, "t").await, added_tenant(&store, "u").await);
    let (ann, token) = (fixtures::member(&t, "ann"), fixtures::token(&t));
    let lines = [
        fixtures::grant(&t, GrantSubject::Tenant, "a"),
        fixtures::grant(&t, GrantSubject::Member(ann.id), "b"),
        fixtures::grant(&t, GrantSubject::AccessToken(token.id), "c"),
        fixtures::grant(&u, GrantSubject::Tenant, "d"),
    ];
    commit!(
        store,
        add_member(&ann),
        add_access_token(&token, None),
        add_grant(&lines[0]),
        add_grant(&lines[1]),
        add_grant(&lines[2]),
        add_grant(&lines[3]),
    );
    let [_, of_ann, of_token, _] = &lines;
    let listed = async |filter: GrantFilter| store.list_grants(&filter, Page::first(9)).await.unwrap();
    let filter = GrantFilter { member_id: Some(ann.id), ..GrantFilter::default() };
    assert_eq!(listed(filter).await, std::slice::from_ref(of_ann));
    let filter = GrantFilter { token_id: Some(token.id), ..GrantFilter::default() };
    assert_eq!(listed(filter).await, std::slice::from_ref(of_token));
    let filter = GrantFilter { tenant_id: Some(t.id), ..GrantFilter::default() };
    assert_eq!(listed(filter).await, lines[..3]);
    let own = |text| Some(Grants { allow: vec![pattern(text)], deny: vec![] });
    assert_eq!(store.load_token_grants(t.id, token.id).await.unwrap(), own("c"));
    assert_eq!(store.load_token_grants(u.id, token.id).await.unwrap(), None, "another tenant's token");
    assert_eq!(store.find_grants_by_subject(u.id, GrantSubject::Tenant).await.unwrap(), own("d"));
}
