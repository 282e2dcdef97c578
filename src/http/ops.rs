//! The ops endpoints: `/healthz`, `/readyz`, `/metrics`, `/.well-known/jwks.json`.
//!
//! | path | answers |
//! |---|---|
//! | `/healthz` | 200 while the process serves; looks at nothing else, so a restart is the remedy for silence |
//! | `/readyz` | 200 when it can serve requests, degraded or not; 503 when it cannot or is stopping; each part in the body |
//! | `/metrics` | the Prometheus text format |
//! | `/.well-known/jwks.json` | the public keys of our JWTs |
//!
//! The store being away does not make a server unready: requests with access tokens it has seen go
//! on, and taking every replica out of the balancer at once would turn an outage of the database
//! into one of the relay.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use actix_web::{
    HttpRequest, HttpResponse,
    http::header,
    web::{self, Data, ServiceConfig},
};
use serde_json::{Value, json};
use subtle::ConstantTimeEq;
use tokio::time::timeout;

use crate::{
    admission::{Admission, Health},
    billing::journal::Journal,
    catalog::{Catalog, Snapshot},
    domain::{
        clock::{SharedClock, Timestamp},
        key::KeyState,
        secret::Secret,
    },
    identity::Identity,
    store::Store,
    telemetry::Metrics,
};

/// A store that does not answer a probe within this is told as away.
const PROBE: Duration = Duration::from_millis(500);

/// What the endpoints look at. Shared by all workers.
pub struct Ops {
    /// Durable facts.
    pub store: Store,
    /// Counters.
    pub admission: Admission,
    /// What is not yet in the store.
    pub journal: Journal,
    /// Providers, keys, models, routes.
    pub catalog: Arc<Catalog>,
    /// Our issuer's keys.
    pub identity: Arc<Identity>,
    /// What is scraped.
    pub metrics: Arc<Metrics>,
    /// Time.
    pub clock: SharedClock,
    /// True once the server is stopping.
    pub draining: Arc<AtomicBool>,
    /// Log lines dropped so far.
    pub log_lines_dropped: Arc<AtomicU64>,
    /// Who may scrape.
    pub scrape: Scrape,
}

/// Who may scrape.
#[derive(Debug, Clone)]
pub enum Scrape {
    /// Nobody: the path does not exist.
    Off,
    /// Anybody who reaches the server.
    Open,
    /// Who presents this as a bearer token.
    Token(Secret),
}

/// Adds the paths.
pub fn configure(ops: Arc<Ops>) -> impl FnOnce(&mut ServiceConfig) {
    move |app| {
        app.app_data(Data::from(ops))
            .service(web::resource("/healthz").route(web::get().to(healthz)))
            .service(web::resource("/readyz").route(web::get().to(readyz)))
            .service(web::resource("/metrics").route(web::get().to(metrics)))
            .service(web::resource("/.well-known/jwks.json").route(web::get().to(jwks)));
    }
}

async fn healthz() -> HttpResponse {
    HttpResponse::Ok().content_type("text/plain; charset=utf-8").body("ok\n")
}

async fn readyz(ops: Data<Ops>) -> HttpResponse {
    let journal = ops.journal_part();
    let is_draining = ops.draining.load(Ordering::Relaxed);
    let is_ready = !is_draining && journal.takes_requests;
    let body = json!({
        "ready": is_ready,
        "draining": is_draining,
        "parts": {
            "store": ops.store_part().await,
            "admission": ops.admission_part(),
            "journal": journal.detail,
            "catalog": ops.catalog_part(),
        },
    });
    let mut response = if is_ready { HttpResponse::Ok() } else { HttpResponse::ServiceUnavailable() };
    response.insert_header((header::CACHE_CONTROL, "no-store")).json(body)
}

