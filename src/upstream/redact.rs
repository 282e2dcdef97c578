//! Masks a key that an upstream echoes.
//!
//! A redactor knows hashes of every eight characters in a row of every form in which the secret
//! could stand in a text: plain, JSON-escaped, percent-encoded, base64 (both alphabets, at each of
//! the three places it can begin inside other data) and hex. Whatever eight characters in a row
//! match are masked, together with all that match beside them. Letters match in either case.

use std::{
    borrow::Cow,
    collections::HashSet,
    fmt,
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use base64::{
    Engine,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use zeroize::Zeroizing;

/// What stands in place of a masked run.
const MASK: &[u8] = b"[redacted]";
/// Characters in a row that give a secret away.
const RUN: usize = 8;

/// Masks one secret; the default masks nothing. Cloning shares it. Holds no part of the secret in
/// plain, so it may live as long as a stream.
#[derive(Clone, Default)]
pub struct Redactor(Option<Arc<Known>>);

struct Known {
    state: RandomState,
    /// Rules out most runs of [`RUN`] characters for the price of a multiplication.
    sieve: Sieve,
    /// Hashes of runs, by their length: [`RUN`], or a short secret's whole form.
    runs: Vec<(usize, HashSet<u64>)>,
}

impl Redactor {
    /// Knows `secret` in all its forms. A secret shorter than eight characters is masked where it
    /// stands whole; an empty one never.
    #[must_use]
    pub fn new(secret: &str) -> Self {
        if secret.is_empty() {
            return Self(None);
        }
        let state = RandomState::new();
        let mut sieve = Sieve::new(&state);
        let mut runs: Vec<(usize, HashSet<u64>)> = Vec::new();
        for mut form in forms(secret.as_bytes()) {
            form.make_ascii_lowercase();
            let length = form.len().min(RUN);
            // Of a short secret a shorter form, or a single character, is in every text.
            if length < secret.len().clamp(2, RUN) {
                continue;
            }
            form.windows(length).for_each(|run| sieve.add(run));
            let hashes = form.windows(length).map(|run| state.hash_one(run));
            match runs.iter_mut().find(|(known, _)| *known == length) {
                Some((_, set)) => set.extend(hashes),
                None => runs.push((length, hashes.collect())),
            }
        }
        Self(Some(Arc::new(Known { state, sieve, runs })))
    }

    /// Whether any of the secret stands in `bytes`.
    #[must_use]
    pub fn finds_in(&self, bytes: &[u8]) -> bool {
        self.0.as_ref().is_some_and(|known| known.next_match(&bytes.to_ascii_lowercase(), 0).is_some())
    }

    /// `bytes` with every run of the secret masked; borrowed when there is none.
    #[must_use]
    pub fn redact<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let Some(known) = &self.0 else {
            return Cow::Borrowed(bytes);
        };
        let folded = Zeroizing::new(bytes.to_ascii_lowercase());
        let Some(mut found) = known.next_match(&folded, 0) else {
            return Cow::Borrowed(bytes);
        };
        let mut masked = Vec::with_capacity(bytes.len());
        let mut kept_until = 0;
        loop {
            let (start, mut end) = found;
            let mut next = known.next_match(&folded, start + 1);
            while let Some((at, until)) = next.filter(|&(at, _)| at <= end) {
                end = end.max(until);
                next = known.next_match(&folded, at + 1);
            }
            masked.extend_from_slice(&bytes[kept_until..start]);
            masked.extend_from_slice(MASK);
            kept_until = end;
            match next {
                Some(more) => found = more,
                None => break,
            }
        }
        masked.extend_from_slice(&bytes[kept_until..]);
        Cow::Owned(masked)
    }

    /// The same for a text.
    #[must_use]
    pub fn redact_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.redact(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            // A run may begin inside a character when a secret is not ASCII.
            Cow::Owned(masked) => Cow::Owned(String::from_utf8_lossy(&masked).into_owned()),
        }
    }
}

impl Known {
    /// The first run at or after `from`, as start and end.
    fn next_match(&self, folded: &[u8], from: usize) -> Option<(usize, usize)> {
        (from..folded.len()).find_map(|at| {
            self.runs
                .iter()
                .filter_map(|(length, set)| {
                    let run = folded.get(at..at + length)?;
                    let may_match = self.sieve.may_have(run);
                    (may_match && set.contains(&self.state.hash_one(run))).then_some((at, at + length))
                })
                .max()
        })
    }
}

