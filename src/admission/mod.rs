//! Fast shared counters (floor 3): who may enter, which key serves, and for how long a key is out.
//!
//! Two backends, one behaviour, one conformance suite run against both (`tests/it/admission`):
//! in this process, and in Redis by Lua scripts. Windows slide in 1 s buckets,
//! the oldest counted whole; rpm is hard, tpm reserves an estimate that settlement corrects.
//! Leases expire unless renewed; the backend renews the live ones of this process itself.

mod backend;
pub mod local;
pub mod redis;

use std::{sync::Arc, time::Duration};

pub use backend::{Admission, Health};

use crate::domain::{
    clock::Timestamp,
    failure::FailureClass,
    ids::{AccessTokenId, KeyId, LeaseId, MemberId, ModelId, ProviderId, RequestId, TenantId},
    limits::{LimitKind, Limits},
    money::Nanos,
};

/// Whose windows an entering request counts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subject {
    /// The tenant as a whole.
    Tenant,
    /// One of its members.
    Member(MemberId),
    /// One of its access tokens.
    AccessToken(AccessTokenId),
}

/// What a request asks for at the door.
#[derive(Debug, Clone)]
pub struct Enter {
    /// The request; its pass is known by this id.
    pub request: RequestId,
    /// The tenant that pays; all counters of an entry live under it.
    pub tenant: TenantId,
    /// Every subject with a limit; subjects without one are left out. All must agree.
    pub windows: Vec<(Subject, Limits)>,
    /// Input estimate plus expected output, reserved in tpm windows.
    pub tokens: u64,
    /// Money to set aside while the request is in flight; zero for none.
    pub hold: Nanos,
    /// What the tenant could spend if nothing were held; none: not limited by money.
    pub funds: Option<Nanos>,
}

/// A pool of keys as one replica's catalog sees it.
#[derive(Debug, Clone)]
pub struct Pool {
    /// The provider whose pool it is; all its counters live under it.
    pub provider: ProviderId,
    /// Changes whenever `keys` does; lets a backend keep its own copy in step.
    pub version: u64,
    /// Every key that is neither disabled nor invalid.
    pub keys: Arc<[PoolKey]>,
}

/// What selection must know of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolKey {
    /// Which key.
    pub id: KeyId,
    /// The one tenant that may use it; none: any.
    pub tenant: Option<TenantId>,
    /// Lower first.
    pub priority: i32,
    /// Its windows.
    pub limits: Limits,
}

/// What an attempt asks of a pool.
#[derive(Debug, Clone)]
pub struct Acquire {
    /// The id of the lease to be.
    pub lease: LeaseId,
    /// From which pool.
    pub pool: Pool,
    /// For whom: keys of other tenants do not exist.
    pub tenant: TenantId,
    /// For which model: cooldowns may be per key × model.
    pub model: ModelId,
    /// Keys tried already by this request.
    pub exclude: Vec<KeyId>,
    /// Tokens reserved in the key's tpm window.
    pub tokens: u64,
}

/// A key, leased for one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The lease.
    pub id: LeaseId,
    /// Whose pool.
    pub provider: ProviderId,
    /// The key.
    pub key: KeyId,
    /// When it was counted; a request not sent within [`SEND_GUARD`] of it acquires again, so that
    /// no 60 s span upstream ever holds more than the limit.
    pub acquired_at: Timestamp,
}

/// How late a counted attempt may still be sent.
pub const SEND_GUARD: Duration = Duration::from_secs(1);
/// A lease or a pass's slot not renewed for this long is free again.
pub const LEASE_FOR: Duration = Duration::from_secs(45);
/// A hold not renewed for this long is free again: until then the money of a replica that stopped
/// counts as spent, unless its journal settles it by id.
pub const HOLD_FOR: Duration = Duration::from_secs(10 * 60);

/// The end of an attempt: its lease, and its true tokens where known.
#[derive(Debug, Clone, Copy)]
pub struct SettleLease {
    /// The lease.
    pub lease: Lease,
    /// For which model it was; success resets its back-off level.
    pub model: ModelId,
    /// Tokens reserved when it was acquired.
    pub reserved: u64,
    /// Tokens truly used; none: keep the reservation.
    pub used: Option<u64>,
    /// Whether the upstream served it.
    pub served: bool,
}

