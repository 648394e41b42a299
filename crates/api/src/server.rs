//! The HTTP server: one request from its first byte to its answer.
//!
//! Order: request id, cross-origin requests, size of the head, public documents, token, whether it has any role, rate, `Accept`, microversion,
//! body, route. An error is logged once, here.

mod connection;
pub mod cors;
mod forwarded;
pub mod limits;
mod listen;
mod metrics;
pub mod rate;

use std::any::Any;
use std::net::TcpListener;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::http::header::HeaderValue;
use actix_web::{HttpRequest, HttpResponse, web};
use futures::FutureExt;
use model::certificate::keeper::Keepers;
use model::queue::Doorbell;
use model::seal::Sealer;
use model::store::Store;
use provider_clients::{Cloud, Session, Tracing};
use secrecy::SecretString;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::accept::{self, Accept};
use crate::answer::{self, Answer, Failed, REQUEST_ID};
use crate::cloud_checks::Lately;
use crate::context::{Context, Head, PAGES_PER_WORKER, RawBody, Shared};
use crate::dry_run::Foresight;
use crate::error::ApiError;
use crate::event::Feed;
use crate::identity::{Caller, Identity};
use crate::microversion::{self, Microversion};
use crate::policy::Policy;
use crate::server::connection::Watch;
use crate::server::forwarded::Front;
use crate::server::limits::Limits;
pub use crate::server::metrics::Metrics;
use crate::server::rate::Limiter;
use crate::settings::Settings;
use crate::{discovery, health, idempotency, openapi, routes};

/// Everything the API works with.
pub struct Api {
    pub store: Store,
    pub doorbell: Doorbell,
    pub cloud: Cloud,
    /// The service user, who asks Keystone about tokens.
    pub service: Session,
    pub sealer: Sealer,
    /// Knows what operations would do in the cloud.
    pub foresight: Arc<dyn Foresight>,
    /// Where certificates are kept.
    pub keepers: Keepers,
    pub settings: Settings,
    pub policy: Policy,
    /// Certificate and key; none: plain HTTP.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    pub metrics: Metrics,
    /// None: requests belong to no trace.
    pub tracing: Option<Arc<dyn Tracing>>,
    /// Gets what must end although its client has left: to be waited for before the server is stopped.
    pub later: TaskTracker,
}

/// Serves on a bound socket. Must be called within a tokio runtime; the caller awaits and stops what is returned.
pub fn serve(api: Api, listener: TcpListener) -> std::io::Result<actix_web::dev::Server> {
    let believed = Duration::from_secs(api.settings.token_cache_seconds);
    let sharing = api.settings.token_sharing.clone();
    let lately = Lately::new(api.settings.cloud_check_cache);
    let limiter = api.settings.rate.and_then(Limiter::new);
    let shared = Arc::new(Shared {
        store: api.store,
        doorbell: api.doorbell,
        cloud: api.cloud,
        service: api.service,
        sealer: api.sealer,
        foresight: api.foresight,
        keepers: api.keepers,
        feed: Feed::new(api.settings.limits.streams),
        pages: Semaphore::new(PAGES_PER_WORKER * api.settings.workers.max(1)),
        settings: api.settings,
        policy: api.policy,
        identity: Identity::new(believed, sharing, api.metrics.clone()),
        lately,
        metrics: api.metrics,
        tracing: api.tracing,
        limiter,
        secure: api.tls.is_some(),
        runtime: tokio::runtime::Handle::current(),
        later: api.later,
    });
    listen::listen(&shared, listener, api.tls)
}

