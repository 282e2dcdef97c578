//! The keys of a provider, compared with the store.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    ApplyError, Step,
    entries::{KeyEntry, ProviderEntry},
    known,
    planner::{Planner, birth},
    read::Place,
    secrets::fetch,
};
use crate::{
    domain::{
        ids::{KeyId, ProviderId},
        key::{Key, KeyState},
        provider::AuthStyle,
        secret::{Sealed, Secret},
    },
    upstream::key_purpose,
};

impl Planner<'_> {
    pub(super) async fn keys(
        &mut self,
        place: &Place<'_>,
        provider_id: ProviderId,
        provider: &ProviderEntry,
        wanted: &[KeyEntry],
    ) -> Result<(), ApplyError> {
        let known = known::keys(self.tools.store, provider_id).await?;
        // Which label has which credential once all is done.
        let mut holders: BTreeMap<String, String> =
            known.iter().map(|key| (key.fingerprint.clone(), key.label.clone())).collect();
        for (at, entry) in wanted.iter().enumerate() {
            let place = place.below(&format!("keys[{at}]"));
            let name = format!("key {}/{}", provider.name, entry.label);
            self.claim(&place, &name);
            let old = known.iter().find(|key| key.label == entry.label);
            let Some(key) = self.key(&place, provider_id, &provider.auth, entry, old).await? else {
                continue;
            };
            if let Some(old) = old.filter(|old| old.fingerprint != key.fingerprint) {
                holders.remove(&old.fingerprint);
            }
            let holder = holders.entry(key.fingerprint.clone()).or_insert_with(|| key.label.clone());
            if *holder != key.label {
                let reason = format!("the key {holder} of this provider has this credential");
                self.problem(place.below("secret").problem(reason));
            }
            self.steps.push(Step::settle(name, old, key));
        }
        let listed: BTreeSet<&str> = wanted.iter().map(|entry| entry.label.as_str()).collect();
        for key in known.into_iter().filter(|key| self.prune && !listed.contains(key.label.as_str())) {
            self.steps.push(Step::remove(format!("key {}/{}", provider.name, key.label), key));
        }
        Ok(())
    }

    /// None: something is wrong with it, and it is told.
    async fn key(
        &mut self,
        place: &Place<'_>,
        provider_id: ProviderId,
        auth: &AuthStyle,
        entry: &KeyEntry,
        old: Option<&Key>,
    ) -> Result<Option<Key>, ApplyError> {
        let (id, version, created_at) = birth!(self, old, KeyId);
        let tenant_id = match &entry.tenant {
            Some(name) => self.tenant_id(&place.below("tenant"), name).await?,
            None => None,
        };
        self.base_url(place, entry.base_url.as_deref());
        let Some((secret, fingerprint)) = self.credential(place, id, auth, entry, old)? else {
            return Ok(None);
        };
        let is_same = old.is_some_and(|old| old.fingerprint == fingerprint);
        let key = Key {
            id,
            provider_id,
            tenant_id,
            label: entry.label.clone(),
            secret,
            fingerprint,
            priority: entry.priority,
            weight: entry.weight,
            limits: entry.limits,
            base_url: entry.base_url.clone(),
            params: entry.params.clone(),
            state: match old.map(|old| old.state) {
                _ if !entry.enabled => KeyState::Disabled,
                // The provider has refused this very credential: saying it again does not help.
                Some(KeyState::Invalid) if is_same => KeyState::Invalid,
                Some(KeyState::Active | KeyState::Invalid | KeyState::Disabled) | None => KeyState::Active,
            },
            version,
            created_at,
            updated_at: self.now,
        };
        self.faults(place, key.faults());
        Ok(Some(key))
    }

    /// The credential as the store keeps it, and its fingerprint.
    fn credential(
        &mut self,
        place: &Place<'_>,
        id: KeyId,
        auth: &AuthStyle,
        entry: &KeyEntry,
        old: Option<&Key>,
    ) -> Result<Option<(Sealed, String)>, ApplyError> {
        let vault = self.tools.vault;
        let Some(secret) = &entry.secret else {
            if let Some(old) = old {
                return Ok(Some((old.secret.clone(), old.fingerprint.clone())));
            }
            if *auth == AuthStyle::None {
                let none = vault.seal(&key_purpose(id), &Secret::new(String::new()))?;
                // Of the id, for no credential is no duplicate of another.
                return Ok(Some((none, vault.fingerprint(&Secret::new(id.to_string())))));
            }
            self.problem(place.problem("a new key needs a secret: env:NAME, file:PATH, or the credential"));
            return Ok(None);
        };
        match fetch(secret, place.directory, self.tools.environment) {
            Ok(plain) => {
                let fingerprint = vault.fingerprint(&plain);
                let unchanged =
                    old.filter(|old| old.fingerprint == fingerprint).map(|old| old.secret.clone());
                let sealed = unchanged.map_or_else(|| vault.seal(&key_purpose(id), &plain), Ok)?;
                Ok(Some((sealed, fingerprint)))
            }
            Err(reason) => {
                self.problem(place.below("secret").problem(reason));
                Ok(None)
            }
        }
    }
}
