//! The HTTP server: one request from its first byte to its answer.
//!
//! Order: request id, public documents, token, `Accept`, microversion, route. An error is logged once, here.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::http::header::HeaderValue;
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use futures::StreamExt;
use model::queue::Doorbell;
use model::seal::Sealer;
use model::store::Store;
use provider_clients::{Cloud, Session};
use secrecy::SecretString;
use tracing::Instrument;

use crate::accept::{self, Accept};
use crate::answer::{self, Answer, Failed, REQUEST_ID};
use crate::context::{Context, RawBody, Shared};
use crate::error::ApiError;
use crate::identity::{Caller, Identity};
use crate::microversion::{self, Microversion};
use crate::policy::Policy;
use crate::settings::Settings;
use crate::{discovery, health, routes};

/// Bytes of a body at most.
const BODY_LIMIT: usize = 1024 * 1024;
/// Seconds that a client has for its body.
const BODY_SECONDS: u64 = 30;
/// How long an idle connection is kept for the next request.
const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// How long a client has for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long requests at work have to end when the server stops.
const STOP_SECONDS: u64 = 30;
/// Connections at most, over all workers.
const MAX_CONNECTIONS: usize = 8192;

/// Everything the API works with.
pub struct Api {
    pub store: Store,
    pub doorbell: Doorbell,
    pub cloud: Cloud,
    /// The service user, who asks Keystone about tokens.
    pub service: Session,
    pub sealer: Sealer,
    pub settings: Settings,
    pub policy: Policy,
}

/// Serves on a bound socket. Must be called within a tokio runtime; the caller awaits and stops what is returned.
pub fn serve(api: Api, listener: TcpListener) -> std::io::Result<actix_web::dev::Server> {
    let believed = Duration::from_secs(api.settings.token_cache_seconds);
    let workers = api.settings.workers.max(1);
    let shared = Arc::new(Shared {
        store: api.store,
        doorbell: api.doorbell,
        cloud: api.cloud,
        service: api.service,
        sealer: api.sealer,
        settings: api.settings,
        policy: api.policy,
        identity: Identity::new(believed),
        runtime: tokio::runtime::Handle::current(),
    });
    let server = HttpServer::new(move || App::new().app_data(web::Data::from(shared.clone())).default_service(web::to(entry)))
        .workers(workers)
        .max_connections(MAX_CONNECTIONS / workers)
        .keep_alive(KEEP_ALIVE)
        .client_request_timeout(HEAD_TIMEOUT)
        .shutdown_timeout(STOP_SECONDS)
        // Signals are the program's affair.
        .disable_signals()
        .listen(listener)?;
    Ok(server.run())
}

