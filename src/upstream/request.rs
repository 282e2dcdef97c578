//! Provider, key and bytes → the outgoing request: the one place where a secret is plain.

use http::{
    HeaderMap, HeaderName, HeaderValue, Method,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT},
};
use zeroize::Zeroizing;

use crate::{
    domain::{provider::AuthStyle, secret::Secret},
    net::Request,
    upstream::send::{Call, CallError},
};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
const AGENT: HeaderValue = HeaderValue::from_static(concat!("tollway/", env!("CARGO_PKG_VERSION")));
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Builds the request. The provider's own headers win over ours, except the credential.
///
/// # Errors
/// [`CallError::InvalidSecret`] when the secret cannot stand in a header, and
/// [`CallError::InvalidProvider`] when a header of the provider is none.
pub(in crate::upstream) fn build(call: &Call<'_>, secret: Option<&Secret>) -> Result<Request, CallError> {
    let mut headers = HeaderMap::with_capacity(8 + call.provider.headers.len());
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(ACCEPT, if call.stream { EVENT_STREAM } else { JSON });
    headers.insert(USER_AGENT, AGENT);
    let request_id = HeaderValue::try_from(call.request_id.to_string())
        .map_err(|_| CallError::InvalidProvider("the request id is no header value"))?;
    headers.insert(X_REQUEST_ID, request_id);
    for (name, value) in &call.provider.headers {
        let name = HeaderName::try_from(name.as_str())
            .map_err(|_| CallError::InvalidProvider("a header's name is not allowed in HTTP"))?;
        let value = HeaderValue::try_from(value.as_str())
            .map_err(|_| CallError::InvalidProvider("a header's value is not allowed in HTTP"))?;
        headers.insert(name, value);
    }
    let mut path = call.path.to_owned();
    if let Some(secret) = secret {
        present(&call.provider.auth, secret.expose(), &mut headers, &mut path)?;
    }
    Ok(Request { method: Method::POST, path, headers, body: call.body.clone() })
}

/// Puts the secret where the provider looks for it.
fn present(
    auth: &AuthStyle,
    secret: &str,
    headers: &mut HeaderMap,
    path: &mut String,
) -> Result<(), CallError> {
    match auth {
        AuthStyle::Bearer => {
            let value = Zeroizing::new(format!("Bearer {secret}"));
            headers.insert(AUTHORIZATION, secret_value(&value)?);
        }
        AuthStyle::Header(name) => {
            let name = HeaderName::try_from(name.as_str())
                .map_err(|_| CallError::InvalidProvider("the auth header's name is no name"))?;
            headers.insert(name, secret_value(secret)?);
        }
        AuthStyle::Query(name) => {
            path.push(if path.contains('?') { '&' } else { '?' });
            path.extend(url::form_urlencoded::byte_serialize(name.as_bytes()));
            path.push('=');
            path.extend(url::form_urlencoded::byte_serialize(secret.as_bytes()));
        }
        AuthStyle::None => {}
    }
    Ok(())
}

fn secret_value(secret: &str) -> Result<HeaderValue, CallError> {
    let mut value = HeaderValue::try_from(secret).map_err(|_| CallError::InvalidSecret)?;
    value.set_sensitive(true);
    Ok(value)
}
