//! What an operator sees.

use ::redis::{RedisResult, Value, from_redis_value_ref};

use super::{
    Redis,
    calls::{span, subject_name, uuid},
    scripts::{Call, Op},
};
use crate::{
    admission::{KeyLive, Pool, Subject, SubjectLive},
    domain::{
        clock::Timestamp,
        ids::{KeyId, ModelId, TenantId},
        money::Nanos,
    },
};

/// Keys looked at by one call.
const AT_ONCE: usize = 100;

impl Redis {
    /// See [`crate::admission::Admission::inspect_pool`]; this replica's own part while Redis is away.
    pub async fn inspect_pool(&self, pool: &Pool) -> Vec<(KeyId, KeyLive)> {
        let mut all = Vec::with_capacity(pool.keys.len());
        for keys in pool.keys.chunks(AT_ONCE) {
            let call = Call::on_provider(Op::InspectKeys, pool.provider, self.clock_offset());
            let call = keys.iter().fold(call, |call, key| call.id(key.id.uuid()));
            let Ok(value) = self.run(&call).await else {
                return self.own.inspect_pool(pool);
            };
            let now = self.clock.now();
            let read = from_redis_value_ref(&value).map_err(Into::into).and_then(|keys: Vec<Value>| {
                keys.iter().map(|key| key_live(key, now)).collect::<RedisResult<Vec<_>>>()
            });
            let Ok(read) = self.understood(read) else { return self.own.inspect_pool(pool) };
            all.extend(keys.iter().map(|key| key.id).zip(read));
        }
        all
    }

    /// See [`crate::admission::Admission::inspect_tenant`]; this replica's own part while Redis is away.
    pub async fn inspect_tenant(&self, tenant: TenantId, subjects: &[Subject]) -> Vec<SubjectLive> {
        let call = Call::on_tenant(Op::InspectTenant, tenant, self.clock_offset());
        let call = subjects.iter().fold(call, |call, subject| call.bytes(&subject_name(*subject)));
        let Ok(value) = self.run(&call).await else {
            return self.own.inspect_tenant(tenant, subjects);
        };
        self.understood(subjects_live(&value, subjects))
            .unwrap_or_else(|_| self.own.inspect_tenant(tenant, subjects))
    }
}

fn key_live(value: &Value, now: Timestamp) -> RedisResult<KeyLive> {
    let (rpm_used, tpm_used, in_flight, used_ago, cooled): (u32, u64, u32, i64, Vec<Value>) =
        from_redis_value_ref(value)?;
    let cooldowns = cooled
        .as_chunks::<3>()
        .0
        .iter()
        .map(|[model, rest, reason]| {
            let for_all = matches!(model, Value::BulkString(name) if name.is_empty());
            let model = if for_all { None } else { Some(ModelId::from_uuid(uuid(model)?)) };
            let rest: i64 = from_redis_value_ref(rest)?;
            Ok((model, now.plus(span(rest)), from_redis_value_ref(reason)?))
        })
        .collect::<RedisResult<Vec<_>>>()?;
    let last_used_at = (used_ago >= 0).then(|| now.minus(span(used_ago)));
    Ok(KeyLive { rpm_used, tpm_used, in_flight, last_used_at, cooldowns })
}

fn subjects_live(value: &Value, subjects: &[Subject]) -> RedisResult<Vec<SubjectLive>> {
    let list: Vec<Value> = from_redis_value_ref(value)?;
    let (held, windows) = list.split_first().ok_or_else(super::calls::odd)?;
    let held = Nanos::new(from_redis_value_ref(held)?);
    subjects
        .iter()
        .zip(windows)
        .map(|(subject, window)| {
            let (rpm_used, tpm_used, in_flight): (u32, u64, u32) = from_redis_value_ref(window)?;
            let held = if *subject == Subject::Tenant { held } else { Nanos::ZERO };
            Ok(SubjectLive { rpm_used, tpm_used, in_flight, held })
        })
        .collect()
}