async fn entry(request: HttpRequest, payload: web::Payload, shared: web::Data<Shared>) -> HttpResponse {
    let shared = shared.into_inner();
    if request.path() == "/healthcheck" {
        return health::check(&request, &shared.settings);
    }
    let request_id = format!("req-{}", uuid::Uuid::new_v4());
    let span = tracing::info_span!(
        "request",
        request.id = %request_id,
        request.global_id = global_request_id(&request).unwrap_or_default(),
        user.id = tracing::field::Empty,
        project.id = tracing::field::Empty,
    );
    let mut response = answer_to(&request, payload, shared, request_id.clone()).instrument(span).await;
    if let Ok(value) = HeaderValue::from_str(&request_id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

async fn answer_to(request: &HttpRequest, payload: web::Payload, shared: Arc<Shared>, request_id: String) -> HttpResponse {
    let started = Instant::now();
    let accept = accept::parse(header(request, "accept"));
    let mut version = None;
    let result = handle(request, payload, &shared, &request_id, accept, &mut version).await;
    let mut response = match result {
        Ok(Good::Document(body)) => HttpResponse::Ok().content_type(HeaderValue::from_static("application/json")).body(body),
        Ok(Good::Empty) => HttpResponse::Ok().finish(),
        Ok(Good::Answer(good)) => good.into_response(),
        Err(error) => {
            if error.is_fault() {
                tracing::error!(error = error.inside(), method = %request.method(), path = request.path(), "failed to answer a request");
            }
            let failed = Failed {
                request_id: &request_id,
                accept,
                version,
                is_head: request.method() == actix_web::http::Method::HEAD,
                www_authenticate_uri: &shared.settings.www_authenticate_uri,
            };
            let response = answer::failed(&error, &failed);
            log(request, response.status().as_u16(), started);
            return response;
        }
    };
    if let Some(version) = version {
        answer::add_version_headers(&mut response, &version.to_string());
    }
    log(request, response.status().as_u16(), started);
    response
}

fn log(request: &HttpRequest, status: u16, started: Instant) {
    let (method, path, duration_ms) = (request.method(), request.path(), started.elapsed().as_millis() as u64);
    if request.method().is_safe() {
        tracing::debug!(%method, path, status, duration_ms, "request answered");
    } else {
        tracing::info!(%method, path, status, duration_ms, "request answered");
    }
}

enum Good {
    Document(String),
    Empty,
    Answer(Answer),
}

async fn handle(
    request: &HttpRequest,
    payload: web::Payload,
    shared: &Arc<Shared>,
    request_id: &str,
    accept: Accept,
    version: &mut Option<Microversion>,
) -> Result<Good, ApiError> {
    let method = request.method().as_str();
    let base = base_url(request, shared.settings.enable_proxy_headers);
    let refuses = || ApiError::NotAcceptable("The service answers in application/json only.".into());
    match (method, request.path()) {
        // HAProxy's default check.
        ("OPTIONS", "/") => return Ok(Good::Empty),
        ("GET", "/") if accept == Accept::Refuses => return Err(refuses()),
        ("GET", "/") => return Ok(Good::Document(discovery::root(&base).to_string())),
        (_, "/") => return Err(ApiError::Method { allow: "GET" }),
        ("GET", "/v1" | "/v1/") => {
            *version = Some(microversion::parse(header(request, microversion::HEADER))?);
            if accept == Accept::Refuses {
                return Err(refuses());
            }
            return Ok(Good::Document(discovery::v1(&base).to_string()));
        }
        (_, "/v1" | "/v1/") => return Err(ApiError::Method { allow: "GET" }),
        _ => {}
    }
    let caller = identify(request, shared).await?;
    if accept == Accept::Refuses {
        return Err(refuses());
    }
    *version = Some(microversion::parse(header(request, microversion::HEADER))?);
    let cx = Context {
        shared: shared.clone(),
        caller,
        version: version.unwrap_or(microversion::MIN),
        request_id: request_id.to_owned(),
        base,
        args: crate::context::Args::default(),
        query: query(request)?,
        body: RawBody { content_type: header(request, "content-type").map(str::to_owned), bytes: body(payload).await? },
    };
    routes::dispatch(cx, method, request.path()).await.map(Good::Answer)
}

async fn identify(request: &HttpRequest, shared: &Shared) -> Result<Caller, ApiError> {
    let token = header(request, "x-auth-token").map(str::trim).filter(|t| !t.is_empty()).ok_or(ApiError::Unauthenticated)?;
    let token = SecretString::from(token.to_owned());
    let info = shared.identity.validate(&shared.cloud, &shared.service, &token).await?;
    let mut caller = Caller::new(token, info);
    caller.is_admin = shared.policy.is_admin(&caller);
    let span = tracing::Span::current();
    span.record("user.id", caller.user_id.0.as_str());
    if let Some(project) = &caller.project_id {
        span.record("project.id", project.0.as_str());
    }
    Ok(caller)
}

fn header<'a>(request: &'a HttpRequest, name: &str) -> Option<&'a str> {
    request.headers().get(name).and_then(|value| value.to_str().ok())
}

/// A client's request id, when it has the exact form of one.
fn global_request_id(request: &HttpRequest) -> Option<&str> {
    header(request, "x-openstack-request-id").filter(|id| id.strip_prefix("req-").is_some_and(|u| uuid::Uuid::try_parse(u).is_ok()))
}

fn query(request: &HttpRequest) -> Result<Vec<(String, String)>, ApiError> {
    web::Query::<Vec<(String, String)>>::from_query(request.query_string())
        .map(web::Query::into_inner)
        .map_err(|e| ApiError::Invalid(format!("The query cannot be read: {e}")))
}

async fn body(mut payload: web::Payload) -> Result<web::Bytes, ApiError> {
    let read = async {
        let mut bytes = web::BytesMut::new();
        while let Some(chunk) = payload.next().await {
            let chunk = chunk.map_err(|e| ApiError::Invalid(format!("The body cannot be read: {e}")))?;
            if bytes.len() + chunk.len() > BODY_LIMIT {
                return Err(ApiError::TooLarge(BODY_LIMIT));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes.freeze())
    };
    tokio::time::timeout(Duration::from_secs(BODY_SECONDS), read).await.unwrap_or(Err(ApiError::TooSlow(BODY_SECONDS)))
}

/// Scheme and host of links; what proxies say counts only when the operator believes them.
fn base_url(request: &HttpRequest, believe_proxies: bool) -> String {
    let forwarded =
        |name| if believe_proxies { header(request, name).map(|v| v.split(',').next().unwrap_or_default().trim()) } else { None };
    let scheme = forwarded("x-forwarded-proto").filter(|s| matches!(*s, "http" | "https")).unwrap_or("http");
    let host = forwarded("x-forwarded-host").or_else(|| header(request, "host")).unwrap_or("localhost");
    let prefix = forwarded("x-forwarded-prefix").unwrap_or_default().trim_end_matches('/');
    format!("{scheme}://{host}{prefix}")
}