/// The end of a request: its pass, and its true tokens where known.
#[derive(Debug, Clone)]
pub struct SettlePass {
    /// The request.
    pub request: RequestId,
    /// Its tenant.
    pub tenant: TenantId,
    /// The windows it was counted in, as given to [`Enter`].
    pub windows: Vec<(Subject, Limits)>,
    /// Tokens reserved when it entered.
    pub reserved: u64,
    /// Tokens truly used; none: keep the reservation.
    pub used: Option<u64>,
}

/// An attempt that this process made before it was started again.
#[derive(Debug, Clone)]
pub struct Past {
    /// Whose request.
    pub tenant: TenantId,
    /// In whose windows the request counts; none for an attempt that another one followed.
    pub subjects: Vec<Subject>,
    /// Whose pool.
    pub provider: ProviderId,
    /// With which key.
    pub key: KeyId,
    /// When it was sent.
    pub at: Timestamp,
    /// Its tokens.
    pub tokens: u64,
}

/// What is out, and for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CoolScope {
    /// A key for every model.
    Key(KeyId),
    /// A key for one model.
    KeyModel(KeyId, ModelId),
    /// All keys of the provider.
    Provider,
}

/// Why and for how long something is taken out.
#[derive(Debug, Clone)]
pub struct Cool {
    /// In which pool.
    pub provider: ProviderId,
    /// What.
    pub scope: CoolScope,
    /// For how long.
    pub span: CoolFor,
    /// The failure that it follows.
    pub reason: FailureClass,
}

/// How long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoolFor {
    /// A given span; a later deadline already set stays.
    Span(Duration),
    /// By back-off, at the level counted for this scope. A failure raises it by one, unless it is
    /// of a request that was under way already when the cooldown in force began.
    Backoff {
        /// Spreads the deadline, see `domain::backoff`.
        jitter: u8,
    },
    /// First failure in a row free, the second 30 s, then back-off.
    Lenient {
        /// Spreads the deadline.
        jitter: u8,
    },
}

/// Why a request was not admitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A window or the concurrency of a subject is full.
    #[error("{kind:?} limit of {subject:?}")]
    Limit {
        /// Whose.
        subject: Subject,
        /// Which.
        kind: LimitKind,
        /// When it is worth another try.
        retry_after: Duration,
    },
    /// The balance is spent.
    #[error("funds spent")]
    FundsSpent,
    /// There is money, but requests in flight hold it.
    #[error("funds held by requests in flight")]
    FundsHeld {
        /// When it is worth another try.
        retry_after: Duration,
    },
    /// No key of the pool is usable now.
    #[error("no usable key")]
    NoKey(NoKey),
}

/// Why no key of a pool is usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NoKey {
    /// When the earliest key comes back; none: no key would ever come, the pool is empty for this
    /// caller or all was tried already.
    pub retry_after: Option<Duration>,
    /// Keys in cooldown because their provider limits them.
    pub limited: u32,
    /// Keys in cooldown after any other failure.
    pub failing: u32,
    /// Keys with a full window or no free slot.
    pub full: u32,
}

impl NoKey {
    /// Whether limits alone stand in the way, ours or the provider's: nothing is wrong, and who comes
    /// back later is served.
    #[must_use]
    pub const fn is_limit(&self) -> bool {
        self.failing == 0 && self.retry_after.is_some()
    }

    /// Whether there is no key at all that was not tried already.
    #[must_use]
    pub const fn is_nothing(&self) -> bool {
        self.limited + self.failing + self.full == 0
    }
}

/// What an operator sees of a key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyLive {
    /// Requests counted in the last 60 s.
    pub rpm_used: u32,
    /// Tokens counted in the last 60 s.
    pub tpm_used: u64,
    /// Attempts in flight.
    pub in_flight: u32,
    /// When it was last acquired.
    pub last_used_at: Option<Timestamp>,
    /// Every cooldown in force: the model it is for (none: all), until when, and why.
    pub cooldowns: Vec<(Option<ModelId>, Timestamp, String)>,
}

/// What an operator sees of a subject's windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SubjectLive {
    /// Requests counted in the last 60 s.
    pub rpm_used: u32,
    /// Tokens counted in the last 60 s.
    pub tpm_used: u64,
    /// Requests in flight.
    pub in_flight: u32,
    /// Money held; tenant only.
    pub held: Nanos,
}
