//! What each operation sends to its script, and what the answers mean.

use std::time::Duration;

use ::redis::{ErrorKind, RedisResult, Value, from_redis_value_ref};
use uuid::Uuid;

use super::scripts::{Call, Op};
use crate::{
    admission::{
        Acquire, Cool, CoolScope, Enter, HOLD_FOR, LEASE_FOR, NoKey, Pool, Refused, SettleLease, SettlePass,
        Subject,
        local::{Bucket, Ended, Leased, Owner, Pass, RETRY_FUNDS, SPARE_MISFITS, Whose, ladder},
    },
    domain::{
        ids::{KeyId, LeaseId, ModelId, ReplicaId, RequestId, TenantId},
        limits::{LimitKind, Limits},
    },
};

/// Tokens beyond this are counted as this: the scripts add exactly up to 2^53.
const MOST_TOKENS: u64 = 1 << 44;
/// Keys of a pool sent at once.
const LOAD_CHUNK: usize = 250;

/// Where something was counted.
#[derive(Debug, Clone, Copy, Default)]
pub struct At {
    /// The second of the server's clock.
    pub second: i64,
    /// The epoch of the counters; zero: nothing was counted.
    pub epoch: i64,
    /// How often counters had been lost when it was asked for.
    pub losses: u32,
}

/// A key granted by Redis.
#[derive(Debug, Clone, Copy)]
pub struct Granted {
    pub key: KeyId,
    pub at: At,
    /// Its place in the order of uses, and the one it had before.
    pub uses: (i64, i64),
}

/// What an acquire met.
pub enum Acquired {
    /// The server has no or an older configuration of the pool.
    Load,
    /// A key was leased, by this version of the pool.
    Leased { granted: Granted, version: u64 },
    /// None is usable.
    NoKey(NoKey),
    /// Many keys had to be set aside; ask again.
    Again,
    /// These are not the counters that were expected.
    Missing,
}

/// What an enter met.
pub enum Entered {
    /// It was counted.
    In(At),
    /// Something stands in the way.
    Refused(Refused),
    /// These are not the counters that were expected.
    Missing,
}

pub fn enter(call: Call, enter: &Enter, expected: i64) -> Call {
    let mut call = call.id(enter.request.uuid()).int(enter.tokens.min(MOST_TOKENS)).int(enter.hold.get());
    call = match enter.funds {
        Some(funds) => call.int(funds.get()),
        None => call.bytes(b""),
    };
    call = call.int(us(LEASE_FOR)).int(us(HOLD_FOR)).int(expected);
    for (subject, limits) in &enter.windows {
        call = with_limits(call.bytes(&subject_name(*subject)), limits);
    }
    call
}

/// Whether an enter was counted.
pub fn has_entered(value: &Value) -> bool {
    matches!(value, Value::Array(list) if list.first() == Some(&Value::Int(1)))
}

pub fn entered(value: &Value, enter: &Enter) -> RedisResult<Entered> {
    let list: Vec<i64> = from_redis_value_ref(value)?;
    Ok(match list[..] {
        [1, second, epoch] => Entered::In(At { second, epoch, losses: 0 }),
        [2, kind, place, wait] => {
            let kind = match kind {
                1 => LimitKind::Rpm,
                2 => LimitKind::Tpm,
                _ => LimitKind::Concurrency,
            };
            let place = usize::try_from(place).unwrap_or(0);
            let (subject, _) = enter.windows.get(place).ok_or_else(odd)?;
            Entered::Refused(Refused::Limit { subject: *subject, kind, retry_after: span(wait) })
        }
        [3] => Entered::Refused(Refused::FundsSpent),
        [4] => Entered::Refused(Refused::FundsHeld { retry_after: RETRY_FUNDS }),
        [5] => Entered::Missing,
        _ => return Err(odd()),
    })
}

pub fn acquire(call: Call, acquire: &Acquire, expected: i64) -> Call {
    let mut call = call
        .int(acquire.pool.version)
        .id(acquire.lease.uuid())
        .id(acquire.tenant.uuid())
        .id(acquire.model.uuid())
        .int(acquire.tokens.min(MOST_TOKENS))
        .int(us(LEASE_FOR))
        .int(SPARE_MISFITS)
        .int(expected);
    for key in &acquire.exclude {
        call = call.id(key.uuid());
    }
    call
}

