//! OpenAI's surface: chat completions and the list of models, under `/v1` and under the relay path.

pub mod chat;
pub mod models;

use actix_web::{HttpRequest, web};

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

/// The surface below `prefix`.
pub fn routes(prefix: &str, door: Door) -> actix_web::Scope {
    web::scope(prefix)
        .app_data(door)
        .service(web::resource("/chat/completions").route(web::post().to(chat::create)))
        .service(web::resource("/models").route(web::get().to(models::list)))
        .service(web::resource("/models/{model:.+}").route(web::get().to(models::retrieve)))
}
