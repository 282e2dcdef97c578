//! The call: unseal, build, send.

use std::{cell::RefCell, sync::Arc};

use bytes::Bytes;

use crate::{
    domain::{
        failure::Symptom,
        ids::{IdMap, KeyId, RequestId},
        key::Key,
        provider::{AuthStyle, Provider},
    },
    net::{Body, Client, NetError, Target},
    upstream::{redact::Redactor, request::build, response::ReplyHeaders},
    vault::{Vault, VaultError},
};

/// Redactors kept per worker; beyond this all are made anew.
const MAX_REDACTORS: usize = 1_024;

/// The vault's purpose of a key's secret, so that a sealed secret moved to another row does not
/// open.
#[must_use]
pub fn key_purpose(key: KeyId) -> String {
    format!("key:{}", key.uuid())
}

/// One worker's way to the providers. Not shared between threads, as its client is not.
pub struct Upstream {
    client: Client,
    vault: Arc<Vault>,
    redactors: RefCell<IdMap<KeyId, (i64, Redactor)>>,
}

/// One attempt.
#[derive(Debug)]
pub struct Call<'a> {
    /// Who is called: auth style and headers.
    pub provider: &'a Provider,
    /// With which key.
    pub key: &'a Key,
    /// Where: the provider's base URL, or the key's own.
    pub target: &'a Target,
    /// Path below the base URL, such as `/chat/completions`.
    pub path: &'static str,
    /// What is sent, JSON.
    pub body: Bytes,
    /// Whether an event stream is asked for.
    pub stream: bool,
    /// Our id, sent as `x-request-id`.
    pub request_id: RequestId,
}

/// An answer whose head has arrived.
#[derive(Debug)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// What may go on to the client, and what tells about limits.
    pub headers: ReplyHeaders,
    /// The rest.
    pub body: Body,
    /// Masks the key that was sent.
    pub redactor: Redactor,
}

/// Why a call got no answer. Prints no secret.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The key's secret cannot stand in a header.
    #[error("the key's secret holds characters that no header can carry")]
    InvalidSecret,
    /// The key's secret does not open.
    #[error("the key's secret cannot be unsealed")]
    Vault(#[from] VaultError),
    /// The provider's settings cannot make a request.
    #[error("the provider is set up wrong: {0}")]
    InvalidProvider(&'static str),
    /// The network failed, before or while sending, or before the answer's head.
    #[error(transparent)]
    Net(#[from] NetError),
}

impl CallError {
    /// What the failure looks like to [`classify`](crate::domain::failure::classify). A secret that
    /// cannot be sent is a refused credential: the next key may serve.
    #[must_use]
    pub const fn symptom(&self) -> Symptom<'static> {
        match self {
            Self::InvalidSecret | Self::Vault(_) => {
                Symptom::Answer { status: 401, code: Some("invalid_api_key"), message: "" }
            }
            Self::Net(NetError::Timeout) => Symptom::Timeout,
            Self::Net(error) if error.is_connect() => Symptom::Connect,
            Self::InvalidProvider(_) | Self::Net(_) => Symptom::Broken,
        }
    }
}

impl Upstream {
    /// A worker's upstream over its client.
    #[must_use]
    pub fn new(client: Client, vault: Arc<Vault>) -> Self {
        Self { client, vault, redactors: RefCell::default() }
    }

    /// Sends one attempt and returns at the head of the answer, whatever its status.
    ///
    /// # Errors
    /// [`CallError`] when no answer came.
    ///
    /// # Cancellation
    /// Dropping the future closes the connection; the provider sees at once that nobody waits.
    pub async fn send(&self, call: &Call<'_>) -> Result<Reply, CallError> {
        let (request, redactor) = self.prepare(call)?;
        let answer = self.client.send(call.target, &request).await?;
        // The secret is not kept in memory for the length of a stream.
        drop(request);
        let headers = ReplyHeaders::new(answer.headers, redactor.clone());
        Ok(Reply { status: answer.status, headers, body: answer.body, redactor })
    }

    fn prepare(&self, call: &Call<'_>) -> Result<(crate::net::Request, Redactor), CallError> {
        if call.provider.auth == AuthStyle::None {
            return Ok((build(call, None)?, Redactor::default()));
        }
        let secret = self.vault.unseal(&key_purpose(call.key.id), &call.key.secret)?;
        let redactor = self.redactor(call.key, secret.expose());
        Ok((build(call, Some(&secret))?, redactor))
    }

    /// Making a redactor hashes every part of the secret, so it is kept as long as the key stays
    /// the same; it holds hashes, not the secret.
    fn redactor(&self, key: &Key, secret: &str) -> Redactor {
        let mut kept = self.redactors.borrow_mut();
        if let Some((version, redactor)) = kept.get(&key.id)
            && *version == key.version
        {
            return redactor.clone();
        }
        if kept.len() >= MAX_REDACTORS {
            kept.clear();
        }
        let redactor = Redactor::new(secret);
        kept.insert(key.id, (key.version, redactor.clone()));
        redactor
    }
}

impl std::fmt::Debug for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Upstream(…)")
    }
}
