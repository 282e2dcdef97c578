//! Whom failed access tokens count against, behind proxies.

use reqwest::Method;

use crate::harness::{
    client::Answer,
    server::{Server, Setup},
};

/// More failures than one address is forgiven.
const GUESSES: usize = 30;

async fn guess(server: &Server, forwarded_for: &str) -> u16 {
    let request = server.caller("tw_wrong").request(Method::GET, "/v1/models");
    Answer::of(request.header("x-forwarded-for", forwarded_for)).await.status.as_u16()
}

#[tokio::test]
async fn behind_a_trusted_proxy_each_client_answers_for_itself() {
    let server = Setup::alone().set("TOLLWAY_SERVER_TRUSTED_PROXIES", "127.0.0.1").boot().await;
    for n in 0..GUESSES {
        guess(&server, &format!("198.51.100.{n}, 192.0.2.1")).await;
    }
    assert_eq!(
        guess(&server, "198.51.100.99, 192.0.2.1").await,
        429,
        "what it writes itself does not help it"
    );
    assert_eq!(guess(&server, "192.0.2.2").await, 401, "its neighbour does not notice");
}

#[tokio::test]
async fn without_a_trusted_proxy_the_header_says_nothing() {
    let server = Setup::alone().boot().await;
    for n in 0..GUESSES {
        guess(&server, &format!("192.0.2.{n}")).await;
    }
    assert_eq!(guess(&server, "192.0.2.99").await, 429);
}
