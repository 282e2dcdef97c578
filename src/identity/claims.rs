//! The claims of a JWT and the rules about them; no signature is looked at here.

use std::{str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    domain::{clock::Timestamp, grant::Grants, ids::TenantId, limits::Limits, principal::Role},
    identity::{Denied, IdentityConfig},
};

/// What a JWT says. `exp` is required; unknown claims are left alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Claims {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) iss: Option<String>,
    #[serde(default, skip_serializing_if = "OneOrMany::is_empty")]
    pub(super) aud: OneOrMany,
    pub(super) exp: NumericDate,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) nbf: Option<NumericDate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) iat: Option<NumericDate>,
    /// The token's own id; ours are printed access token ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) jti: Option<String>,
    /// The tenant; absent only from an operator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tid: Option<TenantId>,
    /// Whom it stands for: a printed member id, or a member's subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sub: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<String>,
    #[serde(default, skip_serializing_if = "OneOrMany::is_empty")]
    pub(super) roles: OneOrMany,
    /// The member's token generation when it was issued.
    #[serde(default, rename = "gen", skip_serializing_if = "Option::is_none")]
    pub(super) generation: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) grants: Option<Grants>,
    #[serde(default, skip_serializing_if = "Limits::is_unlimited")]
    pub(super) limits: Limits,
}

impl Claims {
    /// Checks issuer, audience and times.
    ///
    /// # Errors
    /// [`Denied::WrongIssuer`], [`Denied::WrongAudience`], [`Denied::NotYetValid`] or
    /// [`Denied::Expired`], in this order.
    pub(super) fn check(&self, config: &IdentityConfig, now: Timestamp) -> Result<(), Denied> {
        if self.iss.as_deref() != Some(&config.issuer) {
            return Err(Denied::WrongIssuer);
        }
        if !self.aud.0.contains(&config.audience) {
            return Err(Denied::WrongAudience);
        }
        if self.nbf.is_some_and(|nbf| now.plus(config.leeway) < nbf.0) {
            return Err(Denied::NotYetValid);
        }
        if now >= self.lapses_at(config) {
            return Err(Denied::Expired);
        }
        Ok(())
    }

    /// From when on it is refused, leeway included.
    pub(super) fn lapses_at(&self, config: &IdentityConfig) -> Timestamp {
        self.exp.0.plus(config.leeway)
    }

    /// The roles it claims, by `role`, `roles` or both; none: it claims none. A name that is not
    /// a role of ours claims nothing, which is less than claiming none.
    pub(super) fn claimed_roles(&self) -> Option<Vec<Role>> {
        if self.role.is_none() && self.roles.is_empty() {
            return None;
        }
        Some(self.role.iter().chain(&self.roles.0).filter_map(|name| role_named(name)).collect())
    }
}

fn role_named(name: &str) -> Option<Role> {
    [Role::Operator, Role::Owner, Role::Admin, Role::Member, Role::Auditor]
        .into_iter()
        .find(|role| role.as_str() == name)
}

/// A claim that is one text or a list of them (RFC 7519 §4.1.3).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct OneOrMany(pub(super) Vec<String>);

impl OneOrMany {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for OneOrMany {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [one] => one.serialize(s),
            many => many.serialize(s),
        }
    }
}

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Text {
            One(String),
            Many(Vec<String>),
        }
        Ok(match Text::deserialize(d)? {
            Text::One(one) => Self(vec![one]),
            Text::Many(many) => Self(many),
        })
    }
}

/// Seconds since the epoch, whole or not (RFC 7519 §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NumericDate(pub(super) Timestamp);

impl Serialize for NumericDate {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_i64(self.0.unix_s())
    }
}

impl<'de> Deserialize<'de> for NumericDate {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(d)?;
        let since_epoch = Duration::try_from_secs_f64(seconds).map_err(serde::de::Error::custom)?;
        Ok(Self(Timestamp::default().plus(since_epoch)))
    }
}

/// Whom the `sub` of a JWT names within its tenant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Subject<Id> {
    /// A member by id.
    Id(Id),
    /// Somebody by the name their own system gives them.
    Name(String),
}

impl<Id: FromStr> Subject<Id> {
    pub(super) fn parse(sub: &str) -> Self {
        sub.parse().map_or_else(|_| Self::Name(sub.to_owned()), Self::Id)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_unix_s(seconds)
    }

    fn config() -> IdentityConfig {
        IdentityConfig { leeway: Duration::from_secs(30), ..IdentityConfig::default() }
    }

    fn claims(change: impl FnOnce(&mut serde_json::Value)) -> Claims {
        let mut json = json!({"iss": "tollway", "aud": "tollway", "exp": 2_000, "nbf": 1_000});
        change(&mut json);
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn times_are_taken_with_leeway_on_both_sides() {
        let check = |now| claims(|_| {}).check(&config(), at(now));
        assert_eq!(check(969), Err(Denied::NotYetValid));
        assert_eq!(check(970), Ok(()));
        assert_eq!(check(2_029), Ok(()));
        assert_eq!(check(2_030), Err(Denied::Expired));
    }

    #[test]
    fn issuer_and_audience_must_be_ours() {
        let check = |field: &str, value: serde_json::Value| {
            claims(|json| json[field] = value).check(&config(), at(1_500))
        };
        assert_eq!(check("iss", json!("https://evil.example")), Err(Denied::WrongIssuer));
        assert_eq!(check("iss", json!(null)), Err(Denied::WrongIssuer));
        assert_eq!(check("aud", json!("other")), Err(Denied::WrongAudience));
        assert_eq!(check("aud", json!([])), Err(Denied::WrongAudience));
        assert_eq!(check("aud", json!(["other", "tollway"])), Ok(()));
    }

    #[test]
    fn a_date_may_have_a_fraction_and_must_be_a_date() {
        let parse = |exp| serde_json::from_value::<Claims>(json!({"exp": exp}));
        assert_eq!(parse(json!(1.5)).unwrap().exp.0, Timestamp::from_unix_ms(1_500));
        assert_eq!(parse(json!(1e18)).unwrap().exp.0, Timestamp::from_unix_us(i64::MAX));
        for wrong in [json!("1"), json!(-1), json!(null), json!(1e300)] {
            assert!(parse(wrong.clone()).is_err(), "{wrong}");
        }
        assert!(serde_json::from_value::<Claims>(json!({})).is_err(), "exp is required");
    }

    #[test]
    fn roles_are_read_from_either_claim_and_foreign_names_claim_nothing() {
        assert_eq!(claims(|_| {}).claimed_roles(), None);
        assert_eq!(claims(|json| json["role"] = json!("admin")).claimed_roles(), Some(vec![Role::Admin]));
        let both = claims(|json| {
            json["role"] = json!("viewer");
            json["roles"] = json!(["editor", "member"]);
        });
        assert_eq!(both.claimed_roles(), Some(vec![Role::Member]));
        assert_eq!(claims(|json| json["roles"] = json!("editor")).claimed_roles(), Some(vec![]));
    }

    #[test]
    fn an_unknown_limit_or_grant_field_is_refused_not_ignored() {
        let parse = |json| serde_json::from_value::<Claims>(json);
        assert!(parse(json!({"exp": 1, "limits": {"rpn": 1}})).is_err());
        assert!(parse(json!({"exp": 1, "grants": {"allowed": ["x"]}})).is_err());
        assert!(parse(json!({"exp": 1, "tid": "key_00000000000000000000000000000000"})).is_err());
    }
}
