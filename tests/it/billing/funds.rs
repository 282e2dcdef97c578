//! What prepaid tenants can spend, as charges, recorder and store come one after the other.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;
use tollway::{
    billing::{
        funds::Funds,
        journal::{Journal, by_tenant, undrained},
        recorder::Recorder,
    },
    domain::{clock::SystemClock, ids::TenantId, money::Nanos},
    telemetry::Metrics,
};

use super::{attempt_start, begin, event, open, small};
use crate::harness::{eventually, server::Setup};

#[tokio::test]
async fn while_the_store_is_away_the_last_balance_goes_on_being_spent() {
    let setup = Setup::alone();
    let scene = setup.scene().await;
    let (known, other) = (scene.tenant("known", |_| ()).await, scene.tenant("other", |_| ()).await);
    scene.top_up(known.tenant.id, Nanos::new(100)).await;
    let funds = Funds::new(scene.store.clone(), &BTreeMap::new());
    assert_eq!(funds.spendable(known.tenant.id).await.unwrap(), Nanos::new(100));
    scene.store.close().await;
    for left in [70, 40, 10, -20] {
        funds.charged(known.tenant.id, Nanos::new(30));
        assert_eq!(funds.spendable(known.tenant.id).await.unwrap(), Nanos::new(left));
    }
    assert!(funds.spendable(other.tenant.id).await.is_err(), "nothing is known of it");
}

#[tokio::test]
async fn a_charge_counts_from_the_end_of_its_request_on_and_never_twice_for_long() {
    let setup = Setup::alone();
    let store = setup.scene().await.store;
    let dir = tempfile::tempdir().unwrap();
    let journal_dir = dir.path().join("journal");
    let tenant = event(0, 1).tenant_id;
    // Every seventh event is of the same tenant.
    let write = |journal: &Journal, n| {
        journal.begin(&begin(n), &attempt_start(0)).unwrap();
        journal.end(&event(n, 1)).unwrap();
        event(n, 1).charge
    };
    // Charges of an earlier life that its recorder did not come to.
    let mut spent = Nanos::ZERO;
    {
        let (journal, _) = open(small(&journal_dir));
        for n in [0, 7, 14] {
            spent = spent.plus(write(&journal, n));
        }
    }
    let (journal, _) = open(small(&journal_dir));
    let funds = Arc::new(Funds::new(store.clone(), &by_tenant(undrained(&journal_dir).unwrap().values())));
    let left = async |tenant: TenantId| funds.spendable(tenant).await.unwrap();
    assert_eq!(left(tenant).await, spent.negated());

    let stop = CancellationToken::new();
    let refreshing = {
        let (funds, stop) = (Arc::clone(&funds), stop.clone());
        tokio::spawn(async move { funds.refresh(stop).await })
    };
    for round in 1..4 {
        // A recorder that starts again tells no charge a second time.
        let recorder =
            Recorder::new(journal.clone(), store.clone(), Arc::new(SystemClock), Arc::new(Metrics::new()));
        let mut recorder = recorder.unwrap().telling(Arc::clone(&funds));
        for n in (round * 70..round * 70 + 35).step_by(7) {
            let charge = event(n, 1).charge;
            funds.charged(tenant, charge);
            spent = spent.plus(charge);
            assert!(left(tenant).await <= spent.negated());
            write(&journal, n);
        }
        assert!(recorder.drain(Duration::from_secs(10)).await);
        assert!(left(tenant).await <= spent.negated());
        assert_eq!(store.lookup_balance(tenant).await.unwrap(), spent.negated());
        eventually("the store's answer is taken over", Duration::from_secs(10), async || {
            let left = left(tenant).await;
            assert!(left <= spent.negated(), "{left} is more than there is");
            left == spent.negated()
        })
        .await;
    }
    stop.cancel();
    refreshing.await.unwrap();
}
