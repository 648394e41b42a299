//! The one door to the network: every request of this crate leaves here. It gives each its deadline, sends reads
//! again when nothing was harmed, times it, logs it (never a token, never a body) and makes the error.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::StatusCode;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tracing::Instrument;
use url::Url;

use crate::error::{CloudError, Sent};
use crate::exchange::{Exchange, NoAnswer, Outgoing};
use crate::message;
use crate::observe::{HUNG, Watchers};
use crate::request::Request;
use crate::service::Service;

/// Waits before the second and third try of a read.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(300)];
/// An answer longer than this is not read.
const LONGEST_ANSWER: usize = 64 * 1024 * 1024;

/// How requests travel.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    /// Over the network.
    Http(Clients),
    /// Within the process, in simulations.
    Carried(Exchange),
}

/// The HTTP clients: one for all services, and those of services that have other certificates.
#[derive(Clone, Debug)]
pub(crate) struct Clients {
    pub(crate) usual: reqwest::Client,
    pub(crate) own: Arc<HashMap<Service, reqwest::Client>>,
}

impl Clients {
    fn of(&self, service: Service) -> &reqwest::Client {
        self.own.get(&service).unwrap_or(&self.usual)
    }
}

/// How requests travel, and how long they may take.
#[derive(Clone, Debug)]
pub(crate) struct Transport {
    pub(crate) way: Way,
    pub(crate) timeout: Duration,
    pub(crate) watchers: Watchers,
}

/// An answer with status 2xx or 3xx.
pub(crate) struct Answer {
    service: Service,
    operation: &'static str,
    pub(crate) status: StatusCode,
    headers: HeaderMap,
    request_id: Option<String>,
    body: Vec<u8>,
}

impl Transport {
    /// The time by which tokens expire.
    pub(crate) fn now(&self) -> DateTime<Utc> {
        match &self.way {
            Way::Http(_) => Utc::now(),
            Way::Carried(exchange) => exchange.carrier().now(),
        }
    }

    /// Sends a request until it is answered, at most three times if it is repeatable and else once, all within the timeout.
    pub(crate) async fn send(
        &self,
        request: &Request,
        endpoint: &Url,
        token: Option<&SecretString>,
        request_id: Option<&str>,
    ) -> Result<Answer, CloudError> {
        let url = request.url(endpoint)?;
        let headers = headers(request, token, request_id);
        let deadline = Instant::now() + self.timeout;
        let mut pauses = PAUSES.iter();
        loop {
            let outcome = self.send_once(request, &url, &headers, token, request_id, deadline).await;
            let Err(error) = &outcome else { return outcome };
            let again = request.repeatable && worth_another_try(error);
            match pauses.next() {
                Some(pause) if again && Instant::now() + *pause < deadline => tokio::time::sleep(*pause).await,
                _ => return outcome,
            }
        }
    }

    async fn send_once(
        &self,
        request: &Request,
        url: &Url,
        headers: &HeaderMap,
        token: Option<&SecretString>,
        request_id: Option<&str>,
        deadline: Instant,
    ) -> Result<Answer, CloudError> {
        let span = tracing::info_span!(
            "cloud call",
            otel.kind = "client",
            otel.status_code = tracing::field::Empty,
            otel.name = %format_args!("{} {}", request.service.name(), request.operation),
            http.response.status_code = tracing::field::Empty,
        );
        let mut headers = headers.clone();
        if let Some(trace) = self.watchers.traceparent(&span) {
            headers.insert("traceparent", trace);
        }
        let call = self.watchers.begin(request.service, request.operation, span.clone(), HUNG);
        let time_left = deadline.saturating_duration_since(call.started());
        let outcome = self.exchange(request, url, headers, time_left).instrument(span).await;
        let outcome = match outcome {
            Ok(answer) if answer.status.is_success() || answer.status.is_redirection() => Ok(answer),
            Ok(answer) => {
                let secrets = || token.into_iter().chain(&request.subject).chain(&request.secrets);
                let words = message::of_body_without(&answer.body, |words| without(words, secrets()));
                Err(CloudError::refused(request.service, request.operation, answer.status.as_u16(), answer.request_id, &words))
            }
            Err(error) => Err(error),
        };
        let (status, cloud_id) = match &outcome {
            Ok(answer) => (Some(answer.status.as_u16()), answer.request_id.as_deref()),
            Err(error) => (error.status(), error.request_id()),
        };
        let took = call.ended(status, outcome.is_ok());
        tracing::debug!(
            service = request.service.name(),
            operation = request.operation,
            status,
            duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            request.id = request_id,
            cloud.request.id = cloud_id,
            "cloud call {}",
            if outcome.is_ok() { "answered" } else { "failed" },
        );
        outcome
    }

