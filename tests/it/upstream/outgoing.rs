//! The request as the provider gets it.

use tollway::{
    domain::{
        failure::{FailureClass, classify},
        provider::AuthStyle,
        secret::Sealed,
    },
    upstream::CallError,
};

use crate::upstream::{Desk, SECRET};

fn has(head: &str, line: &str) -> bool {
    head.lines().any(|found| found == line)
}

#[tokio::test]
async fn a_bearer_key_and_our_own_headers_go_out() {
    let desk = Desk::with(AuthStyle::Bearer, SECRET).await;
    let head = desk.outgoing(false).await;
    assert!(head.starts_with("POST /chat/completions HTTP/1.1\r\n"), "{head}");
    assert!(has(&head, &format!("authorization: Bearer {SECRET}")), "{head}");
    assert!(has(&head, "content-type: application/json"));
    assert!(has(&head, "accept: application/json"));
    assert!(has(&head, concat!("user-agent: tollway/", env!("CARGO_PKG_VERSION"))));
    assert!(head.contains("\r\nx-request-id: req_"));
}

#[tokio::test]
async fn a_stream_is_asked_for_as_one() {
    let desk = Desk::with(AuthStyle::Bearer, SECRET).await;
    assert!(has(&desk.outgoing(true).await, "accept: text/event-stream"));
}

#[tokio::test]
async fn a_key_goes_where_the_provider_looks_for_it() {
    let desk = Desk::with(AuthStyle::Header("x-api-key".to_owned()), SECRET).await;
    let head = desk.outgoing(false).await;
    assert!(has(&head, &format!("x-api-key: {SECRET}")), "{head}");
    assert!(!head.contains("authorization"));

    let desk = Desk::with(AuthStyle::Query("key".to_owned()), SECRET).await;
    let head = desk.outgoing(false).await;
    let encoded = SECRET.replace('/', "%2F").replace('+', "%2B").replace('=', "%3D");
    let line = format!("POST /chat/completions?key={encoded} HTTP/1.1");
    assert!(has(&head, &line), "{head}");

    let desk = Desk::with(AuthStyle::None, SECRET).await;
    assert!(!desk.outgoing(false).await.contains("sk-"));
}

#[tokio::test]
async fn the_providers_headers_win_over_ours_but_not_over_the_key() {
    let mut desk = Desk::with(AuthStyle::Bearer, SECRET).await;
    for (name, value) in [("User-Agent", "odd/1"), ("x-extra", "yes"), ("authorization", "Bearer none")] {
        desk.provider.headers.insert(name.to_owned(), value.to_owned());
    }
    let head = desk.outgoing(false).await;
    assert!(has(&head, "user-agent: odd/1") && has(&head, "x-extra: yes"), "{head}");
    assert!(has(&head, &format!("authorization: Bearer {SECRET}")), "{head}");
    assert!(!head.contains("Bearer none"));
}

#[tokio::test]
async fn what_cannot_be_sent_is_an_error_that_names_no_secret() {
    let desk = Desk::with(AuthStyle::Bearer, "sk-line\r\nx-evil: 1").await;
    let error = desk.send(false).await.unwrap_err();
    assert!(matches!(error, CallError::InvalidSecret), "{error:?}");
    assert!(!format!("{error:?} {error}").contains("sk-line"));
    assert_eq!(classify(error.symptom()), FailureClass::RefusedCredential);

    let mut desk = Desk::with(AuthStyle::Bearer, SECRET).await;
    desk.key.secret = Sealed::from_bytes(vec![1; 60]);
    let error = desk.send(false).await.unwrap_err();
    assert!(matches!(error, CallError::Vault(_)), "{error:?}");
    assert_eq!(classify(error.symptom()), FailureClass::RefusedCredential);

    for (name, value) in [("bad name", "x"), ("x-a", "line\nline")] {
        let mut desk = Desk::with(AuthStyle::Bearer, SECRET).await;
        desk.provider.headers.insert(name.to_owned(), value.to_owned());
        let error = desk.send(false).await.unwrap_err();
        assert!(matches!(error, CallError::InvalidProvider(_)), "{error:?}");
    }
}

#[tokio::test]
async fn a_key_sealed_for_another_row_does_not_open() {
    let mut desk = Desk::with(AuthStyle::Bearer, SECRET).await;
    desk.key.id = tollway::domain::ids::KeyId::generate(crate::upstream::NOW, [9; 10]);
    assert!(matches!(desk.send(false).await, Err(CallError::Vault(_))));
}
