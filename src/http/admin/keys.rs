//! Keys: upstream credentials. The secret goes in and never comes out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::{
    domain::{
        clock::Timestamp,
        faults::Fault,
        ids::{KeyId, ProviderId, TenantId},
        key::{Key, KeyState},
        limits::Limits,
        provider::{AuthStyle, Provider},
        secret::{Sealed, Secret},
    },
    http::admin::{Desk, input, problem::Problem, resource::Resource, schema},
    net::base_url_fault,
    store::{Change, KeyFilter, Page, RemoveOutcome, Store, StoreError, Tx, UpdateOutcome},
    upstream::key_purpose,
};

/// The longest secret, bytes: more than any header takes.
const LONGEST_SECRET: usize = 8 << 10;

/// A key as it is written.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyInput {
    /// The provider in whose pool it is; cannot be changed.
    #[schema(value_type = String, example = "prv_0197c2d3e4f570008000000000000001")]
    provider_id: ProviderId,
    /// The tenant it belongs to, and then only that tenant uses it; null: everybody may.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
    /// Name that people use, unique within the provider.
    #[schema(example = "first")]
    label: String,
    /// The credential. Needed at first unless the provider takes none; never shown. In a change,
    /// absent keeps the one there is.
    #[serde(default, skip_serializing_if = "is_hidden", serialize_with = "hide")]
    #[schema(schema_with = schema::secret)]
    secret: Option<Secret>,
    /// Lower is tried first.
    #[serde(default)]
    priority: i32,
    /// Share among equals under weighted selection, at least 1.
    #[serde(default = "one")]
    weight: u32,
    /// Its windows.
    #[serde(default)]
    #[schema(schema_with = schema::limits)]
    limits: Limits,
    /// Its own base URL, where the vendor gives each account one.
    #[serde(default)]
    base_url: Option<String>,
    /// Vendor parameters: region, project, resource.
    #[serde(default)]
    #[schema(schema_with = schema::texts)]
    params: BTreeMap<String, String>,
    /// `active` or `disabled`; `invalid` is the system's to set.
    #[serde(default)]
    #[schema(schema_with = schema::key_state)]
    state: KeyState,
}

/// A key as it is shown.
#[derive(Serialize, ToSchema)]
#[schema(as = Key)]
pub struct KeyView {
    /// Its id.
    #[schema(value_type = String, example = "key_0197c2d3e4f570008000000000000001")]
    id: KeyId,
    #[serde(flatten)]
    input: KeyInput,
    /// The same for the same secret, and says nothing about it.
    fingerprint: String,
    /// Rises with each change; the ETag.
    version: i64,
    /// When it was added.
    #[schema(schema_with = schema::instant)]
    created_at: Timestamp,
    /// When it last changed.
    #[schema(schema_with = schema::instant)]
    updated_at: Timestamp,
}

/// Narrows a list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// In this provider's pool.
    #[param(value_type = Option<String>)]
    provider_id: Option<ProviderId>,
    /// Of this tenant.
    #[param(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
}

/// A share among equals.
pub(super) const fn one() -> u32 {
    1
}

/// A secret is never shown. `skip_serializing` would say so too, but take it out of the document.
#[expect(clippy::ref_option, reason = "serde calls it with the field")]
const fn is_hidden(_: &Option<Secret>) -> bool {
    true
}

#[expect(clippy::ref_option, reason = "serde calls it with the field")]
fn hide<S: Serializer>(_: &Option<Secret>, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_none()
}

pub(super) enum Keys {}

impl Resource for Keys {
    const PATH: &'static str = "keys";
    const NAME: &'static str = "key";
    const DEPENDENTS: &'static str = "what refers to it";
    const CHANGE: Change = Change::Catalog;
    type Id = KeyId;
    type Filter = Filter;
    type Input = KeyInput;
    type View = KeyView;
    type Object = Key;

    fn id(object: &Key) -> KeyId {
        object.id
    }

    fn uuid(object: &Key) -> Uuid {
        object.id.uuid()
    }

    fn version(object: &Key) -> i64 {
        object.version
    }

    fn input(object: &Key) -> KeyInput {
        KeyInput {
            provider_id: object.provider_id,
            tenant_id: object.tenant_id,
            label: object.label.clone(),
            secret: None,
            priority: object.priority,
            weight: object.weight,
            limits: object.limits,
            base_url: object.base_url.clone(),
            params: object.params.clone(),
            state: object.state,
        }
    }

    fn view(object: Key) -> KeyView {
        KeyView {
            id: object.id,
            input: Self::input(&object),
            fingerprint: object.fingerprint,
            version: object.version,
            created_at: object.created_at,
            updated_at: object.updated_at,
        }
    }

