//! From what a token asserts and what the store says of its holder to a principal; no I/O.

use sha2::{Digest, Sha256};
use uuid::Builder;

use crate::{
    domain::{
        clock::Timestamp,
        grant::Grants,
        ids::{AccessTokenId, MemberId, TenantId},
        limits::Limits,
        principal::{Principal, Role, TenantRef},
        tenant::{AccessToken, AccessTokenKind},
    },
    identity::{
        Denied,
        claims::{Claims, Subject},
        roles::narrowed,
    },
    store::{MemberAccess, TenantAccess},
};

/// Whose word it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Issuer {
    /// Ours: what it says is what we wrote.
    Own,
    /// A backend that shares the HS256 secret. It may speak for any tenant, names its users as it
    /// likes, and reaches the rights of a plain member, or those of the member it names.
    Shared,
}

/// What a token asserts, in whatever form it came.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Assertion {
    pub(super) token_id: AccessTokenId,
    issuer: Issuer,
    /// The tenant; none: an operator's.
    pub(super) tenant: Option<TenantId>,
    /// Whom it stands for within the tenant.
    pub(super) subject: Option<Subject<MemberId>>,
    /// The member's generation that it was issued in; none: it does not go by generations.
    generation: Option<i64>,
    roles: Option<Vec<Role>>,
    grants: Option<Grants>,
    limits: Limits,
    expires_at: Option<Timestamp>,
}

impl Assertion {
    /// What verified claims assert.
    ///
    /// # Errors
    /// [`Denied::Malformed`] when a token of our own has no id of ours, or one of the other issuer
    /// no tenant: only we name operators.
    pub(super) fn of_claims(claims: &Claims, issuer: Issuer) -> Result<Self, Denied> {
        let token_id = match (issuer, claims.tid) {
            (Issuer::Own, _) => claims.jti.as_ref().and_then(|jti| jti.parse().ok()),
            (Issuer::Shared, Some(tenant)) => {
                Some(foreign_token_id(tenant, claims.jti.as_deref(), claims.sub.as_deref()))
            }
            (Issuer::Shared, None) => None,
        };
        Ok(Self {
            token_id: token_id.ok_or(Denied::Malformed)?,
            issuer,
            tenant: claims.tid,
            subject: claims.sub.as_deref().map(Subject::parse),
            generation: Some(claims.generation.unwrap_or(0)),
            roles: claims.claimed_roles(),
            grants: claims.grants.clone(),
            limits: claims.limits,
            expires_at: Some(claims.exp.0),
        })
    }

    /// What the row of an opaque token asserts.
    ///
    /// # Errors
    /// [`Denied::Revoked`], [`Denied::Expired`], or [`Denied::SetupToken`].
    pub(super) fn of_row(row: &AccessToken, now: Timestamp) -> Result<Self, Denied> {
        if row.kind == AccessTokenKind::Setup {
            return Err(Denied::SetupToken);
        }
        if row.revoked_at.is_some() {
            return Err(Denied::Revoked);
        }
        if row.expires_at.is_some_and(|at| now >= at) {
            return Err(Denied::Expired);
        }
        Ok(Self {
            token_id: row.id,
            issuer: Issuer::Own,
            tenant: row.tenant_id,
            subject: row.member_id.map(Subject::Id),
            generation: None,
            roles: Some(vec![row.role]),
            grants: row.grants.clone(),
            limits: row.limits,
            expires_at: row.expires_at,
        })
    }

    /// The principal of an operator's token.
    ///
    /// # Errors
    /// [`Denied::WrongRole`] unless we issued it for an operator.
    pub(super) fn operator(self) -> Result<Principal, Denied> {
        if self.issuer != Issuer::Own || self.roles.as_deref() != Some(&[Role::Operator]) {
            return Err(Denied::WrongRole);
        }
        Ok(Principal {
            token_id: self.token_id,
            role: Role::Operator,
            member: None,
            member_limits: Limits::default(),
            tenant: None,
            narrowed_by: self.grants.into_iter().collect(),
            limits: self.limits,
            expires_at: self.expires_at,
        })
    }

