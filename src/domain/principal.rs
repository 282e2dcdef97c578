//! Who a verified access token stands for.

use serde::{Deserialize, Serialize};

use crate::domain::{
    clock::Timestamp,
    grant::Grants,
    ids::{AccessTokenId, MemberId, TenantId},
    limits::Limits,
    tenant::BillingMode,
};

/// What a member or an access token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The platform's own people: everything under `/admin/v1`, no relaying without a tenant.
    Operator,
    /// Owns a tenant.
    Owner,
    /// Manages a tenant.
    Admin,
    /// Uses a tenant.
    Member,
    /// Reads a tenant's books.
    Auditor,
}

impl Role {
    /// The name in tables, claims and REST.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Owner => "owner",
            Self::Admin => "admin",
            Self::Member => "member",
            Self::Auditor => "auditor",
        }
    }

    /// Whether it may send requests through the relay.
    #[must_use]
    pub const fn may_relay(self) -> bool {
        match self {
            Self::Owner | Self::Admin | Self::Member => true,
            Self::Operator | Self::Auditor => false,
        }
    }
}

/// Who a verified access token stands for, with all that the request path asks about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The token presented.
    pub token_id: AccessTokenId,
    /// What it may do.
    pub role: Role,
    /// The member it stands for, if any.
    pub member: Option<MemberId>,
    /// The member's windows.
    pub member_limits: Limits,
    /// The tenant, absent for an operator.
    pub tenant: Option<TenantRef>,
    /// What narrows it within its tenant, the member's grants and the token's: each must allow
    /// too. Kept apart, for two lists of patterns have no common one.
    pub narrowed_by: Vec<Grants>,
    /// Narrower windows of the token.
    pub limits: Limits,
    /// When the token lapses.
    pub expires_at: Option<Timestamp>,
}

/// What the request path asks about a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantRef {
    /// Which.
    pub id: TenantId,
    /// Its name.
    pub name: String,
    /// Its windows.
    pub limits: Limits,
    /// Its models.
    pub grants: Grants,
    /// How it pays.
    pub billing: BillingMode,
}

impl Principal {
    /// Whether the tenant and, where narrower, the member and token may use `model`.
    #[must_use]
    pub fn allows(&self, model: &str) -> bool {
        self.tenant.as_ref().is_some_and(|tenant| tenant.grants.allow(model))
            && self.narrowed_by.iter().all(|grants| grants.allow(model))
    }
}
