//! `POST …/chat/completions`.

use actix_web::{HttpRequest, HttpResponse, http::header, web};

use crate::{
    http::{
        arrival::Arrival,
        body::{self, AnswerStream},
        failure,
        guard::{self, Access},
        openai::Door,
    },
    relay::{Answer, AnswerBody, Incoming, Relay},
    telemetry,
};

/// Serves one chat request: the caller is known before its body is read.
pub async fn create(request: HttpRequest, payload: web::Payload) -> HttpResponse {
    let arrival = Arrival::of(&request);
    let door = Door::of(&request);
    match serve(&request, payload, &arrival).await {
        Ok(answer) => render(answer, &arrival),
        Err(refusal) => failure::render(&refusal, door, &arrival),
    }
}

async fn serve(
    request: &HttpRequest,
    payload: web::Payload,
    arrival: &Arrival,
) -> Result<Answer, failure::Refusal> {
    let principal = guard::caller(request, Access::Relay).await?;
    let body = body::read(request, payload).await?;
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

fn render(answer: Answer, arrival: &Arrival) -> HttpResponse {
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
        AnswerBody::Flow(flow) => response.body(AnswerStream::new(flow)),
    }
}