    /// The principal of a tenant's token; `lines` are grants that name the token.
    ///
    /// # Errors
    /// [`Denied::TenantDisabled`], [`Denied::MemberDisabled`], [`Denied::Revoked`] by generation,
    /// or [`Denied::WrongRole`].
    pub(super) fn principal(
        self,
        tenant: Option<&TenantAccess>,
        member: Option<&MemberAccess>,
        lines: Option<&Grants>,
    ) -> Result<Principal, Denied> {
        let tenant = tenant.filter(|access| access.tenant.enabled).ok_or(Denied::TenantDisabled)?;
        self.check_member(member)?;
        let holder = match (member, self.issuer) {
            (Some(access), _) => access.member.role,
            // A token for the tenant itself has the role that we issued it with.
            (None, Issuer::Own) if self.roles.is_some() => Role::Owner,
            (None, Issuer::Own | Issuer::Shared) => Role::Member,
        };
        let role = narrowed(holder, self.roles.as_deref()).ok_or(Denied::WrongRole)?;
        let of_member = member.and_then(|access| access.grants.as_ref());
        Ok(Principal {
            token_id: self.token_id,
            role,
            member: member.map(|access| access.member.id),
            member_limits: member.map(|access| access.member.limits).unwrap_or_default(),
            tenant: Some(TenantRef {
                id: tenant.tenant.id,
                name: tenant.tenant.name.clone(),
                limits: tenant.tenant.limits,
                grants: tenant.grants.clone(),
                billing: tenant.tenant.billing,
            }),
            narrowed_by: [of_member, self.grants.as_ref(), lines].into_iter().flatten().cloned().collect(),
            limits: self.limits,
            expires_at: self.expires_at,
        })
    }

    fn check_member(&self, member: Option<&MemberAccess>) -> Result<(), Denied> {
        let Some(access) = member else {
            let may_be_a_stranger =
                self.issuer == Issuer::Shared && !matches!(self.subject, Some(Subject::Id(_)));
            return if self.subject.is_none() || may_be_a_stranger {
                Ok(())
            } else {
                Err(Denied::MemberDisabled)
            };
        };
        if !access.member.enabled {
            return Err(Denied::MemberDisabled);
        }
        if self.generation.is_some_and(|generation| generation < access.member.token_generation) {
            return Err(Denied::Revoked);
        }
        Ok(())
    }
}

