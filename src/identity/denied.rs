//! Why somebody is not let in.

use std::time::Duration;

/// Why an access token is refused. The text says what to do and nothing about what exists here;
/// the status is chosen by `http`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Nothing was presented.
    #[error("No access token was sent. Send it as `Authorization: Bearer <token>`.")]
    Missing,
    /// It is not of a form that we issue or trust.
    #[error("This is not an access token of this service, or it was cut or mistyped. Copy it again in full.")]
    Malformed,
    /// It is well formed, and nobody's.
    #[error(
        "This access token is not known here. Check that it is for this service, or have a new one issued."
    )]
    Unknown,
    /// A set-up token was sent where an access token belongs.
    #[error(
        "A set-up token cannot be used as an access token. Redeem it once for an operator's access token."
    )]
    SetupToken,
    /// No key that we trust signed it.
    #[error("This access token was not signed by a key that is trusted here. Have a new one issued.")]
    BadSignature,
    /// Its time is over.
    #[error("This access token has expired. Have a new one issued.")]
    Expired,
    /// Its time has not come.
    #[error("This access token is not valid yet. Check the clock of whoever issued it.")]
    NotYetValid,
    /// It is meant for another service.
    #[error("This access token is meant for another service: its `aud` does not name this one.")]
    WrongAudience,
    /// It was issued by somebody else.
    #[error("This access token comes from an issuer that is not trusted here: see its `iss`.")]
    WrongIssuer,
    /// It names a role that its holder does not have.
    #[error("This access token claims a role that its holder does not have. Have a new one issued.")]
    WrongRole,
    /// It was taken back.
    #[error("This access token was revoked. Have a new one issued.")]
    Revoked,
    /// Its tenant is shut out or gone.
    #[error("The tenant of this access token is disabled. Ask the operator of this service.")]
    TenantDisabled,
    /// Its member is shut out or gone.
    #[error("The member this access token stands for is disabled. Ask an admin of your tenant.")]
    MemberDisabled,
    /// It was not seen before and cannot be looked up now.
    #[error("This access token cannot be checked at the moment. Try again shortly.")]
    StoreAway,
    /// Too many refused access tokens came from this address.
    #[error("Too many refused access tokens came from your address. Try again later.")]
    Throttled {
        /// When the next try is taken.
        retry_after: Duration,
    },
}

/// How soon a try is worth it while the store is away.
pub(super) const STORE_RETRY: Duration = Duration::from_secs(1);

impl Denied {
    /// The stable code for clients and metrics.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Missing => "access_token_missing",
            Self::Malformed => "access_token_malformed",
            Self::Unknown => "access_token_unknown",
            Self::SetupToken => "access_token_is_setup",
            Self::BadSignature => "access_token_bad_signature",
            Self::Expired => "access_token_expired",
            Self::NotYetValid => "access_token_not_yet_valid",
            Self::WrongAudience => "access_token_wrong_audience",
            Self::WrongIssuer => "access_token_wrong_issuer",
            Self::WrongRole => "access_token_wrong_role",
            Self::Revoked => "access_token_revoked",
            Self::TenantDisabled => "tenant_disabled",
            Self::MemberDisabled => "member_disabled",
            Self::StoreAway => "access_token_unchecked",
            Self::Throttled { .. } => "authentication_throttled",
        }
    }

    /// When trying the same again is worth it; none: something must change first.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::StoreAway => Some(STORE_RETRY),
            Self::Throttled { retry_after } => Some(*retry_after),
            Self::Missing
            | Self::Malformed
            | Self::Unknown
            | Self::SetupToken
            | Self::BadSignature
            | Self::Expired
            | Self::NotYetValid
            | Self::WrongAudience
            | Self::WrongIssuer
            | Self::WrongRole
            | Self::Revoked
            | Self::TenantDisabled
            | Self::MemberDisabled => None,
        }
    }

    /// Whether it may be a guess at somebody's token, and so counts against the address it came
    /// from. A token that was ours once is no guess, and our own outage is not the caller's doing.
    #[must_use]
    pub const fn is_suspicious(&self) -> bool {
        matches!(self, Self::Malformed | Self::Unknown | Self::SetupToken | Self::BadSignature)
    }
}