/// A bit for each run of [`RUN`] characters, under a secret multiplier; shorter runs always pass.
struct Sieve {
    multiplier: u64,
    bits: Box<[u64; 1 << (Self::LOG_BITS - 6)]>,
}

impl Sieve {
    /// 2 KB; the six hundred or so runs of a usual key then let one foreign run in twenty-five through.
    const LOG_BITS: u32 = 14;

    fn new(state: &RandomState) -> Self {
        Self { multiplier: state.hash_one(0) | 1, bits: Box::new([0; 1 << (Self::LOG_BITS - 6)]) }
    }

    /// The word and the bit in it; none for a run of another length.
    fn place(&self, run: &[u8]) -> Option<(usize, u64)> {
        let word = u64::from_le_bytes(run.try_into().ok()?);
        let bit = word.wrapping_mul(self.multiplier) >> (u64::BITS - Self::LOG_BITS);
        Some((usize::try_from(bit >> 6).ok()?, 1 << (bit & 63)))
    }

    fn add(&mut self, run: &[u8]) {
        if let Some((word, bit)) = self.place(run) {
            self.bits[word] |= bit;
        }
    }

    fn may_have(&self, run: &[u8]) -> bool {
        self.place(run).is_none_or(|(word, bit)| self.bits[word] & bit != 0)
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor(…)")
    }
}

/// The forms of a secret, each once.
fn forms(secret: &[u8]) -> Vec<Zeroizing<Vec<u8>>> {
    let mut forms = vec![secret.to_vec(), hex(secret, ""), hex(secret, "%")];
    forms.push(url::form_urlencoded::byte_serialize(secret).collect::<String>().into_bytes());
    forms.push(percent(secret));
    forms.extend(json(secret));
    for lead in 0..3 {
        forms.push(base64(secret, lead, &STANDARD_NO_PAD));
        forms.push(base64(secret, lead, &URL_SAFE_NO_PAD));
    }
    forms.sort_unstable();
    forms.dedup();
    forms.into_iter().map(Zeroizing::new).collect()
}

fn hex(secret: &[u8], before_each: &str) -> Vec<u8> {
    secret.iter().flat_map(|byte| format!("{before_each}{byte:02x}").into_bytes()).collect()
}

/// Everything but the unreserved characters of RFC 3986 encoded.
fn percent(secret: &[u8]) -> Vec<u8> {
    let is_kept = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    secret
        .iter()
        .flat_map(|&byte| if is_kept(byte) { vec![byte] } else { format!("%{byte:02x}").into_bytes() })
        .collect()
}

/// As it stands inside a JSON string, with and without escaped slashes, and escaped throughout.
fn json(secret: &[u8]) -> Vec<Vec<u8>> {
    let Ok(text) = std::str::from_utf8(secret) else {
        return Vec::new();
    };
    let quoted = serde_json::Value::from(text).to_string();
    let inner = quoted[1..quoted.len() - 1].to_owned();
    let slashes = inner.replace('/', "\\/");
    let all: Vec<String> = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
    vec![inner.into_bytes(), slashes.into_bytes(), all.concat().into_bytes()]
}

