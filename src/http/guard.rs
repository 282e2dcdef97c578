//! Who calls: the only way from a request to a [`Principal`].
//!
//! A credential is taken from `Authorization: Bearer`, `x-api-key`, `api-key`, `x-goog-api-key` or
//! `?key=`, whichever the client's SDK uses; if several are sent, the first that looks like one of
//! ours counts.

use std::sync::Arc;

use actix_web::{
    HttpRequest,
    http::header::{self, HeaderMap, HeaderName},
};

use crate::{
    domain::principal::{Principal, Role},
    http::{address, failure::Refusal},
    identity::{Denied, Identity, looks_like_ours},
    telemetry::{Metrics, labels::AuthDenial},
};

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const API_KEY: HeaderName = HeaderName::from_static("api-key");
const X_GOOG_API_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");

/// What a route demands of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Somebody who may send requests or read what a tenant may use.
    Relay,
    /// The platform's own people.
    Operator,
}

/// The caller of `request`, verified and allowed to pass.
///
/// # Errors
/// Why the access token is not let in.
pub async fn caller(request: &HttpRequest, access: Access) -> Result<Arc<Principal>, Refusal> {
    let identity = request.app_data::<Arc<Identity>>().ok_or(Refusal::NotHere)?;
    let principal = verify(request, identity).await.inspect_err(|denied| {
        if let Some(metrics) = request.app_data::<Arc<Metrics>>() {
            metrics.auth_denied(reason(*denied));
        }
    })?;
    match access {
        Access::Operator if principal.role != Role::Operator => Err(Refusal::NotAnOperator),
        Access::Operator | Access::Relay => Ok(principal),
    }
}

async fn verify(request: &HttpRequest, identity: &Identity) -> Result<Arc<Principal>, Denied> {
    let presented = presented(request).ok_or(Denied::Missing)?;
    match address::of_client(request) {
        Some(address) => identity.verify_from(&presented, address).await,
        None => identity.verify(&presented).await,
    }
}

/// How a denial is counted.
const fn reason(denied: Denied) -> AuthDenial {
    match denied {
        Denied::Missing => AuthDenial::Missing,
        Denied::Malformed | Denied::SetupToken | Denied::WrongRole => AuthDenial::Malformed,
        Denied::Unknown => AuthDenial::Unknown,
        Denied::BadSignature => AuthDenial::BadSignature,
        Denied::WrongAudience | Denied::WrongIssuer => AuthDenial::Untrusted,
        Denied::Expired => AuthDenial::Expired,
        Denied::NotYetValid => AuthDenial::NotYetValid,
        Denied::Revoked => AuthDenial::Revoked,
        Denied::TenantDisabled | Denied::MemberDisabled => AuthDenial::Disabled,
        Denied::StoreAway => AuthDenial::Unavailable,
        Denied::Throttled { .. } => AuthDenial::Throttled,
    }
}

/// The credential that the client presents.
fn presented(request: &HttpRequest) -> Option<String> {
    let headers = request.headers();
    let bearer = text(headers, &header::AUTHORIZATION).and_then(bearer);
    let named = [X_API_KEY, API_KEY, X_GOOG_API_KEY].into_iter().map(|name| text(headers, &name));
    let all = std::iter::once(bearer).chain(named).flatten().map(str::trim).filter(|text| !text.is_empty());
    let mut first = None;
    for credential in all {
        if looks_like_ours(credential) {
            return Some(credential.to_owned());
        }
        first = first.or(Some(credential));
    }
    first.map(str::to_owned).or_else(|| from_query(request.query_string()))
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The credential behind `Bearer`, in any case.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, credential) = value.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(credential)
}

fn from_query(query: &str) -> Option<String> {
    let pairs = url::form_urlencoded::parse(query.as_bytes());
    let mut keys = pairs.filter(|(name, value)| name == "key" && !value.is_empty());
    keys.next().map(|(_, value)| value.into_owned())
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn every_usual_place_of_a_credential_is_looked_at() {
        for (name, value) in [
            ("authorization", "bearer  tw_abc"),
            ("x-api-key", "tw_abc"),
            ("api-key", "tw_abc"),
            ("x-goog-api-key", "tw_abc"),
        ] {
            let request = TestRequest::default().insert_header((name, value)).to_http_request();
            assert_eq!(presented(&request).as_deref(), Some("tw_abc"), "{name}");
        }
        let request = TestRequest::with_uri("/v1beta/models?key=tw_a%2Bc").to_http_request();
        assert_eq!(presented(&request).as_deref(), Some("tw_a+c"));
    }

    #[test]
    fn a_leftover_provider_key_does_not_hide_our_token() {
        let request = TestRequest::default()
            .insert_header(("authorization", "Bearer sk-proj-leftover"))
            .insert_header(("x-api-key", "tw_abc"))
            .to_http_request();
        assert_eq!(presented(&request).as_deref(), Some("tw_abc"));
    }
}
