//! Providers, keys, models, routes, tenants, members: what goes in comes out, once, in order.

use tollway::{
    domain::{
        ids::ProviderId,
        key::KeyState,
        provider::{AuthStyle, Provider, Tier, Transport},
    },
    store::{KeyFilter, MemberFilter, Page, RemoveOutcome, RouteFilter, StoreError, UpdateOutcome},
};

use super::{
    both::OwnStore,
    fixtures::{self, NOW, added_provider, added_tenant, commit},
};

on_both!(
    everything_written_reads_back_the_same,
    an_update_counts_the_version_up_and_a_stale_one_changes_nothing,
    a_removal_needs_the_version_it_was_told,
    what_is_missing_is_said_to_be_missing,
    every_unique_field_is_named_when_it_is_taken,
    a_row_that_is_referred_to_stays_and_a_dangling_one_is_refused,
    lists_come_in_pages_in_order_of_id,
    filters_narrow_a_list,
    the_system_may_change_a_key_past_its_version,
    every_way_to_present_a_key_reads_back,
);

async fn everything_written_reads_back_the_same(store: OwnStore) {
    let (provider, model, tenant) = (fixtures::provider("p"), fixtures::model("m"), fixtures::tenant("t"));
    let mut key = fixtures::key(&provider, "one");
    key.tenant_id = Some(tenant.id);
    let route = fixtures::route(&model, &provider);
    let member = fixtures::member(&tenant, "ann@example.com");
    commit!(
        store,
        add_provider(&provider),
        add_tenant(&tenant),
        add_key(&key),
        add_model(&model),
        add_route(&route),
        add_member(&member),
    );

    assert_eq!(store.lookup_provider(provider.id).await.unwrap().as_ref(), Some(&provider));
    assert_eq!(store.find_provider_by_name("p").await.unwrap(), Some(provider.clone()));
    assert_eq!(store.lookup_key(key.id).await.unwrap().as_ref(), Some(&key));
    assert_eq!(store.find_key_by_label(provider.id, "one").await.unwrap(), Some(key));
    assert_eq!(store.lookup_model(model.id).await.unwrap().as_ref(), Some(&model));
    assert_eq!(store.find_model_by_name("m").await.unwrap(), Some(model));
    assert_eq!(store.lookup_route(route.id).await.unwrap(), Some(route));
    assert_eq!(store.lookup_tenant(tenant.id).await.unwrap().as_ref(), Some(&tenant));
    assert_eq!(store.find_tenant_by_name("t").await.unwrap(), Some(tenant.clone()));
    assert_eq!(store.lookup_member(member.id).await.unwrap().as_ref(), Some(&member));
    assert_eq!(store.find_member_by_subject(tenant.id, "ann@example.com").await.unwrap(), Some(member));
}

