//! Our issuer's Ed25519 key pairs. The newest one without an end signs; one with an end verifies
//! until then. Two replicas that both make a first pair do no harm: both pairs verify, and all
//! replicas agree on the newest.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::json;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::{
    domain::{
        clock::{Entropy, Timestamp},
        signing_key::SigningKey,
    },
    identity::{
        IdentityError,
        jwt::{Signer, VerifyingKey, public_of},
    },
    vault::Vault,
};

/// What the column says; the only algorithm there is.
const ALGORITHM: &str = "EdDSA";

/// The pairs as one state of the store has them.
pub(super) struct KeyRing {
    keys: Vec<OwnKey>,
    signer: Option<Signer>,
}

/// The public half of a pair.
pub(super) struct OwnKey {
    kid: String,
    public: [u8; 32],
    verifying: VerifyingKey,
    retires_at: Option<Timestamp>,
}

impl KeyRing {
    pub(super) const fn empty() -> Self {
        Self { keys: Vec::new(), signer: None }
    }

    /// Opens what the store keeps.
    ///
    /// # Errors
    /// [`IdentityError::SigningKey`] when a row is not a pair, [`IdentityError::Vault`] when the
    /// private half of the signing one does not open.
    pub(super) fn open(rows: &[SigningKey], vault: &Vault) -> Result<Self, IdentityError> {
        let keys = rows.iter().map(OwnKey::of_row).collect::<Result<Vec<_>, _>>()?;
        let newest =
            rows.iter().filter(|row| row.retires_at.is_none()).max_by_key(|row| (row.created_at, &row.kid));
        let signer = newest.map(|row| signer(row, vault)).transpose()?;
        Ok(Self { keys, signer })
    }

    /// The pair of a `kid`, unless it is unknown or retired.
    pub(super) fn find(&self, kid: &str, now: Timestamp) -> Option<&OwnKey> {
        self.keys.iter().find(|key| key.kid == kid && key.is_usable(now))
    }

    pub(super) const fn signer(&self) -> Option<&Signer> {
        self.signer.as_ref()
    }

    /// The public keys as a JWK set (RFC 7517, RFC 8037).
    pub(super) fn jwks(&self, now: Timestamp) -> serde_json::Value {
        let usable = self.keys.iter().filter(|key| key.is_usable(now));
        let keys: Vec<_> = usable
            .map(|key| {
                json!({
                    "kty": "OKP",
                    "crv": "Ed25519",
                    "use": "sig",
                    "alg": ALGORITHM,
                    "kid": key.kid,
                    "x": BASE64_URL_SAFE_NO_PAD.encode(key.public),
                })
            })
            .collect();
        json!({ "keys": keys })
    }
}

impl OwnKey {
    fn of_row(row: &SigningKey) -> Result<Self, IdentityError> {
        let public = <[u8; 32]>::try_from(row.public_key.as_slice());
        let Some(public) = public.ok().filter(|_| row.algorithm == ALGORITHM) else {
            return Err(IdentityError::SigningKey { kid: row.kid.clone() });
        };
        Ok(Self {
            kid: row.kid.clone(),
            public,
            verifying: VerifyingKey::ed25519(&public),
            retires_at: row.retires_at,
        })
    }

    fn is_usable(&self, now: Timestamp) -> bool {
        self.retires_at.is_none_or(|at| now < at)
    }

    pub(super) const fn verifying(&self) -> &VerifyingKey {
        &self.verifying
    }

    pub(super) const fn retires_at(&self) -> Option<Timestamp> {
        self.retires_at
    }
}

/// Makes a pair for the store to keep, its private half sealed.
///
/// # Errors
/// [`IdentityError::Vault`].
pub(super) fn generate(
    now: Timestamp,
    vault: &Vault,
    entropy: &dyn Entropy,
) -> Result<SigningKey, IdentityError> {
    let mut seed = Zeroizing::new([0; 32]);
    entropy.fill(seed.as_mut_slice());
    let public = public_of(&seed);
    let kid = thumbprint(&public);
    let private_key = vault.seal_bytes(&purpose(&kid), seed.as_slice())?;
    Ok(SigningKey {
        private_key,
        public_key: public.to_vec(),
        algorithm: ALGORITHM.to_owned(),
        created_at: now,
        retires_at: None,
        kid,
    })
}

