//! JWTs that were taken back: our own by their id in `access_tokens`, those of the trusted backend
//! by `revocations`. Opaque tokens are refused by their row; their ids stand in here too and do
//! no harm.

use std::{collections::HashMap, time::Duration};

use crate::{
    domain::{clock::Timestamp, ids::AccessTokenId},
    identity::{claims::Claims, standing::foreign_token_id},
    store::{Revocation, Store, StoreError},
};

/// How far a reading reaches back before the last one: more than clocks differ and transactions
/// last. A token is also remembered for so long after its end, for it is taken for the leeway.
const REACH_BACK: Duration = Duration::from_secs(600);

/// What was revoked and has not lapsed, as of one reading, with the time at which it lapses.
#[derive(Debug, Clone, Default)]
pub(super) struct Revoked {
    ids: HashMap<AccessTokenId, Option<Timestamp>>,
    /// Of the trusted backend, in every tenant.
    jtis: HashMap<String, Option<Timestamp>>,
    read_at: Option<Timestamp>,
}

impl Revoked {
    pub(super) fn contains(&self, id: AccessTokenId) -> bool {
        self.ids.contains_key(&id)
    }

    /// Whether the trusted backend's token was revoked without regard to its tenant.
    pub(super) fn contains_jti(&self, claims: &Claims) -> bool {
        claims.jti.as_ref().is_some_and(|jti| self.jtis.contains_key(jti))
    }

    /// These and what was revoked since, without what has lapsed.
    ///
    /// # Errors
    /// As the store's.
    pub(super) async fn updated(
        &self,
        store: &Store,
        issuer: &str,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let lapsed = now.minus(REACH_BACK);
        let since = self.read_at.map(|at| at.minus(REACH_BACK));
        let mut updated = Self { read_at: Some(now), ..self.clone() };
        for token in store.list_revoked_tokens(since, lapsed).await? {
            updated.ids.insert(token.id, token.expires_at);
        }
        for revocation in store.list_revocations(since, lapsed).await? {
            if revocation.issuer == issuer {
                updated.add(revocation);
            }
        }
        let is_live = |lapses: &Option<Timestamp>| lapses.is_none_or(|at| at > lapsed);
        updated.ids.retain(|_, lapses| is_live(lapses));
        updated.jtis.retain(|_, lapses| is_live(lapses));
        Ok(updated)
    }

    fn add(&mut self, revocation: Revocation) {
        let lapses = Some(revocation.expires_at);
        // A row names the token by the id it stands under here, or by its own `jti`.
        let by_jti =
            || revocation.tenant_id.map(|tenant| foreign_token_id(tenant, Some(&revocation.jti), None));
        match revocation.jti.parse().ok().or_else(by_jti) {
            Some(id) => self.ids.insert(id, lapses),
            None => self.jtis.insert(revocation.jti, lapses),
        };
    }
}
