//! `GET …/models`: what the caller may use, as one superset of OpenAI's list.

use actix_web::{HttpRequest, HttpResponse, http::header, web};
use bytes::Bytes;

use crate::{
    catalog::Served,
    domain::money::{Currency, Nanos},
    http::{
        arrival::Arrival,
        failure::{self, Refusal},
        guard::{self, Access},
        openai::Door,
    },
    relay::{Failure, Relay},
    wire::openai_chat::{ModelCapabilities, ModelEntry, ModelPricing, encode_model, encode_model_list},
};

/// Lists the models of the caller.
pub async fn list(request: HttpRequest) -> HttpResponse {
    let arrival = Arrival::of(&request);
    let listed = async {
        let principal = guard::caller(&request, Access::Relay).await?;
        let relay = request.app_data::<Relay>().ok_or(Refusal::NotHere)?;
        let models = relay.models(&principal);
        let currency = currency(&request)?;
        Ok(encode_model_list(models.iter().map(|served| entry(served, currency))))
    };
    answer(listed.await, &request, &arrival)
}

/// One model of the caller.
pub async fn retrieve(request: HttpRequest, name: web::Path<String>) -> HttpResponse {
    let arrival = Arrival::of(&request);
    let found = async {
        let principal = guard::caller(&request, Access::Relay).await?;
        let relay = request.app_data::<Relay>().ok_or(Refusal::NotHere)?;
        let models = relay.models(&principal);
        let served = models
            .iter()
            .find(|served| served.model.name == *name)
            .ok_or_else(|| Failure::Model { model: name.into_inner() })?;
        Ok(encode_model(entry(served, currency(&request)?)))
    };
    answer(found.await, &request, &arrival)
}

fn answer(result: Result<Bytes, Refusal>, request: &HttpRequest, arrival: &Arrival) -> HttpResponse {
    match result {
        Ok(body) => {
            let mut response = HttpResponse::Ok();
            response.insert_header((header::CONTENT_TYPE, "application/json"));
            arrival.stamp(&mut response);
            response.body(body)
        }
        Err(refusal) => failure::render(&refusal, Door::of(request), arrival),
    }
}

fn currency(request: &HttpRequest) -> Result<Currency, Refusal> {
    request.app_data::<Currency>().copied().ok_or(Refusal::NotHere)
}

fn entry(served: &Served, currency: Currency) -> ModelEntry<'_> {
    let model = &served.model;
    let capabilities = model.capabilities;
    let prices = model.prices;
    let text = |price: Option<Nanos>| price.map(|price| price.to_string());
    ModelEntry {
        id: &model.name,
        created: model.created_at.unix_s(),
        owned_by: "tollway",
        capabilities: ModelCapabilities {
            tools: capabilities.tools,
            vision: capabilities.vision,
            pdf: capabilities.pdf,
            audio: capabilities.audio,
            video: capabilities.video,
            json_schema: capabilities.json_schema,
            reasoning: capabilities.reasoning,
            search: capabilities.search,
        },
        context_length: model.context_tokens,
        max_output_tokens: model.max_output_tokens,
        pricing: prices.is_set().then(|| ModelPricing {
            currency: currency.to_string(),
            input: text(prices.input).unwrap_or_else(|| "0.00".to_owned()),
            output: text(prices.output).unwrap_or_else(|| "0.00".to_owned()),
            cache_read: text(prices.cache_read),
            cache_write: text(prices.cache_write_5m),
        }),
    }
}
