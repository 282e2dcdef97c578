//! Whom failed access tokens count against, behind proxies.

use reqwest::Method;

use crate::harness::{
    client::Answer,
    server::{Server, Setup},
};

/// More failures than one address is forgiven, however slowly they come.
const GUESSES: usize = 300;

async fn guess(server: &Server, forwarded_for: &str) -> u16 {
    let request = server.caller("tw_wrong").request(Method::GET, "/v1/models");
    Answer::of(request.header("x-forwarded-for", forwarded_for)).await.status.as_u16()
}

/// Whether one of many guesses is refused unheard; what is forgiven comes back with time, so a slow
/// machine needs more of them.
async fn refused(server: &Server, forwarded_for: impl Fn(usize) -> String) -> bool {
    for n in 0..GUESSES {
        if guess(server, &forwarded_for(n)).await == 429 {
            return true;
        }
    }
    false
}

#[tokio::test]
async fn behind_a_trusted_proxy_each_client_answers_for_itself() {
    let server = Setup::alone().set("TOLLWAY_SERVER_TRUSTED_PROXIES", "127.0.0.1").boot().await;
    let refused = refused(&server, |n| format!("198.51.100.{}, 192.0.2.1", n % 256)).await;
    assert!(refused, "what it writes itself does not help it");
    assert_eq!(guess(&server, "192.0.2.2").await, 401, "its neighbour does not notice");
}

#[tokio::test]
async fn without_a_trusted_proxy_the_header_says_nothing() {
    let server = Setup::alone().boot().await;
    assert!(refused(&server, |n| format!("192.0.2.{}", n % 256)).await);
}
