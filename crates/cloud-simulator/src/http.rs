//! From an HTTP request to a route of a service and back: prefix, token, fault, handler, answer.
//!
//! There is one catch-all handler in place of a routing table of actix, so that every call has a name, is counted, and can be
//! made to fail in the same way whatever the service.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use actix_web::{
    HttpRequest, HttpResponse,
    body::{BodySize, MessageBody},
    http::{Method, StatusCode, header},
    web::{Bytes, Data, Query},
};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde_json::Value;

use crate::{
    catalog,
    clock::{self, Moment},
    fault::How,
    service::Service,
    state::{Shared, World, dashed_id},
    token::Token,
};

/// What a handler is given.
pub(crate) struct Call {
    pub(crate) service: Service,
    pub(crate) path: Vec<String>,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) is_patch: bool,
    /// Whether its method says that it changes something.
    pub(crate) is_effect: bool,
    pub(crate) body: Bytes,
    pub(crate) caller: Option<Token>,
    pub(crate) subject: Option<String>,
    /// The one media type that is asked for, if there is one.
    pub(crate) accept: Option<String>,
    /// As `OpenStack-API-Version` has it.
    pub(crate) microversion: Option<String>,
    pub(crate) base: String,
    pub(crate) now: Moment,
}

/// What a handler answers.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    /// A text beside a header that says what it is goes out as it is.
    pub(crate) body: Option<Value>,
}

const JSON: &str = "application/json";

/// Why a handler does not do what was asked; the service gives it its own form.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) kind: &'static str,
    pub(crate) message: String,
}

/// The outcome of a handler.
pub(crate) type Outcome = Result<Answer, Refusal>;

/// A named call of a service.
pub(crate) struct Route {
    pub(crate) operation: &'static str,
    pub(crate) handler: fn(&mut World, &Call) -> Outcome,
    /// Whether it is answered without a token.
    pub(crate) open: bool,
}

impl Route {
    /// A call that needs a token.
    pub(crate) fn new(operation: &'static str, handler: fn(&mut World, &Call) -> Outcome) -> Option<Self> {
        Some(Self { operation, handler, open: false })
    }

    /// A call that anybody may make.
    pub(crate) fn open(operation: &'static str, handler: fn(&mut World, &Call) -> Outcome) -> Option<Self> {
        Some(Self { operation, handler, open: true })
    }
}

impl Answer {
    pub(crate) fn ok(body: Value) -> Outcome {
        Self::with(200, body)
    }

    pub(crate) fn with(status: u16, body: Value) -> Outcome {
        Ok(Self { status, headers: Vec::new(), body: Some(body) })
    }

    /// What is made into text at once.
    pub(crate) fn written(body: &impl Serialize) -> Outcome {
        let text = serde_json::to_string(body).map_err(|error| Refusal::new(500, "InternalError", error.to_string()))?;
        Ok(Self { status: 200, headers: vec![("Content-Type", JSON.into())], body: Some(Value::String(text)) })
    }

    pub(crate) fn empty(status: u16) -> Outcome {
        Ok(Self { status, headers: Vec::new(), body: None })
    }
}

impl Refusal {
    pub(crate) fn new(status: u16, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, message: message.into() }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "The request you have made requires authentication.")
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(403, "Forbidden", message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(404, "NotFound", message)
    }
}

impl Call {
    /// The path after the service's prefix, by position; handlers ask only for positions their route has matched.
    pub(crate) fn at(&self, index: usize) -> &str {
        self.path.get(index).map_or("", String::as_str)
    }

    /// The first value of a query key.
    pub(crate) fn query(&self, key: &str) -> Option<&str> {
        self.query.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Whether a query key says yes in one of the ways clients say it.
    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        self.query(key).map(|value| matches!(value.to_ascii_lowercase().as_str(), "true" | "1" | "yes" | "on" | ""))
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Result<Value, Refusal> {
        serde_json::from_slice(&self.body).map_err(|error| Refusal::bad_request(format!("Malformed request body: {error}")))
    }

    /// The caller's token. Routes that are not open have one; asking in an open route is answered 401.
    pub(crate) fn token(&self) -> Result<&Token, Refusal> {
        self.caller.as_ref().ok_or_else(Refusal::unauthorized)
    }

    /// The project the caller's token is for.
    pub(crate) fn project(&self) -> Result<&str, Refusal> {
        self.token()?.project_id().ok_or_else(|| Refusal::forbidden("A project-scoped token is needed."))
    }
}

/// A request, without what carried it.
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a Method,
    pub(crate) query: &'a str,
    pub(crate) token: Option<String>,
    pub(crate) subject: Option<String>,
    pub(crate) accept: Option<String>,
    pub(crate) microversion: Option<String>,
    pub(crate) body: Bytes,
}

/// A request whose route is known.
pub(crate) struct Found {
    pub(crate) service: Service,
    pub(crate) route: Route,
    path: Vec<String>,
}

