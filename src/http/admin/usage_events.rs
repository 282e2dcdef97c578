//! Usage events: what was requested, tried, consumed and charged.

use actix_web::{HttpRequest, HttpResponse, http::Method, web};
use serde::{Deserialize, Serialize};
use utoipa::{
    IntoParams, ToSchema,
    openapi::{Object, ObjectBuilder, schema::Type},
};

use crate::{
    domain::{
        clock::Timestamp,
        event::{Attempt, Outcome, UsageEvent},
        failure::FailureClass,
        ids::{AccessTokenId, KeyId, MemberId, ModelId, ProviderId, ReplicaId, RequestId, RouteId, TenantId},
        money::Nanos,
        provider::ApiFormat,
        usage::Usage,
    },
    http::admin::{
        Answer, Desk, operator,
        page::Wanted,
        problem::Problem,
        resource::id_in_path,
        schema::{self, amount},
        surface::{Operation, Surface},
    },
    store::EventFilter,
};

pub(super) fn register(surface: &mut Surface) {
    let describe = |path: &str, summary: &str| {
        Operation::new(Method::GET, path.to_owned(), "usage-events", summary.to_owned())
    };
    let view = surface.schema::<EventView>();
    surface.add(
        describe("/usage-events", "List usage events, oldest first")
            .listing::<Filter>()
            .gives(200, Surface::list_of(&view)),
        web::get().to(list),
    );
    surface.add(describe("/usage-events/{id}", "Read a usage event").gives(200, view), web::get().to(read));
}

/// A usage event as it is shown.
#[derive(Serialize, ToSchema)]
#[schema(as = UsageEvent)]
pub struct EventView {
    /// The request, as `x-request-id` named it.
    #[schema(value_type = String)]
    id: RequestId,
    /// Who pays.
    #[schema(value_type = String)]
    tenant_id: TenantId,
    /// Which person.
    #[schema(value_type = Option<String>)]
    member_id: Option<MemberId>,
    /// Which access token.
    #[schema(value_type = String)]
    token_id: AccessTokenId,
    /// Which model.
    #[schema(value_type = String)]
    model_id: ModelId,
    /// The model's public name at the time.
    model: String,
    /// The format that the client speaks.
    #[schema(schema_with = schema::format)]
    format: ApiFormat,
    /// Whether the client asked for a stream.
    stream: bool,
    /// How it ended: completed, aborted, rejected, failed or interrupted.
    #[schema(value_type = String)]
    outcome: Outcome,
    /// The status that the client was given; 0 when it left before one was.
    status: u16,
    /// What was consumed.
    #[schema(schema_with = usage)]
    usage: Usage,
    /// What the tenant pays.
    #[serde(with = "amount")]
    #[schema(schema_with = schema::money)]
    charge: Option<Nanos>,
    /// What the provider takes.
    #[serde(with = "amount")]
    #[schema(schema_with = schema::money)]
    cost: Option<Nanos>,
    /// When the request came.
    #[schema(schema_with = schema::instant)]
    started_at: Timestamp,
    /// From there to the first content, ms.
    first_content_ms: Option<u32>,
    /// From there to the end, ms.
    duration_ms: u32,
    /// Which copy of the server served it.
    #[schema(value_type = String)]
    replica_id: ReplicaId,
    /// Every try, in order.
    attempts: Vec<AttemptView>,
}

/// One try of one route with one key.
#[derive(Serialize, ToSchema)]
#[schema(as = Attempt)]
pub struct AttemptView {
    /// Which route.
    #[schema(value_type = String)]
    route_id: RouteId,
    /// Which provider.
    #[schema(value_type = String)]
    provider_id: ProviderId,
    /// Which key.
    #[schema(value_type = String)]
    key_id: KeyId,
    /// The model name sent upstream.
    upstream_model: String,
    /// When it was sent.
    #[schema(schema_with = schema::instant)]
    started_at: Timestamp,
    /// From there to its end, ms.
    duration_ms: u32,
    /// The upstream's status, if it gave one.
    status: Option<u16>,
    /// What went wrong; null: nothing.
    #[schema(value_type = Option<String>)]
    class: Option<FailureClass>,
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
    /// Of this access token.
    #[param(value_type = Option<String>)]
    token_id: Option<AccessTokenId>,
    /// For this model.
    #[param(value_type = Option<String>)]
    model_id: Option<ModelId>,
    /// From this instant on.
    #[param(schema_with = schema::instant)]
    since: Option<Timestamp>,
    /// Before this instant.
    #[param(schema_with = schema::instant)]
    until: Option<Timestamp>,
}

/// Tokens by class, each token in one of them, and who counted.
fn usage() -> Object {
    let count = || ObjectBuilder::new().schema_type(Type::Integer).build();
    let classes = [
        "input_tokens",
        "cache_read_tokens",
        "cache_write_5m_tokens",
        "cache_write_1h_tokens",
        "output_tokens",
        "reasoning_tokens",
        "audio_input_tokens",
        "audio_output_tokens",
        "images",
        "requests",
    ];
    let object = ObjectBuilder::new().schema_type(Type::Object);
    let sources = ["upstream", "partial", "estimated", "none"];
    let source = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(sources));
    classes
        .iter()
        .fold(object, |object, class| object.property(*class, count()))
        .property("source", source)
        .build()
}

impl From<UsageEvent> for EventView {
    fn from(event: UsageEvent) -> Self {
        Self {
            id: event.id,
            tenant_id: event.tenant_id,
            member_id: event.member_id,
            token_id: event.token_id,
            model_id: event.model_id,
            model: event.model,
            format: event.format,
            stream: event.stream,
            outcome: event.outcome,
            status: event.status,
            usage: event.usage,
            charge: Some(event.charge),
            cost: Some(event.cost),
            started_at: event.started_at,
            first_content_ms: event.first_content_ms,
            duration_ms: event.duration_ms,
            replica_id: event.replica_id,
            attempts: event.attempts.into_iter().map(AttemptView::from).collect(),
        }
    }
}

impl From<Attempt> for AttemptView {
    fn from(attempt: Attempt) -> Self {
        Self {
            route_id: attempt.route_id,
            provider_id: attempt.provider_id,
            key_id: attempt.key_id,
            upstream_model: attempt.upstream_model,
            started_at: attempt.started_at,
            duration_ms: attempt.duration_ms,
            status: attempt.status,
            class: attempt.class,
        }
    }
}

async fn list(request: HttpRequest) -> Answer {
    operator(&request).await?;
    let wanted = Wanted::<Filter>::of(&request)?;
    let filter = EventFilter {
        tenant_id: wanted.filter.tenant_id,
        member_id: wanted.filter.member_id,
        token_id: wanted.filter.token_id,
        model_id: wanted.filter.model_id,
        since: wanted.filter.since,
        until: wanted.filter.until,
    };
    let rows = Desk::of(&request)?.store.list_events(&filter, wanted.page()).await?;
    wanted.answer(rows, |event| event.id.uuid(), EventView::from)
}

async fn read(request: HttpRequest) -> Answer {
    operator(&request).await?;
    let id = id_in_path(&request, "usage event")?;
    let event = Desk::of(&request)?.store.lookup_event(id).await?;
    let event = event.ok_or_else(|| Problem::missing("usage event"))?;
    Ok(HttpResponse::Ok().json(EventView::from(event)))
}
