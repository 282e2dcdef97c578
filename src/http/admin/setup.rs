//! The first operator: the one-time set-up token that a new server prints, turned into an access
//! token.

use actix_web::{HttpRequest, http::Method, web};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    domain::secret::Secret,
    http::admin::{
        Answer, Desk,
        access_tokens::{self, IssuedView},
        input, schema,
        surface::{Operation, Surface},
    },
};

pub(super) fn register(surface: &mut Surface) {
    let (input, view) = (surface.schema::<SetupInput>(), surface.schema::<IssuedView>());
    let summary = "Turn the set-up token into the first operator's access token, once".to_owned();
    surface.add(
        Operation::new(Method::POST, "/setup".to_owned(), "setup", summary)
            .public()
            .takes(input)
            .gives(201, view),
        web::post().to(redeem),
    );
}

/// The token that the server printed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetupInput {
    /// `tw_setup_…`
    #[schema(schema_with = schema::secret)]
    setup_token: Secret,
}

async fn redeem(request: HttpRequest, payload: web::Payload) -> Answer {
    let desk = Desk::of(&request)?;
    let (_, value) = input::read(&request, payload).await?;
    let input: SetupInput = input::decode(&value)?;
    let issued = desk.identity.redeem_setup_token(input.setup_token.expose()).await?;
    access_tokens::created(issued)?.answer()
}
