//! `POST …/chat/completions`.

use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse, http::header, web};

use crate::{
    http::{
        arrival::Arrival,
        body::{self, AnswerStream},
        failure,
        guard::{self, Access},
        openai::Door,
        room::BodyRoom,
    },
    relay::{Answer, AnswerBody, Incoming, Relay},
    telemetry::{self, Metrics, labels},
};

/// Serves one chat request: the caller is known before its body is read.
pub async fn create(request: HttpRequest, payload: web::Payload) -> HttpResponse {
    let arrival = Arrival::of(&request);
    let door = Door::of(&request);
    match serve(&request, payload, &arrival).await {
        Ok(answer) => render(answer, &request, &arrival),
        Err(refusal) => failure::render(&refusal, door, &arrival),
    }
}

async fn serve(
    request: &HttpRequest,
    payload: web::Payload,
    arrival: &Arrival,
) -> Result<Answer, failure::Refusal> {
    let principal = guard::caller(request, Access::Relay).await?;
    let room = request.app_data::<Arc<BodyRoom>>().ok_or(failure::Refusal::NotHere)?;
    let place = room.place(principal.tenant.as_ref().map(|tenant| tenant.id));
    let body =
        body::read(request, payload, Some(place)).await.inspect_err(|refusal| count(request, refusal))?;
    let relay = request.app_data::<Relay>().ok_or(failure::Refusal::NotHere)?;
    let span = telemetry::span!("relay.request", request.id = %arrival.request, otel.kind = "server");
    if let Some(parent) = request.headers().get("traceparent").and_then(|value| value.to_str().ok()) {
        telemetry::continue_trace(&span, parent);
    }
    let incoming = Incoming {
        request: arrival.request,
        principal,
        body,
        started_at: arrival.started_at,
        started: arrival.started,
        span,
    };
    Ok(relay.chat(incoming).await?)
}

/// Counts a body that was not read.
fn count(request: &HttpRequest, refusal: &failure::Refusal) {
    let reason = match refusal {
        failure::Refusal::TooLarge { .. } => labels::Refusal::TooLarge,
        failure::Refusal::NoRoom(_) => labels::Refusal::BodyMemory,
        _ => labels::Refusal::BadRequest,
    };
    if let Some(metrics) = request.app_data::<Arc<Metrics>>() {
        metrics.refused(reason);
    }
}

fn render(answer: Answer, request: &HttpRequest, arrival: &Arrival) -> HttpResponse {
    let mut response = HttpResponse::build(failure::status(answer.status));
    match &answer.headers {
        Some(headers) => {
            for (name, value) in headers.for_client() {
                response.insert_header((name.as_str(), value.as_bytes()));
            }
        }
        None => {
            response.insert_header((header::CONTENT_TYPE, "text/event-stream"));
        }
    }
    arrival.stamp(&mut response);
    match answer.body {
        AnswerBody::Whole(whole) => response.body(whole),
        AnswerBody::Flow(flow) => {
            let counted = request.app_data::<Arc<Metrics>>().map(|metrics| metrics.open_stream());
            response.body(AnswerStream::new(flow, counted))
        }
    }
}
