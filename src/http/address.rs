//! The address of whoever calls, also behind proxies.

use std::{net::IpAddr, sync::Arc};

use actix_web::{HttpRequest, http::header::HeaderMap};
use ipnet::IpNet;

/// Proxies whose word on the client's address is believed; part of the app's data.
#[derive(Debug, Clone)]
pub struct TrustedProxies(Arc<[IpNet]>);

impl TrustedProxies {
    /// These networks.
    #[must_use]
    pub fn new(networks: &[IpNet]) -> Self {
        Self(networks.into())
    }

    fn have(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Follows the chain of proxies from `peer` towards the client, as far as each is trusted. Who
    /// is further away than the first one that is not may write what it likes.
    fn client_of(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.to_canonical();
        if !self.have(client) {
            return client;
        }
        for hop in hops(headers).into_iter().rev() {
            let Some(address) = hop else { break };
            client = address;
            if !self.have(client) {
                break;
            }
        }
        client
    }
}

/// The address of the client; none where it is not connected by IP.
#[must_use]
pub fn of_client(request: &HttpRequest) -> Option<IpAddr> {
    let peer = request.peer_addr()?.ip();
    Some(match request.app_data::<TrustedProxies>() {
        Some(proxies) => proxies.client_of(peer, request.headers()),
        None => peer,
    })
}

/// The addresses that proxies wrote down, the nearest last; none for what is no address, such as
/// `unknown`.
///
/// Only one of the two headers is read: a proxy that writes the one may pass on the other as its
/// client sent it. `x-forwarded-for` is what nearly all write.
fn hops(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    // Bytes that are no text spoil the element they stand in and no other.
    let values = |name| headers.get_all(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let each = |name, read: fn(&str) -> Option<IpAddr>| -> Vec<_> {
        values(name).flat_map(|value| value.split(',').map(read).collect::<Vec<_>>()).collect()
    };
    let forwarded_for = each("x-forwarded-for", address);
    if forwarded_for.is_empty() {
        return each("forwarded", |element| address(for_node(element)?));
    }
    forwarded_for
}

/// What `for=` says in an element of `Forwarded` (RFC 7239).
fn for_node(element: &str) -> Option<&str> {
    element.split(';').find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        name.trim().eq_ignore_ascii_case("for").then_some(value)
    })
}

/// `192.0.2.1`, `192.0.2.1:4711`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:4711`, quoted or not.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim().trim_matches('"');
    let bare = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0,
        None => text.split_once(':').filter(|(_, port)| !port.contains(':')).map_or(text, |(host, _)| host),
    };
    bare.parse().ok().map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    /// The client seen from `peer`, where `10.0.0.0/8` and `2001:db8:1::/48` are trusted.
    fn seen(peer: &str, headers: &[(&str, &str)]) -> String {
        let proxies = ["10.0.0.0/8", "2001:db8:1::/48"].map(|network| network.parse().unwrap());
        let peer: IpAddr = peer.parse().unwrap();
        let mut request =
            TestRequest::default().app_data(TrustedProxies::new(&proxies)).peer_addr((peer, 4711).into());
        for header in headers {
            request = request.append_header(*header);
        }
        of_client(&request.to_http_request()).unwrap().to_string()
    }

    #[test]
    fn a_peer_that_is_not_trusted_is_the_client_whatever_it_says() {
        for name in ["x-forwarded-for", "forwarded"] {
            assert_eq!(seen("192.0.2.9", &[(name, "for=198.51.100.1"), (name, "198.51.100.1")]), "192.0.2.9");
        }
        assert_eq!(seen("::ffff:192.0.2.9", &[]), "192.0.2.9");
    }

    #[test]
    fn the_last_address_that_is_no_proxys_own_counts() {
        let forged = "127.0.0.1, 10.9.9.9, 192.0.2.7";
        assert_eq!(seen("10.0.0.1", &[("x-forwarded-for", forged)]), "192.0.2.7");
        assert_eq!(seen("10.0.0.1", &[("x-forwarded-for", "127.0.0.1, 192.0.2.7, 10.0.0.2")]), "192.0.2.7");
        assert_eq!(
            seen("::ffff:10.0.0.1", &[("x-forwarded-for", "127.0.0.1"), ("x-forwarded-for", "192.0.2.7")]),
            "192.0.2.7"
        );
        assert_eq!(seen("10.0.0.1", &[("x-forwarded-for", "10.0.0.3, 10.0.0.2")]), "10.0.0.3");
        assert_eq!(seen("10.0.0.1", &[]), "10.0.0.1");
    }

    #[test]
    fn what_is_no_address_ends_the_chain_at_who_wrote_it() {
        for garbage in ["unknown", "", "_hidden", "192.0.2.7.1", "a:b:c", "[::1", "\u{e9}", "1.2.3.4 5"] {
            let list = format!("198.51.100.1, {garbage}, 10.0.0.2");
            assert_eq!(seen("10.0.0.1", &[("x-forwarded-for", &list)]), "10.0.0.2", "{garbage:?}");
        }
    }

    #[test]
    fn addresses_come_with_ports_brackets_and_quotes() {
        for (text, address) in [
            ("192.0.2.7:4711", "192.0.2.7"),
            ("[2001:db8::7]", "2001:db8::7"),
            ("\"[2001:db8::7]:4711\"", "2001:db8::7"),
            ("2001:db8::7", "2001:db8::7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
        ] {
            assert_eq!(seen("2001:db8:1::1", &[("x-forwarded-for", text)]), address, "{text}");
        }
    }

    #[test]
    fn forwarded_counts_only_where_the_usual_header_is_not_sent() {
        let forwarded = ("forwarded", "for=127.0.0.1;proto=https, proto=http;For=\"[2001:db8::7]:4711\"");
        assert_eq!(seen("10.0.0.1", &[forwarded]), "2001:db8::7");
        assert_eq!(seen("10.0.0.1", &[forwarded, ("x-forwarded-for", "192.0.2.7")]), "192.0.2.7");
        let hostile = ("forwarded", "for=\"127.0.0.1, for=\"198.51.100.1\";for=192.0.2.7");
        assert_eq!(seen("10.0.0.1", &[hostile]), "198.51.100.1");
    }
}
