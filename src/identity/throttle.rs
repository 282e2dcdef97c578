//! Slowing down who guesses access tokens: failures are counted by client address (GCRA, in
//! process), and an address that spent its allowance is refused before anything is verified or
//! looked up. Tokens seen before are let through whoever else shares the address.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr},
    num::NonZeroU32,
    sync::atomic::{AtomicU32, Ordering},
};

use governor::{
    Quota, RateLimiter, clock, middleware::NoOpMiddleware, nanos::Nanos, state::keyed::DashMapStateStore,
};
use moka::sync::Cache;

use crate::{
    domain::clock::{SharedClock, Timestamp},
    identity::Denied,
};

/// So many failures at once are forgiven: a fleet that restarts with one wrong setting.
const BURST: NonZeroU32 = NonZeroU32::new(20).unwrap();
/// And so many in each second after that.
const PER_SECOND: NonZeroU32 = NonZeroU32::new(1).unwrap();
/// Addresses that are shut out at once; the least used are forgotten first.
const SHUT_ENTRIES: u64 = 10_000;
/// Counters that have run down are swept once in so many failures. A counter runs down within
/// [`BURST`] seconds, so the memory is bounded by the failures of that span and this.
const SWEEP_EVERY: u32 = 1_024;

/// Counts failed authentications by client address.
pub struct AuthThrottle {
    failures: RateLimiter<Network, DashMapStateStore<Network>, Time, NoOpMiddleware<Nanos>>,
    /// Until when an address is refused.
    shut: Cache<Network, Timestamp>,
    since_sweep: AtomicU32,
    clock: SharedClock,
}

impl AuthThrottle {
    /// With nothing counted yet.
    #[must_use]
    pub fn new(clock: SharedClock) -> Self {
        let quota = Quota::per_second(PER_SECOND).allow_burst(BURST);
        Self {
            failures: RateLimiter::dashmap_with_clock(quota, Time(SharedClock::clone(&clock))),
            shut: Cache::new(SHUT_ENTRIES),
            since_sweep: AtomicU32::new(0),
            clock,
        }
    }

    /// Whether `address` may try a token that was not seen before.
    ///
    /// # Errors
    /// [`Denied::Throttled`] with the time to wait.
    pub fn check(&self, address: IpAddr) -> Result<(), Denied> {
        let Some(until) = self.shut.get(&Network::of(address)) else { return Ok(()) };
        let retry_after = until.since(self.clock.now());
        if retry_after.is_zero() { Ok(()) } else { Err(Denied::Throttled { retry_after }) }
    }

    /// Counts a failure of `address`.
    pub fn failed(&self, address: IpAddr) {
        let network = Network::of(address);
        if let Err(not_until) = self.failures.check_key(&network) {
            let now = self.clock.now();
            self.shut.insert(network, now.plus(not_until.wait_time_from(nanos(now))));
        }
        if self.since_sweep.fetch_add(1, Ordering::Relaxed) >= SWEEP_EVERY {
            self.since_sweep.store(0, Ordering::Relaxed);
            self.failures.retain_recent();
        }
    }
}

impl fmt::Debug for AuthThrottle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AuthThrottle({} addresses)", self.failures.len())
    }
}

/// What one party can be taken to hold: an IPv4 address, or an IPv6 /64 (RFC 6177: no site gets
/// less).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Network {
    V4(Ipv4Addr),
    V6([u16; 4]),
}

impl Network {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Self::V6([a, b, c, d])
            }
        }
    }
}

/// Our clock as governor reads it.
#[derive(Debug, Clone)]
struct Time(SharedClock);

impl clock::Clock for Time {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        nanos(self.0.now())
    }
}

fn nanos(at: Timestamp) -> Nanos {
    Nanos::new(u64::try_from(at.unix_us()).unwrap_or(0).saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::domain::clock::ManualClock;

    fn throttle() -> (Arc<ManualClock>, AuthThrottle) {
        let clock = Arc::new(ManualClock::starting_at(Timestamp::from_unix_s(1_800_000_000)));
        (Arc::clone(&clock), AuthThrottle::new(clock))
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn fail(throttle: &AuthThrottle, address: IpAddr, times: u32) {
        for _ in 0..times {
            throttle.failed(address);
        }
    }

    #[test]
    fn a_burst_is_forgiven_then_one_failure_a_second() {
        let (clock, throttle) = throttle();
        let guesser = ip("192.0.2.1");
        fail(&throttle, guesser, 20);
        assert_eq!(throttle.check(guesser), Ok(()));
        fail(&throttle, guesser, 1);
        assert!(matches!(
            throttle.check(guesser),
            Err(Denied::Throttled { retry_after }) if retry_after > Duration::ZERO && retry_after <= Duration::from_secs(1)
        ));
        assert_eq!(throttle.check(ip("192.0.2.2")), Ok(()));
        clock.advance(Duration::from_secs(1));
        assert_eq!(throttle.check(guesser), Ok(()));
        fail(&throttle, guesser, 2);
        assert!(throttle.check(guesser).is_err());
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address_and_a_mapped_address_as_ipv4() {
        let (_, throttle) = throttle();
        for last in 0..21 {
            throttle.failed(ip(&format!("2001:db8:1:2::{last}")));
        }
        assert!(throttle.check(ip("2001:db8:1:2:ffff::1")).is_err());
        assert_eq!(throttle.check(ip("2001:db8:1:3::1")), Ok(()));
        fail(&throttle, ip("::ffff:192.0.2.1"), 21);
        assert!(throttle.check(ip("192.0.2.1")).is_err());
    }

    #[test]
    fn a_flood_from_many_addresses_does_not_grow_without_bound() {
        let (clock, throttle) = throttle();
        for n in 0..200_000u32 {
            throttle.failed(IpAddr::V4(Ipv4Addr::from(n)));
            clock.advance(Duration::from_millis(1));
        }
        assert!(throttle.failures.len() < 5_000, "{throttle:?}");
    }
}
