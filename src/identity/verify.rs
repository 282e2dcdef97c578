//! The way in: a presented text → a principal, or the reason why not.
//!
//! A token that was seen is answered from memory: one hash, one lookup, no signature, no I/O. The
//! answer holds while the epoch is the same, that is until `refresh` hears of any change to
//! tenants, members, grants or tokens; then the facts, and only they, are asked for again.

use std::{net::IpAddr, sync::Arc, time::Duration};

use crate::{
    domain::{
        clock::Timestamp,
        grant::Grants,
        ids::{AccessTokenId, MemberId, TenantId},
        principal::Principal,
    },
    identity::{
        Denied, Identity, TokenHash,
        claims::{Claims, Subject},
        facts::{Inquiry, Moment},
        jwt::{self, Algorithm},
        presented::{Form, form_of},
        standing::{Assertion, Issuer},
    },
    store::{MemberAccess, TenantAccess},
};

/// For so long the store is not asked again for an opaque text that it did not know: briefly, for
/// a client may be faster than the commit of its new token.
const UNKNOWN_FOR: Duration = Duration::from_secs(10);

/// A token that was seen, with what need not be found out again.
pub(super) struct Seen {
    basis: Basis,
    /// When the oldest fact behind the answer was read.
    rests_on: Moment,
    answer: Result<Arc<Principal>, Denied>,
    /// From when on it is refused whatever the store says.
    lapses_at: Option<Timestamp>,
}

/// What does not change about a token.
#[derive(Clone)]
enum Basis {
    /// Its signature verified under this key (none: the shared secret).
    Jwt { claims: Arc<Claims>, kid: Option<Arc<str>> },
    /// Its text has this hash, and a row.
    Opaque(TokenHash),
}

/// The principal, and when it lapses.
type Standing = (Arc<Principal>, Option<Timestamp>);

impl Seen {
    /// The answer, if nothing can have changed since.
    fn settled(&self, at: Moment, fresh_for: Duration) -> Option<Result<Arc<Principal>, Denied>> {
        if self.rests_on.epoch != at.epoch || at.now.since(self.rests_on.now) >= fresh_for {
            return None;
        }
        match &self.answer {
            Ok(principal) if self.lapses_at.is_none_or(|lapses| at.now < lapses) => {
                Some(Ok(Arc::clone(principal)))
            }
            // Time or the store decides these anew.
            Ok(_) | Err(Denied::NotYetValid | Denied::Expired | Denied::StoreAway) => None,
            Err(denied) => Some(Err(*denied)),
        }
    }
}

impl Identity {
    /// Who a presented access token stands for. `address` is the client's: one that presented too
    /// many wrong tokens is refused for a while, except for tokens seen before.
    ///
    /// # Errors
    /// [`Denied`].
    ///
    /// # Cancellation
    /// Safe.
    pub async fn verify_from(&self, presented: &str, address: IpAddr) -> Result<Arc<Principal>, Denied> {
        self.verify_with(presented, Some(address)).await
    }

    /// As [`Identity::verify_from`] for callers that have no address, such as commands.
    ///
    /// # Errors
    /// [`Denied`].
    ///
    /// # Cancellation
    /// Safe.
    pub async fn verify(&self, presented: &str) -> Result<Arc<Principal>, Denied> {
        self.verify_with(presented, None).await
    }

    async fn verify_with(&self, presented: &str, address: Option<IpAddr>) -> Result<Arc<Principal>, Denied> {
        if presented.is_empty() {
            return Err(Denied::Missing);
        }
        if presented.len() > self.config.max_token_bytes {
            return Err(Denied::Malformed);
        }
        let (hash, at) = (TokenHash::of(presented), self.moment());
        if let Some(seen) = self.seen.get(&hash) {
            return match seen.settled(at, self.bounds.fresh_for) {
                Some(answer) => answer,
                None => Box::pin(self.judge(hash, seen.basis.clone(), at)).await,
            };
        }
        address.map_or(Ok(()), |address| self.throttle.check(address))?;
        // Boxed, so that a request whose token was seen does not carry the room for all this.
        let answer = Box::pin(self.verify_unseen(presented, hash, at)).await;
        if let (Err(denied), Some(address)) = (&answer, address)
            && denied.is_suspicious()
        {
            self.throttle.failed(address);
        }
        answer
    }

    async fn verify_unseen(
        &self,
        presented: &str,
        hash: TokenHash,
        at: Moment,
    ) -> Result<Arc<Principal>, Denied> {
        let basis = match form_of(presented).ok_or(Denied::Malformed)? {
            Form::Jwt => self.verify_signature(presented, at).await?,
            Form::Opaque => Basis::Opaque(hash),
            Form::Setup => return Err(Denied::SetupToken),
        };
        self.judge(hash, basis, at).await
    }

    /// Finds the key that the header asks for and verifies under it, and under nothing else.
    async fn verify_signature(&self, presented: &str, at: Moment) -> Result<Basis, Denied> {
        let asked = jwt::asked(presented)?;
        let (claims, kid) = match (asked.algorithm, asked.kid) {
            (Algorithm::EdDsa, Some(kid)) => {
                let ring = self.ring_with(&kid, at).await?;
                let key = ring.find(&kid, at.now).ok_or(Denied::BadSignature)?;
                (self.counted(|| key.verifying().verify(presented))?, Some(Arc::from(kid)))
            }
            (Algorithm::Hs256, None) => {
                let key = self.shared.as_ref().ok_or(Denied::BadSignature)?;
                (self.counted(|| key.verify(presented))?, None)
            }
            (Algorithm::EdDsa, None) | (Algorithm::Hs256, Some(_)) => return Err(Denied::BadSignature),
        };
        Ok(Basis::Jwt { claims: Arc::new(claims), kid })
    }

