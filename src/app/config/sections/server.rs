//! `[server]`: the HTTP server.

use std::{net::SocketAddr, time::Duration};

use ipnet::IpNet;

use crate::app::config::{ByteSize, section::section};

section! {
    /// The HTTP server that clients, operators and scrapers talk to.
    "server" ServerSection {
        /// Where to listen. Port 0 takes a free port, which is printed. In a container, `0.0.0.0:8080`.
        listen: SocketAddr = "127.0.0.1:8080";
        /// Worker threads; 0 takes one for each core.
        workers: usize = "0";
        /// The largest request body, after decompression. Above it the answer is 413.
        body_limit: ByteSize = "32MiB";
        /// Memory for request bodies, after decompression, from their first byte until their upstream has
        /// answered; the first 64 KiB of each body do not count. One tenant may take half of it, so it is at
        /// least twice `server.body_limit`. A body that has no room is refused: 429 where the tenant's half
        /// is full, else 503.
        body_memory: ByteSize = "512MiB";
        /// How long a stopping server goes on accepting while `/readyz` says 503 already: as long as the
        /// balancer takes to notice. 0 closes the listener at once.
        drain_delay: Duration = "0s";
        /// How long a stopping server lets answers finish before it cuts them.
        grace_period: Duration = "30s";
        /// How long an idle client connection is kept.
        keep_alive: Duration = "75s";
        /// How long a client may take to send a request's head, and again for its body; a body has a
        /// second more for each 64 KiB that came.
        header_timeout: Duration = "10s";
        /// Client connections at once, for each worker.
        max_connections: usize = "100000";
        /// Origins whose browsers may call, such as `https://app.example.com`; `*` allows all.
        cors_origins: Vec<String> = "";
        /// Proxies whose word on the client's address is believed: the last address in `x-forwarded-for`, or
        /// where that is not sent in `forwarded`, that is not a trusted proxy's own.
        trusted_proxies: Vec<IpNet> = "";
    }
    |server, check| {
        check.that(server.workers <= 1_024, "workers", "expected at most 1024");
        check.that(server.body_limit.0 >= 1_024, "body_limit", "expected at least 1KiB");
        check.that(
            server.body_memory.0 / 2 >= server.body_limit.0,
            "body_memory",
            "expected at least twice server.body_limit, of which one tenant can take half",
        );
        check.that(server.grace_period <= Duration::from_secs(3_600), "grace_period", "expected at most 1h");
        check.that(server.drain_delay <= Duration::from_secs(600), "drain_delay", "expected at most 10m");
        check.that(server.keep_alive >= Duration::from_secs(1), "keep_alive", "expected at least 1s");
        check.that(server.header_timeout >= Duration::from_secs(1), "header_timeout", "expected at least 1s");
        check.that(server.max_connections > 0, "max_connections", "expected at least 1");
        let is_origin = |origin: &String| {
            origin == "*" || url::Url::parse(origin).is_ok_and(|url| url.origin().ascii_serialization() == *origin)
        };
        check.that(
            server.cors_origins.iter().all(is_origin),
            "cors_origins",
            "expected origins such as https://app.example.com, without a path, or *",
        );
    }
}