/// The characters that the secret alone decides when `lead` bytes stand before it.
fn base64(secret: &[u8], lead: usize, engine: &impl Engine) -> Vec<u8> {
    let mut padded = Zeroizing::new(vec![0; lead]);
    padded.extend_from_slice(secret);
    let encoded = Zeroizing::new(engine.encode(&*padded));
    let first = (lead * 8).div_ceil(6);
    let last = padded.len() * 8 / 6;
    encoded.as_bytes()[first..last.max(first)].to_vec()
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};
    use proptest::prelude::*;

    use super::*;

    const KEY: &str = "sk-proj-Ab3/xY+9=\"Qz_7 Lm\\n0pQrStUv";

    fn redact(secret: &str, text: &str) -> String {
        Redactor::new(secret).redact_text(text).into_owned()
    }

    #[test]
    fn a_plain_key_is_masked_whole() {
        assert_eq!(redact("sk-12345678", "key sk-12345678."), "key [redacted].");
        assert_eq!(redact("sk-12345678", "SK-12345678 sk-12345678"), "[redacted] [redacted]");
        assert_eq!(redact("sk-12345678", "Bearer:sk-12345678sk-12345678"), "Bearer:[redacted]");
    }

    #[test]
    fn parts_of_eight_characters_are_masked_and_shorter_ones_stay() {
        assert_eq!(redact("sk-1234567890", "sk-12345... ends 67890"), "[redacted]... ends 67890");
        assert_eq!(redact("sk-1234567890", "sk-12**7890"), "sk-12**7890");
    }

    #[test]
    fn a_short_secret_is_masked_where_it_stands_whole() {
        assert_eq!(redact("abc", "xabcx ab bc"), "x[redacted]x ab bc");
        assert_eq!(redact("", "nothing"), "nothing");
        assert_eq!(Redactor::default().redact_text("nothing"), "nothing");
    }

    #[test]
    fn text_without_the_key_is_not_copied() {
        let redactor = Redactor::new(KEY);
        assert!(matches!(redactor.redact(b"rate limit reached"), Cow::Borrowed(_)));
        assert!(!redactor.finds_in(b"rate limit reached"));
    }

    #[test]
    fn every_form_of_a_key_is_found() {
        let hex = KEY.bytes().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().concat();
        let json = serde_json::to_string(KEY).unwrap();
        let form: String = url::form_urlencoded::byte_serialize(KEY.as_bytes()).collect();
        let percent = form.replace('+', "%20");
        for text in [
            KEY.to_owned(),
            KEY.to_uppercase(),
            hex.to_lowercase(),
            hex,
            json.replace('/', "\\/"),
            json,
            percent.to_lowercase(),
            percent,
            form,
        ] {
            assert_eq!(leaks(KEY, &redact(KEY, &text)), None, "{text}");
            assert!(Redactor::new(KEY).finds_in(text.as_bytes()), "{text}");
        }
    }

    /// A part of eight characters of `secret` that stands in `text`, in plain.
    fn leaks(secret: &str, text: &str) -> Option<String> {
        let chars: Vec<char> = secret.chars().collect();
        chars.windows(RUN).map(|run| run.iter().collect::<String>()).find(|run| text.contains(run))
    }

    fn secret() -> impl Strategy<Value = String> {
        "[a-zA-Z0-9+/=_. \"\\\\-]{8,60}"
    }

    proptest! {
        #[test]
        fn no_eight_characters_survive_in_plain(
            secret in secret(),
            before in "[ -~]{0,20}",
            after in "[ -~]{0,20}",
            from in any::<prop::sample::Index>(),
        ) {
            let from = from.index(secret.len() - RUN + 1);
            let text = format!("{before}{}{after}", &secret[from..]);
            let masked = redact(&secret, &text);
            prop_assert_eq!(leaks(&secret, &masked), None, "{}", masked);
        }

        #[test]
        fn base64_of_anything_around_it_gives_nothing_away(
            secret in secret(),
            before in prop::collection::vec(any::<u8>(), 0..12),
            after in prop::collection::vec(any::<u8>(), 0..12),
        ) {
            let whole = [before.as_slice(), secret.as_bytes(), after.as_slice()].concat();
            for encoded in [STANDARD.encode(&whole), URL_SAFE.encode(&whole)] {
                let masked = redact(&secret, &encoded);
                prop_assert!(masked.contains("[redacted]"));
                // What the secret alone decides is gone but for the characters at its edges.
                let from = (before.len() * 8).div_ceil(6);
                let until = (before.len() + secret.len()) * 8 / 6;
                prop_assert!(!masked.contains(&encoded[from..until]));
                prop_assert!(masked.len() <= encoded.len() - (until - from) + MASK.len());
            }
        }

        #[test]
        fn masking_again_changes_nothing(secret in secret(), text in "[ -~]{0,60}") {
            let once = redact(&secret, &format!("{text}{secret}"));
            prop_assert_eq!(redact(&secret, &once), once);
        }

        #[test]
        fn text_that_shares_nothing_is_left_alone(text in "[ -~]{0,200}") {
            let secret = "\u{e4}\u{f6}\u{fc}\u{df}\u{e9}\u{e8}\u{ea}\u{eb}";
            prop_assert_eq!(redact(secret, &text), text);
        }
    }
}
