//! TLS towards upstreams: ring, the platform's trust store, sessions kept for resumption.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore, pki_types::CertificateDer};
use rustls_platform_verifier::BuilderVerifierExt;

use crate::net::error::NetError;

/// How servers are trusted; made once and shared by all workers, so that a session resumed by one
/// helps the others.
#[derive(Debug, Clone)]
pub struct Tls {
    http1: Arc<ClientConfig>,
    http2: ClientConfig,
}

impl Tls {
    /// Trusts what the platform trusts.
    ///
    /// # Errors
    /// [`NetError::Tls`] when the platform has no trust store.
    pub fn platform() -> Result<Self, NetError> {
        let config = builder()?.with_platform_verifier().map_err(refused)?.with_no_client_auth();
        Ok(Self::from_config(config))
    }

    /// Trusts these roots alone: a test's own authority, or a private one.
    ///
    /// # Errors
    /// [`NetError::Tls`] when a root cannot be read.
    pub fn trusting(roots: impl IntoIterator<Item = CertificateDer<'static>>) -> Result<Self, NetError> {
        let mut store = RootCertStore::empty();
        for root in roots {
            store.add(root).map_err(refused)?;
        }
        Ok(Self::from_config(builder()?.with_root_certificates(store).with_no_client_auth()))
    }

    fn from_config(mut config: ClientConfig) -> Self {
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let http2 = config.clone();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self { http1: Arc::new(config), http2 }
    }

    pub(in crate::net) fn http1(&self) -> &Arc<ClientConfig> {
        &self.http1
    }

    pub(in crate::net) fn http2(&self) -> ClientConfig {
        self.http2.clone()
    }
}

fn builder() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, NetError> {
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(refused)
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
fn refused(error: rustls::Error) -> NetError {
    NetError::Tls(error.to_string())
}
