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
    hasher: RandomState,
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
        let hasher = RandomState::new();
        let mut runs: Vec<(usize, HashSet<u64>)> = Vec::new();
        for mut form in forms(secret.as_bytes()) {
            form.make_ascii_lowercase();
            // A form of one character would mask half of every text.
            let length = form.len().min(RUN);
            if length < 2 {
                continue;
            }
            let hashes = form.windows(length).map(|run| hasher.hash_one(run));
            match runs.iter_mut().find(|(known, _)| *known == length) {
                Some((_, set)) => set.extend(hashes),
                None => runs.push((length, hashes.collect())),
            }
        }
        Self(Some(Arc::new(Known { hasher, runs })))
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
                    set.contains(&self.hasher.hash_one(run)).then_some((at, at + length))
                })
                .max()
        })
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
    let all: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
    vec![inner.into_bytes(), slashes.into_bytes(), all.into_bytes()]
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
