//! Members: people in tenants.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::{
    domain::{
        clock::Timestamp,
        ids::{MemberId, TenantId},
        limits::Limits,
        principal::Role,
        tenant::Member,
    },
    http::admin::{Desk, input, problem::Problem, providers::yes, resource::Resource, schema},
    store::{Change, MemberFilter, Page, RemoveOutcome, Store, StoreError, Tx, UpdateOutcome},
};

/// A member as it is written.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberInput {
    /// Whose member; cannot be changed.
    #[schema(value_type = String)]
    tenant_id: TenantId,
    /// The `sub` of its JWTs, unique within the tenant.
    #[schema(example = "ada@example.com")]
    subject: String,
    /// What it may do in its tenant.
    #[serde(default = "usual_role")]
    #[schema(schema_with = schema::member_role)]
    role: Role,
    /// JWTs with a lower generation are revoked; raise it to revoke all of the member's.
    #[serde(default)]
    token_generation: i64,
    /// Its windows, over all its access tokens.
    #[serde(default)]
    #[schema(schema_with = schema::limits)]
    limits: Limits,
    /// Whether it is let in.
    #[serde(default = "yes")]
    enabled: bool,
}

/// A member as it is shown.
#[derive(Serialize, ToSchema)]
#[schema(as = Member)]
pub struct MemberView {
    /// Its id.
    #[schema(value_type = String, example = "mem_0197c2d3e4f570008000000000000001")]
    id: MemberId,
    #[serde(flatten)]
    input: MemberInput,
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
    /// Of this tenant.
    #[param(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
}

/// What a person is in a tenant when nobody says otherwise.
pub(super) const fn usual_role() -> Role {
    Role::Member
}

pub(super) enum Members {}

impl Resource for Members {
    const PATH: &'static str = "members";
    const NAME: &'static str = "member";
    const DEPENDENTS: &'static str = "what refers to it";
    const CHANGE: Change = Change::Access;
    type Id = MemberId;
    type Filter = Filter;
    type Input = MemberInput;
    type View = MemberView;
    type Object = Member;

    fn id(object: &Member) -> MemberId {
        object.id
    }

    fn uuid(object: &Member) -> Uuid {
        object.id.uuid()
    }

    fn version(object: &Member) -> i64 {
        object.version
    }

    fn input(object: &Member) -> MemberInput {
        MemberInput {
            tenant_id: object.tenant_id,
            subject: object.subject.clone(),
            role: object.role,
            token_generation: object.token_generation,
            limits: object.limits,
            enabled: object.enabled,
        }
    }

    fn view(object: Member) -> MemberView {
        MemberView {
            id: object.id,
            input: Self::input(&object),
            version: object.version,
            created_at: object.created_at,
            updated_at: object.updated_at,
        }
    }

    async fn build(desk: &Desk, input: MemberInput, old: Option<&Member>) -> Result<Member, Problem> {
        let now = desk.clock.now();
        let (version, created_at) = input::stamps(now, old.map(|old| (old.version, old.created_at)));
        let member = Member {
            id: old.map_or_else(|| MemberId::generate(now, desk.entropy.id_bytes()), |old| old.id),
            tenant_id: input.tenant_id,
            subject: input.subject,
            role: input.role,
            token_generation: input.token_generation,
            limits: input.limits,
            enabled: input.enabled,
            version,
            created_at,
            updated_at: now,
        };
        let mut faults = member.faults();
        input::fixed(&mut faults, "tenant_id", old.map(|old| old.tenant_id), &member.tenant_id);
        input::exists(&mut faults, "tenant_id", desk.store.lookup_tenant(member.tenant_id).await?.as_ref());
        let lowest = old.map_or(0, |old| old.token_generation);
        input::at_least(&mut faults, "token_generation", lowest, member.token_generation);
        input::sound(faults)?;
        Ok(member)
    }

    async fn lookup(store: &Store, id: MemberId) -> Result<Option<Member>, StoreError> {
        store.lookup_member(id).await
    }

    async fn list(store: &Store, filter: &Filter, page: Page) -> Result<Vec<Member>, StoreError> {
        store.list_members(&MemberFilter { tenant_id: filter.tenant_id }, page).await
    }

    async fn add(tx: &mut Tx, object: &Member) -> Result<(), StoreError> {
        tx.add_member(object).await
    }

    async fn update(tx: &mut Tx, object: &Member, expected: i64) -> Result<UpdateOutcome, StoreError> {
        tx.update_member(object, expected).await
    }

    async fn remove(tx: &mut Tx, id: MemberId, expected: Option<i64>) -> Result<RemoveOutcome, StoreError> {
        tx.remove_member(id, expected).await
    }
}
