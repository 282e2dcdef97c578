//! Making access tokens, and taking back those of the trusted backend.

use std::time::Duration;

use crate::{
    domain::{
        clock::Timestamp,
        grant::Grants,
        ids::{AccessTokenId, MemberId, TenantId},
        limits::Limits,
        principal::Role,
        secret::Secret,
        tenant::{AccessToken, AccessTokenKind, Member},
    },
    identity::{
        Identity, IdentityError, TokenHash,
        claims::{Claims, NumericDate, OneOrMany},
        presented::{Form, OPAQUE_PREFIX, SETUP_PREFIX, form_of, generate},
        roles::narrowed,
        standing::foreign_token_id,
    },
    store::{Revocation, Tx},
};

/// How long a set-up token waits to be redeemed.
const SETUP_LIFETIME: Duration = Duration::from_secs(24 * 3_600);

/// An access token to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    /// Whose; none: an operator's.
    pub tenant: Option<TenantId>,
    /// Which member's; none: the tenant's own.
    pub member: Option<MemberId>,
    /// Name that people use.
    pub name: String,
    /// What it is to look like.
    pub form: TokenForm,
    /// What it may do, within what its holder may.
    pub role: Role,
    /// Narrower models than its holder's.
    pub grants: Option<Grants>,
    /// Narrower windows than its holder's.
    pub limits: Limits,
    /// When it lapses; a JWT has to.
    pub expires_at: Option<Timestamp>,
}

/// What an access token looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenForm {
    /// A signed JWT: verified without the store, carries its grants and limits for good.
    Jwt,
    /// `tw_…`: short, looked up by its hash.
    Opaque,
}

