//! One upstream credential in a provider's pool.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::domain::{
    clock::Timestamp,
    ids::{KeyId, ProviderId, TenantId},
    limits::Limits,
    secret::Sealed,
};

/// One upstream credential. Has no `Serialize`: what leaves is built by the admin surface, without
/// the secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Its id.
    pub id: KeyId,
    /// Whose pool it is in.
    pub provider_id: ProviderId,
    /// The tenant it belongs to, and then only that tenant uses it; none: the platform's.
    pub tenant_id: Option<TenantId>,
    /// Name that people use, unique within the provider.
    pub label: String,
    /// The sealed credential.
    pub secret: Sealed,
    /// A keyed hash of the credential, to recognise a duplicate without opening it.
    pub fingerprint: String,
    /// Lower is tried first.
    pub priority: i32,
    /// Share among equals under weighted selection, at least 1.
    pub weight: u32,
    /// Its windows.
    pub limits: Limits,
    /// Its own base URL, where the vendor gives each account one.
    pub base_url: Option<String>,
    /// Vendor parameters: region, project, resource.
    pub params: BTreeMap<String, String>,
    /// What durable state it is in.
    pub state: KeyState,
    /// Rises with each change; the `ETag`.
    pub version: i64,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// The durable part of a key's state; cooldowns live in admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyState {
    /// In use.
    #[default]
    Active,
    /// The provider refused it; set by the system.
    Invalid,
    /// Switched off by an admin.
    Disabled,
}

impl KeyState {
    /// The name in tables and REST.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Invalid => "invalid",
            Self::Disabled => "disabled",
        }
    }
}
