//! What a deployment sets about access tokens.

use std::time::Duration;

use crate::domain::secret::Secret;

/// What HMAC-SHA256 asks of its key: as long as its output (RFC 7518 §3.2).
pub(super) const MIN_SECRET_BYTES: usize = 32;

/// Settings of the floor.
#[derive(Debug, Clone)]
pub struct IdentityConfig {
    /// The `iss` that JWTs must carry, and that ours do: the deployment's public URL.
    pub issuer: String,
    /// The `aud` that JWTs must name.
    pub audience: String,
    /// By how much other clocks may differ from ours.
    pub leeway: Duration,
    /// A secret shared with a trusted backend that signs JWTs itself (HS256); none: only our own
    /// issuer is trusted. At least 32 bytes.
    pub hs256_secret: Option<Secret>,
    /// How many verified access tokens are remembered, and as many members; a tenth as many
    /// tenants. An entry takes about 1 KB.
    pub cache_entries: u64,
    /// Longer texts are refused unread.
    pub max_token_bytes: usize,
    /// For how long after it was last read a fact about a tenant, member or token goes on being
    /// used while the store is away. This bounds how stale a revocation can be then.
    pub max_stale: Duration,
}

impl Default for IdentityConfig {
    /// Our own issuer only, 30 s of leeway, 20 000 tokens, 8 KiB each, one hour without the store.
    fn default() -> Self {
        Self {
            issuer: "tollway".to_owned(),
            audience: "tollway".to_owned(),
            leeway: Duration::from_secs(30),
            hs256_secret: None,
            cache_entries: 20_000,
            max_token_bytes: 8 * 1024,
            max_stale: Duration::from_secs(3_600),
        }
    }
}