pub fn acquired(value: &Value) -> RedisResult<Acquired> {
    let Value::Array(list) = value else { return Err(odd()) };
    let number = |at: usize| -> RedisResult<i64> { Ok(from_redis_value_ref(list.get(at).ok_or_else(odd)?)?) };
    Ok(match number(0)? {
        0 => Acquired::Load,
        1 => Acquired::Leased {
            granted: Granted {
                key: KeyId::from_uuid(uuid(list.get(1).ok_or_else(odd)?)?),
                at: At { second: number(2)?, epoch: number(6)?, losses: 0 },
                uses: (number(4)?, number(5)?),
            },
            version: u64::try_from(number(3)?).unwrap_or(0),
        },
        2 => {
            let wait = number(1)?;
            let count = |at| number(at).map(|n| u32::try_from(n).unwrap_or(0));
            let retry_after = (wait >= 0).then(|| span(wait));
            Acquired::NoKey(NoKey { retry_after, limited: count(2)?, failing: count(3)?, full: count(4)? })
        }
        3 => Acquired::Again,
        4 => Acquired::Missing,
        _ => return Err(odd()),
    })
}

/// The configuration of a pool, in chunks; the last one puts it in force.
pub fn load(call: &Call, pool: &Pool) -> Vec<Call> {
    let mut priorities: Vec<i32> = pool.keys.iter().map(|key| key.priority).collect();
    priorities.sort_unstable();
    priorities.dedup();
    let mut owners: Vec<(Option<TenantId>, u32)> = Vec::new();
    for key in &*pool.keys {
        match owners.iter_mut().find(|(owner, _)| *owner == key.tenant) {
            Some((_, count)) => *count += 1,
            None => owners.push((key.tenant, 1)),
        }
    }
    let chunks = pool.keys.len().div_ceil(LOAD_CHUNK).max(1);
    (0..chunks)
        .map(|chunk| {
            let last = chunk + 1 == chunks;
            let named: &[_] = if last { &owners } else { &[] };
            let mut call = call.clone().int(pool.version).int(u8::from(last)).int(named.len() as u64);
            for (owner, count) in named {
                call = owned_by(call, *owner).int(*count);
            }
            call = call.int((chunk * LOAD_CHUNK) as u64);
            for key in pool.keys.iter().skip(chunk * LOAD_CHUNK).take(LOAD_CHUNK) {
                let rank = priorities.partition_point(|priority| *priority < key.priority);
                call = owned_by(call.id(key.id.uuid()), key.tenant).int(rank as u64);
                call = with_limits(call, &key.limits);
            }
            call
        })
        .collect()
}

/// How an attempt ends, for `settle_lease`.
pub struct LeaseEnd {
    pub lease: LeaseId,
    pub key: KeyId,
    pub model: ModelId,
    /// The second of the server's clock in which it was counted; none: it was not.
    pub second: Option<i64>,
    pub reserved: u64,
    pub used: u64,
    /// The uses to undo, its window entry with them.
    pub undone: Option<(i64, i64)>,
    pub served: bool,
    /// How it stood here; none: it was not live.
    pub ended: Option<Ended>,
}

impl LeaseEnd {
    pub fn settled(end: &SettleLease, ended: Option<Ended>) -> Self {
        Self {
            lease: end.lease.id,
            key: end.lease.key,
            model: end.model,
            second: ended.and_then(|ended| ended.shared_second),
            reserved: end.reserved,
            used: end.used.unwrap_or(end.reserved),
            undone: None,
            served: end.served,
            ended,
        }
    }

    pub const fn undone(lease: LeaseId, model: ModelId, tokens: u64, granted: &Granted) -> Self {
        Self {
            lease,
            key: granted.key,
            model,
            second: Some(granted.at.second),
            reserved: tokens,
            used: 0,
            undone: Some(granted.uses),
            served: false,
            ended: None,
        }
    }

    /// `untold_for`: how long ago it was counted if Redis may not know of it.
    pub fn call(&self, call: Call, untold_for: Option<i64>) -> Call {
        let call = call
            .id(self.lease.uuid())
            .id(self.key.uuid())
            .id(self.model.uuid())
            .int(self.second.unwrap_or(-1))
            .int(self.reserved.min(MOST_TOKENS))
            .int(self.used.min(MOST_TOKENS))
            .int(u8::from(self.undone.is_some()))
            .int(u8::from(self.served));
        let call = match untold_for {
            Some(ago) => call.int(-1 - ago.max(0)),
            None => call.bytes(b""),
        };
        match self.undone {
            Some((its, before)) => call.int(its).int(before),
            None => call,
        }
    }
}

/// `untold_for`: how long ago it was counted if Redis may not know of it.
pub fn settle_pass(call: Call, end: &SettlePass, untold_for: Option<i64>) -> Call {
    let used = end.used.map_or(-1, |used| i128::from(used.min(MOST_TOKENS)));
    let call = call.id(end.request.uuid()).int(used).int(0);
    match untold_for {
        Some(ago) => call
            .int(-1 - ago.max(0))
            .int(end.used.unwrap_or(end.reserved).min(MOST_TOKENS))
            .bytes(&subject_names(end.windows.iter().map(|(subject, _)| *subject))),
        None => call,
    }
}

/// Takes back an entry, window entries included.
pub fn undo_pass(call: Call, request: RequestId) -> Call {
    call.id(request.uuid()).int(0).int(1)
}

