//! Where a request goes, parsed once from a base URL.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::Duration,
};

use url::{Host, Url};

use crate::{
    domain::provider::Transport,
    net::{Forbidden, Guard},
};

/// A base URL taken apart, ready for the hot path; cloning shares it.
#[derive(Clone, PartialEq, Eq)]
pub struct Target(Arc<Parts>);

#[derive(PartialEq, Eq)]
struct Parts {
    is_tls: bool,
    host: TargetHost,
    port: u16,
    /// The value of the `host` header: the port is left out where it is the scheme's own.
    authority: String,
    /// Scheme, host and port: what connections are shared by.
    origin: Arc<str>,
    /// Path before a request's own, without a slash at the end.
    prefix: String,
    transport: Transport,
    connect: Duration,
}

/// A host as it is dialled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::net) enum TargetHost {
    Name(String),
    Address(IpAddr),
}

/// Why a base URL cannot be used. Does not print the URL, which may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTarget {
    /// It is no absolute URL.
    #[error("not an absolute URL")]
    NotUrl,
    /// Only http and https are spoken.
    #[error("only http and https URLs can be called")]
    Scheme,
    /// It carries a user or password.
    #[error("a user or password in the URL is not allowed")]
    UserInfo,
    /// A base URL has neither; both would be lost when a path is added.
    #[error("a base URL has no query and no fragment")]
    QueryOrFragment,
}

impl Target {
    /// Parses a base URL. Numeric forms of an IPv4 address (`2130706433`, `0x7f.1`) become the
    /// address they mean, so the guard sees it.
    ///
    /// # Errors
    /// [`InvalidTarget`] says which rule the URL breaks.
    pub fn parse(url: &str, transport: Transport, connect: Duration) -> Result<Self, InvalidTarget> {
        let url = Url::parse(url).map_err(|_| InvalidTarget::NotUrl)?;
        let is_tls = match url.scheme() {
            "http" => false,
            "https" => true,
            _ => return Err(InvalidTarget::Scheme),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidTarget::UserInfo);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(InvalidTarget::QueryOrFragment);
        }
        let port = url.port_or_known_default().ok_or(InvalidTarget::NotUrl)?;
        let printed = url.host_str().ok_or(InvalidTarget::NotUrl)?;
        let host = match url.host().ok_or(InvalidTarget::NotUrl)? {
            Host::Domain(name) => TargetHost::Name(name.to_owned()),
            Host::Ipv4(ip) => TargetHost::Address(IpAddr::V4(ip)),
            Host::Ipv6(ip) => TargetHost::Address(IpAddr::V6(ip)),
        };
        let authority =
            url.port().map_or_else(|| printed.to_owned(), |explicit| format!("{printed}:{explicit}"));
        Ok(Self(Arc::new(Parts {
            is_tls,
            host,
            port,
            authority,
            origin: format!("{}://{printed}:{port}", url.scheme()).into(),
            prefix: url.path().trim_end_matches('/').to_owned(),
            transport,
            connect,
        })))
    }

    /// Judges the address that a literal host names; what a name resolves to is judged when dialled.
    ///
    /// # Errors
    /// [`Forbidden`], unless `guard` makes an exception.
    pub fn check(&self, guard: &Guard) -> Result<(), Forbidden> {
        match &self.0.host {
            TargetHost::Address(address) => guard.check_ip(*address),
            TargetHost::Name(name) if is_localhost(name) => guard.check_ip(Ipv4Addr::LOCALHOST.into()),
            TargetHost::Name(_) => Ok(()),
        }
    }

    /// The `host` header's value; fit for logs, it holds no secret.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.0.authority
    }

    /// Which client serves it.
    #[must_use]
    pub fn transport(&self) -> Transport {
        self.0.transport
    }

    /// How long a connection may take, lookup and TLS included.
    #[must_use]
    pub fn connect_timeout(&self) -> Duration {
        self.0.connect
    }

    pub(in crate::net) fn is_tls(&self) -> bool {
        self.0.is_tls
    }

    pub(in crate::net) fn host(&self) -> &TargetHost {
        &self.0.host
    }

    pub(in crate::net) fn port(&self) -> u16 {
        self.0.port
    }

    pub(in crate::net) fn origin(&self) -> &Arc<str> {
        &self.0.origin
    }

    pub(in crate::net) fn prefix(&self) -> &str {
        &self.0.prefix
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({}{})", self.0.origin, self.0.prefix)
    }
}

