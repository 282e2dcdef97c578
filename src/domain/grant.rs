//! The whitelist: what a tenant, member or access token may use.

use serde::{Deserialize, Serialize};

use crate::domain::{
    clock::Timestamp,
    ids::{AccessTokenId, GrantId, MemberId, TenantId},
};

/// One line of a whitelist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Its id.
    pub id: GrantId,
    /// Inside which tenant.
    pub tenant_id: TenantId,
    /// Whose line, within the tenant.
    pub subject: GrantSubject,
    /// The models it speaks of.
    pub pattern: Pattern,
    /// What it says of them.
    pub effect: Effect,
    /// Rises with each change; the `ETag`.
    pub version: i64,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// Whom a grant speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantSubject {
    /// The whole tenant.
    Tenant,
    /// One member.
    Member(MemberId),
    /// One access token.
    AccessToken(AccessTokenId),
}

/// What a grant says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// May use.
    #[default]
    Allow,
    /// May not use, whatever else allows it.
    Deny,
}

impl Effect {
    /// The name in tables, files and REST.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

/// A model name, exact, or with `*` for any run of characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern(String);

/// Why a text is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a model name or a pattern with *, 1 to 256 characters")]
pub struct InvalidPattern;

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// When it is empty or longer than 256 characters.
    pub fn parse(text: &str) -> Result<Self, InvalidPattern> {
        let fits = !text.is_empty() && text.chars().count() <= 256;
        fits.then(|| Self(text.to_owned())).ok_or(InvalidPattern)
    }

    /// The pattern as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `name` is meant. Linear in the name: a hostile pattern cannot make it slow.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let (pattern, name) = (self.0.as_bytes(), name.as_bytes());
        let (mut p, mut n) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        while n < name.len() {
            if p < pattern.len() && pattern[p] == b'*' {
                star = Some((p, n));
                p += 1;
            } else if p < pattern.len() && pattern[p] == name[n] {
                p += 1;
                n += 1;
            } else if let Some((at, taken)) = star {
                star = Some((at, taken + 1));
                p = at + 1;
                n = taken + 1;
            } else {
                return false;
            }
        }
        pattern[p..].iter().all(|&b| b == b'*')
    }
}

impl TryFrom<String> for Pattern {
    type Error = InvalidPattern;

    fn try_from(text: String) -> Result<Self, InvalidPattern> {
        Self::parse(&text)
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.0
    }
}

/// The lines that speak of one subject, together: deny wins, and what no line allows is refused.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Grants {
    /// What may be used.
    pub allow: Vec<Pattern>,
    /// What may not, whatever `allow` says.
    pub deny: Vec<Pattern>,
}

impl Grants {
    /// Whether `model` may be used.
    #[must_use]
    pub fn allow(&self, model: &str) -> bool {
        let any = |lines: &[Pattern]| lines.iter().any(|line| line.matches(model));
        any(&self.allow) && !any(&self.deny)
    }
}

impl FromIterator<(Pattern, Effect)> for Grants {
    fn from_iter<I: IntoIterator<Item = (Pattern, Effect)>>(lines: I) -> Self {
        let mut grants = Self::default();
        for (pattern, effect) in lines {
            match effect {
                Effect::Allow => grants.allow.push(pattern),
                Effect::Deny => grants.deny.push(pattern),
            }
        }
        grants
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text).unwrap()
    }

    #[test]
    fn a_star_stands_for_any_run_and_nothing_else_is_special() {
        assert!(pattern("gpt-*").matches("gpt-4o"));
        assert!(pattern("*").matches("anything/at-all"));
        assert!(pattern("a*b*c").matches("a1b2b3c"));
        assert!(!pattern("gpt-4o").matches("gpt-4o-mini"));
        assert!(!pattern("gpt.4o").matches("gpt-4o"));
        assert!(!pattern("GPT-4o").matches("gpt-4o"));
    }

    #[test]
    fn deny_wins_and_nothing_is_allowed_by_default() {
        let grants: Grants =
            [(pattern("gpt-*"), Effect::Allow), (pattern("*-mini"), Effect::Deny)].into_iter().collect();
        assert!(grants.allow("gpt-4o"));
        assert!(!grants.allow("gpt-4o-mini"));
        assert!(!Grants::default().allow("gpt-4o"));
    }
}