async fn an_update_counts_the_version_up_and_a_stale_one_changes_nothing(store: OwnStore) {
    let mut provider = added_provider(&store, "p").await;
    let mut tenant = added_tenant(&store, "t").await;
    let mut model = fixtures::model("m");
    let mut key = fixtures::key(&provider, "k");
    let mut route = fixtures::route(&model, &provider);
    let mut member = fixtures::member(&tenant, "ann");
    commit!(store, add_model(&model), add_key(&key), add_route(&route), add_member(&member));
    let done = UpdateOutcome::Updated { version: 2 };

    (provider.name, provider.enabled, provider.updated_at) =
        ("q".to_owned(), false, NOW.plus(std::time::Duration::from_micros(1)));
    (tenant.name, tenant.enabled) = ("u".to_owned(), false);
    (model.name, model.context_tokens) = ("n".to_owned(), None);
    (key.label, key.state, key.limits.rpm) = ("l".to_owned(), KeyState::Disabled, None);
    (route.weight, route.capabilities) = (9, None);
    (member.subject, member.token_generation) = ("bob".to_owned(), 8);
    assert_eq!(commit!(store, update_provider(&provider, 1)), done);
    assert_eq!(commit!(store, update_tenant(&tenant, 1)), done);
    assert_eq!(commit!(store, update_model(&model, 1)), done);
    assert_eq!(commit!(store, update_key(&key, 1)), done);
    assert_eq!(commit!(store, update_route(&route, 1)), done);
    assert_eq!(commit!(store, update_member(&member, 1)), done);

    // All of it again at the old version, with other content.
    let stale = UpdateOutcome::Stale { current: 2 };
    let (mut p2, mut t2, mut m2, mut k2) = (provider.clone(), tenant.clone(), model.clone(), key.clone());
    let (mut r2, mut b2) = (route.clone(), member.clone());
    (p2.name, t2.name, m2.name, k2.label) = ("x".into(), "x".into(), "x".into(), "x".into());
    (r2.weight, b2.subject) = (10, "x".into());
    assert_eq!(commit!(store, update_provider(&p2, 1)), stale);
    assert_eq!(commit!(store, update_tenant(&t2, 1)), stale);
    assert_eq!(commit!(store, update_model(&m2, 1)), stale);
    assert_eq!(commit!(store, update_key(&k2, 1)), stale);
    assert_eq!(commit!(store, update_route(&r2, 1)), stale);
    assert_eq!(commit!(store, update_member(&b2, 1)), stale);

    (provider.version, tenant.version, model.version) = (2, 2, 2);
    (key.version, route.version, member.version) = (2, 2, 2);
    assert_eq!(store.lookup_provider(provider.id).await.unwrap(), Some(provider));
    assert_eq!(store.lookup_tenant(tenant.id).await.unwrap(), Some(tenant));
    assert_eq!(store.lookup_model(model.id).await.unwrap(), Some(model));
    assert_eq!(store.lookup_key(key.id).await.unwrap(), Some(key));
    assert_eq!(store.lookup_route(route.id).await.unwrap(), Some(route));
    assert_eq!(store.lookup_member(member.id).await.unwrap(), Some(member));
}

async fn a_removal_needs_the_version_it_was_told(store: OwnStore) {
    let provider = added_provider(&store, "p").await;
    let tenant = added_tenant(&store, "t").await;
    let (model, key) = (fixtures::model("m"), fixtures::key(&provider, "k"));
    let (route, member) = (fixtures::route(&model, &provider), fixtures::member(&tenant, "ann"));
    commit!(store, add_model(&model), add_key(&key), add_route(&route), add_member(&member));

    let stale = RemoveOutcome::Stale { current: 1 };
    assert_eq!(commit!(store, remove_route(route.id, Some(2))), stale);
    assert_eq!(commit!(store, remove_key(key.id, Some(2))), stale);
    assert_eq!(commit!(store, remove_model(model.id, Some(2))), stale);
    assert_eq!(commit!(store, remove_provider(provider.id, Some(2))), stale);
    assert_eq!(commit!(store, remove_member(member.id, Some(2))), stale);
    assert_eq!(commit!(store, remove_tenant(tenant.id, Some(2))), stale);

    assert_eq!(commit!(store, remove_route(route.id, Some(1))), RemoveOutcome::Removed);
    assert_eq!(commit!(store, remove_key(key.id, None)), RemoveOutcome::Removed);
    assert_eq!(commit!(store, remove_model(model.id, None)), RemoveOutcome::Removed);
    assert_eq!(commit!(store, remove_provider(provider.id, Some(1))), RemoveOutcome::Removed);
    assert_eq!(commit!(store, remove_member(member.id, Some(1))), RemoveOutcome::Removed);
    assert_eq!(commit!(store, remove_tenant(tenant.id, None)), RemoveOutcome::Removed);
    assert_eq!(store.lookup_route(route.id).await.unwrap(), None);
    assert_eq!(store.lookup_tenant(tenant.id).await.unwrap(), None);
}

