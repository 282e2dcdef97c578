//! Time and randomness as values handed in, so that tests turn the clock by hand.

use std::{
    borrow::Cow,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize, de::Error};

/// An instant on the wall clock, in microseconds since the Unix epoch; what both databases keep.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From microseconds since the epoch.
    #[must_use]
    pub const fn from_unix_us(us: i64) -> Self {
        Self(us)
    }

    /// From milliseconds since the epoch.
    #[must_use]
    pub const fn from_unix_ms(ms: i64) -> Self {
        Self(ms.saturating_mul(1_000))
    }

    /// From whole seconds since the epoch, as in a JWT.
    #[must_use]
    pub const fn from_unix_s(s: i64) -> Self {
        Self(s.saturating_mul(1_000_000))
    }

    /// Microseconds since the epoch.
    #[must_use]
    pub const fn unix_us(self) -> i64 {
        self.0
    }

    /// Whole milliseconds since the epoch.
    #[must_use]
    pub const fn unix_ms(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// Whole seconds since the epoch.
    #[must_use]
    pub const fn unix_s(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// The span from `earlier` to here; zero when the clock stepped back.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Later by `span`, saturating.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }

    /// Earlier by `span`, saturating.
    #[must_use]
    pub fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }

    /// The same instant for the database driver and RFC 3339 texts.
    #[must_use]
    pub fn to_utc(self) -> DateTime<Utc> {
        DateTime::from_timestamp_micros(self.0).unwrap_or(DateTime::<Utc>::MAX_UTC)
    }
}

impl From<DateTime<Utc>> for Timestamp {
    fn from(at: DateTime<Utc>) -> Self {
        Self(at.timestamp_micros())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_utc().to_rfc3339_opts(chrono::SecondsFormat::Micros, true))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Text where people read it, microseconds where they do not.
impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if s.is_human_readable() { s.collect_str(self) } else { s.serialize_i64(self.0) }
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        if d.is_human_readable() {
            let text = Cow::<str>::deserialize(d)?;
            text.parse::<DateTime<Utc>>()
                .map(Self::from)
                .map_err(|_| Error::custom("expected an instant by RFC 3339, such as 2026-01-31T12:00:00Z"))
        } else {
            i64::deserialize(d).map(Self)
        }
    }
}

/// Where «now» comes from. Two implementations: the machine's clock and one moved by hand.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The wall clock now.
    fn now(&self) -> Timestamp;
}

/// A shared clock.
pub type SharedClock = Arc<dyn Clock>;

/// The machine's wall clock: the only place that reads it. wasm32 has none to read.
#[cfg(not(target_family = "wasm"))]
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[cfg(not(target_family = "wasm"))]
impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    fn now(&self) -> Timestamp {
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        // A clock before 1970 is a clock that was never set.
        Timestamp::from_unix_us(
            since_epoch.map_or(0, |span| i64::try_from(span.as_micros()).unwrap_or(i64::MAX)),
        )
    }
}

/// A clock that stands still until a test moves it.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Stands at `at`.
    #[must_use]
    pub const fn starting_at(at: Timestamp) -> Self {
        Self(AtomicI64::new(at.unix_us()))
    }

    /// Moves forward by `span`.
    pub fn advance(&self, span: Duration) {
        self.0.fetch_add(i64::try_from(span.as_micros()).unwrap_or(i64::MAX), Ordering::SeqCst);
    }

    /// Steps to `at`, backwards too.
    pub fn set(&self, at: Timestamp) {
        self.0.store(at.unix_us(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_us(self.0.load(Ordering::SeqCst))
    }
}

/// Where random bytes come from. Two implementations: the system's generator (`vault`) and a
/// seeded one in tests.
pub trait Entropy: Send + Sync + fmt::Debug {
    /// Fills `out` with random bytes.
    fn fill(&self, out: &mut [u8]);

    /// Ten bytes, as a UUIDv7 takes them.
    fn id_bytes(&self) -> [u8; 10] {
        let mut bytes = [0; 10];
        self.fill(&mut bytes);
        bytes
    }
}

/// A shared source of randomness.
pub type SharedEntropy = Arc<dyn Entropy>;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_instant_is_serialized_as_it_prints_and_reads_back(
            us in prop_oneof![-70_000_000_000_000_000i64..300_000_000_000_000_000, 0i64..2_000_000_000_000_000]
        ) {
            let at = Timestamp::from_unix_us(us);
            let json = serde_json::to_string(&at).unwrap();
            prop_assert_eq!(&json, &format!("\"{at}\""));
            prop_assert_eq!(serde_json::from_str::<Timestamp>(&json).unwrap(), at);
        }
    }
}