    async fn exchange(&self, request: &Request, url: &Url, headers: HeaderMap, time_left: Duration) -> Result<Answer, CloudError> {
        let client = match &self.way {
            Way::Http(clients) => clients.of(request.service),
            Way::Carried(exchange) => return carried(exchange, request, url, &headers, time_left).await,
        };
        let mut builder = client.request(request.method.clone(), url.clone()).headers(headers).timeout(time_left);
        if let Some(body) = &request.body {
            builder = builder.header(CONTENT_TYPE, "application/json").body(body.to_string());
        }
        let mut response = builder.send().await.map_err(|error| unreachable(request, &error))?;
        let status = response.status();
        let headers = std::mem::take(response.headers_mut());
        let request_id = request_id(&headers);
        let mut body = Vec::new();
        while let Some(part) = response.chunk().await.map_err(|error| unreachable(request, &error))? {
            if body.len() + part.len() > LONGEST_ANSWER {
                let (service, operation) = (request.service, request.operation);
                return Err(CloudError::malformed(service, operation, status.as_u16(), request_id, "the answer is too long"));
            }
            body.extend_from_slice(&part);
        }
        Ok(Answer { service: request.service, operation: request.operation, status, headers, request_id, body })
    }
}

/// The same through an exchange.
async fn carried(
    exchange: &Exchange,
    request: &Request,
    url: &Url,
    headers: &HeaderMap,
    time_left: Duration,
) -> Result<Answer, CloudError> {
    let outgoing = Outgoing {
        method: request.method.clone(),
        url: url.clone(),
        headers: headers.clone(),
        body: request.body.as_ref().map(ToString::to_string),
    };
    let answered = tokio::time::timeout(time_left, exchange.carrier().carry(outgoing)).await;
    let (service, operation) = (request.service, request.operation);
    let answer = answered.unwrap_or(Err(NoAnswer::Lost)).map_err(|error| match error {
        NoAnswer::Refused => CloudError::unreachable(service, operation, Sent::No, "no connection"),
        NoAnswer::Lost => CloudError::unreachable(service, operation, Sent::Perhaps, "no answer in time"),
    })?;
    let request_id = request_id(&answer.headers);
    Ok(Answer { service, operation, status: answer.status, headers: answer.headers, request_id, body: answer.body })
}

/// The cloud's own id of a request.
fn request_id(headers: &HeaderMap) -> Option<String> {
    ["x-openstack-request-id", "x-compute-request-id"].iter().find_map(|name| headers.get(*name)?.to_str().ok()).map(str::to_owned)
}

impl Answer {
    /// The body as JSON. The error says where it is wrong but not what stands there.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, CloudError> {
        serde_json::from_slice(&self.body).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            self.malformed(&format!("the answer is not as expected at line {line}, column {column}"))
        })
    }

    pub(crate) fn into_body(self) -> Vec<u8> {
        self.body
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub(crate) fn location(&self) -> Option<&str> {
        self.header(LOCATION.as_str())
    }

    pub(crate) fn malformed(&self, message: &str) -> CloudError {
        CloudError::malformed(self.service, self.operation, self.status.as_u16(), self.request_id.clone(), message)
    }
}

