//! `[identity]`: access tokens.

use std::time::Duration;

use crate::{app::config::section::section, domain::secret::Secret};

section! {
    /// How access tokens are issued and verified.
    "identity" IdentitySection {
        /// The `iss` of JWTs issued here, and the one they must have.
        issuer: String = "tollway";
        /// The `aud` that JWTs must have.
        audience: String = "tollway";
        /// How far other clocks may be off.
        leeway: Duration = "30s";
        /// Also accept JWTs signed by HS256 with this secret, at least 32 bytes.
        hs256_secret: Option<Secret> = "";
        /// Verified JWTs remembered, so that their signature is not checked again.
        cache_size: u64 = "20000";
        /// How long a fact about a tenant, member or token goes on being used while the store is away; a
        /// revocation can be as late as this then.
        max_stale: Duration = "1h";
    }
    |identity, check| {
        check.that(!identity.issuer.is_empty(), "issuer", "expected a name or URL");
        check.that(!identity.audience.is_empty(), "audience", "expected a name or URL");
        check.that(identity.leeway <= Duration::from_secs(300), "leeway", "expected at most 5m");
        let long = |secret: &Secret| secret.expose().len() >= 32;
        check.that(identity.hs256_secret.as_ref().is_none_or(long), "hs256_secret", "expected at least 32 bytes");
        check.that(identity.cache_size > 0, "cache_size", "expected at least 1");
    }
}
