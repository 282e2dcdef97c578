//! Access tokens: issued once, shown once, revoked for good.

use actix_web::{
    HttpRequest, HttpResponse,
    http::{Method, header},
    web,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    domain::{
        clock::Timestamp,
        faults::{Fault, is_label},
        grant::Grants,
        ids::{AccessTokenId, MemberId, TenantId},
        limits::Limits,
        principal::Role,
        secret::Secret,
        tenant::{AccessToken, AccessTokenKind},
    },
    http::admin::{
        Answer, Desk, PREFIX, etag,
        idempotency::{self, Created},
        input,
        members::usual_role,
        operator,
        page::Wanted,
        problem::Problem,
        resource::id_in_path,
        schema,
        surface::{Operation, Surface},
    },
    identity::{NewToken, TokenForm},
    store::{AccessTokenFilter, Change},
};

const PATH: &str = "access-tokens";
const NAME: &str = "access token";

pub(super) fn register(surface: &mut Surface) {
    let (all, one) = (format!("/{PATH}"), format!("/{PATH}/{{id}}"));
    let (view, issued) = (surface.schema::<AccessTokenView>(), surface.schema::<IssuedView>());
    let input = surface.schema::<AccessTokenInput>();
    let describe =
        |method, path: &str, summary: &str| Operation::new(method, path.to_owned(), PATH, summary.to_owned());
    surface.add(
        describe(Method::GET, &all, "List access tokens")
            .listing::<Filter>()
            .gives(200, Surface::list_of(&view)),
        web::get().to(list),
    );
    surface.add(
        describe(Method::POST, &all, "Issue an access token; its text is shown this once")
            .idempotent()
            .takes(input)
            .gives(201, issued),
        web::post().to(issue),
    );
    surface.add(
        describe(Method::GET, &one, "Read an access token").cached().gives(200, view),
        web::get().to(read),
    );
    surface.add(
        describe(Method::DELETE, &one, "Revoke an access token").conditional(false).gives_nothing(),
        web::delete().to(revoke),
    );
}

/// An access token to be issued.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AccessTokenInput {
    /// Whose; null: an operator's.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
    /// Which member's; null: the tenant's own.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    member_id: Option<MemberId>,
    /// Name that people use.
    #[schema(example = "laptop")]
    name: String,
    /// What it is to look like.
    #[serde(default = "usual_form")]
    #[schema(schema_with = schema::token_form)]
    kind: TokenForm,
    /// What it may do, within what its holder may; `operator` without a tenant.
    #[serde(default = "usual_role")]
    #[schema(schema_with = schema::role)]
    role: Role,
    /// Narrower models than its holder's.
    #[serde(default)]
    #[schema(schema_with = schema::grants)]
    grants: Option<Grants>,
    /// Narrower windows than its holder's.
    #[serde(default)]
    #[schema(schema_with = schema::limits)]
    limits: Limits,
    /// When it lapses; null: never. A JWT has to.
    #[serde(default)]
    #[schema(schema_with = schema::maybe_instant)]
    expires_at: Option<Timestamp>,
}

/// An access token as it is shown.
#[derive(Serialize, ToSchema)]
#[schema(as = AccessToken)]
pub struct AccessTokenView {
    /// Its id; the `jti` of a JWT.
    #[schema(value_type = String, example = "tok_0197c2d3e4f570008000000000000001")]
    id: AccessTokenId,
    /// Whose; null: an operator's.
    #[schema(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
    /// Which member's.
    #[schema(value_type = Option<String>)]
    member_id: Option<MemberId>,
    /// Name that people use.
    name: String,
    /// What it looks like.
    #[schema(schema_with = schema::token_kind)]
    kind: AccessTokenKind,
    /// What it may do.
    #[schema(schema_with = schema::role)]
    role: Role,
    /// Narrower models than its holder's.
    #[schema(schema_with = schema::grants)]
    grants: Option<Grants>,
    /// Narrower windows than its holder's.
    #[schema(schema_with = schema::limits)]
    limits: Limits,
    /// When it lapses; null: never.
    #[schema(schema_with = schema::maybe_instant)]
    expires_at: Option<Timestamp>,
    /// Since when it is revoked.
    #[schema(schema_with = schema::maybe_instant)]
    revoked_at: Option<Timestamp>,
    /// When it was issued.
    #[schema(schema_with = schema::instant)]
    created_at: Timestamp,
}