/// `second`: the present one here.
pub fn renew_leases(call: Call, leases: &[(LeaseId, Leased)], second: i64) -> Call {
    leases.iter().fold(call.int(us(LEASE_FOR)), |call, (id, lease)| {
        call.id(id.uuid())
            .id(lease.key.uuid())
            .int(lease.shared_second.unwrap_or(-1 - (second - lease.second).max(0)))
            .int(lease.tokens.min(MOST_TOKENS))
    })
}

/// The second of the server's clock in which a lease without one was counted by a renewal.
pub fn second_of(lease: &Leased, second: i64, of_server: i64) -> i64 {
    of_server.min(of_server - (second - lease.second).max(0) + 1)
}

/// `second`: the present one here.
pub fn renew_passes(call: Call, passes: &[(RequestId, Pass)], second: i64) -> Call {
    passes.iter().fold(call.int(us(LEASE_FOR)).int(us(HOLD_FOR)), |call, (id, pass)| {
        call.id(id.uuid())
            .int(pass.shared_second.unwrap_or(-1 - (second - pass.second).max(0)))
            .int(pass.tokens.min(MOST_TOKENS))
            .int(pass.hold.get())
            .bytes(&subject_names(pass.subjects.iter().copied()))
    })
}

/// Windows gathered in this process under a number; `second`: the present one here.
pub fn tell(
    call: Call,
    replica: ReplicaId,
    number: i64,
    windows: &[(Whose, Vec<Bucket>)],
    second: i64,
) -> Call {
    windows.iter().fold(call.id(replica.uuid()).int(number), |call, (whose, buckets)| {
        let name = match whose {
            Whose::Subject(subject) => [&b"w"[..], &subject_name(*subject)].concat(),
            Whose::Key(key) => [&b"k"[..], key.uuid().as_bytes()].concat(),
        };
        let seconds: Vec<_> = buckets
            .iter()
            .map(|Bucket { second: counted, requests, tokens }| {
                format!("{} {requests} {}", (second - counted).max(0), (*tokens).min(MOST_TOKENS))
            })
            .collect();
        call.bytes(&name).bytes(seconds.join(" ").as_bytes())
    })
}

pub fn cool(call: Call, cool: &Cool) -> Call {
    let call = scope(call, cool.scope).bytes(cool.reason.as_str().as_bytes());
    let call = call.int(u8::from(cool.reason.is_limit()));
    ladder(cool.span).into_iter().fold(call, |call, span| match span {
        Some(span) => call.int(us(span)),
        None => call.int(-1),
    })
}

pub fn scope(call: Call, scope: CoolScope) -> Call {
    match scope {
        CoolScope::Provider => call.bytes(b"p").bytes(b"").bytes(b""),
        CoolScope::Key(key) => call.bytes(b"k").id(key.uuid()).bytes(b""),
        CoolScope::KeyModel(key, model) => call.bytes(b"m").id(key.uuid()).id(model.uuid()),
    }
}

/// A tag and sixteen bytes.
pub fn subject_name(subject: Subject) -> [u8; 17] {
    let (tag, id) = match subject {
        Subject::Tenant => (b't', Uuid::nil()),
        Subject::Member(member) => (b'm', member.uuid()),
        Subject::AccessToken(token) => (b'a', token.uuid()),
    };
    let mut name = [tag; 17];
    name[1..].copy_from_slice(id.as_bytes());
    name
}

fn subject_names(subjects: impl Iterator<Item = Subject>) -> Vec<u8> {
    subjects.flat_map(subject_name).collect()
}

fn with_limits(call: Call, limits: &Limits) -> Call {
    call.int(limits.rpm.map_or(-1, i128::from))
        .int(limits.tpm.map_or(-1, |tpm| i128::from(tpm.min(MOST_TOKENS))))
        .int(limits.concurrency.map_or(-1, i128::from))
}

fn owned_by(call: Call, owner: Option<TenantId>) -> Call {
    match owner {
        Some(tenant) => call.id(tenant.uuid()),
        None => call.bytes(b""),
    }
}

pub fn uuid(value: &Value) -> RedisResult<Uuid> {
    let bytes: Vec<u8> = from_redis_value_ref(value)?;
    Uuid::from_slice(&bytes).map_err(|_| odd())
}

/// A call that tells an owner's keys something.
pub fn telling(owner: Owner, offset_us: i64) -> Call {
    match owner {
        Owner::Tenant(tenant) => Call::on_tenant(Op::TellTenant, tenant, offset_us),
        Owner::Provider(provider) => Call::on_provider(Op::TellProvider, provider, offset_us),
    }
}

pub fn odd() -> redis::RedisError {
    (ErrorKind::UnexpectedReturnType, "a script gave back something else").into()
}

pub fn us(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

pub fn span(us: i64) -> Duration {
    Duration::from_micros(u64::try_from(us).unwrap_or(0))
}
