//! What is noted of a request when it arrives.

use std::time::Instant;

use actix_web::{HttpRequest, HttpResponseBuilder, http::header::HeaderName};

use crate::domain::{
    clock::{SharedClock, SharedEntropy, Timestamp},
    ids::RequestId,
};

/// The header that names a request, on every answer.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// When a request came and what it is called from here on.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// Its id.
    pub request: RequestId,
    /// When it came.
    pub started_at: Timestamp,
    /// The same on the monotonic clock.
    pub started: Instant,
}

/// Gives arrivals their time and id; one per worker, part of the app's data.
#[derive(Debug, Clone)]
pub struct Receptionist {
    /// Time.
    pub clock: SharedClock,
    /// Randomness.
    pub entropy: SharedEntropy,
}

impl Arrival {
    /// Notes the arrival of `request`.
    #[must_use]
    pub fn of(request: &HttpRequest) -> Self {
        let (started_at, random) = request
            .app_data::<Receptionist>()
            .map(|desk| (desk.clock.now(), desk.entropy.id_bytes()))
            .unwrap_or_default();
        Self { request: RequestId::generate(started_at, random), started_at, started: Instant::now() }
    }

    /// Puts the id on an answer.
    pub fn stamp(&self, response: &mut HttpResponseBuilder) {
        response.insert_header((REQUEST_ID, self.request.to_string()));
    }
}
