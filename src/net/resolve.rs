//! Names to addresses, each judged by the guard; what is not allowed is never dialled.

use std::{
    cell::RefCell,
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::{net::lookup_host, time::Instant};

use crate::net::{error::NetError, guard::Guard, target::TargetHost};

/// How long a worker trusts a lookup. Short, so that a provider's move is seen at once; getaddrinfo
/// does not tell the record's own time.
const KEPT_FOR: Duration = Duration::from_secs(15);
/// Names a worker keeps; providers are few.
const MAX_KEPT: usize = 256;

/// A worker's resolver.
#[derive(Clone)]
pub(in crate::net) struct Resolver {
    guard: Arc<Guard>,
    kept: Rc<RefCell<HashMap<String, Kept>>>,
}

/// When a name was looked up, and what it had.
type Kept = (Instant, Rc<[IpAddr]>);

impl Resolver {
    pub(in crate::net) fn new(guard: Arc<Guard>) -> Self {
        Self { guard, kept: Rc::default() }
    }

    /// The addresses that may be dialled, at least one, in the system's order.
    pub(in crate::net) async fn resolve(&self, host: &TargetHost) -> Result<Rc<[IpAddr]>, NetError> {
        let name = match host {
            TargetHost::Address(ip) => {
                self.guard.check_ip(*ip)?;
                return Ok(Rc::new([*ip]));
            }
            TargetHost::Name(name) => name,
        };
        let now = Instant::now();
        if let Some((at, addresses)) = self.kept.borrow().get(name)
            && now.duration_since(*at) < KEPT_FOR
        {
            return Ok(Rc::clone(addresses));
        }
        let addresses: Rc<[IpAddr]> = look_up(&self.guard, name).await?.into();
        let mut kept = self.kept.borrow_mut();
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        kept.insert(name.clone(), (now, Rc::clone(&addresses)));
        Ok(addresses)
    }

    /// Forgets a name whose addresses took no connection.
    pub(in crate::net) fn forget(&self, host: &TargetHost) {
        if let TargetHost::Name(name) = host {
            self.kept.borrow_mut().remove(name);
        }
    }
}

/// Asks the system and keeps what the guard allows.
async fn look_up(guard: &Guard, name: &str) -> Result<Vec<IpAddr>, NetError> {
    let found = lookup_host((name, 0)).await.map_err(NetError::Resolve)?;
    let mut allowed = Vec::new();
    let mut refused = None;
    for ip in found.map(|address| address.ip()) {
        match guard.check_ip(ip) {
            Ok(()) if !allowed.contains(&ip) => allowed.push(ip),
            Ok(()) => {}
            Err(forbidden) => refused = Some(forbidden),
        }
    }
    match (allowed.is_empty(), refused) {
        (false, _) => Ok(allowed),
        (true, Some(forbidden)) => Err(forbidden.into()),
        (true, None) => Err(NetError::Resolve(io::Error::from(io::ErrorKind::NotFound))),
    }
}

/// The same for reqwest, which dials what this returns.
pub(in crate::net) struct GuardedDns(pub(in crate::net) Arc<Guard>);

impl Resolve for GuardedDns {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = Arc::clone(&self.0);
        Box::pin(async move {
            let addresses = look_up(&guard, name.as_str()).await?;
            let addresses: Addrs = Box::new(addresses.into_iter().map(|ip| SocketAddr::new(ip, 0)));
            Ok(addresses)
        })
    }
}