fn headers(request: &Request, token: Option<&SecretString>, request_id: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static(request.accept));
    if let Some(microversion) = request.microversion {
        headers.insert("openstack-api-version", HeaderValue::from_static(microversion));
    }
    let secrets = [("x-auth-token", token), ("x-subject-token", request.subject.as_ref())];
    for (name, secret) in secrets {
        // A token that is no header value reaches nobody: the service answers 401, which is the truth.
        if let Some(Ok(mut value)) = secret.map(|secret| HeaderValue::from_str(secret.expose_secret())) {
            value.set_sensitive(true);
            headers.insert(name, value);
        }
    }
    if let Some(Ok(value)) = request_id.map(HeaderValue::from_str) {
        headers.insert("x-openstack-request-id", value);
    }
    headers
}

fn worth_another_try(error: &CloudError) -> bool {
    match error.status() {
        // 408 may be meant for a connection that was kept, on which nothing had come for a while when this request did (RFC 9110, 15.5.9).
        Some(status) => matches!(status, 408 | 502..=504),
        None => error.kind() == crate::error::ErrorKind::Unreachable,
    }
}

/// reqwest's own text would name the URL; ours says what happened. The innermost source is the system's word.
fn unreachable(request: &Request, error: &reqwest::Error) -> CloudError {
    let sent = if error.is_connect() || error.is_builder() { Sent::No } else { Sent::Perhaps };
    let what = match (error.is_connect(), error.is_timeout()) {
        (true, true) => "no connection in time",
        (true, false) => "no connection",
        (false, true) => "no answer in time",
        (false, false) => "the connection was lost before the answer was complete",
    };
    let words = innermost(error);
    let message = if words.is_empty() || error.is_timeout() { what.to_owned() } else { format!("{what}: {words}") };
    CloudError::unreachable(request.service, request.operation, sent, &message)
}

/// What the innermost source of an error says: the system's word, or that of TLS.
pub(crate) fn innermost(error: &reqwest::Error) -> String {
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(error);
    let mut words = String::new();
    while let Some(inner) = cause {
        words = inner.to_string();
        cause = inner.source();
    }
    words
}

/// Of a secret that is longer, so much is enough to know it by.
const BEGINNING: usize = 32;

/// The text with every secret blanked, in case a service repeats what it was sent; a long one also where the service has cut it off.
fn without<'a>(text: &str, secrets: impl Iterator<Item = &'a SecretString>) -> String {
    let secrets = secrets.map(|secret| secret.expose_secret()).filter(|secret| secret.len() >= 4);
    secrets.fold(text.to_owned(), |text, secret| match secret.split_at_checked(BEGINNING) {
        Some((beginning, rest)) => without_begun(&text, beginning, rest),
        None => text.replace(secret, "***"),
    })
}

/// The text without what begins like a secret, as far as it goes on like it.
fn without_begun(text: &str, beginning: &str, rest: &str) -> String {
    let mut parts = text.split(beginning);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let same = part.chars().zip(rest.chars()).take_while(|(here, there)| here == there);
        let length: usize = same.map(|(here, _)| here.len_utf8()).sum();
        out.push_str("***");
        out.push_str(&part[length..]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_blanked_wherever_it_stands_and_a_long_one_also_where_it_was_cut_off() {
        let long: SecretString = format!("{}{}", "b".repeat(BEGINNING), "ü-the-rest-of-it").into();
        let (whole, begun) = (long.expose_secret().to_owned(), &long.expose_secret()[..BEGINNING + 4]);
        let short: SecretString = "hunter2".into();
        let none: SecretString = "abc".into();
        let blanked = |text: &str| without(text, [&long, &short, &none].into_iter());
        for (text, wanted) in [
            (format!("x {whole} y {whole}"), "x *** y ***"),
            (format!("x {begun}… y"), "x ***… y"),
            (begun.to_owned(), "***"),
            (format!("{whole}ü"), "***ü"),
            ("x hunter2hunter2 abc".to_owned(), "x ****** abc"),
            ("bbbb is no beginning".to_owned(), "bbbb is no beginning"),
        ] {
            assert_eq!(blanked(&text), wanted, "{text}");
        }
    }
}
