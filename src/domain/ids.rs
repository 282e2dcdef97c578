//! Identifiers: UUIDv7 newtypes with a printed prefix (`ten_0192…`), so that an id in a log or a
//! request says what it names and cannot be passed where another kind is meant.

use std::{collections::HashMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use uuid::{Builder, Uuid};

use crate::domain::clock::Timestamp;

/// A map by ids, and by what admins name. Those who could choose keys that collide are trusted not to,
/// so the hash is a quick one; it is seeded all the same.
pub type IdMap<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// Why a text is not an id of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected an id like {prefix}_0192…, with 32 hexadecimal digits")]
pub struct InvalidId {
    /// The prefix that the wanted kind prints, without the underscore.
    pub prefix: &'static str,
}

/// A UUIDv7 from a time and ten random bytes; ids made later sort later.
#[must_use]
pub fn uuid_v7(now: Timestamp, random: [u8; 10]) -> Uuid {
    Builder::from_unix_timestamp_millis(now.unix_ms().unsigned_abs(), &random).into_uuid()
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Uuid);

        impl $name {
            /// What the printed form starts with, without the underscore.
            pub const PREFIX: &'static str = $prefix;

            /// Takes a UUID that is known to name this kind of thing, such as a column's value.
            #[must_use]
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// A new id, sorting by `now`.
            #[must_use]
            pub fn generate(now: Timestamp, random: [u8; 10]) -> Self {
                Self(uuid_v7(now, random))
            }

            /// The bare UUID, as columns and counters keep it.
            #[must_use]
            pub const fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                // Without the formatting machinery: a request prints its ids a dozen times.
                let mut text = [b'_'; $prefix.len() + 33];
                text[..$prefix.len()].copy_from_slice($prefix.as_bytes());
                self.0.as_simple().encode_lower(&mut text[$prefix.len() + 1..]);
                f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let invalid = InvalidId { prefix: $prefix };
                let hex = text.strip_prefix(concat!($prefix, "_")).ok_or_else(|| invalid.clone())?;
                if hex.len() != 32 {
                    return Err(invalid);
                }
                Uuid::try_parse(hex).map(Self).map_err(|_| invalid)
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                if s.is_human_readable() { s.collect_str(self) } else { self.0.serialize(s) }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                if !d.is_human_readable() {
                    return Uuid::deserialize(d).map(Self);
                }
                let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

ids! {
    /// A paying team, the unit of isolation.
    TenantId = "ten";
    /// A person in a tenant.
    MemberId = "mem";
    /// An access token; also the `jti` of a JWT of our own.
    AccessTokenId = "tok";
    /// An upstream service.
    ProviderId = "prv";
    /// One upstream credential in a provider's pool.
    KeyId = "key";
    /// A public model name.
    ModelId = "mdl";
    /// One way to serve a model: provider and upstream model name.
    RouteId = "rte";
    /// One line of a whitelist.
    GrantId = "grt";
    /// A request; the billing id of its usage event.
    RequestId = "req";
    /// A key acquired for one attempt.
    LeaseId = "lse";
    /// A running copy of the server, kept in its journal directory.
    ReplicaId = "rep";
    /// A signed money movement.
    LedgerEntryId = "led";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_prints_its_kind_and_reads_back() {
        let id = TenantId::generate(Timestamp::from_unix_ms(1_700_000_000_000), [7; 10]);
        assert!(id.to_string().starts_with("ten_018b"));
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!(id.to_string().parse::<KeyId>().is_err());
    }

    #[test]
    fn an_id_is_serialized_as_it_prints() {
        let id = ReplicaId::generate(Timestamp::from_unix_ms(1_700_000_000_000), [7; 10]);
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(json, format!("\"{id}\""));
        assert_eq!(serde_json::from_str::<ReplicaId>(&json).unwrap(), id);
    }

    #[test]
    fn later_ids_sort_later() {
        let a = RequestId::generate(Timestamp::from_unix_ms(1), [255; 10]);
        let b = RequestId::generate(Timestamp::from_unix_ms(2), [0; 10]);
        assert!(a < b && a.to_string() < b.to_string());
    }
}
