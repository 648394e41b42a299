//! `/healthcheck`: outside the API proper, without token, request id or version headers; any method.

use actix_web::{HttpRequest, HttpResponse};

use crate::settings::Settings;
use crate::view::shape::{Object, Property, Shape, TEXTS};

/// Where it is served.
pub const PATH: &str = "/healthcheck";

/// Its answer to whoever asks for JSON.
pub static HEALTH: Object = Object {
    name: "Health",
    properties: &[
        Property::always("detailed", Shape::Boolean, "Always false."),
        Property::always("reasons", TEXTS, "Why it is as it is: one text."),
    ],
    like: None,
};

/// Healthy unless the operator has taken this process out of service, or it is about to stop.
pub fn check(request: &HttpRequest, settings: &Settings) -> HttpResponse {
    let (disabled, leaving) = ((settings.healthcheck_disabled)(), (settings.leaving)());
    let accept = request.headers().get("accept").and_then(|v| v.to_str().ok()).unwrap_or_default();
    let reason = match (disabled, leaving) {
        (true, _) => "DISABLED BY FILE",
        (false, true) => "STOPPING",
        (false, false) => "OK",
    };
    let mut response = match (disabled || leaving, request.method().as_str()) {
        (true, _) => HttpResponse::ServiceUnavailable(),
        (false, "HEAD") => return HttpResponse::NoContent().finish(),
        (false, _) => HttpResponse::Ok(),
    };
    if accept.contains("application/json") {
        return response.json(told(reason));
    }
    if accept.contains("text/html") {
        let page = format!("<!DOCTYPE html><html><head><title>Healthcheck Status</title></head><body><p>{reason}</p></body></html>");
        return response.content_type("text/html; charset=UTF-8").body(page);
    }
    response.content_type("text/plain; charset=UTF-8").body(reason)
}

/// As [`HEALTH`] describes it.
pub fn told(reason: &str) -> serde_json::Value {
    serde_json::json!({"detailed": false, "reasons": [reason]})
}
