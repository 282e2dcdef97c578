//! What a server is to know before a test: providers, keys, models, routes, and always two tenants.
//!
//! Written through the library into the server's own store, before it boots or beside it; a running server
//! takes changes over as it does those of another replica. Tests of the admin API use that instead. Knows nothing
//! of the rest of the harness: the benchmark sets its servers up by the same file.

use std::sync::{Arc, LazyLock};

use tollway::{
    app::keys::open_vault,
    domain::{
        clock::{Clock, Entropy, SharedClock, SharedEntropy, SystemClock, Timestamp},
        grant::{Effect, Grant, GrantSubject, Pattern},
        ids::{GrantId, KeyId, LedgerEntryId, ModelId, ProviderId, RouteId, TenantId},
        key::{Key, KeyState},
        ledger::{LedgerEntry, LedgerKind},
        limits::Limits,
        model::{Capabilities, Model, Route},
        money::Nanos,
        price::Prices,
        principal::Role,
        provider::{ApiFormat, AuthStyle, Provider, Tier, Timeouts, Transport},
        secret::Secret,
        tenant::{BillingMode, Tenant},
    },
    identity::{Identity, IdentityConfig, NewToken, TokenForm},
    store::{DatabaseUrl, Store, StoreConfig, Tx},
    upstream::key_purpose,
    vault::{MasterKey, OsEntropy, Vault},
};

/// The public model of [`Scene::ordinary`].
pub const MODEL: &str = "house-large";
/// The upstream key of [`Scene::ordinary`].
pub const UPSTREAM_KEY: &str = "sk-ordinary-upstream-key-4711";
/// What [`MODEL`] sells for: 2 and 6 units per million tokens.
pub static PRICES: LazyLock<Prices> = LazyLock::new(|| Prices {
    input: Some(Nanos::new(2 * Nanos::PER_UNIT)),
    output: Some(Nanos::new(6 * Nanos::PER_UNIT)),
    ..Prices::default()
});

/// A tenant and an access token of it.
#[derive(Debug, Clone)]
pub struct TenantHandle {
    /// The tenant.
    pub tenant: Tenant,
    /// An opaque access token that may use what the tenant may.
    pub token: String,
}

/// The usual case, in two tenants.
pub struct Ordinary {
    /// Named `house`.
    pub provider: Provider,
    /// Its only key, [`UPSTREAM_KEY`].
    pub key: Key,
    /// [`MODEL`]
    pub model: Model,
    /// From the model to the provider.
    pub route: Route,
    /// The tenant that tests act for.
    pub a: TenantHandle,
    /// The tenant that must not notice.
    pub b: TenantHandle,
}

/// The store of a server, open for setting things up.
pub struct Scene {
    /// The durable facts.
    pub store: Store,
    /// Seals as the server does.
    pub vault: Arc<Vault>,
    /// Issues access tokens the server takes.
    pub identity: Identity,
    clock: SystemClock,
    entropy: OsEntropy,
}

impl Scene {
    /// Opens a server's store, with this build's schema; `master_key` is the server's, in base64.
    pub async fn open(url: DatabaseUrl, master_key: &str) -> Self {
        let store = Store::connect(&StoreConfig::new(url)).await.expect("open the store");
        store.migrate().await.expect("migrate");
        let entropy: SharedEntropy = Arc::new(OsEntropy);
        let clock: SharedClock = Arc::new(SystemClock);
        let master =
            MasterKey::from_base64("the harness", &Secret::new(master_key.into())).expect("a master key");
        let vault = open_vault(&store, &master, &*clock, Arc::clone(&entropy)).await.expect("open the vault");
        let vault = Arc::new(vault);
        let config = IdentityConfig::default();
        let identity = Identity::try_new(config, store.clone(), Arc::clone(&vault), clock, entropy);
        let identity = identity.expect("set identity up");
        identity.start().await.expect("make signing keys");
        Self { store, vault, identity, clock: SystemClock, entropy: OsEntropy }
    }

    /// One provider at `base_url`, one key, one model with prices, two tenants that may use everything.
    pub async fn ordinary(&self, base_url: &str) -> Ordinary {
        let provider = self.provider("house", base_url, |_| ()).await;
        let key = self.key(&provider, "first", UPSTREAM_KEY, |_| ()).await;
        let model = self.model(MODEL, |_| ()).await;
        let route = self.route(&model, &provider, |_| ()).await;
        let a = self.tenant("acme", |_| ()).await;
        let b = self.tenant("globex", |_| ()).await;
        Ordinary { provider, key, model, route, a, b }
    }

    /// Adds a provider; `adjust` changes what is not as usual.
    pub async fn provider(&self, name: &str, base_url: &str, adjust: impl FnOnce(&mut Provider)) -> Provider {
        let now = self.clock.now();
        let mut provider = Provider {
            id: ProviderId::generate(now, self.entropy.id_bytes()),
            name: name.into(),
            base_url: base_url.into(),
            format: ApiFormat::OpenAiChat,
            auth: AuthStyle::Bearer,
            tier: Tier::default(),
            transport: Transport::default(),
            headers: std::collections::BTreeMap::new(),
            timeouts: Timeouts::default(),
            enabled: true,
            version: 1,
            created_at: now,
            updated_at: now,
        };
        adjust(&mut provider);
        self.commit(async |tx| tx.add_provider(&provider).await).await;
        provider
    }

