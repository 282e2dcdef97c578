//! Billing from outside: the journal's files, the recorder, the books.

mod funds;
mod journal;
mod recorder;
mod space;

use std::{
    collections::HashMap,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tollway::{
    billing::journal::{AttemptStart, Begin, Journal, JournalConfig, Position, Reader, Recovered},
    domain::{
        clock::{Entropy, SystemClock, Timestamp},
        event::{Attempt, Outcome, UsageEvent},
        failure::FailureClass,
        ids::{AccessTokenId, KeyId, ModelId, ProviderId, ReplicaId, RequestId, RouteId, TenantId},
        money::Nanos,
        price::Prices,
        provider::ApiFormat,
        usage::{Usage, UsageSource},
    },
};

/// Small segments, so that tests see many of them.
pub fn small(dir: &Path) -> JournalConfig {
    JournalConfig {
        dir: dir.to_owned(),
        segment_bytes: 64 << 10,
        max_bytes: 64 << 20,
        fsync_every: Duration::from_millis(10),
    }
}

pub fn open(config: JournalConfig) -> (Journal, Recovered) {
    Journal::open(config, &SystemClock, &CountingEntropy::default()).unwrap()
}

/// Everything that ended, in order, read from the files from the start.
pub fn ends(journal: &Journal) -> Vec<UsageEvent> {
    let mut reader = Reader::starting_at(journal.clone(), Position::default()).unwrap();
    let chunk = reader.read(usize::MAX).unwrap();
    assert_eq!(chunk.unreadable, Vec::<Vec<u8>>::new());
    chunk.events
}

/// By id; fails when one comes twice.
pub fn by_id(events: impl IntoIterator<Item = UsageEvent>) -> HashMap<RequestId, UsageEvent> {
    let mut all = HashMap::new();
    for event in events {
        let twice = all.insert(event.id, event);
        assert!(twice.is_none(), "twice: {twice:?}");
    }
    all
}

/// Different bytes at every call.
#[derive(Debug, Default)]
pub struct CountingEntropy(AtomicU64);

impl Entropy for CountingEntropy {
    fn fill(&self, out: &mut [u8]) {
        let bytes = self.0.fetch_add(1, Ordering::Relaxed).to_le_bytes();
        for (place, byte) in out.iter_mut().zip(bytes.iter().cycle()) {
            *place = *byte;
        }
    }
}

pub fn id(n: u64) -> [u8; 10] {
    let mut random = [0; 10];
    random[..8].copy_from_slice(&n.to_be_bytes());
    random
}

const NOON: Timestamp = Timestamp::from_unix_s(1_780_000_000);

pub fn request(n: u64) -> RequestId {
    RequestId::generate(NOON, id(n))
}

pub fn tenant(n: u64) -> TenantId {
    TenantId::generate(NOON, id(n))
}

pub fn begin(n: u64) -> Begin {
    Begin {
        request: request(n),
        tenant: tenant(n % 7),
        member: None,
        token: AccessTokenId::generate(NOON, id(n % 7)),
        model_id: ModelId::generate(NOON, id(1)),
        model: "gpt-4o-mini".into(),
        format: ApiFormat::OpenAiChat,
        stream: n.is_multiple_of(2),
        started_at: NOON,
        hold: Nanos::new(1_000),
        input_tokens_estimate: 12,
        prices: Prices { input: Some(Nanos::new(2_000_000)), ..Prices::default() },
    }
}

pub fn attempt_start(n: u64) -> AttemptStart {
    AttemptStart {
        route_id: RouteId::generate(NOON, id(1)),
        provider_id: ProviderId::generate(NOON, id(1)),
        key_id: KeyId::generate(NOON, id(n)),
        upstream_model: "gpt-4o-mini-2024-07-18".into(),
        started_at: NOON.plus(Duration::from_millis(n)),
        cost: Prices { input: Some(Nanos::new(1_000_000)), ..Prices::default() },
    }
}

pub fn attempt(n: u64, class: Option<FailureClass>) -> Attempt {
    let start = attempt_start(n);
    Attempt {
        route_id: start.route_id,
        provider_id: start.provider_id,
        key_id: start.key_id,
        upstream_model: start.upstream_model,
        started_at: start.started_at,
        duration_ms: 5,
        status: Some(if class.is_some() { 429 } else { 200 }),
        class,
    }
}

pub fn usage(tokens: u64) -> Usage {
    Usage { input_tokens: tokens, source: UsageSource::Upstream, ..Usage::default() }
}

/// The end of request `n` after so many attempts.
pub fn event(n: u64, attempts: u64) -> UsageEvent {
    let begin = begin(n);
    let tried =
        (0..attempts).map(|k| attempt(k, (k + 1 < attempts).then_some(FailureClass::RateLimited))).collect();
    let usage = usage(n % 100);
    UsageEvent {
        id: begin.request,
        tenant_id: begin.tenant,
        member_id: begin.member,
        token_id: begin.token,
        model_id: begin.model_id,
        model: begin.model,
        format: begin.format,
        stream: begin.stream,
        outcome: Outcome::Completed,
        status: 200,
        usage,
        charge: begin.prices.charge(&usage),
        cost: Nanos::new(1),
        started_at: begin.started_at,
        first_content_ms: Some(3),
        duration_ms: 20,
        replica_id: ReplicaId::generate(NOON, id(1)),
        attempts: tried,
    }
}
