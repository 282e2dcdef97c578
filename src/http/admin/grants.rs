//! Grants: which models a tenant, member or access token may use.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::{
    domain::{
        clock::Timestamp,
        faults::Fault,
        grant::{Effect, Grant, GrantSubject, Pattern},
        ids::{AccessTokenId, GrantId, MemberId, TenantId},
    },
    http::admin::{Desk, input, problem::Problem, resource::Resource, schema},
    store::{Change, GrantFilter, Page, RemoveOutcome, Store, StoreError, Tx, UpdateOutcome},
};

/// A grant as it is written.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantInput {
    /// Inside which tenant; cannot be changed.
    #[schema(value_type = String)]
    tenant_id: TenantId,
    /// Whose line, within the tenant; cannot be changed.
    #[serde(default = "whole_tenant")]
    #[schema(schema_with = schema::subject)]
    subject: GrantSubject,
    /// The models it speaks of: a name, or a pattern with `*`.
    #[schema(value_type = String, example = "gpt-*")]
    pattern: Pattern,
    /// What it says of them; deny wins.
    #[serde(default)]
    #[schema(schema_with = schema::effect)]
    effect: Effect,
}

/// A grant as it is shown.
#[derive(Serialize, ToSchema)]
#[schema(as = Grant)]
pub struct GrantView {
    /// Its id.
    #[schema(value_type = String, example = "grt_0197c2d3e4f570008000000000000001")]
    id: GrantId,
    #[serde(flatten)]
    input: GrantInput,
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
#[expect(clippy::struct_field_names, reason = "named as the fields of the objects they select")]
pub struct Filter {
    /// Inside this tenant.
    #[param(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
    /// Of this member.
    #[param(value_type = Option<String>)]
    member_id: Option<MemberId>,
    /// Of this access token.
    #[param(value_type = Option<String>)]
    token_id: Option<AccessTokenId>,
}

const fn whole_tenant() -> GrantSubject {
    GrantSubject::Tenant
}

pub(super) enum Grants {}

impl Resource for Grants {
    const PATH: &'static str = "grants";
    const NAME: &'static str = "grant";
    const DEPENDENTS: &'static str = "what refers to it";
    const CHANGE: Change = Change::Access;
    const WHOLE: &'static [&'static str] = &["subject"];
    type Id = GrantId;
    type Filter = Filter;
    type Input = GrantInput;
    type View = GrantView;
    type Object = Grant;

    fn id(object: &Grant) -> GrantId {
        object.id
    }

    fn uuid(object: &Grant) -> Uuid {
        object.id.uuid()
    }

    fn version(object: &Grant) -> i64 {
        object.version
    }

    fn input(object: &Grant) -> GrantInput {
        GrantInput {
            tenant_id: object.tenant_id,
            subject: object.subject,
            pattern: object.pattern.clone(),
            effect: object.effect,
        }
    }

    fn view(object: Grant) -> GrantView {
        GrantView {
            id: object.id,
            input: Self::input(&object),
            version: object.version,
            created_at: object.created_at,
            updated_at: object.updated_at,
        }
    }

    async fn build(desk: &Desk, input: GrantInput, old: Option<&Grant>) -> Result<Grant, Problem> {
        let now = desk.clock.now();
        let (version, created_at) = input::stamps(now, old.map(|old| (old.version, old.created_at)));
        let grant = Grant {
            id: old.map_or_else(|| GrantId::generate(now, desk.entropy.id_bytes()), |old| old.id),
            tenant_id: input.tenant_id,
            subject: input.subject,
            pattern: input.pattern,
            effect: input.effect,
            version,
            created_at,
            updated_at: now,
        };
        let mut faults = Vec::new();
        input::fixed(&mut faults, "tenant_id", old.map(|old| old.tenant_id), &grant.tenant_id);
        input::fixed(&mut faults, "subject", old.map(|old| old.subject), &grant.subject);
        input::exists(&mut faults, "tenant_id", desk.store.lookup_tenant(grant.tenant_id).await?.as_ref());
        faults.extend(subject_fault(&desk.store, &grant).await?);
        input::sound(faults)?;
        Ok(grant)
    }

    async fn lookup(store: &Store, id: GrantId) -> Result<Option<Grant>, StoreError> {
        store.lookup_grant(id).await
    }

    async fn list(store: &Store, filter: &Filter, page: Page) -> Result<Vec<Grant>, StoreError> {
        let (tenant_id, member_id, token_id) = (filter.tenant_id, filter.member_id, filter.token_id);
        store.list_grants(&GrantFilter { tenant_id, member_id, token_id }, page).await
    }

    async fn add(tx: &mut Tx, object: &Grant) -> Result<(), StoreError> {
        tx.add_grant(object).await
    }

    async fn update(tx: &mut Tx, object: &Grant, expected: i64) -> Result<UpdateOutcome, StoreError> {
        tx.update_grant(object, expected).await
    }

    async fn remove(tx: &mut Tx, id: GrantId, expected: Option<i64>) -> Result<RemoveOutcome, StoreError> {
        tx.remove_grant(id, expected).await
    }
}

/// A member or access token of another tenant cannot be spoken of.
async fn subject_fault(store: &Store, grant: &Grant) -> Result<Option<Fault>, StoreError> {
    let (field, owner) = match grant.subject {
        GrantSubject::Tenant => return Ok(None),
        GrantSubject::Member(id) => {
            ("subject.member", store.lookup_member(id).await?.map(|member| member.tenant_id))
        }
        GrantSubject::AccessToken(id) => {
            ("subject.access_token", store.lookup_access_token(id).await?.and_then(|token| token.tenant_id))
        }
    };
    let is_own = owner == Some(grant.tenant_id);
    Ok((!is_own).then(|| Fault::new(field, "names nothing of this tenant")))
}
