//! Signing and verifying JWTs: the one file that names the `jsonwebtoken` crate.
//!
//! Each key is good for one algorithm, and it is the key that decides which, never the token: a
//! public key is no HMAC secret, and `none` is no algorithm. Claims are read here and judged in
//! [`super::claims`].

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use ed25519_dalek::pkcs8::EncodePrivateKey;
use jsonwebtoken::{DecodingKey, EncodingKey, Header, Validation, errors::ErrorKind};
use serde::Deserialize;

use crate::{
    domain::secret::Secret,
    identity::{Denied, claims::Claims},
};

/// An algorithm that we take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// Ed25519: our own issuer.
    EdDsa,
    /// HMAC-SHA256: a backend that shares the secret.
    Hs256,
}

impl Algorithm {
    const fn in_crate(self) -> jsonwebtoken::Algorithm {
        match self {
            Self::EdDsa => jsonwebtoken::Algorithm::EdDSA,
            Self::Hs256 => jsonwebtoken::Algorithm::HS256,
        }
    }
}

/// What the header of a token asks for, before anything of it is believed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) algorithm: Algorithm,
    pub(super) kid: Option<String>,
}

/// Reads the header of a token.
///
/// # Errors
/// [`Denied::Malformed`] when it cannot be read, [`Denied::BadSignature`] when it names an
/// algorithm that we do not take.
pub(super) fn asked(text: &str) -> Result<Asked, Denied> {
    #[derive(Deserialize)]
    struct Wire<'a> {
        alg: std::borrow::Cow<'a, str>,
        kid: Option<String>,
    }
    let first = text.split('.').next().unwrap_or_default();
    let json = BASE64_URL_SAFE_NO_PAD.decode(first).map_err(|_| Denied::Malformed)?;
    let wire: Wire<'_> = serde_json::from_slice(&json).map_err(|_| Denied::Malformed)?;
    let algorithm = match &*wire.alg {
        "EdDSA" => Algorithm::EdDsa,
        "HS256" => Algorithm::Hs256,
        _ => return Err(Denied::BadSignature),
    };
    Ok(Asked { algorithm, kid: wire.kid })
}

/// A key that verifies, with the one algorithm it is for.
#[derive(Clone)]
pub(super) struct VerifyingKey {
    key: DecodingKey,
    rules: Validation,
}

impl VerifyingKey {
    /// A public Ed25519 key.
    pub(super) fn ed25519(public: &[u8; 32]) -> Self {
        Self::pinned(Algorithm::EdDsa, DecodingKey::from_ed_der(public))
    }

    /// A shared secret; none when it is empty.
    pub(super) fn hs256(secret: &Secret) -> Option<Self> {
        let key = DecodingKey::from_secret(secret.expose().as_bytes()).ok()?;
        Some(Self::pinned(Algorithm::Hs256, key))
    }

    fn pinned(algorithm: Algorithm, key: DecodingKey) -> Self {
        let mut rules = Validation::new(algorithm.in_crate());
        // The crate reads the machine's clock; `Claims::check` judges by ours.
        rules.required_spec_claims.clear();
        rules.validate_exp = false;
        rules.validate_nbf = false;
        rules.validate_aud = false;
        Self { key, rules }
    }

    /// Verifies the signature and reads the claims, which the caller has yet to check.
    ///
    /// # Errors
    /// [`Denied::BadSignature`], or [`Denied::Malformed`] when what was signed is no claims set.
    pub(super) fn verify(&self, text: &str) -> Result<Claims, Denied> {
        jsonwebtoken::decode(text, &self.key, &self.rules).map(|token| token.claims).map_err(|refused| {
            match refused.kind() {
                ErrorKind::Json(_) | ErrorKind::Utf8(_) | ErrorKind::InvalidToken => Denied::Malformed,
                _ => Denied::BadSignature,
            }
        })
    }
}

/// A private Ed25519 key that signs.
pub(super) struct Signer {
    kid: String,
    key: EncodingKey,
}

