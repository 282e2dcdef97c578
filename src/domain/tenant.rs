//! Tenants, their people, and the access tokens they present.

use serde::{Deserialize, Serialize};

use crate::domain::{
    clock::Timestamp,
    grant::Grants,
    ids::{AccessTokenId, MemberId, TenantId},
    limits::Limits,
    principal::Role,
};

/// A paying team.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// Its id.
    pub id: TenantId,
    /// Unique name that people use.
    pub name: String,
    /// Its windows, over all its members and tokens.
    pub limits: Limits,
    /// How it pays.
    pub billing: BillingMode,
    /// Shut out by an operator when false.
    pub enabled: bool,
    /// Rises with each change; the `ETag`.
    pub version: i64,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// How a tenant pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BillingMode {
    /// Charged and booked, never refused for money.
    #[default]
    Unmetered,
    /// Refused when its balance is spent.
    Prepaid,
}

impl BillingMode {
    /// The name in tables and REST.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unmetered => "unmetered",
            Self::Prepaid => "prepaid",
        }
    }
}

/// A person in a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its id.
    pub id: MemberId,
    /// Whose member.
    pub tenant_id: TenantId,
    /// The `sub` of its JWTs: unique within the tenant, such as a mail address.
    pub subject: String,
    /// What it may do in its tenant.
    pub role: Role,
    /// JWTs with a lower generation are revoked.
    pub token_generation: i64,
    /// Its windows, over all its tokens.
    pub limits: Limits,
    /// Shut out when false.
    pub enabled: bool,
    /// Rises with each change; the `ETag`.
    pub version: i64,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// An access token as the store knows it; the opaque text itself is kept as a hash only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessToken {
    /// Its id; the `jti` of a JWT.
    pub id: AccessTokenId,
    /// Whose token; none: an operator's.
    pub tenant_id: Option<TenantId>,
    /// Which member's, where it stands for a person.
    pub member_id: Option<MemberId>,
    /// Name that people use.
    pub name: String,
    /// What it looks like.
    pub kind: AccessTokenKind,
    /// What it may do.
    pub role: Role,
    /// Narrower models than its tenant's; none: as its tenant.
    pub grants: Option<Grants>,
    /// Narrower windows than its tenant's.
    pub limits: Limits,
    /// After this it is refused; none: never.
    pub expires_at: Option<Timestamp>,
    /// Since when it is revoked.
    pub revoked_at: Option<Timestamp>,
    /// When it was issued.
    pub created_at: Timestamp,
}

/// What an access token looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessTokenKind {
    /// A signed JWT of our own issuer.
    Jwt,
    /// An opaque `tw_…` text.
    Opaque,
    /// A one-time `tw_setup_…` text that sets up the first operator.
    Setup,
}

impl AccessTokenKind {
    /// The name in tables and REST.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Jwt => "jwt",
            Self::Opaque => "opaque",
            Self::Setup => "setup",
        }
    }
}
