//! OpenAI's surface: chat completions and the list of models, under `/v1` and under the relay path.

pub mod chat;
pub mod models;

use actix_web::{HttpRequest, Resource, Route, web};

use crate::http::{
    arrival::Arrival,
    failure::{self, Refusal},
};

/// Through which door a request came; it decides the status of an unknown model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// `/v1`, as OpenAI has it.
    OpenAi,
    /// `/api/v1/relay`, our own.
    Relay,
}

impl Door {
    /// The door of a request inside [`routes`].
    pub(super) fn of(request: &HttpRequest) -> Self {
        request.app_data::<Self>().copied().unwrap_or(Self::OpenAi)
    }
}

/// A path with one method; the others are told so in the surface's shape.
fn only(path: &str, allow: &'static str, route: Route) -> Resource {
    let others = move |request: HttpRequest| async move {
        failure::render(&Refusal::MethodNotAllowed { allow }, Door::of(&request), &Arrival::of(&request))
    };
    web::resource(path).route(route).default_service(web::to(others))
}

/// The surface below `prefix`.
pub fn routes(prefix: &str, door: Door) -> actix_web::Scope {
    web::scope(prefix)
        .app_data(door)
        .service(only("/chat/completions", "POST", web::post().to(chat::create)))
        .service(only("/models", "GET", web::get().to(models::list)))
        .service(only("/models/{model:.+}", "GET", web::get().to(models::retrieve)))
}