/// The access token id that a JWT of the trusted backend stands under: its `jti` within its
/// tenant; without one its `sub`, so that the limits it carries hold over a user's tokens; without
/// either the tenant. Never an id of ours, whatever the claims say: a hash decides it.
#[must_use]
pub fn foreign_token_id(tenant: TenantId, jti: Option<&str>, sub: Option<&str>) -> AccessTokenId {
    let (kind, name) = match (jti, sub) {
        (Some(jti), _) => ("jti", jti),
        (None, Some(sub)) => ("sub", sub),
        (None, None) => ("tid", ""),
    };
    let digest = Sha256::new()
        .chain_update(b"tollway foreign token\0")
        .chain_update(tenant.uuid().as_bytes())
        .chain_update(kind)
        .chain_update(name)
        .finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    AccessTokenId::from_uuid(Builder::from_custom_bytes(bytes).into_uuid())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::{
        grant::Pattern,
        money::Nanos,
        tenant::{BillingMode, Member, Tenant},
    };

    const TENANT: &str = "ten_00000000000000000000000000000001";
    const TOKEN: &str = "tok_00000000000000000000000000000002";
    const MEMBER: &str = "mem_00000000000000000000000000000003";

    fn tenant() -> TenantAccess {
        TenantAccess {
            tenant: Tenant {
                id: TENANT.parse().unwrap(),
                name: "acme".to_owned(),
                limits: Limits { rpm: Some(100), ..Limits::default() },
                billing: BillingMode::Unmetered,
                enabled: true,
                version: 1,
                created_at: Timestamp::default(),
                updated_at: Timestamp::default(),
            },
            grants: grants("*"),
            balance: Nanos::ZERO,
        }
    }

    fn member(role: Role) -> MemberAccess {
        MemberAccess {
            member: Member {
                id: MEMBER.parse().unwrap(),
                tenant_id: TENANT.parse().unwrap(),
                subject: "ada@example.com".to_owned(),
                role,
                token_generation: 3,
                limits: Limits { rpm: Some(10), ..Limits::default() },
                enabled: true,
                version: 1,
                created_at: Timestamp::default(),
                updated_at: Timestamp::default(),
            },
            grants: Some(grants("gpt-*")),
        }
    }

    fn grants(pattern: &str) -> Grants {
        Grants { allow: vec![Pattern::parse(pattern).unwrap()], deny: vec![] }
    }

    fn assertion(issuer: Issuer, change: impl FnOnce(&mut serde_json::Value)) -> Result<Assertion, Denied> {
        let mut json = json!({"exp": 2_000, "jti": TOKEN, "tid": TENANT, "gen": 3});
        change(&mut json);
        Assertion::of_claims(&serde_json::from_value(json).unwrap(), issuer)
    }

    fn role_of(issuer: Issuer, role: Option<&str>, holder: Option<Role>) -> Result<Role, Denied> {
        let asserted = assertion(issuer, |json| {
            json["role"] = json!(role);
            json["sub"] = json!(holder.map(|_| MEMBER));
        });
        let access = holder.map(member);
        asserted?.principal(Some(&tenant()), access.as_ref(), None).map(|principal| principal.role)
    }

    #[test]
    fn a_member_of_more_rights_lends_a_token_what_it_claims_and_no_more() {
        use Role::{Admin, Auditor, Member, Owner};
        for issuer in [Issuer::Own, Issuer::Shared] {
            assert_eq!(role_of(issuer, None, Some(Owner)), Ok(Owner));
            assert_eq!(role_of(issuer, Some("admin"), Some(Owner)), Ok(Admin));
            assert_eq!(role_of(issuer, Some("owner"), Some(Member)), Ok(Member));
            assert_eq!(role_of(issuer, Some("member"), Some(Auditor)), Err(Denied::WrongRole));
            assert_eq!(role_of(issuer, Some("operator"), Some(Owner)), Err(Denied::WrongRole));
            assert_eq!(role_of(issuer, Some("viewer"), Some(Owner)), Err(Denied::WrongRole));
        }
    }

    #[test]
    fn without_a_member_our_word_counts_and_the_backends_is_a_plain_members() {
        assert_eq!(role_of(Issuer::Own, Some("admin"), None), Ok(Role::Admin));
        assert_eq!(role_of(Issuer::Own, None, None), Ok(Role::Member));
        assert_eq!(role_of(Issuer::Own, Some("operator"), None), Err(Denied::WrongRole));
        assert_eq!(role_of(Issuer::Shared, Some("owner"), None), Ok(Role::Member));
        assert_eq!(role_of(Issuer::Shared, Some("auditor"), None), Err(Denied::WrongRole));
    }

    #[test]
    fn only_our_issuer_names_operators() {
        let operator = |issuer| {
            assertion(issuer, |json| {
                json["tid"] = json!(null);
                json["role"] = json!("operator");
            })
        };
        assert_eq!(operator(Issuer::Own).unwrap().operator().unwrap().role, Role::Operator);
        assert_eq!(operator(Issuer::Shared), Err(Denied::Malformed));
        let plain = assertion(Issuer::Own, |json| json["tid"] = json!(null)).unwrap();
        assert_eq!(plain.operator(), Err(Denied::WrongRole));
    }

    #[test]
    fn a_member_that_is_named_by_id_must_be_there_and_a_stranger_may_be_named_by_the_backend() {
        let named = |issuer, sub: &str| {
            let asserted = assertion(issuer, |json| json["sub"] = json!(sub)).unwrap();
            asserted.principal(Some(&tenant()), None, None).map(|principal| principal.member)
        };
        assert_eq!(named(Issuer::Own, MEMBER), Err(Denied::MemberDisabled));
        assert_eq!(named(Issuer::Shared, MEMBER), Err(Denied::MemberDisabled));
        assert_eq!(named(Issuer::Own, "ada@example.com"), Err(Denied::MemberDisabled));
        assert_eq!(named(Issuer::Shared, "user-17"), Ok(None));
    }

    #[test]
    fn a_lower_generation_is_revoked_and_none_counts_as_the_lowest() {
        let with = |generation: serde_json::Value| {
            let asserted = assertion(Issuer::Own, |json| {
                json["sub"] = json!(MEMBER);
                json["gen"] = generation;
            });
            asserted.unwrap().principal(Some(&tenant()), Some(&member(Role::Member)), None).map(|_| ())
        };
        assert_eq!(with(json!(2)), Err(Denied::Revoked));
        assert_eq!(with(json!(null)), Err(Denied::Revoked));
        assert_eq!(with(json!(3)), Ok(()));
        assert_eq!(with(json!(4)), Ok(()));
    }

    #[test]
    fn a_tenant_or_member_that_is_shut_out_or_gone_lets_nobody_in() {
        let judge = |tenant: Option<&TenantAccess>, member: &MemberAccess| {
            let asserted = assertion(Issuer::Own, |json| json["sub"] = json!(MEMBER)).unwrap();
            asserted.principal(tenant, Some(member), None).map(|_| ())
        };
        let (mut shut_tenant, mut shut_member) = (tenant(), member(Role::Member));
        shut_tenant.tenant.enabled = false;
        shut_member.member.enabled = false;
        assert_eq!(judge(None, &member(Role::Member)), Err(Denied::TenantDisabled));
        assert_eq!(judge(Some(&shut_tenant), &member(Role::Member)), Err(Denied::TenantDisabled));
        assert_eq!(judge(Some(&tenant()), &shut_member), Err(Denied::MemberDisabled));
    }

    #[test]
    fn every_list_of_grants_narrows_and_limits_stay_apart() {
        let asserted = assertion(Issuer::Own, |json| {
            json["sub"] = json!(MEMBER);
            json["grants"] = json!({"allow": ["*-mini"]});
            json["limits"] = json!({"rpm": 1_000});
        });
        let lines = Grants { allow: grants("*").allow, deny: grants("gpt-3*").allow };
        let access = member(Role::Member);
        let principal = asserted.unwrap().principal(Some(&tenant()), Some(&access), Some(&lines)).unwrap();
        assert!(principal.allows("gpt-4o-mini"));
        for model in ["gpt-4o", "claude-mini", "gpt-3-mini"] {
            assert!(!principal.allows(model), "{model}");
        }
        assert_eq!(principal.tenant.unwrap().limits.rpm, Some(100));
        assert_eq!(principal.member_limits.rpm, Some(10));
        assert_eq!(principal.limits.rpm, Some(1_000));
    }

    #[test]
    fn a_foreign_token_never_stands_under_an_id_of_ours() {
        let (a, b): (TenantId, TenantId) =
            (TENANT.parse().unwrap(), "ten_00000000000000000000000000000009".parse().unwrap());
        let claimed = assertion(Issuer::Shared, |_| {}).unwrap();
        assert_ne!(claimed.token_id.to_string(), TOKEN);
        assert_eq!(claimed.token_id, foreign_token_id(a, Some(TOKEN), Some("anybody")));
        let mut ids = vec![];
        for tenant in [a, b] {
            for (jti, sub) in [(Some("x"), None), (None, Some("x")), (None, None), (None, Some("y"))] {
                ids.push(foreign_token_id(tenant, jti, sub));
            }
        }
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 8);
        assert_eq!(assertion(Issuer::Own, |json| json["jti"] = json!("x")), Err(Denied::Malformed));
    }
}
