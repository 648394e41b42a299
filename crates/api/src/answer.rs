//! What a handler answers, and how answers and errors become HTTP: bodies, microversion headers, the four forms of errors.

mod pieces;

use std::convert::Infallible;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderName, HeaderValue};
use actix_web::web::Bytes;
use futures::stream::BoxStream;
use model::store::StoreError;
use model::store::idempotency::Stored;
use serde::Serialize;

use self::pieces::Pieces;
use crate::accept::Accept;
use crate::error::{ApiError, Form, reason};
use crate::microversion::{HEADER, MAX, MIN, Microversion, Refused, SERVICE_WORD};
use crate::view::operation::Acted;

/// The header that carries the request id of an answer.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-openstack-request-id");
const MIN_HEADER: HeaderName = HeaderName::from_static("openstack-api-minimum-version");
const MAX_HEADER: HeaderName = HeaderName::from_static("openstack-api-maximum-version");
const VERSION_HEADER: HeaderName = HeaderName::from_static("openstack-api-version");

/// The media type of server-sent events.
pub const EVENT_STREAM: &str = "text/event-stream";

/// A good answer.
#[derive(Debug)]
pub struct Answer {
    kind: Kind,
    body: Pieces,
}

#[derive(Debug)]
enum Kind {
    Ok,
    Created(String),
    Accepted,
    NoContent,
    Stream(Stream),
}

/// Server-sent events, as they come. Behind a lock only because answers are shared between threads while they are kept; nobody waits for it.
pub struct Stream(Mutex<BoxStream<'static, Result<Bytes, Infallible>>>);

impl Stream {
    /// Of these pieces.
    pub fn new(pieces: BoxStream<'static, Result<Bytes, Infallible>>) -> Self {
        Self(Mutex::new(pieces))
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stream")
    }
}

/// An answer made inside a transaction.
pub fn in_store(answer: Result<Answer, ApiError>) -> Result<Answer, StoreError> {
    answer.map_err(|error| StoreError::Database(error.to_string()))
}

impl Answer {
    /// 200 with a body.
    pub fn ok<T: Serialize>(body: &T) -> Result<Self, ApiError> {
        Ok(Self { kind: Kind::Ok, body: json(body)? })
    }

    /// 201 with a body, and where the new thing is (empty: nowhere of its own).
    pub fn created<T: Serialize>(body: &T, location: String) -> Result<Self, ApiError> {
        Ok(Self { kind: Kind::Created(location), body: json(body)? })
    }

    /// 202 with the uuid of what is being worked on.
    pub fn accepted(uuid: &str) -> Result<Self, ApiError> {
        #[derive(Serialize)]
        struct Uuid<'a> {
            uuid: &'a str,
        }
        Ok(Self { kind: Kind::Accepted, body: json(&Uuid { uuid })? })
    }

    /// 202 with what is being worked on.
    pub fn accepted_with<T: Serialize>(body: &T) -> Result<Self, ApiError> {
        Ok(Self { kind: Kind::Accepted, body: json(body)? })
    }

    /// 202 with the uuids of a cluster and of the operation that works on it.
    pub fn acted(uuid: &str, operation_id: &str) -> Result<Self, ApiError> {
        Self::accepted_with(&Acted { uuid, operation_id })
    }

    /// 200 with events as they come.
    pub fn stream(stream: Stream) -> Self {
        Self { kind: Kind::Stream(stream), body: Pieces::default() }
    }

    /// Whether it goes on as a stream.
    pub fn is_stream(&self) -> bool {
        matches!(self.kind, Kind::Stream(_))
    }

    /// As it is kept for a request that may come again.
    pub fn stored(&self) -> Stored {
        let location = match &self.kind {
            Kind::Created(location) => Some(location.clone()),
            Kind::Ok | Kind::Accepted | Kind::NoContent | Kind::Stream(_) => None,
        };
        Stored { status: self.status(), location, body: String::from_utf8_lossy(&self.body()).into_owned() }
    }

    /// An answer that was given before.
    pub fn replayed(stored: Stored) -> Self {
        let kind = match stored.status {
            201 => Kind::Created(stored.location.unwrap_or_default()),
            202 => Kind::Accepted,
            204 => Kind::NoContent,
            _ => Kind::Ok,
        };
        Self { kind, body: Pieces::of(stored.body.into_bytes()) }
    }

    /// 204.
    pub fn no_content() -> Self {
        Self { kind: Kind::NoContent, body: Pieces::default() }
    }

    /// The status it is sent with.
    pub fn status(&self) -> u16 {
        match self.kind {
            Kind::Ok | Kind::Stream(_) => 200,
            Kind::Created(_) => 201,
            Kind::Accepted => 202,
            Kind::NoContent => 204,
        }
    }

    /// The body; empty when there is none.
    pub fn body(&self) -> Vec<u8> {
        self.body.joined()
    }

    /// As HTTP.
    pub fn into_response(self) -> HttpResponse {
        match self.kind {
            Kind::Ok => HttpResponse::Ok().content_type(mime()).body(self.body),
            Kind::Accepted => HttpResponse::Accepted().content_type(mime()).body(self.body),
            Kind::NoContent => HttpResponse::NoContent().finish(),
            Kind::Stream(stream) => HttpResponse::Ok()
                .content_type(HeaderValue::from_static(EVENT_STREAM))
                .insert_header((header::CACHE_CONTROL, "no-store"))
                // nginx keeps what it proxies until there is a lot of it.
                .insert_header(("X-Accel-Buffering", "no"))
                .streaming(stream.0.into_inner().unwrap_or_else(PoisonError::into_inner)),
            Kind::Created(location) => {
                let mut response = HttpResponse::Created();
                if !location.is_empty() {
                    response.insert_header((header::LOCATION, location));
                }
                response.content_type(mime()).body(self.body)
            }
        }
    }
}

