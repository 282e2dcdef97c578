//! Answers kept by `Idempotency-Key`, so that a repeated request is answered and not done again.

use crate::{
    domain::clock::Timestamp,
    store::{StoreError, Tx, column::Cell},
};

/// A request that may come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdempotentRequest<'a> {
    /// Who sends it: keys of two callers have nothing to do with each other.
    pub principal: &'a str,
    /// Method and path.
    pub route: &'a str,
    /// The header's value.
    pub key: &'a str,
    /// SHA-256 of what it asks.
    pub request_hash: [u8; 32],
}

/// The answer that the first such request was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedAnswer {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: Vec<u8>,
}

/// What to do with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Idempotency {
    /// Do it, and save the answer in this transaction.
    Fresh,
    /// Give the answer of the first time.
    Replay(SavedAnswer),
    /// The key was used for something else: refuse.
    Mismatch,
}

/// Request hash, status, body; the latter two are null until saved.
type SavedRow = (Vec<u8>, Option<i64>, Option<Vec<u8>>);

impl Tx {
    /// Claims a key. While another transaction holds the same key, waits for how it ends.
    pub async fn begin_idempotent(
        &mut self,
        request: &IdempotentRequest<'_>,
        now: Timestamp,
    ) -> Result<Idempotency, StoreError> {
        let claimed = executing!(self, conn => sqlx::query(
            "insert into idempotent_requests (
                principal,
                route,
                idempotency_key,
                request_hash,
                created_at
            ) values ($1, $2, $3, $4, $5)
            on conflict (principal, route, idempotency_key) do nothing",
        )
        .bind(request.principal)
        .bind(request.route)
        .bind(request.key)
        .bind(&request.request_hash[..])
        .bind(now.to_utc())
        .execute(conn))?;
        if claimed > 0 {
            return Ok(Idempotency::Fresh);
        }
        let (request_hash, status, body): SavedRow = writing!(self, conn => sqlx::query_as(
            "select
                request_hash,
                status,
                body
            from idempotent_requests
            where principal = $1 and route = $2 and idempotency_key = $3",
        )
        .bind(request.principal)
        .bind(request.route)
        .bind(request.key)
        .fetch_one(conn))?;
        if request_hash != request.request_hash {
            return Ok(Idempotency::Mismatch);
        }
        let cell = Cell::of("idempotent_requests", request.route);
        match (status, body) {
            (Some(status), Some(body)) => {
                Ok(Idempotency::Replay(SavedAnswer { status: cell.number("status", status)?, body }))
            }
            _ => Err(cell.bad("status")),
        }
    }

    /// Saves the answer of a [`Fresh`](Idempotency::Fresh) request; it lasts if the transaction does.
    pub async fn save_idempotent(
        &mut self,
        request: &IdempotentRequest<'_>,
        answer: &SavedAnswer,
    ) -> Result<(), StoreError> {
        executing!(self, conn => sqlx::query(
            "update idempotent_requests set
                status = $4,
                body = $5
            where principal = $1 and route = $2 and idempotency_key = $3",
        )
        .bind(request.principal)
        .bind(request.route)
        .bind(request.key)
        .bind(i64::from(answer.status))
        .bind(&answer.body)
        .execute(conn))
        .map(|_| ())
    }

    /// Forgets the answers given before `at`. Says how many.
    pub async fn remove_old_idempotent(&mut self, at: Timestamp) -> Result<u64, StoreError> {
        executing!(self, conn =>
            sqlx::query("delete from idempotent_requests where created_at < $1")
                .bind(at.to_utc())
                .execute(conn))
    }
}