    /// Adds an upstream key.
    pub async fn key(
        &self,
        provider: &Provider,
        label: &str,
        secret: &str,
        adjust: impl FnOnce(&mut Key),
    ) -> Key {
        let now = self.clock.now();
        let id = KeyId::generate(now, self.entropy.id_bytes());
        let plain = Secret::new(secret.into());
        let mut key = Key {
            id,
            provider_id: provider.id,
            tenant_id: None,
            label: label.into(),
            secret: self.vault.seal(&key_purpose(id), &plain).expect("seal"),
            fingerprint: self.vault.fingerprint(&plain),
            priority: 0,
            weight: 1,
            limits: Limits::default(),
            base_url: None,
            params: std::collections::BTreeMap::new(),
            state: KeyState::default(),
            version: 1,
            created_at: now,
            updated_at: now,
        };
        adjust(&mut key);
        self.commit(async |tx| tx.add_key(&key).await).await;
        key
    }

    /// Adds a public model that sells at [`PRICES`].
    pub async fn model(&self, name: &str, adjust: impl FnOnce(&mut Model)) -> Model {
        let now = self.clock.now();
        let mut model = Model {
            id: ModelId::generate(now, self.entropy.id_bytes()),
            name: name.into(),
            capabilities: Capabilities {
                tools: true,
                vision: true,
                json_schema: true,
                ..Capabilities::default()
            },
            context_tokens: Some(128_000),
            max_output_tokens: Some(16_000),
            prices: *PRICES,
            enabled: true,
            version: 1,
            created_at: now,
            updated_at: now,
        };
        adjust(&mut model);
        self.commit(async |tx| tx.add_model(&model).await).await;
        model
    }

    /// Adds a route, to an upstream model named `upstream-` and the public name.
    pub async fn route(&self, model: &Model, provider: &Provider, adjust: impl FnOnce(&mut Route)) -> Route {
        let now = self.clock.now();
        let mut route = Route {
            id: RouteId::generate(now, self.entropy.id_bytes()),
            model_id: model.id,
            provider_id: provider.id,
            upstream_model: format!("upstream-{}", model.name),
            priority: 0,
            weight: 1,
            cost: Prices { input: Some(Nanos::new(Nanos::PER_UNIT)), ..*PRICES },
            capabilities: None,
            enabled: true,
            version: 1,
            created_at: now,
            updated_at: now,
        };
        adjust(&mut route);
        self.commit(async |tx| tx.add_route(&route).await).await;
        route
    }

    /// Adds a tenant that may use every model, with an access token.
    pub async fn tenant(&self, name: &str, adjust: impl FnOnce(&mut Tenant)) -> TenantHandle {
        let now = self.clock.now();
        let mut tenant = Tenant {
            id: TenantId::generate(now, self.entropy.id_bytes()),
            name: name.into(),
            limits: Limits::default(),
            billing: BillingMode::default(),
            enabled: true,
            version: 1,
            created_at: now,
            updated_at: now,
        };
        adjust(&mut tenant);
        self.commit(async |tx| tx.add_tenant(&tenant).await).await;
        self.grant(tenant.id, "*").await;
        let token = self.token(tenant.id, |_| ()).await;
        TenantHandle { tenant, token }
    }

    /// Lets a tenant use the models that fit `pattern`.
    pub async fn grant(&self, tenant_id: TenantId, pattern: &str) -> Grant {
        let now = self.clock.now();
        let grant = Grant {
            id: GrantId::generate(now, self.entropy.id_bytes()),
            tenant_id,
            subject: GrantSubject::Tenant,
            pattern: Pattern::parse(pattern).expect("a pattern"),
            effect: Effect::Allow,
            version: 1,
            created_at: now,
            updated_at: now,
        };
        self.commit(async |tx| tx.add_grant(&grant).await).await;
        grant
    }

    /// Issues an access token of a tenant: opaque, of a member's role, lasting, unless `adjust` says otherwise.
    pub async fn token(&self, tenant: TenantId, adjust: impl FnOnce(&mut NewToken)) -> String {
        self.issue(Some(tenant), Role::Member, adjust).await
    }

    /// Issues an access token of an operator, for the admin API.
    pub async fn operator_token(&self) -> String {
        self.issue(None, Role::Operator, |_| ()).await
    }

    /// Books money paid in.
    pub async fn top_up(&self, tenant_id: TenantId, amount: Nanos) {
        let now = self.clock.now();
        let entry = LedgerEntry {
            id: LedgerEntryId::generate(now, self.entropy.id_bytes()),
            tenant_id,
            kind: LedgerKind::TopUp,
            amount,
            event_id: None,
            note: "paid in".into(),
            actor: "system".into(),
            created_at: now,
        };
        self.commit(async |tx| tx.add_ledger_entry(&entry).await.map(|_| ())).await;
    }

    /// Closes the store. An `SQLite` file is then the server's alone.
    pub async fn close(self) {
        self.store.close().await;
    }

    /// The wall clock, as the server has it.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn issue(
        &self,
        tenant: Option<TenantId>,
        role: Role,
        adjust: impl FnOnce(&mut NewToken),
    ) -> String {
        let mut new = NewToken {
            tenant,
            member: None,
            name: "made for a test".into(),
            form: TokenForm::Opaque,
            role,
            grants: None,
            limits: Limits::default(),
            expires_at: None,
        };
        adjust(&mut new);
        let (_, text) = self.identity.issue(new).await.expect("issue an access token");
        text.expose().to_owned()
    }

    async fn commit(&self, change: impl AsyncFnOnce(&mut Tx) -> Result<(), tollway::store::StoreError>) {
        let mut tx = self.store.begin().await.expect("begin");
        change(&mut tx).await.expect("a change the store takes");
        tx.commit().await.expect("commit");
    }
}