fn mime() -> HeaderValue {
    HeaderValue::from_static("application/json")
}

fn json<T: Serialize>(body: &T) -> Result<Pieces, ApiError> {
    let mut pieces = Pieces::default();
    serde_json::to_writer(&mut pieces, body).map_err(|e| ApiError::Internal(format!("serialise the answer: {e}")))?;
    Ok(pieces)
}

/// Adds the microversion headers; `served` is a version of ours or one that was refused.
pub fn add_version_headers(response: &mut HttpResponse, served: &str) {
    let headers = response.headers_mut();
    let value = |version: &str| HeaderValue::from_str(&format!("{SERVICE_WORD} {version}"));
    let pairs = [(MIN_HEADER, value(&MIN.to_string())), (MAX_HEADER, value(&MAX.to_string())), (VERSION_HEADER, value(served))];
    for (name, value) in pairs {
        if let Ok(value) = value {
            headers.insert(name, value);
        }
    }
    headers.insert(header::VARY, HeaderValue::from_static(HEADER));
}

/// What an error's answer needs to know of its request.
pub struct Failed<'a> {
    pub request_id: &'a str,
    pub accept: Accept,
    /// The version the request is served at; none before its header was read, and outside `/v1`.
    pub version: Option<Microversion>,
    pub is_head: bool,
    pub www_authenticate_uri: &'a str,
}

#[derive(Serialize)]
struct Errors<T> {
    errors: [T; 1],
}

#[derive(Serialize)]
struct Plain<'a> {
    request_id: &'a str,
    code: &'a str,
    status: u16,
    title: &'a str,
    detail: &'a str,
    links: [(); 0],
}

#[derive(Serialize)]
struct Link {
    rel: &'static str,
    href: &'static str,
}

#[derive(Serialize)]
struct Unsupported<'a> {
    code: &'static str,
    title: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    max_version: String,
    min_version: String,
    links: [Link; 1],
}

#[derive(Serialize)]
struct Token<'a> {
    error: TokenError<'a>,
}

#[derive(Serialize)]
struct TokenError<'a> {
    code: u16,
    title: &'static str,
    message: &'a str,
}

/// An error as HTTP.
pub fn failed(error: &ApiError, at: &Failed<'_>) -> HttpResponse {
    let (status, form) = error.http();
    let code = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = HttpResponse::build(code);
    if let ApiError::Method { allow } = error {
        response.insert_header((header::ALLOW, *allow));
    }
    if let Some(seconds) = error.retry_after() {
        response.insert_header((header::RETRY_AFTER, seconds));
    }
    if at.is_head {
        return response.finish();
    }
    let outside = error.outside(at.request_id);
    let (mut response, versioned) = match form {
        Form::Normal => {
            let title = outside.split('.').next().unwrap_or_default();
            let kind = if status < 500 { "client" } else { "server" };
            let body = Plain { request_id: "", code: kind, status, title, detail: &outside, links: [] };
            (send(&mut response, &Errors { errors: [body] }), at.version.map(|v| v.to_string()))
        }
        Form::Framework => {
            let named = at.accept == Accept::NamesJson;
            let (title, detail) = if named { (reason(status), outside.as_str()) } else { ("", "") };
            let body = Plain { request_id: "", code: "", status, title, detail, links: [] };
            (send(&mut response, &Errors { errors: [body] }), None)
        }
        Form::Microversion => {
            let requested = match error {
                ApiError::Version(Refused::OutOfRange { requested, .. }) => requested.clone(),
                _ => MIN.to_string(),
            };
            let body = Unsupported {
                code: "magnum.microversion-unsupported",
                title: "Requested microversion is unsupported",
                description: (at.accept == Accept::NamesJson).then_some(outside.as_str()),
                max_version: MAX.to_string(),
                min_version: MIN.to_string(),
                links: [Link { rel: "help", href: "http://docs.openstack.org/api-guide/compute/microversions.html" }],
            };
            (send(&mut response, &Errors { errors: [body] }), Some(requested))
        }
        Form::Token => {
            response.insert_header((header::WWW_AUTHENTICATE, format!("Keystone uri=\"{}\"", at.www_authenticate_uri)));
            let error = TokenError { code: status, title: "Unauthorized", message: &outside };
            (send(&mut response, &Token { error }), None)
        }
        Form::Text => (response.content_type("text/plain; charset=UTF-8").body(outside), None),
    };
    if let Some(version) = versioned {
        add_version_headers(&mut response, &version);
    }
    response
}

fn send<T: Serialize>(response: &mut actix_web::HttpResponseBuilder, body: &T) -> HttpResponse {
    response.content_type(mime()).body(serde_json::to_vec(body).expect("error bodies are plain data"))
}

#[cfg(test)]
mod tests;
