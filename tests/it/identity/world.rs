//! A tenant with a member, their tokens, and an identity floor on a store of the test's own.

use std::{sync::Arc, time::Duration};

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use tollway::{
    domain::{
        clock::{Clock, Entropy, ManualClock, Timestamp},
        grant::{Effect, Grant, GrantSubject, Pattern},
        ids::{GrantId, MemberId, TenantId},
        limits::Limits,
        principal::Role,
        secret::Secret,
        tenant::{AccessToken, BillingMode, Member, Tenant},
    },
    identity::{Identity, IdentityConfig, NewToken, TokenForm},
    store::{DatabaseUrl, Store, StoreConfig},
    vault::{MasterKey, OsEntropy, Vault},
};

use crate::harness::services::migrated_database;

/// What the trusted backend signs with.
pub const SHARED: &str = "a secret that is shared with a backend";
/// When every world begins.
pub const NOW: Timestamp = Timestamp::from_unix_s(1_800_000_000);
/// The lifetime of the tokens made here.
pub const LIFETIME: Duration = Duration::from_secs(24 * 3_600);

pub struct World {
    pub clock: Arc<ManualClock>,
    pub store: Store,
    pub identity: Arc<Identity>,
    pub tenant: Tenant,
    pub member: Member,
    vault: Arc<Vault>,
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
        let clock = Arc::new(ManualClock::starting_at(NOW));
        let master =
            MasterKey::create_file(&tempfile::tempdir().unwrap().path().join("key"), &OsEntropy).unwrap();
        let data_key = Vault::new_data_key(1, &master, &OsEntropy).unwrap();
        let vault = Arc::new(Vault::open(&master, &[data_key], 1, Arc::new(OsEntropy)).unwrap());
        let (tenant, member) = add_tenant(&store, "acme").await;
        let identity = open(&store, &vault, &clock);
        identity.start().await.unwrap();
        Self { clock, store, identity, tenant, member, vault, _gone_at_end: Box::new(gone_at_end) }
    }

    /// Another replica on the same store; not started.
    pub fn replica(&self) -> Arc<Identity> {
        open(&self.store, &self.vault, &self.clock)
    }

    /// A token of the member, in this form.
    pub async fn issue(&self, form: TokenForm) -> (AccessToken, String) {
        self.issue_with(form, |_| {}).await
    }

    pub async fn issue_with(
        &self,
        form: TokenForm,
        change: impl FnOnce(&mut NewToken),
    ) -> (AccessToken, String) {
        let mut new = self.new_token(form);
        change(&mut new);
        let (token, text) = self.identity.issue(new).await.unwrap();
        (token, text.expose().to_owned())
    }

    pub fn new_token(&self, form: TokenForm) -> NewToken {
        NewToken {
            tenant: Some(self.tenant.id),
            member: Some(self.member.id),
            name: "laptop".to_owned(),
            form,
            role: Role::Member,
            grants: None,
            limits: Limits::default(),
            expires_at: Some(self.clock.now().plus(LIFETIME)),
        }
    }

    /// Changes the tenant in the store.
    pub async fn change_tenant(&mut self, change: impl FnOnce(&mut Tenant)) {
        change(&mut self.tenant);
        let mut tx = self.store.begin().await.unwrap();
        tx.update_tenant(&self.tenant, self.tenant.version).await.unwrap();
        tx.commit().await.unwrap();
        self.tenant.version += 1;
    }

    /// Changes the member in the store.
    pub async fn change_member(&mut self, change: impl FnOnce(&mut Member)) {
        change(&mut self.member);
        let mut tx = self.store.begin().await.unwrap();
        tx.update_member(&self.member, self.member.version).await.unwrap();
        tx.commit().await.unwrap();
        self.member.version += 1;
    }

    pub async fn revoke(&self, token: &AccessToken) {
        let mut tx = self.store.begin().await.unwrap();
        tx.revoke_access_token(token.id, self.clock.now()).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// Claims that the trusted backend may sign, with changes; null removes one.
    pub fn claims(&self, changes: &Value) -> Value {
        let mut claims = json!({
            "iss": "tollway",
            "aud": "tollway",
            "exp": NOW.plus(LIFETIME).unix_s(),
            "tid": self.tenant.id.to_string(),
            "jti": "backend-1",
        });
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims
    }
}

/// A JWT signed with an HMAC secret under the algorithm that its header names.
pub fn hmac_signed(header: &Header, claims: &Value, secret: &[u8]) -> String {
    jsonwebtoken::encode(header, claims, &EncodingKey::from_secret(secret).unwrap()).unwrap()
}

/// A JWT of the trusted backend.
pub fn shared(claims: &Value) -> String {
    hmac_signed(&Header::new(Algorithm::HS256), claims, SHARED.as_bytes())
}

pub async fn add_tenant(store: &Store, name: &str) -> (Tenant, Member) {
    let tenant = Tenant {
        id: TenantId::generate(NOW, OsEntropy.id_bytes()),
        name: name.to_owned(),
        limits: Limits { rpm: Some(600), ..Limits::default() },
        billing: BillingMode::Unmetered,
        enabled: true,
        version: 1,
        created_at: NOW,
        updated_at: NOW,
    };
    let member = Member {
        id: MemberId::generate(NOW, OsEntropy.id_bytes()),
        tenant_id: tenant.id,
        subject: "ada@example.com".to_owned(),
        role: Role::Admin,
        token_generation: 0,
        limits: Limits { rpm: Some(60), ..Limits::default() },
        enabled: true,
        version: 1,
        created_at: NOW,
        updated_at: NOW,
    };
    let grant = grant(&tenant, GrantSubject::Tenant, "*", Effect::Allow);
    let mut tx = store.begin().await.unwrap();
    tx.add_tenant(&tenant).await.unwrap();
    tx.add_member(&member).await.unwrap();
    tx.add_grant(&grant).await.unwrap();
    tx.commit().await.unwrap();
    (tenant, member)
}

pub fn grant(tenant: &Tenant, subject: GrantSubject, pattern: &str, effect: Effect) -> Grant {
    Grant {
        id: GrantId::generate(NOW, OsEntropy.id_bytes()),
        tenant_id: tenant.id,
        subject,
        pattern: Pattern::parse(pattern).unwrap(),
        effect,
        version: 1,
        created_at: NOW,
        updated_at: NOW,
    }
}

fn open(store: &Store, vault: &Arc<Vault>, clock: &Arc<ManualClock>) -> Arc<Identity> {
    let config = IdentityConfig {
        hs256_secret: Some(Secret::new(SHARED.to_owned())),
        leeway: Duration::from_secs(30),
        ..IdentityConfig::default()
    };
    let clock = Arc::<ManualClock>::clone(clock);
    Arc::new(Identity::try_new(config, store.clone(), Arc::clone(vault), clock, Arc::new(OsEntropy)).unwrap())
}

/// Runs each of these functions in a world on either database.
macro_rules! in_both_worlds {
    ($($name:ident),* $(,)?) => {
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(crate::identity::world::World::postgres().await).await;
            })*
        }
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(crate::identity::world::World::sqlite().await).await;
            })*
        }
    };
}
