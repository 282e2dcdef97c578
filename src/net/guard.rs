//! Which addresses may be called.
//!
//! A base URL comes from an admin, a webhook URL from a tenant: neither may reach the machine
//! itself, its network or the cloud's metadata service. Addresses are judged when dialled, after
//! resolution, so that a name cannot be checked as one address and called as another.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// What an operator allows although it is not a public address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GuardConfig {
    /// Ranges that may be called, such as `127.0.0.0/8` for a local model server.
    pub allow: Vec<IpNet>,
}

/// An address that must not be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{address} is {reason} and not allowed by the address guard")]
pub struct Forbidden {
    /// The address as it was given.
    pub address: IpAddr,
    /// What it is.
    pub reason: &'static str,
}

/// The judge of addresses.
#[derive(Clone, Default)]
pub struct Guard {
    allow: Vec<IpNet>,
}

/// IPv4 ranges that are not the public internet (IANA IPv4 Special-Purpose Address Registry).
const V4: &[(Ipv4Net, &str)] = &[
    (v4(0, 0, 0, 0, 8), "unspecified"),
    (v4(10, 0, 0, 0, 8), "private"),
    // Alibaba's metadata service stands in the shared range.
    (v4(100, 64, 0, 0, 10), "shared by carriers"),
    (v4(127, 0, 0, 0, 8), "loopback"),
    // AWS, Google, Azure and others answer at 169.254.169.254.
    (v4(169, 254, 0, 0, 16), "link-local"),
    (v4(172, 16, 0, 0, 12), "private"),
    (v4(192, 0, 0, 0, 24), "reserved for protocols"),
    (v4(192, 0, 2, 0, 24), "for documentation"),
    (v4(192, 88, 99, 0, 24), "a 6to4 relay"),
    (v4(192, 168, 0, 0, 16), "private"),
    (v4(198, 18, 0, 0, 15), "for benchmarks"),
    (v4(198, 51, 100, 0, 24), "for documentation"),
    (v4(203, 0, 113, 0, 24), "for documentation"),
    (v4(224, 0, 0, 0, 4), "multicast"),
    (v4(240, 0, 0, 0, 4), "reserved"),
];

/// IPv4 addresses of metadata services inside public ranges.
const V4_METADATA: &[Ipv4Addr] = &[
    // Azure's wire server.
    Ipv4Addr::new(168, 63, 129, 16),
];

/// IPv6 ranges that are not the public internet (IANA IPv6 Special-Purpose Address Registry).
const V6: &[(Ipv6Net, &str)] = &[
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), "unspecified"),
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), "loopback"),
    (v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64), "discarded"),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), "reserved for protocols"),
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), "for documentation"),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), "for documentation"),
    (v6([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16), "for segment routing"),
    // AWS answers at fd00:ec2::254.
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), "private"),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), "link-local"),
    (v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), "site-local"),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), "multicast"),
];

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(s: [u16; 8], prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]), prefix)
}

impl Guard {
    /// A guard with the operator's exceptions.
    #[must_use]
    pub fn new(config: GuardConfig) -> Self {
        Self { allow: config.allow }
    }

    /// Judges one address. An IPv6 address that carries an IPv4 one is judged by what it carries.
    ///
    /// # Errors
    /// [`Forbidden`], with what the address is, unless an exception covers it.
    pub fn check_ip(&self, address: IpAddr) -> Result<(), Forbidden> {
        let Some(reason) = reason(address) else {
            return Ok(());
        };
        let carried = match address {
            IpAddr::V6(v6) => v6.to_ipv4_mapped().map(IpAddr::V4),
            IpAddr::V4(_) => None,
        };
        let is_allowed = self
            .allow
            .iter()
            .any(|net| net.contains(&address) || carried.is_some_and(|ip| net.contains(&ip)));
        if is_allowed { Ok(()) } else { Err(Forbidden { address, reason }) }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guard").field(&self.allow).finish()
    }
}

/// Why an address is not public, if it is not.
fn reason(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(ip) => reason_v4(ip),
        IpAddr::V6(ip) => reason_v6(ip),
    }
}

fn reason_v4(ip: Ipv4Addr) -> Option<&'static str> {
    if V4_METADATA.contains(&ip) {
        return Some("a metadata service");
    }
    V4.iter().find(|(net, _)| net.contains(&ip)).map(|&(_, reason)| reason)
}

fn reason_v6(ip: Ipv6Addr) -> Option<&'static str> {
    if let Some(&(_, reason)) = V6.iter().find(|(net, _)| net.contains(&ip)) {
        return Some(reason);
    }
    carried_v4(ip).and_then(|carried| match carried {
        Carried::Judged(ip) => reason_v4(ip),
        Carried::Refused(reason) => Some(reason),
    })
}

/// What an IPv6 address carries inside.
enum Carried {
    Judged(Ipv4Addr),
    Refused(&'static str),
}

fn carried_v4(ip: Ipv6Addr) -> Option<Carried> {
    // NAT64's well-known prefix carries its IPv4 address where a mapped one does.
    const NAT64: [u16; 6] = [0x64, 0xff9b, 0, 0, 0, 0];
    const MAPPED: [u16; 6] = [0, 0, 0, 0, 0, 0xffff];
    let segments = ip.segments();
    let embedded = |at: usize| {
        let bits = u32::from(segments[at]) << 16 | u32::from(segments[at + 1]);
        Some(Carried::Judged(Ipv4Addr::from(bits)))
    };
    if segments.starts_with(&MAPPED) || segments.starts_with(&NAT64) {
        return embedded(6);
    }
    match segments {
        // Deprecated forms that no public server has: «compatible» and «translated».
        [0, 0, 0, 0, 0 | 0xffff, 0, ..] => Some(Carried::Refused("an IPv4 address in disguise")),
        // RFC 8215 leaves it to the network what this prefix carries.
        [0x64, 0xff9b, ..] => Some(Carried::Refused("for local translation")),
        // 6to4 (RFC 3056).
        [0x2002, ..] => embedded(1),
        // ISATAP (RFC 5214): the interface part carries an IPv4 address.
        [.., 0 | 0x200, 0x5efe, _, _] => embedded(6),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(guard: &Guard, address: &str) -> bool {
        guard.check_ip(address.parse().unwrap()).is_err()
    }

    #[test]
    fn everything_that_is_not_public_is_refused() {
        let guard = Guard::default();
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.255.255.254",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::8.8.8.8",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0:127.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "3fff::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "2a00:1450::5efe:7f00:1",
        ] {
            assert!(is_refused(&guard, address), "{address}");
        }
    }

    #[test]
    fn public_addresses_pass() {
        let guard = Guard::default();
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "104.18.6.192",
            "172.15.0.1",
            "172.32.0.1",
            "192.167.0.1",
            "198.17.0.1",
            "198.20.0.1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2606:4700::6810:1",
            "2a00:1450:4001:800::200e",
            "2002:808:808::1",
        ] {
            assert!(!is_refused(&guard, address), "{address}");
        }
    }

    #[test]
    fn an_exception_opens_its_range_only() {
        let allow = vec!["127.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()];
        let guard = Guard::new(GuardConfig { allow });
        for address in ["127.0.0.1", "127.9.9.9", "::ffff:127.0.0.1", "fd12::1"] {
            assert!(!is_refused(&guard, address), "{address}");
        }
        for address in ["10.0.0.1", "::1", "fc00::1", "169.254.169.254", "2002:7f00:1::"] {
            assert!(is_refused(&guard, address), "{address}");
        }
    }
}