async fn what_is_missing_is_said_to_be_missing(store: OwnStore) {
    let ghost = fixtures::provider("ghost");
    assert_eq!(store.lookup_provider(ghost.id).await.unwrap(), None);
    assert_eq!(store.find_provider_by_name("ghost").await.unwrap(), None);
    assert_eq!(commit!(store, update_provider(&ghost, 1)), UpdateOutcome::Missing);
    assert_eq!(commit!(store, remove_provider(ghost.id, None)), RemoveOutcome::Missing);
}

/// The field of a conflict.
fn taken<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::Conflict { table, field }) => format!("{table}.{field}"),
        other => panic!("expected a conflict, got {other:?}"),
    }
}

async fn every_unique_field_is_named_when_it_is_taken(store: OwnStore) {
    let provider = added_provider(&store, "p").await;
    let tenant = added_tenant(&store, "t").await;
    let (model, key) = (fixtures::model("m"), fixtures::key(&provider, "k"));
    let (route, member) = (fixtures::route(&model, &provider), fixtures::member(&tenant, "ann"));
    commit!(store, add_model(&model), add_key(&key), add_route(&route), add_member(&member));

    let begin = async || store.begin().await.unwrap();
    assert_eq!(taken(begin().await.add_provider(&fixtures::provider("p")).await), "providers.name");
    let same_id = Provider { name: "another".to_owned(), ..provider.clone() };
    assert_eq!(taken(begin().await.add_provider(&same_id).await), "providers.id");
    assert_eq!(taken(begin().await.add_tenant(&fixtures::tenant("t")).await), "tenants.name");
    assert_eq!(taken(begin().await.add_model(&fixtures::model("m")).await), "models.name");
    let mut same_label = fixtures::key(&provider, "k");
    "another".clone_into(&mut same_label.fingerprint);
    assert_eq!(taken(begin().await.add_key(&same_label).await), "keys.label");
    let mut same_secret = fixtures::key(&provider, "other");
    same_secret.fingerprint.clone_from(&key.fingerprint);
    assert_eq!(taken(begin().await.add_key(&same_secret).await), "keys.fingerprint");
    assert_eq!(
        taken(begin().await.add_route(&fixtures::route(&model, &provider)).await),
        "routes.upstream_model"
    );
    assert_eq!(taken(begin().await.add_member(&fixtures::member(&tenant, "ann")).await), "members.subject");

    let mut other = added_provider(&store, "other").await;
    "p".clone_into(&mut other.name);
    assert_eq!(taken(begin().await.update_provider(&other, 1).await), "providers.name");
    // The same label and secret in another pool are nobody's business.
    commit!(store, add_key(&fixtures::key(&other, "k")));
}

async fn a_row_that_is_referred_to_stays_and_a_dangling_one_is_refused(store: OwnStore) {
    let provider = added_provider(&store, "p").await;
    let (model, key) = (fixtures::model("m"), fixtures::key(&provider, "k"));
    let route = fixtures::route(&model, &provider);
    commit!(store, add_model(&model), add_key(&key), add_route(&route));
    let begin = async || store.begin().await.unwrap();
    let refused = |result: Result<RemoveOutcome, StoreError>| matches!(result, Err(StoreError::Reference));
    assert!(refused(begin().await.remove_provider(provider.id, None).await));
    assert!(refused(begin().await.remove_model(model.id, None).await));
    let dangling = fixtures::key(&fixtures::provider("nowhere"), "k");
    assert!(matches!(begin().await.add_key(&dangling).await, Err(StoreError::Reference)));
    assert!(store.lookup_provider(provider.id).await.unwrap().is_some());
}

async fn lists_come_in_pages_in_order_of_id(store: OwnStore) {
    let mut added: Vec<ProviderId> = Vec::new();
    for n in 0..7 {
        added.push(added_provider(&store, &format!("p{n}")).await.id);
    }
    let mut listed = Vec::new();
    let mut page = Page::first(3);
    loop {
        let piece = store.list_providers(page).await.unwrap();
        let Some(last) = piece.last() else { break };
        assert!(piece.len() <= 3);
        page = Page::after(last.id.uuid(), 3);
        listed.extend(piece.iter().map(|provider| provider.id));
    }
    assert_eq!(listed, added);
}

