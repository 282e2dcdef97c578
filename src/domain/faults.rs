//! What is wrong with an object that somebody wants to set up: the rules that the admin surface and
//! set-up files share, all of them at once, each naming its field.
//!
//! Base URLs are judged by `net`, which knows what can be called.

use crate::domain::{
    ids::MemberId,
    key::Key,
    model::{Model, Route},
    money::Nanos,
    price::Prices,
    principal::Role,
    provider::{AuthStyle, Provider, Timeouts},
    secret::Secret,
    tenant::{Member, Tenant},
};

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The field's path, such as `timeouts.connect_ms`.
    pub field: String,
    /// What is expected instead.
    pub reason: String,
}

impl Fault {
    /// Says that `field` is wrong and why.
    #[must_use]
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: field.into(), reason: reason.into() }
    }
}

/// Headers that the relay itself writes, or that would break the message.
const OWN_HEADERS: [&str; 12] = [
    "accept-encoding",
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
fn is_own(header: &str) -> bool {
    OWN_HEADERS.contains(&header.to_ascii_lowercase().as_str())
}

/// No wait of a relay is longer than a day.
const LONGEST_WAIT_MS: u64 = 24 * 3_600 * 1_000;

impl Provider {
    /// Everything wrong with it but its base URL.
    #[must_use]
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        check(&mut faults, "name", is_slug(&self.name), SLUG);
        match &self.auth {
            AuthStyle::Header(name) => {
                check(&mut faults, "auth.header", is_token(name), HEADER_NAME);
                // A credential may well stand in `authorization`, and without a `Bearer`.
                let may_be_set = name.eq_ignore_ascii_case("authorization") || !is_own(name);
                check(&mut faults, "auth.header", may_be_set, "the relay writes this header itself");
            }
            AuthStyle::Query(name) => check(&mut faults, "auth.query", is_label(name), LABEL),
            AuthStyle::Bearer | AuthStyle::None => {}
        }
        for (name, value) in &self.headers {
            let field = format!("headers.{name}");
            let is_own = is_own(name);
            check(&mut faults, &field, is_token(name), HEADER_NAME);
            check(&mut faults, &field, !is_own, "this header is the relay's own");
            check(
                &mut faults,
                &field,
                is_header_value(value),
                "expected visible ASCII characters and spaces",
            );
        }
        timeout_faults(&mut faults, &self.timeouts);
        faults
    }
}

impl Key {
    /// Everything wrong with it but its base URL.
    #[must_use]
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        check(&mut faults, "label", is_label(&self.label), LABEL);
        check(&mut faults, "weight", self.weight >= 1, WEIGHT);
        for (name, value) in &self.params {
            check(&mut faults, &format!("params.{name}"), is_label(name) && is_label(value), LABEL);
        }
        faults
    }
}

impl Model {
    /// Everything wrong with it.
    #[must_use]
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        check(&mut faults, "name", is_model_name(&self.name), MODEL_NAME);
        for (field, tokens) in
            [("context_tokens", self.context_tokens), ("max_output_tokens", self.max_output_tokens)]
        {
            check(&mut faults, field, tokens.is_none_or(is_count), "expected at least 1, or none");
        }
        price_faults(&mut faults, "prices", &self.prices);
        faults
    }
}

impl Route {
    /// Everything wrong with it.
    #[must_use]
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        check(&mut faults, "upstream_model", is_label(&self.upstream_model), LABEL);
        check(&mut faults, "weight", self.weight >= 1, WEIGHT);
        price_faults(&mut faults, "cost", &self.cost);
        faults
    }
}

impl Tenant {
    /// Everything wrong with it.
    #[must_use]
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        check(&mut faults, "name", is_label(&self.name), LABEL);
        faults
    }
}

impl Member {
    /// Everything wrong with it.
    #[must_use]
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        check(&mut faults, "subject", is_label(&self.subject), LABEL);
        // The `sub` of a JWT may be a member's id or its subject; the two must not be confused.
        let is_id = self.subject.parse::<MemberId>().is_ok();
        check(&mut faults, "subject", !is_id, "a subject must not look like a member's id");
        check(&mut faults, "role", self.role != Role::Operator, "expected owner, admin, member or auditor");
        faults
    }
}

impl Secret {
    /// Why it cannot be an upstream credential, which has to fit into a header.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        let text = self.expose();
        (text.is_empty() || !is_header_value(text))
            .then_some("expected a credential: up to 4096 visible ASCII characters")
    }
}

const SLUG: &str =
    "expected 1 to 64 lower-case letters, digits and dashes, beginning and ending with a letter or digit";