    /// Judges a token whose form and signature are right, and remembers the answer.
    async fn judge(&self, hash: TokenHash, basis: Basis, at: Moment) -> Result<Arc<Principal>, Denied> {
        let mut inquiry = Inquiry::new(at);
        let standing = match &basis {
            Basis::Jwt { claims, kid } => self.judge_jwt(claims, kid.as_deref(), &mut inquiry).await,
            Basis::Opaque(hash) => self.judge_opaque(hash, &mut inquiry).await,
        };
        // Anybody can make up opaque texts; they must not push out what is true.
        if standing.as_ref().is_err_and(|denied| *denied == Denied::Unknown) {
            self.seen.invalidate(&hash);
            return Err(Denied::Unknown);
        }
        let (answer, lapses_at) = match standing {
            Ok((principal, lapses_at)) => (Ok(principal), lapses_at),
            Err(denied) => (Err(denied), None),
        };
        let is_known = matches!(basis, Basis::Jwt { .. }) || answer != Err(Denied::StoreAway);
        if is_known {
            let rests_on = Moment { now: inquiry.oldest, epoch: at.epoch };
            self.seen.insert(hash, Arc::new(Seen { basis, rests_on, answer: answer.clone(), lapses_at }));
        }
        answer
    }

    async fn judge_jwt(
        &self,
        claims: &Claims,
        kid: Option<&str>,
        inquiry: &mut Inquiry,
    ) -> Result<Standing, Denied> {
        claims.check(&self.config, inquiry.at.now)?;
        let mut lapses_at = claims.lapses_at(&self.config);
        let issuer = if let Some(kid) = kid {
            let ring = self.ring.load();
            let key = ring.find(kid, inquiry.at.now).ok_or(Denied::BadSignature)?;
            lapses_at = key.retires_at().map_or(lapses_at, |end| end.min(lapses_at));
            Issuer::Own
        } else {
            Issuer::Shared
        };
        let assertion = Assertion::of_claims(claims, issuer)?;
        let revoked = self.revoked.load();
        if revoked.contains(assertion.token_id) || issuer == Issuer::Shared && revoked.contains_jti(claims) {
            return Err(Denied::Revoked);
        }
        drop(revoked);
        let lines = match assertion.tenant.filter(|_| issuer == Issuer::Own) {
            Some(tenant) => self.lines_of(tenant, assertion.token_id, inquiry).await?,
            None => None,
        };
        let principal = self.stand(assertion, lines.as_deref(), inquiry).await?;
        Ok((principal, Some(lapses_at)))
    }

    async fn judge_opaque(&self, hash: &TokenHash, inquiry: &mut Inquiry) -> Result<Standing, Denied> {
        let at = inquiry.at;
        let is_recent = |asked: Moment| asked.epoch == at.epoch && at.now.since(asked.now) < UNKNOWN_FOR;
        if self.unknown.get(hash).is_some_and(is_recent) {
            return Err(Denied::Unknown);
        }
        let read = || async {
            let row = self.store.find_access_token_by_hash(hash.as_bytes()).await?;
            Ok(row.map(Arc::new))
        };
        let Some(row) = self.tokens.get(hash, inquiry, read).await? else {
            self.unknown.insert(*hash, at);
            self.tokens.forget(hash);
            return Err(Denied::Unknown);
        };
        let assertion = Assertion::of_row(&row, at.now)?;
        let lines = match assertion.tenant {
            Some(tenant) => self.lines_of(tenant, row.id, inquiry).await?,
            None => None,
        };
        let principal = self.stand(assertion, lines.as_deref(), inquiry).await?;
        Ok((principal, row.expires_at))
    }

    /// Looks up the holder of what a token asserts.
    async fn stand(
        &self,
        assertion: Assertion,
        lines: Option<&Grants>,
        inquiry: &mut Inquiry,
    ) -> Result<Arc<Principal>, Denied> {
        let Some(id) = assertion.tenant else {
            return assertion.operator().map(Arc::new);
        };
        let tenant = self.tenant(id, inquiry).await?;
        let member = match &assertion.subject {
            Some(subject) => self.member(id, subject, inquiry).await?,
            None => None,
        };
        assertion.principal(tenant.as_deref(), member.as_deref(), lines).map(Arc::new)
    }

    async fn tenant(&self, id: TenantId, inquiry: &mut Inquiry) -> Result<Option<Arc<TenantAccess>>, Denied> {
        let read = || async { Ok(self.store.load_tenant_access(id).await?.map(Arc::new)) };
        self.tenants.get(&id, inquiry, read).await
    }

    async fn member(
        &self,
        tenant: TenantId,
        subject: &Subject<MemberId>,
        inquiry: &mut Inquiry,
    ) -> Result<Option<Arc<MemberAccess>>, Denied> {
        let read = || async {
            let found = match subject {
                Subject::Id(id) => self.store.load_member_access(tenant, *id).await?,
                Subject::Name(name) => self.store.load_member_access_by_subject(tenant, name).await?,
            };
            Ok(found.map(Arc::new))
        };
        self.members.get(&(tenant, subject.clone()), inquiry, read).await
    }

    async fn lines_of(
        &self,
        tenant: TenantId,
        token: AccessTokenId,
        inquiry: &mut Inquiry,
    ) -> Result<Option<Arc<Grants>>, Denied> {
        let read = || async { Ok(self.store.load_token_grants(tenant, token).await?.map(Arc::new)) };
        self.token_lines.get(&token, inquiry, read).await
    }
}