/// Finds the route of a request; without one, what there is to answer (nothing but 404 without a service).
pub(crate) fn find(base: &str, method: &Method, path: &str) -> Result<Found, Option<Answer>> {
    let segments: Vec<String> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .map(|segment| percent_decode_str(segment).decode_utf8_lossy().into_owned())
        .collect();
    let Some((prefix, rest)) = segments.split_first() else { return Err(Some(catalog::root(base))) };
    let service = Service::of_prefix(prefix).ok_or(None)?;
    let path: Vec<&str> = rest.iter().map(String::as_str).collect();
    match service.route(if method == Method::HEAD { &Method::GET } else { method }, &path) {
        Some(route) => Ok(Found { service, route, path: rest.to_vec() }),
        None => Err(Some(service.refuse(&Refusal::not_found("The resource could not be found.")))),
    }
}

/// Carries a request out.
pub(crate) fn perform(shared: &Shared, found: Found, asked: Asked<'_>) -> Answer {
    let call = Call {
        service: found.service,
        query: Query::<Vec<(String, String)>>::from_query(asked.query).map(Query::into_inner).unwrap_or_default(),
        is_patch: asked.method == Method::PATCH,
        is_effect: !matches!(*asked.method, Method::GET | Method::HEAD),
        body: asked.body,
        caller: None,
        subject: asked.subject,
        accept: asked.accept,
        microversion: asked.microversion,
        base: shared.base.clone(),
        now: clock::now(),
        path: found.path,
    };
    act(&mut shared.lock(), &found.route, call, asked.token).unwrap_or_else(|refusal| found.service.refuse(&refusal))
}

/// Answers one request.
pub(crate) async fn answer(shared: Data<Shared>, request: HttpRequest, body: Bytes) -> HttpResponse {
    let is_head = request.method() == Method::HEAD;
    let found = match find(&shared.base, request.method(), request.path()) {
        Ok(found) => found,
        Err(Some(answer)) => return render(answer, is_head),
        Err(None) => return HttpResponse::NotFound().finish(),
    };
    let (fault, front) = {
        let mut world = shared.lock();
        (world.faults.meet(found.route.operation), world.heat.front.filter(|_| found.service == Service::Heat))
    };
    tracing::debug!(operation = found.route.operation, fault = ?fault, "simulated cloud call");
    let length = request.uri().path_and_query().map_or(0, |address| address.as_str().len());
    if let Some(front) = front.filter(|front| length > front.longest) {
        return front.status.map_or_else(lost, |status| render(Answer { status, headers: Vec::new(), body: None }, is_head));
    }
    let (mut lose, mut hold) = (false, false);
    match fault {
        None => {}
        Some(How::Refuse) => return lost(),
        Some(How::Slow(duration)) => tokio::time::sleep(duration).await,
        Some(How::AcceptThenLose) => lose = true,
        Some(How::Hold) => shared.gate.hold().await,
        Some(How::ActThenHold) => hold = true,
        Some(How::Status(status, message)) => {
            return render(found.service.refuse(&Refusal::new(status, "InjectedFault", message)), false);
        }
        Some(How::Unauthorized) => return render(found.service.refuse(&Refusal::unauthorized()), false),
    }
    let asked = Asked {
        method: request.method(),
        query: request.query_string(),
        token: header_of(&request, "X-Auth-Token"),
        subject: header_of(&request, "X-Subject-Token"),
        accept: header_of(&request, "Accept"),
        microversion: header_of(&request, "OpenStack-API-Version"),
        body,
    };
    let answer = perform(&shared, found, asked);
    if lose {
        return lost();
    }
    if hold {
        shared.gate.hold().await;
    }
    render(answer, is_head)
}

fn act(world: &mut World, route: &Route, mut call: Call, token: Option<String>) -> Outcome {
    world.advance(call.now);
    call.caller = token.and_then(|id| world.keystone.valid_token(&id, call.now).cloned());
    if !route.open && call.caller.is_none() {
        return Err(Refusal::unauthorized());
    }
    let outcome = (route.handler)(world, &call);
    if call.is_effect && outcome.is_ok() {
        world.faults.note_effect(route.operation);
    }
    outcome
}

fn header_of(request: &HttpRequest, name: &str) -> Option<String> {
    request.headers().get(name)?.to_str().ok().map(str::to_owned)
}

fn render(answer: Answer, head: bool) -> HttpResponse {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = HttpResponse::build(status);
    let is_json = !answer.headers.iter().any(|(name, _)| *name == "Content-Type");
    for (name, value) in answer.headers {
        response.insert_header((name, value));
    }
    response.insert_header(("x-openstack-request-id", format!("req-{}", dashed_id())));
    match answer.body {
        // A payload of Barbican, or JSON that is written already.
        Some(Value::String(text)) if !head && !is_json => response.body(text),
        Some(body) if !head => response.insert_header((header::CONTENT_TYPE, JSON)).body(body.to_string()),
        _ => response.finish(),
    }
}

/// Closes the connection with not one byte of an answer.
pub(crate) fn lost() -> HttpResponse {
    HttpResponse::Ok().body(Lost)
}

/// A body that fails at once: actix drops the connection before it has written the head.
struct Lost;

impl MessageBody for Lost {
    type Error = io::Error;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Poll::Ready(Some(Err(io::Error::other("connection lost on purpose"))))
    }
}
