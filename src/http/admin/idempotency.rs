//! Creating once, however often it is asked: `Idempotency-Key`.
//!
//! The first answer is kept for a day beside what it made, in the same transaction, and sealed: it
//! may hold an access token that is shown only once.

use std::time::Duration;

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header},
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use crate::{
    domain::{
        clock::{SharedClock, Timestamp},
        ids::AccessTokenId,
        secret::Sealed,
    },
    http::admin::{Answer, Desk, etag, problem::Problem},
    store::{Idempotency, IdempotentRequest, SavedAnswer, Store, StoreError, Tx},
};

/// The header.
pub(super) const HEADER: &str = "idempotency-key";

/// How long an answer is kept.
const KEPT_FOR: Duration = Duration::from_secs(24 * 3_600);
/// How often old answers are forgotten.
const SWEEP: Duration = Duration::from_secs(3_600);

/// What was created, as it is told.
#[derive(Serialize, Deserialize)]
pub(super) struct Created {
    location: String,
    version: i64,
    body: serde_json::Value,
}

impl Created {
    /// An object at `location`, shown as `body`.
    ///
    /// # Errors
    /// When `body` is no JSON.
    pub(super) fn new(location: String, version: i64, body: impl Serialize) -> Result<Self, Problem> {
        Ok(Self { location, version, body: serde_json::to_value(body)? })
    }

    /// 201 with where it is and which version.
    #[expect(clippy::unnecessary_wraps, reason = "what every handler ends with")]
    pub(super) fn answer(self) -> Answer {
        let mut response = HttpResponse::Created();
        response.insert_header((header::LOCATION, self.location));
        response.insert_header((header::ETAG, etag::of(self.version)));
        Ok(response.json(self.body))
    }
}

/// Does `write` in a transaction, or gives what it gave the first time.
///
/// # Errors
/// What `write` refuses, and 422 when the key was used for something else.
pub(super) async fn once(
    desk: &Desk,
    (caller, request, body): (AccessTokenId, &HttpRequest, &Bytes),
    write: impl AsyncFnOnce(&mut Tx) -> Result<Created, Problem>,
) -> Result<Created, Problem> {
    let key = key(request)?;
    let mut tx = desk.store.begin().await?;
    match in_turn(desk, &mut tx, (caller, request, body), key, write).await {
        Ok(created) => {
            tx.commit().await?;
            Ok(created)
        }
        Err(problem) => {
            // The refusal is what counts; a transaction that does not end is closed with its connection.
            let _ = tx.rollback().await;
            Err(problem)
        }
    }
}

async fn in_turn(
    desk: &Desk,
    tx: &mut Tx,
    (caller, request, body): (AccessTokenId, &HttpRequest, &Bytes),
    key: Option<&str>,
    write: impl AsyncFnOnce(&mut Tx) -> Result<Created, Problem>,
) -> Result<Created, Problem> {
    let Some(key) = key else { return write(tx).await };
    let (principal, route) = (caller.to_string(), format!("{} {}", request.method(), request.path()));
    let request_hash = Sha256::digest(body).into();
    let claim = IdempotentRequest { principal: &principal, route: &route, key, request_hash };
    let purpose = format!("idempotent:{principal}:{route}:{key}");
    match tx.begin_idempotent(&claim, desk.clock.now()).await? {
        Idempotency::Fresh => {
            let created = write(tx).await?;
            let sealed = desk.vault.seal_bytes(&purpose, &serde_json::to_vec(&created)?)?;
            let status = StatusCode::CREATED.as_u16();
            let answer = SavedAnswer { status, body: sealed.as_bytes().to_vec() };
            tx.save_idempotent(&claim, &answer).await?;
            Ok(created)
        }
        Idempotency::Replay(saved) => {
            let plain = desk.vault.unseal_bytes(&purpose, &Sealed::from_bytes(saved.body))?;
            Ok(serde_json::from_slice(&plain)?)
        }
        Idempotency::Mismatch => Err(Problem::idempotency_key(
            "idempotency_key_reused",
            "the key was used for another body: take a new key for a new object",
        )),
    }
}

/// Forgets answers when their day is over, until `shutdown`.
pub async fn forget_old_answers(store: Store, clock: SharedClock, shutdown: CancellationToken) {
    loop {
        if let Err(error) = forget(&store, clock.now().minus(KEPT_FOR)).await {
            tracing::warn!(%error, "old answers to repeated requests are kept until the store is back");
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(SWEEP) => {}
        }
    }
}

async fn forget(store: &Store, before: Timestamp) -> Result<(), StoreError> {
    let mut tx = store.begin().await?;
    tx.remove_old_idempotent(before).await?;
    tx.commit().await
}

fn key(request: &HttpRequest) -> Result<Option<&str>, Problem> {
    let Some(value) = request.headers().get(HEADER) else { return Ok(None) };
    let key = value.to_str().ok().filter(|key| (1..=255).contains(&key.len()));
    key.map(Some).ok_or_else(|| {
        Problem::idempotency_key("idempotency_key_invalid", "expected 1 to 255 visible ASCII characters")
    })
}
