//! Calls from browsers of other origins: preflights are answered and answers marked, on every path.

use actix_cors::Cors;
use actix_web::{http::Method, middleware::Condition};

use super::arrival::REQUEST_ID;

/// What a script may read of an answer besides its body.
const EXPOSED: [&str; 9] = [
    "etag",
    "location",
    "retry-after",
    "x-ratelimit-limit-requests",
    "x-ratelimit-limit-tokens",
    "x-ratelimit-remaining-requests",
    "x-ratelimit-remaining-tokens",
    "x-ratelimit-reset-requests",
    "x-ratelimit-reset-tokens",
];
/// How long a browser may remember a preflight, seconds.
const MAX_AGE: usize = 3_600;

/// Lets browsers of `origins` call, `*` standing for all; of none when there are none.
///
/// Access tokens travel in headers that a script sets itself. Cookies are never looked at, so
/// credentials in the sense of the Fetch standard stay off, and a foreign page can do nothing that
/// its script has no token for.
pub(super) fn allowing(origins: &[String]) -> Condition<Cors> {
    let cors = Cors::default()
        .allowed_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
        .allow_any_header()
        .expose_headers(EXPOSED)
        .expose_headers([REQUEST_ID])
        .max_age(MAX_AGE);
    let cors = if origins.iter().any(|origin| origin == "*") {
        cors.allow_any_origin().send_wildcard()
    } else {
        origins.iter().fold(cors, |cors, origin| cors.allowed_origin(origin))
    };
    Condition::new(!origins.is_empty(), cors)
}