async fn entry(request: HttpRequest, payload: web::Payload, shared: web::Data<Shared>) -> HttpResponse {
    let shared = shared.into_inner();
    let _serving = request.conn_data::<Rc<Watch>>().map(Watch::serve);
    if request.path() == health::PATH {
        return health::check(&request, &shared.settings);
    }
    let leaving = (shared.settings.leaving)();
    if leaving && request.method() == actix_web::http::Method::OPTIONS && matches!(request.path(), "/" | "*") {
        // The check of load balancers that know of no other: HAProxy's own, as older releases of kolla-ansible set it up.
        return health::check(&request, &shared.settings);
    }
    let request_id = format!("req-{}", uuid::Uuid::new_v4());
    let span = tracing::info_span!(
        "request",
        request.id = %request_id,
        request.global_id = global_request_id(&request).unwrap_or_default(),
        user.id = tracing::field::Empty,
        project.id = tracing::field::Empty,
        otel.kind = "server",
        otel.name = %format_args!("{} {}", request.method(), routes::name_of(request.path())),
    );
    if let (Some(tracing), Some(parent)) = (&shared.tracing, header(&request, "traceparent")) {
        tracing.follow(&span, parent);
    }
    let mut response = answer_to(&request, payload, shared, &request_id).instrument(span).await;
    if let Ok(value) = HeaderValue::from_str(&request_id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    if leaving {
        // Else a load balancer would send the next request over it just when it is closed.
        response.head_mut().set_connection_type(actix_http::ConnectionType::Close);
    }
    response
}

async fn answer_to(request: &HttpRequest, payload: web::Payload, shared: Arc<Shared>, request_id: &str) -> HttpResponse {
    let started = Instant::now();
    let _in_flight = shared.metrics.begin();
    let connection = forwarded::Connection { secure: shared.secure, peer: request.peer_addr() };
    let front = forwarded::front(request.headers(), connection, shared.settings.enable_proxy_headers);
    let (cors, client) = (&shared.settings.cors, front.client.clone().unwrap_or_default());
    let response = if request.method() == actix_web::http::Method::OPTIONS {
        cors.preflight(request.headers())
    } else {
        let mut response = respond(request, payload, &shared, request_id, front).await;
        cors.decorate(request.headers(), response.headers_mut());
        response
    };
    let (method, path, status) = (request.method(), request.path(), response.status().as_u16());
    shared.metrics.answered(method.as_str(), path, status, started.elapsed());
    let duration_ms = started.elapsed().as_millis() as u64;
    if method.is_safe() {
        tracing::debug!(%method, path, status, client, duration_ms, "request answered");
    } else {
        tracing::info!(%method, path, status, client, duration_ms, "request answered");
    }
    response
}

async fn respond(request: &HttpRequest, payload: web::Payload, shared: &Arc<Shared>, request_id: &str, front: Front) -> HttpResponse {
    let accept = accept::parse(header(request, "accept"));
    let mut version = None;
    let limit = shared.settings.limits.answer;
    // A bug in one request must not cost its client the answer: caught, it is a fault like others and stands in the log.
    let handling = AssertUnwindSafe(handle(request, payload, shared, request_id, accept, front.base, &mut version)).catch_unwind();
    let handled = match tokio::time::timeout(limit, handling).await {
        Ok(Ok(handled)) => handled,
        Ok(Err(panic)) => Err(ApiError::Internal(format!("the handler panicked: {}", words_of(panic.as_ref())))),
        Err(_) => Err(ApiError::TooLong(limit.as_secs())),
    };
    let mut response = match handled {
        Ok(Good::Document(body)) => HttpResponse::Ok().content_type(HeaderValue::from_static("application/json")).body(body),
        Ok(Good::Answer(good)) => good.into_response(),
        Err(error) => {
            let error = as_described(error, request.method().as_str(), request.path());
            if error.is_fault() {
                tracing::error!(error = error.inside(), method = %request.method(), path = request.path(), "failed to answer a request");
            }
            let failed = Failed {
                request_id,
                accept,
                version,
                is_head: request.method() == actix_web::http::Method::HEAD,
                www_authenticate_uri: &shared.settings.www_authenticate_uri,
            };
            return answer::failed(&error, &failed);
        }
    };
    if let Some(version) = version {
        answer::add_version_headers(&mut response, &version.to_string());
    }
    response
}

/// The error itself. In debug builds it is a fault of ours when the OpenAPI document does not say that the request may be refused so: whatever test
/// is refused something proves the document.
fn as_described(error: ApiError, method: &str, path: &str) -> ApiError {
    let status = error.http().0;
    if !cfg!(debug_assertions) || openapi::tells_of(method, path, status) {
        return error;
    }
    ApiError::Internal(format!("the document does not say that {method} {path} may be answered with {status}: {}", error.inside()))
}

/// What a panic said.
fn words_of(panic: &(dyn Any + Send)) -> &str {
    panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a word")
}

enum Good {
    Document(String),
    Answer(Answer),
}

async fn handle(
    request: &HttpRequest,
    payload: web::Payload,
    shared: &Arc<Shared>,
    request_id: &str,
    accept: Accept,
    base: String,
    version: &mut Option<Microversion>,
) -> Result<Good, ApiError> {
    Limits::check_head(request)?;
    let method = request.method().as_str();
    let refuses = || ApiError::NotAcceptable("The service answers in application/json only.".into());
    match (method, request.path()) {
        ("GET", "/") if !accept.takes_json() => return Err(refuses()),
        ("GET", "/") => return Ok(Good::Document(discovery::root(&base).to_string())),
        (_, "/") => return Err(ApiError::Method { allow: "GET" }),
        ("GET", "/v1" | "/v1/") => {
            *version = Some(microversion::parse(microversions(request).as_deref())?);
            if !accept.takes_json() {
                return Err(refuses());
            }
            return Ok(Good::Document(discovery::v1(&base).to_string()));
        }
        ("GET", openapi::PATH) if !accept.takes_json() => return Err(refuses()),
        ("GET", openapi::PATH) => return Ok(Good::Document(openapi::text(&base))),
        (_, "/v1" | "/v1/" | openapi::PATH) => return Err(ApiError::Method { allow: "GET" }),
        _ => {}
    }
    let caller = identify(request, shared).await?;
    let asked = microversion::parse(microversions(request).as_deref());
    // A token without any role can do nothing at all. So it learns nothing either: not which paths, methods and microversions there are, nor
    // how often its project asks.
    if caller.roles.is_empty() {
        *version = asked.ok();
        return Err(ApiError::Forbidden("The token has no role, and without any nothing is allowed.".into()));
    }
    if let Some(limiter) = &shared.limiter {
        limiter.count(&caller)?;
    }
    if accept == Accept::Refuses {
        return Err(refuses());
    }
    *version = Some(asked?);
    let cx = Context {
        shared: shared.clone(),
        caller,
        version: version.unwrap_or(microversion::MIN),
        request_id: request_id.to_owned(),
        base,
        args: crate::context::Args::default(),
        query: query(request)?,
        body: RawBody {
            content_type: header(request, "content-type").map(str::to_owned),
            bytes: shared.settings.limits.read_body(header(request, "content-length"), payload).await?,
        },
        head: Head {
            accept,
            // One that is no text is no key either, and is to be refused, not overlooked.
            idempotency_key: request.headers().get(idempotency::HEADER).map(|value| value.to_str().unwrap_or_default().to_owned()),
            last_event_id: header(request, "last-event-id").map(str::to_owned),
        },
        is_dry_run: false,
        key: None,
    };
    routes::dispatch(cx, method, request.path()).await.map(Good::Answer)
}

async fn identify(request: &HttpRequest, shared: &Shared) -> Result<Caller, ApiError> {
    let token = header(request, "x-auth-token").map(str::trim).filter(|t| !t.is_empty()).ok_or(ApiError::Unauthenticated)?;
    let token = SecretString::from(token.to_owned());
    let of_service = header(request, "x-service-token").map(str::trim).filter(|t| !t.is_empty()).map(SecretString::from);
    let (identity, rule) = (&shared.identity, &shared.settings.service_tokens);
    let age = identity.age(&shared.cloud, &shared.service, of_service.as_ref(), rule).await?;
    let info = identity.validate(&shared.cloud, &shared.service, &token, age).await?;
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

/// The microversion header, if there is one. Several are one list (RFC 9110, 5.3), and what is no text is to be refused, not overlooked.
fn microversions(request: &HttpRequest) -> Option<String> {
    let all = request.headers().get_all(microversion::HEADER).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let all: Vec<_> = all.collect();
    (!all.is_empty()).then(|| all.join(","))
}

/// A client's request id, when it has the exact form of one.
fn global_request_id(request: &HttpRequest) -> Option<&str> {
    header(request, "x-openstack-request-id").filter(|id| id.strip_prefix("req-").is_some_and(|u| uuid::Uuid::try_parse(u).is_ok()))
}

fn query(request: &HttpRequest) -> Result<Vec<(String, String)>, ApiError> {
    pairs(request.query_string())
}

/// The parameters of a query string, in order.
pub fn pairs(query: &str) -> Result<Vec<(String, String)>, ApiError> {
    web::Query::<Vec<(String, String)>>::from_query(query)
        .map(web::Query::into_inner)
        .map_err(|e| ApiError::Invalid(format!("The query cannot be read: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_that_the_document_does_not_tell_of_is_a_fault_of_debug_builds() {
        let refused = |method: &str| as_described(ApiError::Unprocessable("another key".into()), method, "/v1/clusters");
        assert_eq!(refused("POST").http().0, 422);
        let fault = refused("GET");
        assert_eq!(fault.http().0, if cfg!(debug_assertions) { 500 } else { 422 });
        assert!(fault.inside().contains("another key"), "{fault}");
    }
}
