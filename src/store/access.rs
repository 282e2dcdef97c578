//! What identity and the request path ask about a tenant or member, in one call.

use crate::{
    domain::{
        grant::{GrantSubject, Grants},
        ids::{AccessTokenId, MemberId, TenantId},
        money::Nanos,
        tenant::{Member, Tenant},
    },
    store::{Store, StoreError},
};

/// A tenant with what it may use and what it has left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantAccess {
    /// The tenant, enabled or not.
    pub tenant: Tenant,
    /// What it may use; without a line, nothing.
    pub grants: Grants,
    /// What it has left.
    pub balance: Nanos,
}

/// A member with what narrows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberAccess {
    /// The member, enabled or not.
    pub member: Member,
    /// What it may use within its tenant; none: all that its tenant may.
    pub grants: Option<Grants>,
}

impl Store {
    /// A tenant with its grants and balance.
    pub async fn load_tenant_access(&self, id: TenantId) -> Result<Option<TenantAccess>, StoreError> {
        let Some(tenant) = self.lookup_tenant(id).await? else {
            return Ok(None);
        };
        let grants = self.find_grants_by_subject(id, GrantSubject::Tenant).await?.unwrap_or_default();
        let balance = self.lookup_balance(id).await?;
        Ok(Some(TenantAccess { tenant, grants, balance }))
    }

    /// A member of a tenant by id, with its grants.
    pub async fn load_member_access(
        &self,
        tenant_id: TenantId,
        id: MemberId,
    ) -> Result<Option<MemberAccess>, StoreError> {
        let member = self.lookup_member(id).await?.filter(|member| member.tenant_id == tenant_id);
        self.with_grants(member).await
    }

    /// A member of a tenant by the `sub` of its JWT, with its grants.
    pub async fn load_member_access_by_subject(
        &self,
        tenant_id: TenantId,
        subject: &str,
    ) -> Result<Option<MemberAccess>, StoreError> {
        let member = self.find_member_by_subject(tenant_id, subject).await?;
        self.with_grants(member).await
    }

    /// The lines that narrow an access token, beside those it carries itself; none: nothing.
    pub async fn load_token_grants(
        &self,
        tenant_id: TenantId,
        id: AccessTokenId,
    ) -> Result<Option<Grants>, StoreError> {
        self.find_grants_by_subject(tenant_id, GrantSubject::AccessToken(id)).await
    }

    async fn with_grants(&self, member: Option<Member>) -> Result<Option<MemberAccess>, StoreError> {
        let Some(member) = member else {
            return Ok(None);
        };
        let grants = self.find_grants_by_subject(member.tenant_id, GrantSubject::Member(member.id)).await?;
        Ok(Some(MemberAccess { member, grants }))
    }
}
