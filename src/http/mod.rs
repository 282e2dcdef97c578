//! The HTTP surfaces (floor 6), the only floor that knows actix.
//!
//! [`configure`] is the table of every path. A surface is a folder: it reads its dialect, calls the
//! relay, and writes its dialect. To add an admin resource: one file in `admin`.

pub mod address;
pub mod admin;
pub mod arrival;
pub mod body;
mod connection;
mod cors;
pub mod failure;
pub mod guard;
pub mod openai;
pub mod ops;
pub mod room;
pub mod sandbox;
pub mod serve;

use std::{sync::Arc, time::Duration};

use actix_web::{HttpRequest, HttpResponse, web};

use crate::{
    domain::money::Currency,
    http::{
        address::TrustedProxies,
        admin::Desk,
        arrival::{Arrival, Receptionist},
        body::{BodyLimit, BodyPatience},
        failure::Refusal,
        openai::Door,
        room::BodyRoom,
    },
    identity::Identity,
    relay::Relay,
    telemetry::Metrics,
};

/// What the surfaces of one worker use.
pub struct Surfaces {
    /// The request path of this worker.
    pub relay: Relay,
    /// Who calls.
    pub identity: Arc<Identity>,
    /// Ids and times of arrivals.
    pub receptionist: Receptionist,
    /// What is counted of those who are not let in.
    pub metrics: Arc<Metrics>,
    /// The same for every worker.
    pub config: SurfaceConfig,
    /// What the admin surface works with.
    pub desk: Desk,
}

/// What of the settings the surfaces look at.
#[derive(Debug, Clone)]
pub struct SurfaceConfig {
    /// The largest decoded body, bytes.
    pub body_limit: usize,
    /// What the bodies of all workers may take together.
    pub body_room: Arc<BodyRoom>,
    /// How long a body may take, besides the time that its bytes earn.
    pub body_patience: Duration,
    /// Who may say for whom it speaks.
    pub trusted_proxies: TrustedProxies,
    /// What prices and balances are in.
    pub currency: Currency,
}

/// Every path of the server.
pub fn configure(surfaces: Surfaces) -> impl FnOnce(&mut web::ServiceConfig) {
    move |app| {
        app.app_data(surfaces.relay)
            .app_data(surfaces.identity)
            .app_data(surfaces.receptionist)
            .app_data(surfaces.metrics)
            .app_data(surfaces.config.trusted_proxies)
            .app_data(surfaces.config.currency)
            .app_data(BodyLimit(surfaces.config.body_limit))
            .app_data(surfaces.config.body_room)
            .app_data(BodyPatience(surfaces.config.body_patience))
            .service(admin::routes(surfaces.desk))
            .service(openai::routes("/api/v1/relay", Door::Relay))
            .service(openai::routes("/v1/v1", Door::OpenAi))
            .service(openai::routes("/v1", Door::OpenAi))
            .default_service(web::to(not_found));
    }
}

async fn not_found(request: HttpRequest) -> HttpResponse {
    failure::render(&Refusal::NotFound, Door::OpenAi, &Arrival::of(&request))
}
