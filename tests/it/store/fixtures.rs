//! One of everything, each with ids of its own and every field set.

use std::sync::atomic::{AtomicU64, Ordering};

use tollway::{
    domain::{
        clock::Timestamp,
        event::{Attempt, Outcome, UsageEvent},
        failure::FailureClass,
        grant::{Effect, Grant, GrantSubject, Grants, Pattern},
        ids::{
            AccessTokenId, GrantId, KeyId, LedgerEntryId, MemberId, ModelId, ProviderId, ReplicaId,
            RequestId, RouteId, TenantId,
        },
        key::{Key, KeyState},
        ledger::{LedgerEntry, LedgerKind},
        limits::Limits,
        model::{Capabilities, Model, Route},
        money::Nanos,
        price::Prices,
        principal::Role,
        provider::{ApiFormat, AuthStyle, Provider, Tier, Timeouts, Transport},
        secret::Sealed,
        tenant::{AccessToken, AccessTokenKind, BillingMode, Member, Tenant},
        usage::{Usage, UsageSource},
    },
    store::Store,
};

/// 2026-11-30T10:20:30.123457Z: with microseconds, which both databases have to keep.
pub const NOW: Timestamp = Timestamp::from_unix_us(1_796_034_030_123_457);

/// Ten bytes that no other call gets, later calls sorting later.
pub fn fresh() -> [u8; 10] {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut bytes = [0; 10];
    bytes[2..].copy_from_slice(&COUNT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    bytes
}

pub fn limits() -> Limits {
    Limits { rpm: Some(60), tpm: Some(90_000), concurrency: Some(0) }
}

pub fn provider(name: &str) -> Provider {
    Provider {
        id: ProviderId::generate(NOW, fresh()),
        name: name.to_owned(),
        base_url: "https://api.example.com/v1".to_owned(),
        format: ApiFormat::OpenAiChat,
        auth: AuthStyle::Header("x-api-key".to_owned()),
        tier: Tier::Subscription,
        transport: Transport::Http2,
        headers: [("x-team".to_owned(), "größe".to_owned())].into(),
        timeouts: Timeouts { connect_ms: 1, idle_ms: 2, total_ms: 3 },
        enabled: true,
        version: 1,
        created_at: NOW,
        updated_at: NOW,
    }
}

pub fn key(provider: &Provider, label: &str) -> Key {
    Key {
        id: KeyId::generate(NOW, fresh()),
        provider_id: provider.id,
        tenant_id: None,
        label: label.to_owned(),
        secret: Sealed::from_bytes(vec![0, 255, 7]),
        fingerprint: format!("print of {label}"),
        priority: -3,
        weight: u32::MAX,
        limits: limits(),
        base_url: Some("https://eu.example.com".to_owned()),
        params: [("region".to_owned(), "eu-west-1".to_owned())].into(),
        state: KeyState::Invalid,
        version: 1,
        created_at: NOW,
        updated_at: NOW,
    }
}

pub fn prices() -> Prices {
    Prices { input: Some(Nanos::new(i64::MAX)), output: Some(Nanos::ZERO), ..Prices::default() }
}

pub fn model(name: &str) -> Model {
    Model {
        id: ModelId::generate(NOW, fresh()),
        name: name.to_owned(),
        capabilities: Capabilities { tools: true, reasoning: true, ..Capabilities::default() },
        context_tokens: Some(1_000_000),
        max_output_tokens: None,
        prices: prices(),
        enabled: true,
        version: 1,
        created_at: NOW,
        updated_at: NOW,
    }
}

pub fn route(model: &Model, provider: &Provider) -> Route {
    Route {
        id: RouteId::generate(NOW, fresh()),
        model_id: model.id,
        provider_id: provider.id,
        upstream_model: "upstream/name:1".to_owned(),
        priority: i32::MIN,
        weight: 1,
        cost: prices(),
        capabilities: Some(Capabilities { pdf: true, ..Capabilities::default() }),
        enabled: false,
        version: 1,
        created_at: NOW,
        updated_at: NOW,
    }
}

pub fn tenant(name: &str) -> Tenant {
    Tenant {
        id: TenantId::generate(NOW, fresh()),
        name: name.to_owned(),
        limits: limits(),
        billing: BillingMode::Prepaid,
        enabled: true,
        version: 1,
        created_at: NOW,
        updated_at: NOW,
    }
}

pub fn member(tenant: &Tenant, subject: &str) -> Member {
    Member {
        id: MemberId::generate(NOW, fresh()),
        tenant_id: tenant.id,
        subject: subject.to_owned(),
        role: Role::Auditor,
        token_generation: 7,
        limits: limits(),
        enabled: true,
        version: 1,
        created_at: NOW,
        updated_at: NOW,
    }
}

pub fn pattern(text: &str) -> Pattern {
    Pattern::parse(text).expect("a pattern")
}

pub fn token(tenant: &Tenant) -> AccessToken {
    AccessToken {
        id: AccessTokenId::generate(NOW, fresh()),
        tenant_id: Some(tenant.id),
        member_id: None,
        name: "ci".to_owned(),
        kind: AccessTokenKind::Opaque,
        role: Role::Member,
        grants: Some(Grants { allow: vec![pattern("gpt-*")], deny: vec![] }),
        limits: limits(),
        expires_at: Some(NOW.plus(std::time::Duration::from_secs(3_600))),
        revoked_at: None,
        created_at: NOW,
    }
}

pub fn grant(tenant: &Tenant, subject: GrantSubject, text: &str) -> Grant {
    Grant {
        id: GrantId::generate(NOW, fresh()),
        tenant_id: tenant.id,
        subject,
        pattern: pattern(text),
        effect: Effect::Allow,
        version: 1,
        created_at: NOW,
        updated_at: NOW,
    }
}

/// Two attempts, the first of which failed.
pub fn event(tenant_id: TenantId, charge: i64) -> UsageEvent {
    let attempt = Attempt {
        route_id: RouteId::generate(NOW, fresh()),
        provider_id: ProviderId::generate(NOW, fresh()),
        key_id: KeyId::generate(NOW, fresh()),
        upstream_model: "upstream/name:1".to_owned(),
        started_at: NOW,
        duration_ms: 12,
        status: Some(429),
        class: Some(FailureClass::RateLimited),
    };
    UsageEvent {
        id: RequestId::generate(NOW, fresh()),
        tenant_id,
        member_id: Some(MemberId::generate(NOW, fresh())),
        token_id: AccessTokenId::generate(NOW, fresh()),
        model_id: ModelId::generate(NOW, fresh()),
        model: "gpt-4o".to_owned(),
        format: ApiFormat::OpenAiChat,
        stream: true,
        outcome: Outcome::Completed,
        status: 200,
        usage: Usage {
            input_tokens: 1,
            cache_read_tokens: 2,
            cache_write_5m_tokens: 3,
            cache_write_1h_tokens: 4,
            output_tokens: 5,
            reasoning_tokens: 6,
            audio_input_tokens: 7,
            audio_output_tokens: 8,
            images: 9,
            requests: 10,
            source: UsageSource::Partial,
        },
        charge: Nanos::new(charge),
        cost: Nanos::new(3),
        started_at: NOW,
        first_content_ms: Some(40),
        duration_ms: 1_500,
        replica_id: ReplicaId::generate(NOW, fresh()),
        attempts: vec![
            attempt.clone(),
            Attempt {
                key_id: KeyId::generate(NOW, fresh()),
                started_at: Timestamp::from_unix_us(NOW.unix_us() + 12_345),
                duration_ms: 1_487,
                status: None,
                class: None,
                ..attempt
            },
        ],
    }
}

pub fn top_up(tenant_id: TenantId, nanos: i64) -> LedgerEntry {
    LedgerEntry {
        id: LedgerEntryId::generate(NOW, fresh()),
        tenant_id,
        kind: LedgerKind::TopUp,
        amount: Nanos::new(nanos),
        event_id: None,
        note: "invoice 17".to_owned(),
        actor: "system".to_owned(),
        created_at: NOW,
    }
}

/// Runs writes in a transaction of their own and commits them; a single one gives its outcome.
macro_rules! commit {
    ($store:expr, $verb:ident($($argument:expr),* $(,)?)) => {{
        let mut tx = $store.begin().await.expect("begin");
        let outcome = tx.$verb($($argument),*).await;
        tx.commit().await.expect("commit");
        outcome.expect(stringify!($verb))
    }};
    ($store:expr, $($verb:ident($($argument:expr),*)),+ $(,)?) => {{
        let mut tx = $store.begin().await.expect("begin");
        $(let _ = tx.$verb($($argument),*).await.expect(stringify!($verb));)+
        tx.commit().await.expect("commit");
    }};
}
pub(crate) use commit;

/// A tenant that is there already.
pub async fn added_tenant(store: &Store, name: &str) -> Tenant {
    let tenant = tenant(name);
    commit!(store, add_tenant(&tenant));
    tenant
}

/// A provider that is there already.
pub async fn added_provider(store: &Store, name: &str) -> Provider {
    let provider = provider(name);
    commit!(store, add_provider(&provider));
    provider
}