impl Identity {
    /// Makes an access token in a transaction of its own. Gives its record, and the text to hand
    /// over, which is nowhere kept.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub async fn issue(&self, new: NewToken) -> Result<(AccessToken, Secret), IdentityError> {
        let mut tx = self.store.begin().await?;
        let issued = self.issue_in(&mut tx, new).await?;
        tx.commit().await?;
        Ok(issued)
    }

    /// As [`Identity::issue`], as part of `tx`. A member has to be committed before.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub async fn issue_in(&self, tx: &mut Tx, new: NewToken) -> Result<(AccessToken, Secret), IdentityError> {
        let now = self.clock.now();
        let member = self.holder(&new).await?;
        let token = AccessToken {
            id: AccessTokenId::generate(now, self.entropy.id_bytes()),
            tenant_id: new.tenant,
            member_id: new.member,
            name: new.name,
            kind: match new.form {
                TokenForm::Jwt => AccessTokenKind::Jwt,
                TokenForm::Opaque => AccessTokenKind::Opaque,
            },
            role: new.role,
            grants: new.grants,
            limits: new.limits,
            expires_at: new.expires_at,
            revoked_at: None,
            created_at: now,
        };
        let text = match new.form {
            TokenForm::Jwt => {
                let text = self.sign(&token, member.as_ref())?;
                tx.add_access_token(&token, None).await?;
                text
            }
            TokenForm::Opaque => self.add_opaque(tx, &token, OPAQUE_PREFIX).await?,
        };
        Ok((token, text))
    }

    /// Makes a one-time text that [`Identity::redeem_setup_token`] turns into an operator's access
    /// token within a day.
    ///
    /// # Errors
    /// [`IdentityError::Store`].
    pub async fn issue_setup_token(&self) -> Result<Secret, IdentityError> {
        let now = self.clock.now();
        let token = AccessToken {
            id: AccessTokenId::generate(now, self.entropy.id_bytes()),
            tenant_id: None,
            member_id: None,
            name: "set-up".to_owned(),
            kind: AccessTokenKind::Setup,
            role: Role::Operator,
            grants: None,
            limits: Limits::default(),
            expires_at: Some(now.plus(SETUP_LIFETIME)),
            revoked_at: None,
            created_at: now,
        };
        let mut tx = self.store.begin().await?;
        let text = self.add_opaque(&mut tx, &token, SETUP_PREFIX).await?;
        tx.commit().await?;
        Ok(text)
    }

    /// Turns a set-up token into an operator's access token, once, however many try at a time, and
    /// only while there is no operator: a token in an old log opens nothing.
    ///
    /// # Errors
    /// [`IdentityError::OperatorExists`], [`IdentityError::SetupTokenSpent`], or the store's.
    pub async fn redeem_setup_token(&self, text: &str) -> Result<(AccessToken, Secret), IdentityError> {
        if form_of(text) != Some(Form::Setup) {
            return Err(self.setup_refused().await);
        }
        let mut tx = self.store.begin().await?;
        let taken = tx.take_setup_token(TokenHash::of(text).as_bytes(), self.clock.now()).await?;
        if taken.is_none() {
            tx.rollback().await?;
            return Err(self.setup_refused().await);
        }
        let operator = NewToken {
            tenant: None,
            member: None,
            name: "first operator".to_owned(),
            form: TokenForm::Opaque,
            role: Role::Operator,
            grants: None,
            limits: Limits::default(),
            expires_at: None,
        };
        let issued = self.issue_in(&mut tx, operator).await?;
        tx.commit().await?;
        Ok(issued)
    }

    /// Why a set-up token is not taken.
    async fn setup_refused(&self) -> IdentityError {
        match self.store.has_operator(self.clock.now()).await {
            Ok(true) => IdentityError::OperatorExists,
            Ok(false) => IdentityError::SetupTokenSpent,
            Err(error) => error.into(),
        }
    }

    /// Takes back a JWT of the trusted backend by its `jti`; `expires_at` is its `exp`. Ours are
    /// revoked by their record. In force here at once, elsewhere when the change is heard of.
    ///
    /// # Errors
    /// [`IdentityError::Store`].
    pub async fn revoke_foreign(
        &self,
        tenant: TenantId,
        jti: &str,
        expires_at: Timestamp,
    ) -> Result<(), IdentityError> {
        let revocation = Revocation {
            issuer: self.config.issuer.clone(),
            // Two tenants may use the same `jti`; the id here is of the tenant's own.
            jti: foreign_token_id(tenant, Some(jti), None).to_string(),
            tenant_id: Some(tenant),
            revoked_at: self.clock.now(),
            expires_at,
        };
        let mut tx = self.store.begin().await?;
        tx.add_revocation(&revocation).await?;
        tx.commit().await?;
        self.refresh().await
    }

    /// The member that a new token stands for, once it is clear that the token is the holder's to
    /// have.
    async fn holder(&self, new: &NewToken) -> Result<Option<Member>, IdentityError> {
        let is_lasting = new.expires_at.is_none_or(|at| at <= self.clock.now());
        if new.form == TokenForm::Jwt && is_lasting {
            return Err(IdentityError::NoExpiry);
        }
        if new.tenant.is_none() != (new.role == Role::Operator) {
            return Err(IdentityError::WrongRole);
        }
        let Some(id) = new.member else { return Ok(None) };
        let Some(tenant) = new.tenant else { return Err(IdentityError::NoSuchMember) };
        let member = self.store.lookup_member(id).await?.filter(|member| member.tenant_id == tenant);
        let member = member.ok_or(IdentityError::NoSuchMember)?;
        if narrowed(member.role, Some(&[new.role])) != Some(new.role) {
            return Err(IdentityError::WrongRole);
        }
        Ok(Some(member))
    }

    async fn add_opaque(
        &self,
        tx: &mut Tx,
        token: &AccessToken,
        prefix: &str,
    ) -> Result<Secret, IdentityError> {
        let text = generate(prefix, &*self.entropy);
        tx.add_access_token(token, Some(TokenHash::of(text.expose()).as_bytes())).await?;
        Ok(text)
    }

    fn sign(&self, token: &AccessToken, member: Option<&Member>) -> Result<Secret, IdentityError> {
        let claims = Claims {
            iss: Some(self.config.issuer.clone()),
            aud: OneOrMany(vec![self.config.audience.clone()]),
            exp: NumericDate(token.expires_at.ok_or(IdentityError::NoExpiry)?),
            nbf: None,
            iat: Some(NumericDate(token.created_at)),
            jti: Some(token.id.to_string()),
            tid: token.tenant_id,
            sub: member.map(|member| member.id.to_string()),
            role: Some(token.role.as_str().to_owned()),
            roles: OneOrMany::default(),
            generation: member.map(|member| member.token_generation),
            grants: token.grants.clone(),
            limits: token.limits,
        };
        let ring = self.ring.load();
        let signer = ring.signer().ok_or(IdentityError::NoSigningKey)?;
        signer.sign(&claims).ok_or_else(|| IdentityError::SigningKey { kid: signer.kid().to_owned() })
    }
}
