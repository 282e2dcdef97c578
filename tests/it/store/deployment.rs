//! What a deployment shares: signing keys, data keys, revocations, settings, idempotent answers.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tollway::{
    domain::{clock::Timestamp, secret::Sealed, signing_key::SigningKey},
    store::{Idempotency, IdempotentRequest, Revocation, SavedAnswer, Store, StoreError, VaultKey},
};

use super::{
    both::OwnStore,
    fixtures::{NOW, commit, tenant},
};

on_both!(
    signing_keys_overlap_until_one_retires,
    one_data_key_seals_at_a_time,
    a_first_start_happens_once,
    a_foreign_jwt_is_revoked_until_it_lapses,
    the_first_replica_decides_a_setting,
    a_repeated_request_is_answered_and_not_done_again,
    a_request_that_failed_may_come_again,
    of_two_equal_requests_at_once_one_is_done,
);

fn later(seconds: u64) -> Timestamp {
    NOW.plus(Duration::from_secs(seconds))
}

fn signing_key(kid: &str, created_at: Timestamp) -> SigningKey {
    SigningKey {
        kid: kid.to_owned(),
        algorithm: "EdDSA".to_owned(),
        public_key: vec![1, 2, 3],
        private_key: Sealed::from_bytes(vec![4, 5, 6]),
        created_at,
        retires_at: None,
    }
}

async fn signing_keys_overlap_until_one_retires(store: OwnStore) {
    let (old, mut new) = (signing_key("z", NOW), signing_key("a", later(1)));
    commit!(store, add_signing_key(&new), add_signing_key(&old));
    assert_eq!(store.list_signing_keys().await.unwrap(), [old.clone(), new.clone()]);
    assert!(commit!(store, retire_signing_key("z", later(10))));
    assert!(!commit!(store, retire_signing_key("ghost", later(10))));
    let retiring = SigningKey { retires_at: Some(later(10)), ..old };
    assert_eq!(store.list_signing_keys().await.unwrap(), [retiring, new.clone()]);

    let resealed = Sealed::from_bytes(vec![7]);
    assert!(commit!(store, reseal_signing_key("a", &new.private_key, &resealed)));
    assert!(!commit!(store, reseal_signing_key("a", &new.private_key, &resealed)));
    new.private_key = resealed;
    assert_eq!(commit!(store, remove_retired_signing_keys(later(10))), 0);
    assert_eq!(commit!(store, remove_retired_signing_keys(later(11))), 1);
    assert_eq!(store.list_signing_keys().await.unwrap(), [new]);
    let again = store.begin().await.unwrap().add_signing_key(&signing_key("a", NOW)).await;
    assert!(matches!(again, Err(StoreError::Conflict { .. })));
}

fn vault_key(id: u32, active: bool) -> VaultKey {
    VaultKey { id, sealed: Sealed::from_bytes(vec![u8::try_from(id).unwrap(); 40]), active, created_at: NOW }
}

async fn one_data_key_seals_at_a_time(store: OwnStore) {
    commit!(store, add_vault_key(&vault_key(2, false)), add_vault_key(&vault_key(1, true)));
    assert_eq!(store.list_vault_keys().await.unwrap(), [vault_key(1, true), vault_key(2, false)]);
    let again = store.begin().await.unwrap().add_vault_key(&vault_key(1, true)).await;
    assert!(matches!(again, Err(StoreError::Conflict { field, .. }) if field == "id"));

    assert!(!commit!(store, remove_vault_key(1)), "the active one stays");
    assert!(commit!(store, activate_vault_key(2)));
    assert_eq!(store.list_vault_keys().await.unwrap(), [vault_key(1, false), vault_key(2, true)]);
    let mut unknown = store.begin().await.unwrap();
    assert!(!unknown.activate_vault_key(3).await.unwrap());
    unknown.rollback().await.unwrap();
    assert!(commit!(store, reseal_vault_key(2, &Sealed::from_bytes(vec![0]))));
    assert!(!commit!(store, reseal_vault_key(3, &Sealed::from_bytes(vec![0]))));
    assert!(commit!(store, remove_vault_key(1)));
    let resealed = VaultKey { sealed: Sealed::from_bytes(vec![0]), ..vault_key(2, true) };
    assert_eq!(store.list_vault_keys().await.unwrap(), [resealed]);
}

async fn set_up(store: &Store, kid: String) {
    let mut tx = store.begin().await.unwrap();
    tx.lock_first_start().await.unwrap();
    if store.list_signing_keys().await.unwrap().is_empty() {
        tx.add_signing_key(&signing_key(&kid, NOW)).await.unwrap();
    }
    tx.commit().await.unwrap();
}

async fn a_first_start_happens_once(store: OwnStore) {
    // As many as leave connections for their reads.
    futures_util::future::join_all((0..4).map(|n| set_up(&store, format!("k{n}")))).await;
    assert_eq!(store.list_signing_keys().await.unwrap().len(), 1);
}

