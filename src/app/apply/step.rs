//! One thing to do: an object, and what becomes of it.

use std::fmt;

use super::ApplyError;
use crate::{
    domain::{
        grant::Grant,
        key::Key,
        model::{Model, Route},
        provider::Provider,
        tenant::{Member, Tenant},
    },
    store::{RemoveOutcome, StoreError, Tx, UpdateOutcome},
};

/// What becomes of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is new.
    Created,
    /// These fields of it change.
    Updated(Vec<&'static str>),
    /// It goes.
    Removed,
    /// It is as it should be.
    Unchanged,
}

/// One object and what becomes of it. Prints as `update provider openai: base_url`.
#[derive(Debug)]
pub struct Step {
    /// What becomes of it.
    pub verdict: Verdict,
    /// Its kind and the names that people know it by, such as `key openai/main`.
    pub name: String,
    object: Object,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.verdict {
            Verdict::Created => write!(f, "create {}", self.name),
            Verdict::Updated(fields) => write!(f, "update {}: {}", self.name, fields.join(", ")),
            Verdict::Removed => write!(f, "remove {}", self.name),
            Verdict::Unchanged => write!(f, "keep   {}", self.name),
        }
    }
}

#[derive(Debug)]
pub enum Object {
    Tenant(Tenant),
    Member(Member),
    Grant(Grant),
    Provider(Provider),
    Key(Key),
    Model(Model),
    Route(Route),
}

/// An object that files can set up.
pub trait Applied: Into<Object> {
    /// The fields in which it is not as `old`, by the names that files have for them.
    fn differences(&self, old: &Self) -> Vec<&'static str>;
}

macro_rules! applied {
    ($($kind:ident { $($own:ident)*, $($field:ident $(: $name:literal)?)* })*) => {$(
        impl From<$kind> for Object {
            fn from(object: $kind) -> Self {
                Self::$kind(object)
            }
        }

        impl Applied for $kind {
            fn differences(&self, old: &Self) -> Vec<&'static str> {
                // Without a rest pattern: a field that is added has to be thought of here.
                let Self { $($own: _,)* $($field,)* version: _, created_at: _, updated_at: _ } = self;
                let fields = [$((name_of!($field $($name)?), *$field != old.$field),)*];
                fields.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
            }
        }
    )*};
}

macro_rules! name_of {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $name:literal) => {
        $name
    };
}

applied! {
    Tenant { id, name limits billing enabled }
    Member { id tenant_id token_generation, subject role limits enabled }
    Grant { id tenant_id subject, pattern effect }
    Provider { id, name base_url format auth tier transport headers timeouts enabled }
    // Sealing the same credential again gives other bytes; its fingerprint stays.
    Key {
        id provider_id secret,
        tenant_id: "tenant" label fingerprint: "secret" priority weight limits base_url params
        state: "enabled"
    }
    Model { id, name capabilities context_tokens max_output_tokens prices enabled }
    Route {
        id model_id provider_id,
        upstream_model priority weight cost capabilities enabled
    }
}

impl Step {
    /// What to do so that `wanted` is there instead of `old`.
    pub fn settle<T: Applied>(name: String, old: Option<&T>, wanted: T) -> Self {
        let verdict = match old.map(|old| wanted.differences(old)) {
            None => Verdict::Created,
            Some(fields) if fields.is_empty() => Verdict::Unchanged,
            Some(fields) => Verdict::Updated(fields),
        };
        Self { verdict, name, object: wanted.into() }
    }

    /// Takes an object away.
    pub fn remove(name: String, object: impl Into<Object>) -> Self {
        Self { verdict: Verdict::Removed, name, object: object.into() }
    }

    /// Does it in `tx`.
    pub async fn carry_out(&self, tx: &mut Tx) -> Result<(), ApplyError> {
        let done = match self.verdict {
            Verdict::Unchanged => Ok(true),
            Verdict::Created => self.object.add(tx).await.map(|()| true),
            Verdict::Updated(_) => self.object.update(tx).await,
            Verdict::Removed => self.object.remove(tx).await,
        };
        match done {
            Ok(true) => Ok(()),
            Ok(false) | Err(StoreError::Conflict { .. } | StoreError::Reference) => {
                Err(ApplyError::Overtaken(self.name.clone()))
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Object {
    async fn add(&self, tx: &mut Tx) -> Result<(), StoreError> {
        match self {
            Self::Tenant(tenant) => tx.add_tenant(tenant).await,
            Self::Member(member) => tx.add_member(member).await,
            Self::Grant(grant) => tx.add_grant(grant).await,
            Self::Provider(provider) => tx.add_provider(provider).await,
            Self::Key(key) => tx.add_key(key).await,
            Self::Model(model) => tx.add_model(model).await,
            Self::Route(route) => tx.add_route(route).await,
        }
    }

    /// False: it is no longer as it was read.
    async fn update(&self, tx: &mut Tx) -> Result<bool, StoreError> {
        let outcome = match self {
            Self::Tenant(tenant) => tx.update_tenant(tenant, tenant.version).await,
            Self::Member(member) => tx.update_member(member, member.version).await,
            Self::Grant(grant) => tx.update_grant(grant, grant.version).await,
            Self::Provider(provider) => tx.update_provider(provider, provider.version).await,
            Self::Key(key) => tx.update_key(key, key.version).await,
            Self::Model(model) => tx.update_model(model, model.version).await,
            Self::Route(route) => tx.update_route(route, route.version).await,
        };
        outcome.map(|outcome| matches!(outcome, UpdateOutcome::Updated { .. }))
    }

    /// False: it is no longer as it was read. Only what files list completely can go.
    async fn remove(&self, tx: &mut Tx) -> Result<bool, StoreError> {
        let outcome = match self {
            Self::Grant(grant) => tx.remove_grant(grant.id, Some(grant.version)).await,
            Self::Key(key) => tx.remove_key(key.id, Some(key.version)).await,
            Self::Route(route) => tx.remove_route(route.id, Some(route.version)).await,
            Self::Tenant(_) | Self::Member(_) | Self::Provider(_) | Self::Model(_) => return Ok(false),
        };
        outcome.map(|outcome| matches!(outcome, RemoveOutcome::Removed))
    }
}
