//! The deployment's one currency.

use crate::harness::{server::Setup, upstream::Upstream};

#[tokio::test]
async fn prices_are_shown_in_the_deployments_currency() {
    let upstream = Upstream::start();
    for (setting, shown) in [(None, "USD"), (Some("EUR"), "EUR")] {
        let mut setup = Setup::alone();
        if let Some(currency) = setting {
            setup = setup.set("TOLLWAY_BILLING_CURRENCY", currency);
        }
        let house = setup.scene().await.ordinary(&upstream.base_url()).await;
        let server = setup.boot().await;
        let models = server.caller(&house.a.token).get("/v1/models").await.expect_status(200).json();
        assert_eq!(models["data"][0]["pricing"]["currency"], shown);
    }
    let wrong = Setup::alone().set("TOLLWAY_BILLING_CURRENCY", "euro");
    let output = wrong.command(&["config", "check"]).output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && said.contains("billing.currency"), "{said}");
}