async fn a_foreign_jwt_is_revoked_until_it_lapses(store: OwnStore) {
    let revocation = |jti: &str, revoked_at, expires_at| Revocation {
        issuer: "https://idp.example.com".to_owned(),
        jti: jti.to_owned(),
        tenant_id: Some(tenant("t").id),
        revoked_at,
        expires_at,
    };
    let (first, second) = (revocation("a", NOW, later(100)), revocation("b", later(5), later(50)));
    commit!(store, add_revocation(&first), add_revocation(&second));
    commit!(store, add_revocation(&revocation("a", later(9), later(999))));
    let both = [first.clone(), second.clone()];
    assert_eq!(store.list_revocations(None, later(10)).await.unwrap(), both);
    assert_eq!(store.list_revocations(Some(later(5)), later(10)).await.unwrap(), [second]);
    assert_eq!(store.list_revocations(None, later(50)).await.unwrap(), std::slice::from_ref(&first));
    assert_eq!(commit!(store, remove_lapsed_revocations(later(51))), 1);
    assert_eq!(store.list_revocations(None, NOW).await.unwrap(), [first]);
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Currency {
    code: String,
}

async fn the_first_replica_decides_a_setting(store: OwnStore) {
    let [usd, eur] = ["USD", "EUR"].map(|code| Currency { code: code.to_owned() });
    assert_eq!(store.lookup_setting::<Currency>("currency").await.unwrap(), None);
    assert!(commit!(store, add_setting("currency", &usd, NOW)));
    assert!(!commit!(store, add_setting("currency", &eur, NOW)));
    assert_eq!(store.lookup_setting("currency").await.unwrap(), Some(usd));
    commit!(store, put_setting("currency", &eur, NOW));
    assert_eq!(store.lookup_setting("currency").await.unwrap(), Some(eur));
    let misread = store.lookup_setting::<Vec<u8>>("currency").await;
    assert!(matches!(misread, Err(StoreError::BadRow { table: "settings", column: "value", .. })));
}

fn request(key: &str) -> IdempotentRequest<'_> {
    IdempotentRequest { principal: "tok_1", route: "POST /admin/v1/keys", key, request_hash: [1; 32] }
}

fn answer() -> SavedAnswer {
    SavedAnswer { status: 201, body: br#"{"id":"key_1"}"#.to_vec() }
}

async fn a_repeated_request_is_answered_and_not_done_again(store: OwnStore) {
    let mut tx = store.begin().await.unwrap();
    assert_eq!(tx.begin_idempotent(&request("k"), NOW).await.unwrap(), Idempotency::Fresh);
    tx.save_idempotent(&request("k"), &answer()).await.unwrap();
    tx.commit().await.unwrap();

    assert_eq!(commit!(store, begin_idempotent(&request("k"), later(1))), Idempotency::Replay(answer()));
    let other_content = IdempotentRequest { request_hash: [2; 32], ..request("k") };
    assert_eq!(commit!(store, begin_idempotent(&other_content, later(1))), Idempotency::Mismatch);
    for unrelated in [
        request("l"),
        IdempotentRequest { principal: "tok_2", ..request("k") },
        IdempotentRequest { route: "POST /admin/v1/models", ..request("k") },
    ] {
        let mut tx = store.begin().await.unwrap();
        assert_eq!(tx.begin_idempotent(&unrelated, NOW).await.unwrap(), Idempotency::Fresh);
        tx.rollback().await.unwrap();
    }
    assert_eq!(commit!(store, remove_old_idempotent(NOW)), 0);
    assert_eq!(commit!(store, remove_old_idempotent(later(1))), 1);
}

async fn a_request_that_failed_may_come_again(store: OwnStore) {
    let mut failed = store.begin().await.unwrap();
    failed.begin_idempotent(&request("k"), NOW).await.unwrap();
    drop(failed);
    let mut tx = store.begin().await.unwrap();
    assert_eq!(tx.begin_idempotent(&request("k"), NOW).await.unwrap(), Idempotency::Fresh);
}

async fn of_two_equal_requests_at_once_one_is_done(store: OwnStore) {
    let send = async || {
        let mut tx = store.begin().await.unwrap();
        let found = tx.begin_idempotent(&request("k"), NOW).await.unwrap();
        if found == Idempotency::Fresh {
            tx.save_idempotent(&request("k"), &answer()).await.unwrap();
        }
        tx.commit().await.unwrap();
        found
    };
    let found = futures_util::future::join_all((0..6).map(|_| send())).await;
    assert_eq!(found.iter().filter(|found| **found == Idempotency::Fresh).count(), 1);
    assert_eq!(found.iter().filter(|found| **found == Idempotency::Replay(answer())).count(), 5);
}