/// An access token just issued.
#[derive(Serialize, ToSchema)]
#[schema(as = IssuedAccessToken)]
pub struct IssuedView {
    #[serde(flatten)]
    token: AccessTokenView,
    /// What the client presents. Shown this once and kept nowhere.
    #[schema(example = "tw_4cR…")]
    text: String,
}

/// Narrows a list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// Of this tenant.
    #[param(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
    /// Of this member.
    #[param(value_type = Option<String>)]
    member_id: Option<MemberId>,
}

const fn usual_form() -> TokenForm {
    TokenForm::Opaque
}

impl From<AccessToken> for AccessTokenView {
    fn from(token: AccessToken) -> Self {
        Self {
            id: token.id,
            tenant_id: token.tenant_id,
            member_id: token.member_id,
            name: token.name,
            kind: token.kind,
            role: token.role,
            grants: token.grants,
            limits: token.limits,
            expires_at: token.expires_at,
            revoked_at: token.revoked_at,
            created_at: token.created_at,
        }
    }
}

/// A token changes once: when it is revoked.
fn version(token: &AccessToken) -> i64 {
    if token.revoked_at.is_none() { 1 } else { 2 }
}

/// What is shown of a token just issued, its text included.
pub(super) fn created((token, text): (AccessToken, Secret)) -> Result<Created, Problem> {
    let location = format!("{PREFIX}/{PATH}/{}", token.id);
    let version = version(&token);
    Created::new(location, version, IssuedView { token: token.into(), text: text.expose().to_owned() })
}

async fn list(request: HttpRequest) -> Answer {
    operator(&request).await?;
    let wanted = Wanted::<Filter>::of(&request)?;
    let filter = AccessTokenFilter { tenant_id: wanted.filter.tenant_id, member_id: wanted.filter.member_id };
    let rows = Desk::of(&request)?.store.list_access_tokens(&filter, wanted.page()).await?;
    wanted.answer(rows, |token| token.id.uuid(), AccessTokenView::from)
}

async fn issue(request: HttpRequest, payload: web::Payload) -> Answer {
    let caller = operator(&request).await?;
    let desk = Desk::of(&request)?;
    let (bytes, value) = input::read(&request, payload).await?;
    let new = checked(desk, input::decode(&value)?).await?;
    let created = idempotency::once(desk, (caller.token_id, &request, &bytes), async |tx| {
        created(desk.identity.issue_in(tx, new).await?)
    });
    created.await?.answer()
}

async fn checked(desk: &Desk, input: AccessTokenInput) -> Result<NewToken, Problem> {
    let mut faults = Vec::new();
    if !is_label(&input.name) {
        faults.push(Fault::new("name", "expected 1 to 256 characters, none of them a control character"));
    }
    if let Some(tenant) = input.tenant_id {
        input::exists(&mut faults, "tenant_id", desk.store.lookup_tenant(tenant).await?.as_ref());
    }
    if input.expires_at.is_some_and(|at| at <= desk.clock.now()) {
        faults.push(Fault::new("expires_at", "expected an instant in the future"));
    }
    input::sound(faults)?;
    Ok(NewToken {
        tenant: input.tenant_id,
        member: input.member_id,
        name: input.name,
        form: input.kind,
        role: input.role,
        grants: input.grants,
        limits: input.limits,
        expires_at: input.expires_at,
    })
}

async fn named(desk: &Desk, request: &HttpRequest) -> Result<AccessToken, Problem> {
    let token = desk.store.lookup_access_token(id_in_path(request, NAME)?).await?;
    token.ok_or_else(|| Problem::missing(NAME))
}

async fn read(request: HttpRequest) -> Answer {
    operator(&request).await?;
    let token = named(Desk::of(&request)?, &request).await?;
    let version = version(&token);
    let tag = (header::ETAG, etag::of(version));
    if etag::is_known(&request, version) {
        return Ok(HttpResponse::NotModified().insert_header(tag).finish());
    }
    Ok(HttpResponse::Ok().insert_header(tag).json(AccessTokenView::from(token)))
}

async fn revoke(request: HttpRequest) -> Answer {
    operator(&request).await?;
    let desk = Desk::of(&request)?;
    let token = named(desk, &request).await?;
    if let Some(expected) = etag::expected(&request) {
        expected.check(version(&token))?;
    }
    let mut tx = desk.store.begin().await?;
    tx.revoke_access_token(token.id, desk.clock.now()).await?;
    tx.commit().await?;
    desk.enforce(Change::Access).await;
    Ok(HttpResponse::NoContent().finish())
}