const LABEL: &str = "expected 1 to 256 characters, none of them a control character, no space at either end";
const MODEL_NAME: &str = "expected 1 to 256 characters without spaces, control characters and *";
const HEADER_NAME: &str = "expected the name of a header: letters, digits and dashes";
const WEIGHT: &str = "expected at least 1";

fn check(faults: &mut Vec<Fault>, field: &str, is_right: bool, reason: &str) {
    if !is_right {
        faults.push(Fault::new(field, reason));
    }
}

fn timeout_faults(faults: &mut Vec<Fault>, timeouts: &Timeouts) {
    for (field, ms) in [
        ("timeouts.connect_ms", timeouts.connect_ms),
        ("timeouts.idle_ms", timeouts.idle_ms),
        ("timeouts.total_ms", timeouts.total_ms),
    ] {
        let fits = (1..=LONGEST_WAIT_MS).contains(&ms);
        check(faults, field, fits, "expected 1 to 86400000 milliseconds");
    }
}

fn price_faults(faults: &mut Vec<Fault>, below: &str, prices: &Prices) {
    for (field, price) in prices.classes() {
        let fits = price.is_none_or(|price| price >= Nanos::ZERO);
        check(faults, &format!("{below}.{field}"), fits, "a price must not be negative");
    }
}

fn is_slug(text: &str) -> bool {
    let inside = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=64).contains(&text.len())
        && text.bytes().all(inside)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Whether `text` can name something for people.
#[must_use]
pub fn is_label(text: &str) -> bool {
    (1..=256).contains(&text.chars().count()) && text.trim() == text && !text.chars().any(char::is_control)
}

fn is_model_name(text: &str) -> bool {
    is_label(text) && !text.chars().any(|c| c.is_whitespace() || c == '*')
}

/// A token of HTTP (RFC 9110 §5.6.2).
fn is_token(text: &str) -> bool {
    let inside = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    (1..=256).contains(&text.len()) && text.bytes().all(inside)
}

fn is_header_value(text: &str) -> bool {
    text.len() <= 4_096 && text.trim() == text && text.bytes().all(|b| b == b' ' || b.is_ascii_graphic())
}

/// Columns hold counts as signed numbers.
fn is_count(count: u64) -> bool {
    (1..=i64::MAX.unsigned_abs()).contains(&count)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::domain::{
        clock::Timestamp,
        ids::ProviderId,
        provider::{ApiFormat, Tier, Transport},
    };

    fn provider() -> Provider {
        Provider {
            id: ProviderId::generate(Timestamp::default(), [0; 10]),
            name: "openai-eu".into(),
            base_url: "https://eu.example.com/v1".into(),
            format: ApiFormat::OpenAiChat,
            auth: AuthStyle::Bearer,
            tier: Tier::default(),
            transport: Transport::default(),
            headers: BTreeMap::from([("x-region".into(), "eu west".into())]),
            timeouts: Timeouts::default(),
            enabled: true,
            version: 1,
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
        }
    }

    #[test]
    fn a_sound_object_has_no_fault() {
        assert_eq!(provider().faults(), []);
    }

    #[test]
    fn every_fault_is_found_at_once_and_names_its_field() {
        let wrong = Provider {
            name: "Open AI".into(),
            auth: AuthStyle::Header("x key".into()),
            headers: BTreeMap::from([("Host".into(), "elsewhere".into()), ("x-ok".into(), "a\nb".into())]),
            timeouts: Timeouts { connect_ms: 0, ..Timeouts::default() },
            ..provider()
        };
        let refuses = |auth: &str| {
            let provider = Provider { auth: AuthStyle::Header(auth.into()), ..provider() };
            !provider.faults().is_empty()
        };
        assert!(
            refuses("Host") && refuses("content-length") && !refuses("Authorization") && !refuses("x-key")
        );
        let fields: Vec<_> = wrong.faults().into_iter().map(|fault| fault.field).collect();
        assert_eq!(fields, ["name", "auth.header", "headers.Host", "headers.x-ok", "timeouts.connect_ms"]);
    }

    #[test]
    fn names_that_would_be_mistaken_are_refused() {
        for (name, fits) in [("gpt-4o", true), ("a/b:c", true), ("gpt *", false), ("", false), ("x*", false)]
        {
            assert_eq!(is_model_name(name), fits, "{name}");
        }
        for (name, fits) in [("a", true), ("a-1", true), ("-a", false), ("A", false), ("a_b", false)] {
            assert_eq!(is_slug(name), fits, "{name}");
        }
    }
}