fn signer(row: &SigningKey, vault: &Vault) -> Result<Signer, IdentityError> {
    let opened = vault.unseal_bytes(&purpose(&row.kid), &row.private_key)?;
    let seed = <[u8; 32]>::try_from(opened.as_slice()).ok().map(Zeroizing::new);
    // A private half that does not belong to its public one would sign what nobody can verify.
    seed.filter(|seed| public_of(seed) == row.public_key.as_slice())
        .and_then(|seed| Signer::ed25519(&row.kid, &seed))
        .ok_or_else(|| IdentityError::SigningKey { kid: row.kid.clone() })
}

fn purpose(kid: &str) -> String {
    format!("signing_key:{kid}")
}

/// The `kid`: RFC 7638's thumbprint of the public key, members in the order it demands.
fn thumbprint(public: &[u8; 32]) -> String {
    let x = BASE64_URL_SAFE_NO_PAD.encode(public);
    let canonical = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#);
    BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(canonical))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        domain::secret::Secret,
        vault::{MasterKey, SeededEntropy},
    };

    fn vault() -> Vault {
        let text = Secret::new("AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=".to_owned());
        let master = MasterKey::from_base64("a test", &text).unwrap();
        let entropy = Arc::new(SeededEntropy::from_seed(1));
        let key = Vault::new_data_key(1, &master, &*entropy).unwrap();
        Vault::open(&master, &[key], 1, entropy).unwrap()
    }

    fn pair(second: i64, vault: &Vault) -> SigningKey {
        let entropy = SeededEntropy::from_seed(second.unsigned_abs());
        generate(Timestamp::from_unix_s(second), vault, &entropy).unwrap()
    }

    #[test]
    fn the_thumbprint_is_that_of_rfc_8037() {
        // RFC 8037, appendix A.3.
        let x = BASE64_URL_SAFE_NO_PAD.decode("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo").unwrap();
        assert_eq!(thumbprint(&x.try_into().unwrap()), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
    }

    #[test]
    fn the_newest_pair_signs_and_a_retiring_one_verifies_until_its_end() {
        let vault = vault();
        let (mut old, new) = (pair(1, &vault), pair(2, &vault));
        old.retires_at = Some(Timestamp::from_unix_s(10));
        let ring = KeyRing::open(&[new.clone(), old.clone()], &vault).unwrap();
        let at = Timestamp::from_unix_s;
        assert!(ring.find(&old.kid, at(9)).is_some() && ring.find(&new.kid, at(9)).is_some());
        assert!(ring.find(&old.kid, at(10)).is_none() && ring.find(&new.kid, at(10)).is_some());
        let kids = |now| ring.jwks(now)["keys"].as_array().unwrap().len();
        assert_eq!((kids(at(9)), kids(at(10))), (2, 1));
    }

    #[test]
    fn the_published_set_holds_public_halves_only() {
        let vault = vault();
        let row = pair(1, &vault);
        let set = KeyRing::open(std::slice::from_ref(&row), &vault).unwrap().jwks(row.created_at);
        let key = set["keys"][0].as_object().unwrap();
        let mut fields: Vec<_> = key.keys().map(String::as_str).collect();
        fields.sort_unstable();
        assert_eq!(fields, ["alg", "crv", "kid", "kty", "use", "x"]);
        assert_eq!(key["kid"], row.kid);
    }

    #[test]
    fn a_private_half_that_was_swapped_or_does_not_open_is_refused() {
        let vault = vault();
        let (a, mut b) = (pair(1, &vault), pair(2, &vault));
        b.private_key = a.private_key.clone();
        assert!(matches!(KeyRing::open(&[b.clone()], &vault), Err(IdentityError::Vault(_))));
        b.private_key = vault.seal_bytes(&purpose(&b.kid), &[9; 32]).unwrap();
        assert!(matches!(KeyRing::open(&[b], &vault), Err(IdentityError::SigningKey { .. })));
        let short = SigningKey { public_key: vec![1; 31], ..a };
        assert!(KeyRing::open(&[short], &vault).is_err());
        assert!(KeyRing::open(&[], &vault).unwrap().signer().is_none());
    }
}