    async fn build(desk: &Desk, input: KeyInput, old: Option<&Key>) -> Result<Key, Problem> {
        let now = desk.clock.now();
        let provider = desk.store.lookup_provider(input.provider_id).await?;
        let mut faults = reference_faults(desk, &input, provider.as_ref(), old).await?;
        let id = old.map_or_else(|| KeyId::generate(now, desk.entropy.id_bytes()), |old| old.id);
        let is_presented = provider.is_none_or(|provider| provider.auth != AuthStyle::None);
        let secret = secret(&mut faults, input.secret, old, is_presented);
        let (secret, fingerprint) = sealed(desk, id, secret, old)?;
        let (version, created_at) = input::stamps(now, old.map(|old| (old.version, old.created_at)));
        let key = Key {
            id,
            provider_id: input.provider_id,
            tenant_id: input.tenant_id,
            label: input.label,
            secret,
            fingerprint,
            priority: input.priority,
            weight: input.weight,
            limits: input.limits,
            base_url: input.base_url,
            params: input.params,
            state: input.state,
            version,
            created_at,
            updated_at: now,
        };
        faults.extend(key.faults());
        let url = key.base_url.as_deref().and_then(|url| base_url_fault(url, &desk.guard));
        faults.extend(url.map(|reason| Fault::new("base_url", reason)));
        input::sound(faults)?;
        Ok(key)
    }

    async fn lookup(store: &Store, id: KeyId) -> Result<Option<Key>, StoreError> {
        store.lookup_key(id).await
    }

    async fn list(store: &Store, filter: &Filter, page: Page) -> Result<Vec<Key>, StoreError> {
        let filter = KeyFilter { provider_id: filter.provider_id, tenant_id: filter.tenant_id };
        store.list_keys(&filter, page).await
    }

    async fn add(tx: &mut Tx, object: &Key) -> Result<(), StoreError> {
        tx.add_key(object).await
    }

    async fn update(tx: &mut Tx, object: &Key, expected: i64) -> Result<UpdateOutcome, StoreError> {
        tx.update_key(object, expected).await
    }

    async fn remove(tx: &mut Tx, id: KeyId, expected: Option<i64>) -> Result<RemoveOutcome, StoreError> {
        tx.remove_key(id, expected).await
    }

    async fn refused(desk: &Desk, key: &Key, error: StoreError) -> Problem {
        match error {
            StoreError::Conflict { field, .. } if field == "fingerprint" => same_secret(desk, key).await,
            error => error.into(),
        }
    }
}

async fn reference_faults(
    desk: &Desk,
    input: &KeyInput,
    provider: Option<&Provider>,
    old: Option<&Key>,
) -> Result<Vec<Fault>, Problem> {
    let mut faults = Vec::new();
    input::fixed(&mut faults, "provider_id", old.map(|old| old.provider_id), &input.provider_id);
    input::exists(&mut faults, "provider_id", provider);
    if let Some(tenant) = input.tenant_id {
        input::exists(&mut faults, "tenant_id", desk.store.lookup_tenant(tenant).await?.as_ref());
    }
    let was_invalid = old.is_some_and(|old| old.state == KeyState::Invalid);
    if input.state == KeyState::Invalid && !was_invalid {
        faults.push(Fault::new("state", "expected active or disabled; the system alone sets invalid"));
    }
    Ok(faults)
}

/// The secret to be sealed; none: the one there is stays.
fn secret(
    faults: &mut Vec<Fault>,
    given: Option<Secret>,
    old: Option<&Key>,
    is_presented: bool,
) -> Option<Secret> {
    let Some(secret) = given else {
        if is_presented && old.is_none() {
            faults.push(Fault::new("secret", "missing: this provider takes a credential"));
        }
        // A pool without credentials still has keys: they carry its limits.
        return old.is_none().then(|| Secret::new(String::new()));
    };
    let text = secret.expose();
    let fits = (1..=LONGEST_SECRET).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
    if !fits {
        faults.push(Fault::new("secret", "expected 1 to 8192 visible ASCII characters without spaces"));
    }
    Some(secret)
}

fn sealed(
    desk: &Desk,
    id: KeyId,
    secret: Option<Secret>,
    old: Option<&Key>,
) -> Result<(Sealed, String), Problem> {
    match (secret, old) {
        (None, Some(old)) => Ok((old.secret.clone(), old.fingerprint.clone())),
        (secret, _) => {
            let secret = secret.unwrap_or_else(|| Secret::new(String::new()));
            Ok((desk.vault.seal(&key_purpose(id), &secret)?, desk.vault.fingerprint(&secret)))
        }
    }
}

/// Another key of the provider has the same secret: says which.
async fn same_secret(desk: &Desk, key: &Key) -> Problem {
    let filter = KeyFilter { provider_id: Some(key.provider_id), tenant_id: None };
    let mut page = Page::first(500);
    loop {
        let keys = match desk.store.list_keys(&filter, page).await {
            Ok(keys) => keys,
            Err(error) => return error.into(),
        };
        if let Some(other) = keys.iter().find(|other| other.fingerprint == key.fingerprint) {
            let reason = format!("the key {:?} of this provider has the same secret", other.label);
            return Problem::taken("secret", &reason);
        }
        match keys.last() {
            Some(last) => page = Page::after(last.id.uuid(), 500),
            None => return Problem::taken("secret", "another key of this provider had the same secret"),
        }
    }
}
