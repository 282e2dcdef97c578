//! What goes on beside the requests: renewals, settlements, heartbeat, watching for loss, recovery.

use std::{collections::HashMap, sync::atomic::Ordering, time::Duration};

use ::redis::{RedisResult, from_redis_value_ref};
use futures_util::future::join_all;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    Redis,
    calls::{self, on_provider, on_tenant, us},
    connect::timed_out,
    queue::Work,
    scripts::Call,
};
use crate::{
    admission::local::RENEW_EVERY,
    domain::ids::{ProviderId, TenantId},
};

/// How often Redis is looked at, healthy or not.
const WATCH_EVERY: Duration = Duration::from_millis(500);
/// A replica that was not heard of for so long takes no share any more; longer than an outage of
/// half a minute, after which all are heard again.
const HEARTBEAT_FOR: Duration = Duration::from_secs(60);
/// Settlements told at once.
const SETTLE_AT_ONCE: usize = 128;
/// Leases or passes renewed by one call.
const RENEW_AT_ONCE: usize = 200;

/// The epochs of the counters that this process holds something in; another one means that they
/// were lost and what is held must be posted again.
#[derive(Default)]
struct Epochs {
    providers: HashMap<ProviderId, String>,
    tenants: HashMap<TenantId, String>,
    looks_until_renewal: u32,
}

impl Redis {
    /// See [`crate::admission::Admission::maintain`].
    pub async fn maintain(&self, shutdown: CancellationToken) {
        let mut looks = interval(WATCH_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut epochs = Epochs::default();
        while !shutdown.is_cancelled() {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = self.queue.filled() => {}
                _ = looks.tick() => self.look(&mut epochs).await,
            }
            self.drain().await;
        }
    }

    /// Tells Redis what ended; what cannot be told now waits for the next time.
    pub async fn drain(&self) {
        while self.breaker.open_since().is_none() {
            let batch = self.queue.take(self.clock.now(), SETTLE_AT_ONCE);
            if batch.is_empty() {
                return;
            }
            let answers = join_all(batch.iter().map(|(_, work)| self.tell(work))).await;
            let failed: Vec<_> =
                batch.into_iter().zip(&answers).filter(|(_, told)| !**told).map(|(work, _)| work).collect();
            if !failed.is_empty() {
                self.queue.put_back(failed);
                return;
            }
        }
    }

    async fn tell(&self, work: &Work) -> bool {
        let offset = self.clock_offset();
        let told = match work {
            Work::Lease { provider, end } => {
                self.run(&self.scripts.settle_lease, &end.call(on_provider(*provider, offset))).await
            }
            Work::Pass(end) => {
                let call = calls::settle_pass(on_tenant(end.tenant, offset), end);
                self.run(&self.scripts.settle_pass, &call).await
            }
            Work::UndoPass { tenant, request } => {
                let call = calls::undo_pass(on_tenant(*tenant, offset), *request);
                self.run(&self.scripts.settle_pass, &call).await
            }
        };
        told.is_ok()
    }

    async fn look(&self, epochs: &mut Epochs) {
        epochs.looks_until_renewal = epochs.looks_until_renewal.saturating_sub(1);
        let due = epochs.looks_until_renewal == 0;
        if due {
            epochs.looks_until_renewal =
                u32::try_from(RENEW_EVERY.as_millis() / WATCH_EVERY.as_millis()).unwrap_or(1);
            self.own.renew();
        }
        let was_away = self.breaker.open_since();
        if let Err(error) = self.beat().await {
            if was_away.is_some() {
                self.connections.drop_own();
            } else {
                self.failed(&error);
            }
            return;
        }
        if self.renew(epochs, due || was_away.is_some()).await.is_err() {
            return;
        }
        if let Some(since) = was_away {
            self.breaker.close();
            let away_ms = u64::try_from(self.clock.now().since(since).as_millis()).unwrap_or(u64::MAX);
            tracing::warn!(away_ms, "Redis is back: limits are counted together again");
        }
    }

    /// Says that this replica lives, and learns how many do.
    async fn beat(&self) -> RedisResult<()> {
        let mut connection = self.connections.get().await?;
        // On a cluster this asks every master: one heartbeat would only prove one of them well.
        timeout(self.config.op_timeout, connection.send(&redis::cmd("PING"))).await.map_err(timed_out)??;
        let call =
            Call::on_replicas(self.clock_offset()).id(self.config.replica.uuid()).int(us(HEARTBEAT_FOR));
        let live: u32 = from_redis_value_ref(&self.ask(&self.scripts.heartbeat, &call).await?)?;
        self.replicas.store(live.max(1), Ordering::Relaxed);
        Ok(())
    }

    /// Renews what this process holds: all of it, or only what stands in counters that were lost.
    async fn renew(&self, epochs: &mut Epochs, all: bool) -> RedisResult<()> {
        let offset = self.clock_offset();
        let mut providers = HashMap::new();
        for (provider, leases) in self.own.live_leases() {
            let known = epochs.providers.remove(&provider);
            let call = on_provider(provider, offset);
            if !all && known.is_some() && self.epoch(&call).await? == known {
                providers.extend(known.map(|known| (provider, known)));
                continue;
            }
            for leases in leases.chunks(RENEW_AT_ONCE) {
                let call = calls::renew_leases(call.clone(), leases);
                let (epoch, second) =
                    from_redis_value_ref(&self.ask(&self.scripts.renew_leases, &call).await?)?;
                self.own.mark_shared(provider, leases.iter().map(|(id, _)| *id), second);
                providers.insert(provider, epoch);
            }
        }
        let mut tenants = HashMap::new();
        for (tenant, passes) in self.own.live_passes() {
            let known = epochs.tenants.remove(&tenant);
            let call = on_tenant(tenant, offset);
            if !all && known.is_some() && self.epoch(&call).await? == known {
                tenants.extend(known.map(|known| (tenant, known)));
                continue;
            }
            for passes in passes.chunks(RENEW_AT_ONCE) {
                let call = calls::renew_passes(call.clone(), passes);
                let epoch = from_redis_value_ref(&self.ask(&self.scripts.renew_passes, &call).await?)?;
                tenants.insert(tenant, epoch);
            }
        }
        epochs.providers = providers;
        epochs.tenants = tenants;
        Ok(())
    }

    async fn epoch(&self, call: &Call) -> RedisResult<Option<String>> {
        let mut connection = self.connections.get().await?;
        let answer =
            timeout(self.config.op_timeout, connection.send(&call.epoch())).await.map_err(timed_out)??;
        Ok(from_redis_value_ref(&answer)?)
    }
}
