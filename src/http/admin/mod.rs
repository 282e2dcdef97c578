//! The admin surface, `/admin/v1`: the platform's own people set up what the relay serves.
//!
//! [`routes`] is the whole surface. Each file is one resource: what can be written, what is shown, and
//! how the one becomes the other. `resource` holds the five operations that seven of them share;
//! what a resource does besides stands in its own file. `surface` takes each operation with its
//! description, so that the router and the OpenAPI document cannot say different things.
//!
//! To add a resource: one file that implements `resource::Resource`, and its line in [`routes`].

mod access_tokens;
mod etag;
mod grants;
mod idempotency;
mod input;
mod keys;
mod ledger;
mod live;
mod members;
mod models;
mod page;
mod problem;
mod providers;
mod resource;
mod routes;
mod schema;
mod setup;
mod surface;
mod tenants;
mod usage_events;

use std::sync::Arc;

use actix_web::{
    HttpRequest, HttpResponse,
    body::MessageBody,
    dev::{HttpServiceFactory, ServiceRequest, ServiceResponse},
    http::header::{CACHE_CONTROL, HeaderValue},
    middleware::{Next, from_fn},
    web,
};

use crate::{
    admission::Admission,
    billing::funds::Funds,
    catalog::Catalog,
    domain::{
        clock::{SharedClock, SharedEntropy},
        principal::Principal,
    },
    http::{
        admin::{problem::Problem, surface::Surface},
        arrival::{Arrival, REQUEST_ID},
        body::BodyLimit,
        failure::Refusal,
        guard::{self, Access},
    },
    identity::Identity,
    net::Guard,
    store::{Change, Store},
    vault::Vault,
};

pub use idempotency::forget_old_answers;

/// Where the surface is.
pub const PREFIX: &str = "/admin/v1";
/// The largest body it takes, bytes.
const BODY_LIMIT: usize = 1 << 20;

/// What the admin surface works with.
#[derive(Clone)]
pub struct Desk {
    /// The durable facts.
    pub store: Store,
    /// Seals upstream secrets.
    pub vault: Arc<Vault>,
    /// Issues access tokens.
    pub identity: Arc<Identity>,
    /// What this replica serves; told of changes at once.
    pub catalog: Arc<Catalog>,
    /// Live state of keys.
    pub admission: Admission,
    /// What tenants can spend; told of bookings at once.
    pub funds: Arc<Funds>,
    /// Which addresses may be called.
    pub guard: Arc<Guard>,
    /// Time.
    pub clock: SharedClock,
    /// Randomness.
    pub entropy: SharedEntropy,
}

/// What a handler ends with.
type Answer = Result<HttpResponse, Problem>;

/// The surface, for [`super::configure`].
pub fn routes(desk: Desk) -> impl HttpServiceFactory {
    let mut surface = Surface::default();
    resource::register::<providers::Providers>(&mut surface);
    resource::register::<keys::Keys>(&mut surface);
    resource::register::<models::Models>(&mut surface);
    resource::register::<routes::Routes>(&mut surface);
    resource::register::<tenants::Tenants>(&mut surface);
    resource::register::<members::Members>(&mut surface);
    resource::register::<grants::Grants>(&mut surface);
    access_tokens::register(&mut surface);
    ledger::register(&mut surface);
    usage_events::register(&mut surface);
    live::register(&mut surface);
    setup::register(&mut surface);
    surface
        .into_scope(PREFIX)
        .app_data(desk)
        .app_data(BodyLimit(BODY_LIMIT))
        .default_service(web::to(async || Err::<HttpResponse, _>(Problem::unknown_path())))
        .wrap(from_fn(attended))
}

impl Desk {
    /// The desk of a request.
    fn of(request: &HttpRequest) -> Result<&Self, Problem> {
        Ok(request.app_data::<Self>().ok_or(Refusal::NotHere)?)
    }

    /// Puts a change in force on this replica; others hear of it by themselves.
    async fn enforce(&self, change: Change) {
        let refreshed = match change {
            Change::Catalog => self.catalog.refresh().await.map_err(|error| error.to_string()),
            Change::Access => self.identity.refresh().await.map_err(|error| error.to_string()),
        };
        if let Err(error) = refreshed {
            tracing::warn!(%error, "a change is stored, but not in force yet on this replica");
        }
    }
}

/// The operator who calls.
async fn operator(request: &HttpRequest) -> Result<Arc<Principal>, Problem> {
    Ok(guard::caller(request, Access::Operator).await?)
}

/// Gives every answer its request id, keeps it out of caches, and logs what the caller is not told.
async fn attended(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, actix_web::Error> {
    let arrival = Arrival::of(request.request());
    let mut response = next.call(request).await?;
    let cause = response.response().error().and_then(|error| error.as_error::<Problem>()?.cause());
    if let Some(cause) = cause {
        tracing::error!(
            request.id = %arrival.request,
            path = response.request().path(),
            error = cause,
            "the admin surface could not answer"
        );
    }
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(id) = HeaderValue::from_str(&arrival.request.to_string()) {
        headers.insert(REQUEST_ID, id);
    }
    Ok(response)
}