/// What is wrong with a base URL that somebody wants to set up, in words for an operator; none: it can
/// be called as far as can be told before it is dialled.
#[must_use]
pub fn base_url_fault(url: &str, guard: &Guard) -> Option<String> {
    let target = match Target::parse(url, Transport::default(), Duration::ZERO) {
        Ok(target) => target,
        Err(invalid) => return Some(invalid.to_string()),
    };
    if let Some(base) = without_call(url) {
        return Some(format!(
            "this is the path of one call; give the base URL that all calls begin with: {base}"
        ));
    }
    let forbidden = target.check(guard).err()?;
    Some(format!("{forbidden}; to allow it, add its range to the setting net.allow (TOLLWAY_NET_ALLOW)"))
}

/// How the URLs of calls end; the relay adds this to the base URL.
const CALLS: [&str; 4] = ["/chat/completions", "/completions", "/responses", "/messages"];

/// The base URL in that of a call; none: it is not that of a call.
fn without_call(url: &str) -> Option<&str> {
    let url = url.trim_end_matches('/');
    CALLS.iter().find_map(|call| url.strip_suffix(call))
}

/// Names that always mean this machine (RFC 6761 §6.3).
fn is_localhost(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Target, InvalidTarget> {
        Target::parse(url, Transport::Http1, Duration::from_secs(5))
    }

    #[test]
    fn a_base_url_is_taken_apart() {
        let target = parse("https://Api.Example.com/v1/").unwrap();
        assert_eq!(target.authority(), "api.example.com");
        assert_eq!(target.prefix(), "/v1");
        assert_eq!(&**target.origin(), "https://api.example.com:443");
        assert!(target.is_tls() && target.port() == 443);
        let local = parse("http://[::1]:8080").unwrap();
        assert_eq!(local.authority(), "[::1]:8080");
        assert_eq!(local.prefix(), "");
        assert_eq!(*local.host(), TargetHost::Address("::1".parse().unwrap()));
    }

    #[test]
    fn numeric_hosts_become_the_address_they_mean() {
        let loopback = TargetHost::Address("127.0.0.1".parse().unwrap());
        for url in [
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0177.0.0.1/",
            "http://127.1/",
            "http://127.0.0.1:80/",
        ] {
            assert_eq!(*parse(url).unwrap().host(), loopback, "{url}");
        }
    }

    #[test]
    fn a_host_that_names_a_forbidden_address_is_refused_before_it_is_dialled() {
        for url in ["http://127.0.0.1:8080/v1", "http://localhost/v1", "http://[::1]/", "http://10.1.2.3"] {
            assert!(parse(url).unwrap().check(&Guard::default()).is_err(), "{url}");
        }
        assert_eq!(parse("https://api.example.com/v1").unwrap().check(&Guard::default()), Ok(()));
    }

    #[test]
    fn the_url_of_a_call_is_refused_with_its_base() {
        for (url, base) in [
            ("https://api.example.com/v1/chat/completions", "https://api.example.com/v1"),
            ("https://api.example.com/v1/completions/", "https://api.example.com/v1"),
            ("https://api.example.com/v1/responses", "https://api.example.com/v1"),
            ("https://api.example.com/messages", "https://api.example.com"),
        ] {
            let fault = base_url_fault(url, &Guard::default()).unwrap();
            assert!(fault.ends_with(&format!(": {base}")), "{fault}");
        }
        assert_eq!(base_url_fault("https://api.example.com/v1/my-messages", &Guard::default()), None);
    }

    #[test]
    fn what_is_not_a_base_url_is_refused() {
        for (url, why) in [
            ("api.example.com/v1", InvalidTarget::NotUrl),
            ("/v1", InvalidTarget::NotUrl),
            ("http://", InvalidTarget::NotUrl),
            ("ftp://example.com", InvalidTarget::Scheme),
            ("file:///etc/passwd", InvalidTarget::Scheme),
            ("https://me@example.com", InvalidTarget::UserInfo),
            ("https://me:secret@example.com", InvalidTarget::UserInfo),
            ("https://:secret@example.com", InvalidTarget::UserInfo),
            ("https://example.com/v1?key=1", InvalidTarget::QueryOrFragment),
            ("https://example.com/v1#top", InvalidTarget::QueryOrFragment),
        ] {
            assert_eq!(parse(url), Err(why), "{url}");
        }
    }
}
