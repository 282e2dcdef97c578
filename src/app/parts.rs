//! What each floor takes, made of the settings: the only place where both are known.

use std::{io::IsTerminal, sync::Arc};

use anyhow::Context;
use tracing_subscriber::filter::{LevelFilter, Targets};

use super::{
    config::{
        Settings,
        sections::{LogFormat, MetricsSection, RedisMode},
    },
    files,
};
use crate::{
    admission::redis::{Layout, Redis, RedisConfig},
    admission::{Admission, local::Local},
    billing::journal::JournalConfig,
    domain::{clock::SharedClock, ids::ReplicaId},
    http::{SurfaceConfig, address::TrustedProxies, ops::Scrape, room::BodyRoom, serve::ServeConfig},
    identity::IdentityConfig,
    net::GuardConfig,
    relay::RelayConfig,
    store::{DatabaseUrl, StoreConfig},
    telemetry::{LogConfig, Metrics, TraceConfig},
};

/// Which database.
#[must_use]
pub fn store(settings: &Settings) -> StoreConfig {
    let section = &settings.database;
    let url = match &section.url {
        Some(url) => DatabaseUrl::Postgres(url.secret.clone()),
        None => DatabaseUrl::Sqlite(files::database(settings)),
    };
    StoreConfig {
        url,
        max_connections: section.pool,
        acquire_timeout: section.timeout,
        statement_timeout: section.statement_timeout,
    }
}

/// Counters in Redis, or in this process where there is none.
///
/// # Errors
/// When the URLs cannot be used; a Redis that is away does not stop the start.
pub fn admission(
    settings: &Settings,
    replica: ReplicaId,
    clock: SharedClock,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Admission> {
    Ok(match redis(settings, replica) {
        Some(config) => {
            let redis = Redis::new(config, clock).context("redis.url")?;
            Admission::Redis(Arc::new(redis.counting(Arc::clone(metrics))))
        }
        None => Admission::Local(Arc::new(Local::new(clock))),
    })
}

fn redis(settings: &Settings, replica: ReplicaId) -> Option<RedisConfig> {
    let section = &settings.redis;
    let first = section.url.first()?;
    let layout = match section.mode {
        RedisMode::Single => Layout::Single,
        RedisMode::Sentinel => {
            Layout::Sentinel { master: section.sentinel_master.clone().unwrap_or_default() }
        }
        RedisMode::Cluster => Layout::Cluster,
    };
    Some(RedisConfig {
        urls: section.url.iter().map(|url| url.secret.expose().to_owned()).collect(),
        layout,
        op_timeout: section.timeout,
        replicas_expected: settings.admission.replicas,
        ..RedisConfig::single(first.secret.expose(), replica)
    })
}

/// Where the journal is.
#[must_use]
pub fn journal(settings: &Settings) -> JournalConfig {
    JournalConfig {
        dir: files::journal(settings),
        segment_bytes: settings.journal.segment.0,
        max_bytes: settings.journal.max_bytes.0,
        fsync_every: settings.journal.fsync,
    }
}

/// Which access tokens are let in.
#[must_use]
pub fn identity(settings: &Settings) -> IdentityConfig {
    let section = &settings.identity;
    IdentityConfig {
        issuer: section.issuer.clone(),
        audience: section.audience.clone(),
        leeway: section.leeway,
        hs256_secret: section.hs256_secret.clone(),
        cache_entries: section.cache_size,
        max_stale: section.max_stale,
        ..IdentityConfig::default()
    }
}

/// Which addresses may be called.
#[must_use]
pub fn guard(settings: &Settings) -> GuardConfig {
    GuardConfig { allow: settings.net.allow.clone() }
}

/// How far the request path goes.
#[must_use]
pub fn relay(settings: &Settings) -> RelayConfig {
    let section = &settings.relay;
    RelayConfig {
        keys_per_candidate: section.keys_per_candidate,
        attempts_per_request: section.attempts_per_request,
        hold_headers_for: section.header_hold,
    }
}

/// How the server treats its clients.
#[must_use]
pub fn serve(settings: &Settings) -> ServeConfig {
    let section = &settings.server;
    ServeConfig {
        workers: section.workers,
        keep_alive: section.keep_alive,
        header_timeout: section.header_timeout,
        max_connections: section.max_connections,
        grace_period: section.grace_period,
        cors_origins: section.cors_origins.as_slice().into(),
    }
}

/// What the surfaces look at.
#[must_use]
pub fn surfaces(settings: &Settings) -> SurfaceConfig {
    let section = &settings.server;
    SurfaceConfig {
        body_limit: section.body_limit.as_usize(),
        body_room: Arc::new(BodyRoom::new(section.body_memory.as_usize())),
        body_patience: section.header_timeout,
        trusted_proxies: TrustedProxies::new(&section.trusted_proxies),
        currency: settings.billing.currency,
    }
}

/// Who may scrape.
#[must_use]
pub fn scrape(section: &MetricsSection) -> Scrape {
    match &section.token {
        _ if !section.enabled => Scrape::Off,
        Some(token) => Scrape::Token(token.clone()),
        None => Scrape::Open,
    }
}

/// What log lines look like.
///
/// # Errors
/// When the levels cannot be read, which the section's check has seen before.
pub fn logs(settings: &Settings) -> anyhow::Result<LogConfig> {
    let asked: Targets = settings.log.level.parse().context("log.level")?;
    Ok(LogConfig {
        json: settings.log.format == LogFormat::Json,
        // What the server library says of its own workers is said by us already, and what it calls
        // errors of its connections are clients that send no HTTP.
        levels: Targets::new()
            .with_target("actix_server", LevelFilter::WARN)
            .with_target("actix_http", LevelFilter::OFF)
            .with_targets(asked.iter())
            .with_default(asked.default_level().unwrap_or(LevelFilter::OFF)),
        colours: std::io::stderr().is_terminal(),
    })
}

/// Where traces go, if anywhere.
#[must_use]
pub fn traces(settings: &Settings) -> Option<TraceConfig> {
    let section = &settings.otel;
    Some(TraceConfig {
        endpoint: section.endpoint.clone()?,
        sample_ratio: section.sample_ratio,
        service_name: section.service_name.clone(),
    })
}
