//! Browsers of other origins.

use reqwest::Method;
use serde_json::json;

use crate::harness::{
    client::{Answer, Caller},
    scene::MODEL,
    server::Setup,
    upstream::Upstream,
};

const APP: &str = "https://app.example.com";
const FOREIGN: &str = "https://evil.example.com";
const ALLOWED: &str = "access-control-allow-origin";

/// A path of each surface, the method that a browser asks for, and a header of it.
const SURFACES: [(&str, Method, &str); 5] = [
    ("/api/v1/relay/chat/completions", Method::POST, "authorization"),
    ("/v1/chat/completions", Method::POST, "x-stainless-os"),
    ("/v1/v1/models", Method::GET, "authorization"),
    ("/v1/models/some/model", Method::GET, "authorization"),
    ("/admin/v1/providers/anything", Method::PATCH, "if-match"),
];

async fn preflight(server: &Caller, path: &str, origin: &str, method: &Method, header: &str) -> Answer {
    let request = server.request(Method::OPTIONS, path).header("origin", origin);
    let request = request.header("access-control-request-method", method.as_str());
    Answer::of(request.header("access-control-request-headers", header)).await
}

#[tokio::test]
async fn nobody_is_let_in_unless_it_is_set() {
    let server = Setup::alone().boot().await;
    for (path, method, header) in SURFACES {
        let answer = preflight(&server.anonymous(), path, APP, &method, header).await;
        assert!(!answer.status.is_success(), "{path}");
        assert_eq!(answer.header(ALLOWED), None, "{path}");
    }
    let answer =
        Answer::of(server.anonymous().request(Method::GET, "/v1/models").header("origin", APP)).await;
    assert_eq!((answer.status.as_u16(), answer.header(ALLOWED)), (401, None));
}

#[tokio::test]
async fn an_origin_that_is_set_may_call_every_surface_and_read_our_headers() {
    let upstream = Upstream::start();
    let setup =
        Setup::alone().set("TOLLWAY_SERVER_CORS_ORIGINS", "https://app.example.com,https://two.example");
    let house = setup.scene().await.ordinary(&upstream.base_url()).await;
    let server = setup.boot().await;
    for (path, method, header) in SURFACES {
        let answer = preflight(&server.anonymous(), path, APP, &method, header).await.expect_status(200);
        assert_eq!(answer.header(ALLOWED), Some(APP), "{path}");
        assert!(answer.header("access-control-allow-methods").unwrap().contains(method.as_str()), "{path}");
        assert_eq!(answer.header("access-control-allow-headers"), Some(header), "{path}");
        assert_eq!(answer.header("access-control-allow-credentials"), None, "{path}");
        let foreign = preflight(&server.anonymous(), path, FOREIGN, &method, header).await;
        assert_eq!(foreign.header(ALLOWED), None, "{path}");
    }

    let ask = json!({"model": MODEL, "messages": []});
    let chat = |caller: Caller, origin| {
        caller.request(Method::POST, "/v1/chat/completions").header("origin", origin).json(&ask)
    };
    let answer = Answer::of(chat(server.caller(&house.a.token), APP)).await.expect_status(200);
    assert_eq!(answer.header(ALLOWED), Some(APP));
    assert!(answer.header("vary").unwrap().to_ascii_lowercase().contains("origin"));
    assert_eq!(answer.header("access-control-allow-credentials"), None);
    let exposed = answer.header("access-control-expose-headers").unwrap();
    for name in ["x-request-id", "retry-after", "x-ratelimit-remaining-requests", "etag", "location"] {
        assert!(exposed.contains(name), "{exposed}");
    }
    let refused = Answer::of(chat(server.anonymous(), APP)).await.expect_status(401);
    assert_eq!(refused.header(ALLOWED), Some(APP), "a script may read why it is refused");
    let foreign = Answer::of(chat(server.caller(&house.a.token), FOREIGN)).await;
    assert_eq!(foreign.header(ALLOWED), None);
}

#[tokio::test]
async fn a_star_lets_every_origin_in_without_credentials() {
    let server = Setup::alone().set("TOLLWAY_SERVER_CORS_ORIGINS", "*").boot().await;
    for (path, method, header) in SURFACES {
        let answer = preflight(&server.anonymous(), path, FOREIGN, &method, header).await.expect_status(200);
        assert_eq!(answer.header(ALLOWED), Some("*"), "{path}");
        assert_eq!(answer.header("access-control-allow-credentials"), None, "{path}");
    }
}