async fn metrics(request: HttpRequest, ops: Data<Ops>) -> HttpResponse {
    match &ops.scrape {
        Scrape::Off => return HttpResponse::NotFound().finish(),
        Scrape::Token(token) if !presents(&request, token) => {
            return HttpResponse::Unauthorized().insert_header((header::WWW_AUTHENTICATE, "Bearer")).finish();
        }
        Scrape::Open | Scrape::Token(_) => {}
    }
    ops.observe();
    match ops.metrics.render() {
        Ok(text) => HttpResponse::Ok().content_type("text/plain; version=0.0.4; charset=utf-8").body(text),
        Err(error) => {
            tracing::error!(%error, "the metrics cannot be rendered");
            HttpResponse::InternalServerError().finish()
        }
    }
}

async fn jwks(ops: Data<Ops>) -> HttpResponse {
    // A rotation overlaps by far more than this.
    HttpResponse::Ok().insert_header((header::CACHE_CONTROL, "public, max-age=300")).json(ops.identity.jwks())
}

/// Whether `request` carries `token`; the time taken does not tell how much of it was right.
fn presents(request: &HttpRequest, token: &Secret) -> bool {
    let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    given.as_bytes().ct_eq(token.expose().as_bytes()).into()
}

/// The journal's part, and whether requests can begin.
struct JournalPart {
    takes_requests: bool,
    detail: Value,
}

impl Ops {
    async fn store_part(&self) -> Value {
        let kind = if self.store.is_shared() { "postgres" } else { "sqlite" };
        let is_up = matches!(timeout(PROBE, self.store.ping()).await, Ok(Ok(())));
        json!({"kind": kind, "state": if is_up { "up" } else { "away" }})
    }

    fn admission_part(&self) -> Value {
        match self.admission.health() {
            Health::Local => json!({"state": "local"}),
            Health::Shared => json!({"state": "shared"}),
            Health::Degraded { since, share } => {
                json!({"state": "degraded", "since": since, "share": format!("1/{share}")})
            }
        }
    }

    fn journal_part(&self) -> JournalPart {
        let health = self.journal.health();
        let state = match (health.disk_full, health.sync_failed) {
            (_, true) => "sync_failed",
            (true, false) => "full",
            (false, false) => "ok",
        };
        let detail = json!({
            "state": state,
            "undrained_records": health.undrained_records,
            "undrained_bytes": health.undrained_bytes,
            "oldest_undrained_at": health.oldest_undrained_at,
            "bytes": health.total_bytes,
            "max_bytes": health.max_bytes,
        });
        // A full journal still takes a few requests into the room it has left; the balancer should
        // send them elsewhere before it is used up.
        JournalPart { takes_requests: state == "ok", detail }
    }

    fn catalog_part(&self) -> Value {
        let checked_at = self.catalog.checked_at();
        json!({
            "version": self.catalog.current().version,
            "checked_at": checked_at,
            "age_ms": age_ms(self.clock.now(), checked_at),
        })
    }

    /// Sets the gauges that nobody sets as things happen.
    fn observe(&self) {
        let health = self.journal.health();
        let oldest = health.oldest_undrained_at.map(|at| self.clock.now().since(at)).unwrap_or_default();
        self.metrics.journal(health.undrained_records, health.undrained_bytes, oldest);
        self.metrics.admission_degraded(matches!(self.admission.health(), Health::Degraded { .. }));
        self.metrics.log_lines_dropped(self.log_lines_dropped.load(Ordering::Relaxed));
        let catalog = self.catalog.current();
        self.metrics.catalog(catalog.version, self.catalog.checked_at());
        self.metrics
            .key_states(key_counts(&catalog).iter().map(|(&(provider, state), &n)| (provider, state, n)));
    }
}

/// Keys by provider and state.
fn key_counts(catalog: &Snapshot) -> HashMap<(&str, KeyState), usize> {
    let mut counts = HashMap::new();
    for pool in catalog.providers() {
        for member in pool.members() {
            *counts.entry((pool.provider.name.as_str(), member.key.state)).or_default() += 1;
        }
    }
    counts
}

fn age_ms(now: Timestamp, then: Timestamp) -> u64 {
    u64::try_from(now.since(then).as_millis()).unwrap_or(u64::MAX)
}