async fn filters_narrow_a_list(store: OwnStore) {
    let (a, b) = (added_provider(&store, "a").await, added_provider(&store, "b").await);
    let (t, u) = (added_tenant(&store, "t").await, added_tenant(&store, "u").await);
    let (one, two) = (fixtures::model("m"), fixtures::model("n"));
    let (plain, mut owned) = (fixtures::key(&a, "plain"), fixtures::key(&b, "owned"));
    owned.tenant_id = Some(t.id);
    let (ma, nb) = (fixtures::route(&one, &a), fixtures::route(&two, &b));
    let (ann, bob) = (fixtures::member(&t, "ann"), fixtures::member(&u, "bob"));
    commit!(
        store,
        add_model(&one),
        add_model(&two),
        add_key(&plain),
        add_key(&owned),
        add_route(&ma),
        add_route(&nb),
        add_member(&ann),
        add_member(&bob),
    );
    let all = Page::first(100);
    let keys = async |filter: KeyFilter| store.list_keys(&filter, all).await.unwrap();
    assert_eq!(keys(KeyFilter::default()).await, [plain.clone(), owned.clone()]);
    assert_eq!(keys(KeyFilter { provider_id: Some(a.id), ..KeyFilter::default() }).await, [plain]);
    assert_eq!(keys(KeyFilter { tenant_id: Some(t.id), ..KeyFilter::default() }).await, [owned]);
    assert_eq!(keys(KeyFilter { provider_id: Some(a.id), tenant_id: Some(t.id) }).await, []);
    let routes = async |filter: RouteFilter| store.list_routes(&filter, all).await.unwrap();
    assert_eq!(routes(RouteFilter { model_id: Some(one.id), provider_id: None }).await, [ma]);
    assert_eq!(routes(RouteFilter { model_id: None, provider_id: Some(b.id) }).await, [nb]);
    let members = async |filter: MemberFilter| store.list_members(&filter, all).await.unwrap();
    assert_eq!(members(MemberFilter { tenant_id: Some(u.id) }).await, [bob]);
    assert_eq!(store.list_models(all).await.unwrap(), [one, two]);
    assert_eq!(store.list_tenants(all).await.unwrap(), [t, u]);
}

async fn the_system_may_change_a_key_past_its_version(store: OwnStore) {
    let provider = added_provider(&store, "p").await;
    let key = fixtures::key(&provider, "k");
    commit!(store, add_key(&key));
    assert!(commit!(store, set_key_state(key.id, KeyState::Active, NOW)));
    assert!(!commit!(store, set_key_state(key.id, KeyState::Active, NOW)));
    let resealed = tollway::domain::secret::Sealed::from_bytes(vec![9]);
    assert!(commit!(store, reseal_key(key.id, &key.secret, &resealed)));
    assert!(!commit!(store, reseal_key(key.id, &key.secret, &resealed)));
    let found = store.lookup_key(key.id).await.unwrap().unwrap();
    assert_eq!((found.state, found.version, found.secret), (KeyState::Active, 2, resealed));
}

async fn every_way_to_present_a_key_reads_back(store: OwnStore) {
    let styles =
        [AuthStyle::Bearer, AuthStyle::Header("h".into()), AuthStyle::Query("q".into()), AuthStyle::None];
    for (n, auth) in styles.into_iter().enumerate() {
        let mut provider = fixtures::provider(&format!("p{n}"));
        (provider.auth, provider.tier, provider.transport) = (auth, Tier::Free, Transport::Http1);
        commit!(store, add_provider(&provider));
        assert_eq!(store.lookup_provider(provider.id).await.unwrap(), Some(provider));
    }
}
