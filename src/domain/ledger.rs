//! The signed money movements of a tenant.

use serde::{Deserialize, Serialize};

use crate::domain::{
    clock::Timestamp,
    ids::{LedgerEntryId, RequestId, TenantId},
    money::Nanos,
};

/// One movement; never changed, never removed. A tenant's balance is the sum of its entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// Its id; a charge has the UUID of its request.
    pub id: LedgerEntryId,
    /// Whose money.
    pub tenant_id: TenantId,
    /// What for.
    pub kind: LedgerKind,
    /// How much; a charge is negative.
    pub amount: Nanos,
    /// The request that was charged or refunded.
    pub event_id: Option<RequestId>,
    /// Why, in people's words.
    pub note: String,
    /// Who booked it: `system`, or a member's or access token's id.
    pub actor: String,
    /// When it was booked; for a charge when its request ended.
    pub created_at: Timestamp,
}

/// What a movement is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LedgerKind {
    /// The tenant paid in.
    TopUp,
    /// A request's price.
    Charge,
    /// A charge given back.
    Refund,
    /// A correction by an operator.
    Adjustment,
}

impl LedgerKind {
    /// The name in tables and REST.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TopUp => "top_up",
            Self::Charge => "charge",
            Self::Refund => "refund",
            Self::Adjustment => "adjustment",
        }
    }
}