impl Signer {
    /// The key of a 32-byte seed (RFC 8032 §5.1.5); none when it cannot be encoded.
    pub(super) fn ed25519(kid: &str, seed: &[u8; 32]) -> Option<Self> {
        let pair = ed25519_dalek::SigningKey::from_bytes(seed);
        let document = pair.to_pkcs8_der().ok()?;
        Some(Self { kid: kid.to_owned(), key: EncodingKey::from_ed_der(document.as_bytes()) })
    }

    pub(super) fn kid(&self) -> &str {
        &self.kid
    }

    /// Signs claims; none when they cannot be written as JSON.
    pub(super) fn sign(&self, claims: &Claims) -> Option<Secret> {
        let mut header = Header::new(Algorithm::EdDsa.in_crate());
        header.kid = Some(self.kid.clone());
        jsonwebtoken::encode(&header, claims, &self.key).ok().map(Secret::new)
    }
}

/// The public half of a seed.
pub(super) fn public_of(seed: &[u8; 32]) -> [u8; 32] {
    ed25519_dalek::SigningKey::from_bytes(seed).verifying_key().to_bytes()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SEED: [u8; 32] = [7; 32];

    fn claims() -> Claims {
        serde_json::from_value(json!({"iss": "tollway", "aud": "tollway", "exp": 2_000, "sub": "ada"}))
            .unwrap()
    }

    fn signed() -> String {
        Signer::ed25519("k1", &SEED).unwrap().sign(&claims()).unwrap().expose().to_owned()
    }

    fn hmac_signed(secret: &[u8]) -> String {
        let key = EncodingKey::from_secret(secret).unwrap();
        jsonwebtoken::encode(&Header::new(jsonwebtoken::Algorithm::HS256), &claims(), &key).unwrap()
    }

    #[test]
    fn what_we_sign_verifies_and_names_its_key() {
        let text = signed();
        assert_eq!(asked(&text), Ok(Asked { algorithm: Algorithm::EdDsa, kid: Some("k1".to_owned()) }));
        assert_eq!(VerifyingKey::ed25519(&public_of(&SEED)).verify(&text), Ok(claims()));
    }

    #[test]
    fn any_changed_character_is_refused() {
        let (text, key) = (signed(), VerifyingKey::ed25519(&public_of(&SEED)));
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert!(key.verify(&changed).is_err(), "{at}");
        }
    }

    #[test]
    fn another_key_is_refused() {
        let other = VerifyingKey::ed25519(&public_of(&[8; 32]));
        assert_eq!(other.verify(&signed()), Err(Denied::BadSignature));
    }

    #[test]
    fn a_public_key_is_no_hmac_secret_and_a_secret_no_public_key() {
        let public = public_of(&SEED);
        let confused = hmac_signed(&public);
        assert_eq!(VerifyingKey::ed25519(&public).verify(&confused), Err(Denied::BadSignature));
        let shared =
            VerifyingKey::hs256(&Secret::new("0123456789abcdef0123456789abcdef".to_owned())).unwrap();
        assert_eq!(shared.verify(&signed()), Err(Denied::BadSignature));
        assert_eq!(shared.verify(&hmac_signed(b"0123456789abcdef0123456789abcdef")), Ok(claims()));
    }

    #[test]
    fn no_other_algorithm_is_taken_and_none_least_of_all() {
        for alg in ["none", "None", "NONE", "HS384", "RS256", "ES256", "eddsa", ""] {
            let header = BASE64_URL_SAFE_NO_PAD.encode(json!({ "alg": alg }).to_string());
            let payload = BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(&claims()).unwrap());
            let text = format!("{header}.{payload}.");
            assert_eq!(asked(&text), Err(Denied::BadSignature), "{alg}");
            assert!(VerifyingKey::ed25519(&public_of(&SEED)).verify(&text).is_err(), "{alg}");
        }
    }

    #[test]
    fn a_header_that_cannot_be_read_is_malformed() {
        for header in ["", "ey", "bm90IGpzb24", "e30"] {
            assert_eq!(asked(&format!("{header}.e30.AAAA")), Err(Denied::Malformed), "{header}");
        }
    }
}
