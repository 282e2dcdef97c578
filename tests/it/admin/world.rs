//! An admin surface that is served over HTTP, on a store of the test's own.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use actix_web::{App, HttpServer};
use reqwest::Method;
use serde_json::{Value, json};
use tollway::{
    admission::{Admission, local::Local},
    billing::funds::Funds,
    catalog::Catalog,
    domain::{
        clock::{SharedClock, SharedEntropy, SystemClock},
        limits::Limits,
        principal::Role,
        secret::Secret,
    },
    http::{
        admin::{self, Desk},
        arrival::Receptionist,
    },
    identity::{Identity, IdentityConfig, NewToken, TokenForm},
    net::{Guard, GuardConfig},
    store::{DatabaseUrl, Store, StoreConfig},
    vault::{MasterKey, OsEntropy, Vault},
};

use crate::harness::{
    client::{Answer, Caller},
    services::migrated_database,
};

/// One replica's admin surface, and an operator who calls it.
pub struct World {
    pub desk: Desk,
    pub operator: Caller,
    /// The operator's access token.
    pub token: String,
    pub url: String,
    _gone_at_end: Box<dyn Send + Sync>,
}

impl World {
    pub async fn postgres() -> Self {
        let database = migrated_database().await;
        let url = DatabaseUrl::Postgres(Secret::new(database.url.clone()));
        Self::on(url, database).await
    }

    pub async fn sqlite() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self::on(DatabaseUrl::Sqlite(dir.path().join("tollway.db")), dir).await
    }

    pub async fn on(url: DatabaseUrl, gone_at_end: impl Send + Sync + 'static) -> Self {
        let config = StoreConfig { acquire_timeout: Duration::from_secs(20), ..StoreConfig::new(url) };
        let store = Store::connect(&config).await.unwrap();
        store.migrate().await.unwrap();
        let desk = desk(store, vault()).await;
        let operator = NewToken {
            tenant: None,
            member: None,
            name: "the test's operator".to_owned(),
            form: TokenForm::Opaque,
            role: Role::Operator,
            grants: None,
            limits: Limits::default(),
            expires_at: None,
        };
        let (_, text) = desk.identity.issue(operator).await.unwrap();
        Self::serving(desk, text.expose(), gone_at_end)
    }

    /// Another replica on the same store.
    pub async fn replica(&self) -> Self {
        let desk = desk(self.desk.store.clone(), Arc::clone(&self.desk.vault)).await;
        Self::serving(desk, &self.token, ())
    }

    fn serving(desk: Desk, token: &str, gone_at_end: impl Send + Sync + 'static) -> Self {
        let shared = desk.clone();
        let app = move || {
            let desk = shared.clone();
            let desk_of_arrivals =
                Receptionist { clock: Arc::clone(&desk.clock), entropy: Arc::clone(&desk.entropy) };
            App::new()
                .app_data(Arc::clone(&desk.identity))
                .app_data(desk_of_arrivals)
                .app_data("USD".parse::<tollway::domain::money::Currency>().unwrap())
                .service(admin::routes(desk))
        };
        let server = HttpServer::new(app).workers(2).disable_signals().bind(("127.0.0.1", 0)).unwrap();
        let url = format!("http://{}", server.addrs()[0]);
        tokio::spawn(server.run());
        let operator = Caller::new(&url, Some(token));
        let gone_at_end = Box::new(gone_at_end);
        Self { desk, operator, token: token.to_owned(), url, _gone_at_end: gone_at_end }
    }

    /// Creates an object and gives it as it is shown.
    pub async fn create(&self, path: &str, body: Value) -> Value {
        self.operator.post(&format!("/admin/v1/{path}"), &body).await.expect_status(201).json()
    }

    /// Changes an object, whatever its version.
    pub async fn patch(&self, path: &str, body: Value) -> Answer {
        self.patch_if(path, "*", body).await
    }

    /// Changes an object if it has this tag.
    pub async fn patch_if(&self, path: &str, tag: &str, body: Value) -> Answer {
        let request = self.operator.request(Method::PATCH, &format!("/admin/v1/{path}"));
        Answer::of(request.header("if-match", tag).json(&body)).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.operator.get(&format!("/admin/v1/{path}")).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.operator.post(&format!("/admin/v1/{path}"), &body).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.operator.delete(&format!("/admin/v1/{path}")).await
    }

    /// Revokes the access token of the world's operator: there is none then.
    pub async fn retire_operator(&self) {
        let listed = self.get("access-tokens").await.json();
        let operators = listed["data"].as_array().unwrap().iter().filter(|token| token["kind"] == "opaque");
        for token in operators.map(id) {
            self.delete(&format!("access-tokens/{token}")).await.expect_status(204);
        }
    }

    /// A provider, with nothing special.
    pub async fn provider(&self, name: &str) -> String {
        id(&self.create("providers", json!({"name": name, "base_url": "https://up.example.com/v1"})).await)
    }

    pub async fn key(&self, provider: &str, label: &str, secret: &str) -> String {
        id(&self.create("keys", json!({"provider_id": provider, "label": label, "secret": secret})).await)
    }

    pub async fn model(&self, name: &str) -> String {
        id(&self.create("models", json!({"name": name})).await)
    }

    pub async fn tenant(&self, name: &str) -> String {
        id(&self.create("tenants", json!({"name": name})).await)
    }

    pub async fn member(&self, tenant: &str, subject: &str) -> String {
        id(&self.create("members", json!({"tenant_id": tenant, "subject": subject, "role": "admin"})).await)
    }
}

/// The id of an object as it is shown.
pub fn id(shown: &Value) -> String {
    shown["id"].as_str().unwrap().to_owned()
}

/// The fields that a refusal names.
pub fn fields(refusal: &Answer) -> Vec<String> {
    let details = refusal.json();
    let errors = details["errors"].as_array().cloned().unwrap_or_default();
    errors.iter().map(|error| error["field"].as_str().unwrap().to_owned()).collect()
}

fn vault() -> Arc<Vault> {
    let dir = tempfile::tempdir().unwrap();
    let master = MasterKey::create_file(&dir.path().join("key"), &OsEntropy).unwrap();
    let data_key = Vault::new_data_key(1, &master, &OsEntropy).unwrap();
    Arc::new(Vault::open(&master, &[data_key], 1, Arc::new(OsEntropy)).unwrap())
}

async fn desk(store: Store, vault: Arc<Vault>) -> Desk {
    let clock: SharedClock = Arc::new(SystemClock);
    let entropy: SharedEntropy = Arc::new(OsEntropy);
    let identity = Identity::try_new(
        IdentityConfig::default(),
        store.clone(),
        Arc::clone(&vault),
        Arc::clone(&clock),
        Arc::clone(&entropy),
    )
    .unwrap();
    identity.start().await.unwrap();
    let admission = Admission::Local(Arc::new(Local::new(Arc::clone(&clock))));
    let catalog = Catalog::load(store.clone(), admission.clone(), Arc::clone(&clock)).await.unwrap();
    Desk {
        catalog: Arc::new(catalog),
        admission,
        funds: Arc::new(Funds::new(store.clone(), &BTreeMap::new())),
        guard: Arc::new(Guard::new(GuardConfig::default())),
        identity: Arc::new(identity),
        store,
        vault,
        clock,
        entropy,
    }
}

/// Runs each of these functions in a world on either database.
macro_rules! in_both_worlds {
    ($($name:ident),* $(,)?) => {
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(&crate::admin::world::World::postgres().await).await;
            })*
        }
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(&crate::admin::world::World::sqlite().await).await;
            })*
        }
    };
}
