//! What must not get in.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use tollway::identity::{Denied, TokenForm};

use super::world::{NOW, SHARED, World, hmac_signed, shared};

in_both_worlds!(
    each_flaw_has_its_own_refusal,
    the_key_decides_the_algorithm,
    a_signature_over_other_claims_is_refused,
    refusals_and_debug_output_hold_nothing_of_the_token,
);

/// PKCS#8 of an Ed25519 pair that nobody here trusts: RFC 8410's frame around 32 bytes of 7.
pub const FOREIGN_PAIR: &[u8] = &[
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
];

async fn each_flaw_has_its_own_refusal(world: World) {
    let by_claims = [
        (json!({"iss": "https://evil.example"}), Denied::WrongIssuer),
        (json!({"aud": "another service"}), Denied::WrongAudience),
        (json!({"exp": NOW.unix_s() - 31}), Denied::Expired),
        (json!({"nbf": NOW.unix_s() + 31}), Denied::NotYetValid),
        (json!({"exp": null}), Denied::Malformed),
        (json!({"tid": "acme"}), Denied::Malformed),
        (json!({"limits": {"rpm": -1}}), Denied::Malformed),
    ];
    for (changes, denied) in by_claims {
        let text = shared(&world.claims(&changes));
        for _ in 0..2 {
            assert_eq!(world.identity.verify(&text).await, Err(denied), "{changes}");
        }
    }
    let setup = world.identity.issue_setup_token().await.unwrap();
    let (_, opaque) = world.issue(TokenForm::Opaque).await;
    let cut = &opaque[..opaque.len() - 1];
    let huge = "e".repeat(9_000);
    for (text, denied) in [
        ("", Denied::Missing),
        ("sk-something", Denied::Malformed),
        (cut, Denied::Malformed),
        (&huge, Denied::Malformed),
        (setup.expose(), Denied::SetupToken),
    ] {
        assert_eq!(world.identity.verify(text).await, Err(denied));
    }
}

async fn the_key_decides_the_algorithm(world: World) {
    let jwks = world.identity.jwks();
    let kid = jwks["keys"][0]["kid"].as_str().unwrap().to_owned();
    let public = BASE64_URL_SAFE_NO_PAD.decode(jwks["keys"][0]["x"].as_str().unwrap()).unwrap();
    let claims = world.claims(&json!({"role": "operator", "tid": null}));
    let header =
        |algorithm, kid: Option<&str>| Header { kid: kid.map(str::to_owned), ..Header::new(algorithm) };
    let foreign = EncodingKey::from_ed_der(FOREIGN_PAIR);
    let unsigned = |header: Value| {
        let encode = |part: &Value| BASE64_URL_SAFE_NO_PAD.encode(part.to_string());
        format!("{}.{}.AA", encode(&header), encode(&claims))
    };
    let forged = [
        hmac_signed(&header(Algorithm::HS256, None), &claims, &public),
        hmac_signed(&header(Algorithm::HS256, Some(&kid)), &claims, &public),
        hmac_signed(&header(Algorithm::HS256, Some(&kid)), &claims, SHARED.as_bytes()),
        hmac_signed(&header(Algorithm::HS384, None), &claims, SHARED.as_bytes()),
        hmac_signed(&header(Algorithm::HS256, None), &claims, b"another secret of the same length ...."),
        jsonwebtoken::encode(&header(Algorithm::EdDSA, Some(&kid)), &claims, &foreign).unwrap(),
        jsonwebtoken::encode(&header(Algorithm::EdDSA, Some("unknown")), &claims, &foreign).unwrap(),
        jsonwebtoken::encode(&header(Algorithm::EdDSA, None), &claims, &foreign).unwrap(),
        unsigned(json!({"alg": "none"})),
        unsigned(json!({"alg": "NoNe", "kid": kid})),
        unsigned(json!({"alg": "EdDSA", "kid": kid, "jwk": jwks["keys"][0]})),
    ];
    for (n, text) in forged.iter().enumerate() {
        assert_eq!(world.identity.verify(text).await, Err(Denied::BadSignature), "forgery {n}");
    }
}

async fn a_signature_over_other_claims_is_refused(world: World) {
    let (_, ours) = world.issue(TokenForm::Jwt).await;
    let parts: Vec<_> = ours.split('.').collect();
    let claims = BASE64_URL_SAFE_NO_PAD.decode(parts[1]).unwrap();
    let mut claims: Value = serde_json::from_slice(&claims).unwrap();
    claims["role"] = json!("owner");
    let swapped = BASE64_URL_SAFE_NO_PAD.encode(claims.to_string());
    let text = format!("{}.{swapped}.{}", parts[0], parts[2]);
    assert!(world.identity.verify(&ours).await.is_ok());
    assert_eq!(world.identity.verify(&text).await, Err(Denied::BadSignature));
}

async fn refusals_and_debug_output_hold_nothing_of_the_token(world: World) {
    let (token, text) = world.issue(TokenForm::Opaque).await;
    let principal = world.identity.verify(&text).await.unwrap();
    world.revoke(&token).await;
    world.identity.refresh().await.unwrap();
    let denied = world.identity.verify(&text).await.unwrap_err();
    let said = format!("{denied} {denied:?} {} {:?} {principal:?} {token:?}", denied.code(), world.identity);
    assert!(
        !text.as_bytes().windows(12).any(|part| said.as_bytes().windows(12).any(|shown| shown == part)),
        "{said}"
    );
}
