//! What a client presents: its forms, told apart without looking anything up.
//!
//! An opaque token is `tw_` · 43 characters of base62 (256 random bits) · 6 of checksum; a set-up
//! token the same after `tw_setup_`. The checksum (CRC-32, no secret) tells a cut or mistyped
//! token from an unknown one, and scanners for leaked secrets a real one from a look-alike. The
//! store keeps the SHA-256 of the whole text: 256 random bits need no slow hash.

use sha2::{Digest, Sha256};

use crate::domain::{clock::Entropy, secret::Secret};

/// What opaque access tokens start with.
pub const OPAQUE_PREFIX: &str = "tw_";
/// What set-up tokens start with.
pub const SETUP_PREFIX: &str = "tw_setup_";

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// 62^43 > 2^256.
const RANDOM_CHARS: usize = 43;
/// 62^6 > 2^32.
const CHECKSUM_CHARS: usize = 6;

/// The SHA-256 of a presented text: what is stored and what caches are keyed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// Hashes a presented text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// The hash as a column keeps it.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// The form of a presented text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Jwt,
    Opaque,
    Setup,
}

/// Which form a presented text has; none: nothing that we issue or trust.
pub(super) fn form_of(text: &str) -> Option<Form> {
    if text.starts_with(SETUP_PREFIX) {
        return checked(text, SETUP_PREFIX).then_some(Form::Setup);
    }
    if text.starts_with(OPAQUE_PREFIX) {
        return checked(text, OPAQUE_PREFIX).then_some(Form::Opaque);
    }
    is_jwt(text).then_some(Form::Jwt)
}

/// Whether a text has the outward form of one of our access tokens, right or wrong: what tells
/// an access token in `?key=` or `x-api-key` from a key that was meant for somebody else.
#[must_use]
pub fn looks_like_ours(text: &str) -> bool {
    text.starts_with(OPAQUE_PREFIX) || is_jwt(text)
}

/// Makes an opaque text after `prefix`.
pub(super) fn generate(prefix: &str, entropy: &dyn Entropy) -> Secret {
    let mut text = String::with_capacity(prefix.len() + RANDOM_CHARS + CHECKSUM_CHARS);
    text.push_str(prefix);
    let mut bytes = [0; 64];
    while text.len() < prefix.len() + RANDOM_CHARS {
        entropy.fill(&mut bytes);
        let missing = prefix.len() + RANDOM_CHARS - text.len();
        // Six bits each, the two values above 61 drawn again, so that all characters are equally likely.
        let drawn = bytes.iter().filter_map(|byte| BASE62.get(usize::from(byte & 63)));
        text.extend(drawn.take(missing).map(|&c| char::from(c)));
    }
    let sum = checksum(&text);
    text.extend(sum.iter().map(|&c| char::from(c)));
    Secret::new(text)
}

fn checked(text: &str, prefix: &str) -> bool {
    let body = &text[prefix.len()..];
    if body.len() != RANDOM_CHARS + CHECKSUM_CHARS || !body.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return false;
    }
    let (random, sum) = text.split_at(text.len() - CHECKSUM_CHARS);
    checksum(random) == sum.as_bytes()
}

fn checksum(text: &str) -> [u8; CHECKSUM_CHARS] {
    let mut rest = u64::from(crc32fast::hash(text.as_bytes()));
    let mut out = [0; CHECKSUM_CHARS];
    for slot in out.iter_mut().rev() {
        *slot = BASE62[usize::try_from(rest % 62).unwrap_or_default()];
        rest /= 62;
    }
    out
}

/// Three non-empty parts of base64url. The parts are JSON objects, so the first starts as `{"`
/// does.
fn is_jwt(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    text.starts_with("ey") && text.split('.').all(is_part) && text.bytes().filter(|b| *b == b'.').count() == 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::vault::SeededEntropy;

    fn opaque(seed: u64) -> String {
        generate(OPAQUE_PREFIX, &SeededEntropy::from_seed(seed)).expose().to_owned()
    }

    proptest! {
        #[test]
        fn what_is_generated_has_its_form_and_no_typo_of_it_has(seed in any::<u64>(), at in 0usize..49, other in 0usize..62) {
            let text = opaque(seed);
            prop_assert_eq!(form_of(&text), Some(Form::Opaque));
            let setup = generate(SETUP_PREFIX, &SeededEntropy::from_seed(seed));
            prop_assert_eq!(form_of(setup.expose()), Some(Form::Setup));

            let mut typo = text.clone().into_bytes();
            typo[OPAQUE_PREFIX.len() + at] = BASE62[other];
            let typo = String::from_utf8(typo).unwrap();
            prop_assert_eq!(form_of(&typo).is_some(), typo == text);
            prop_assert_eq!(form_of(&text[..text.len() - 1 - at]), None);
        }

        #[test]
        fn no_text_whatever_breaks_the_reader(text in "\\PC{0,80}") {
            let _ = form_of(&text);
            let _ = form_of(&format!("tw_{text}"));
            let _ = looks_like_ours(&text);
        }
    }

    #[test]
    fn all_characters_are_drawn_about_equally_often() {
        let mut counts = [0u32; 128];
        let entropy = SeededEntropy::from_seed(1);
        for _ in 0..2_000 {
            let text = generate(OPAQUE_PREFIX, &entropy);
            for byte in text.expose()[3..3 + RANDOM_CHARS].bytes() {
                counts[usize::from(byte)] += 1;
            }
        }
        // 86 000 draws over 62: 1 387 each, standard deviation 37.
        let seen: Vec<_> = BASE62.iter().map(|&c| counts[usize::from(c)]).collect();
        assert!(seen.iter().all(|count| (1_180..1_600).contains(count)), "{seen:?}");
    }

    #[test]
    fn forms_are_told_apart() {
        assert_eq!(form_of("eyJh.eyJz.c2ln"), Some(Form::Jwt));
        for text in [
            "sk-abc",
            "tw_",
            "tw_setup_",
            "a.b",
            "eyJh.eyJz.",
            "eyJh..c2ln",
            "eyJh.eyJz.c2ln.x",
            "",
            "eyJh.ey Jz.c2ln",
        ] {
            assert_eq!(form_of(text), None, "{text}");
        }
    }

    #[test]
    fn keys_of_others_do_not_look_like_ours() {
        assert!(looks_like_ours(&opaque(1)));
        assert!(looks_like_ours("eyJh.eyJz.c2ln"));
        for text in ["sk-proj-abc", "AIzaSyA", "", "sk-ant-api03-x.y.z"] {
            assert!(!looks_like_ours(text), "{text}");
        }
    }
}
