//! From a request to its handler: the path, the method, the microversion, and what the route takes, by the table in `routes/table.rs`.
//!
//! Paths are taken as upstream takes them: `/v1` may be left out, a trailing slash does not matter, a known resource with another method
//! is 405 with the methods of its controller, and an unknown one is 404 to GET and 405 to everything else.

mod table;
#[cfg(test)]
mod tests;

use futures::future::BoxFuture;

use crate::accept::Accept;
use crate::answer::Answer;
use crate::context::{Args, Context};
use crate::dry_run;
use crate::error::ApiError;
use crate::idempotency::{self, Once};
use crate::microversion::{Microversion, NODEGROUPS};
use crate::policy::Act;
use crate::view::forecast::FORECAST;
use crate::view::schema::{Schema, is_storable};
use crate::view::shape::Shape;
pub use table::ROUTES;

/// One method on one path.
pub struct Route {
    pub method: &'static str,
    /// Below `/v1/`; `{name}` stands for one segment.
    pub path: &'static str,
    /// What it does, in a word of its own (`operationId` of the OpenAPI document).
    pub name: &'static str,
    /// The first microversion that has it.
    pub since: Microversion,
    /// The policies that its handler asks, the one that every caller must pass first.
    pub acts: &'static [Act],
    pub query: &'static [Parameter],
    pub body: Takes,
    /// The status of a good answer.
    pub success: u16,
    /// What a good answer holds.
    pub answer: Shape,
    /// Whether it also answers as server-sent events.
    pub streams: bool,
    pub handler: Handler,
}

/// What answers a request.
pub type Handler = fn(Context) -> BoxFuture<'static, Result<Answer, ApiError>>;

impl Route {
    /// Whether it changes something, and so takes a key that keeps it from being done twice.
    pub fn changes(&self) -> bool {
        self.method != "GET"
    }

    /// Whether it can be asked what would happen, which is answered with 200 and a forecast.
    pub fn foretells(&self) -> bool {
        self.query.iter().any(|parameter| parameter.name == dry_run::PARAMETER)
    }

    /// The status and the shape of a good answer.
    fn good(&self, is_dry_run: bool) -> (u16, Shape) {
        if is_dry_run { (200, Shape::Object(&FORECAST)) } else { (self.success, self.answer) }
    }
}

/// A query parameter.
#[derive(Debug)]
pub struct Parameter {
    pub name: &'static str,
    pub holds: Holds,
    /// The first microversion that has it.
    pub since: Microversion,
    pub about: &'static str,
}

/// What a query parameter holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    Text,
    /// An integer from this on.
    From(u8),
    Boolean,
    Uuid,
    OneOf(&'static [&'static str]),
}

/// What a route takes as its body.
#[derive(Clone, Copy)]
pub enum Takes {
    /// Nothing, or an empty JSON object.
    Nothing,
    /// An object of this schema.
    Object(&'static Schema),
    /// A JSON patch.
    Patch,
}

/// Answers a request on a path as it came.
pub async fn dispatch(mut cx: Context, method: &str, path: &str) -> Result<Answer, ApiError> {
    let decoded = segments(path)?;
    let segments: Vec<&str> = decoded.iter().map(String::as_str).collect();
    let on_path = || ROUTES.iter().filter(|route| fits(route.path, &segments));
    // A literal segment goes before an open one: `clusters/detail` is no cluster. The table is in that order.
    let found = on_path().find(|route| route.method == method);
    // Nodegroups came as a whole: below their microversion no method is acceptable. Elsewhere only the methods came (rest-api.md 1.5).
    let came_as_a_whole = || on_path().map(|route| route.since).find(|since| *since == NODEGROUPS);
    if let Some(first) = found.map(|route| route.since).or_else(came_as_a_whole)
        && cx.version < first
    {
        return Err(ApiError::NotAcceptable(format!("This resource needs microversion {first} or higher.")));
    }
    let Some(route) = found else { return Err(no_route(method, &segments)) };
    if !(cx.head.accept.takes_json() || (route.streams && matches!(cx.head.accept, Accept::EventStream { .. }))) {
        return Err(ApiError::NotAcceptable("The service answers in application/json only.".into()));
    }
    check_query(&cx, route)?;
    cx.is_dry_run = cx.flag(dry_run::PARAMETER)?.unwrap_or(false);
    if matches!(route.body, Takes::Nothing) {
        cx.refuse_body()?;
    }
    cx.args = Args(args(route.path, &segments));
    if let Some((what, key)) = cx.args.0.iter().find(|(_, value)| !is_storable(value)) {
        return Err(ApiError::Missing(format!("There is no {what} {key}.")));
    }
    let (version, is_dry_run) = (cx.version, cx.is_dry_run);
    let key = cx.head.idempotency_key.as_deref().filter(|_| route.changes()).map(idempotency::checked).transpose()?;
    // What does nothing can be asked as often as one likes: a key is still to be had for what it is asked for.
    let answer = match key.filter(|_| !is_dry_run) {
        None => (route.handler)(cx).await?,
        Some(key) => match idempotency::once(cx, route.handler, key, method, path).await? {
            Once::Done(answer) => answer,
            Once::DoneBefore(answer) => return Ok(answer),
        },
    };
    if cfg!(debug_assertions) {
        check_answer(route, version, is_dry_run, &answer)?;
    }
    Ok(answer)
}

/// The route that a request leads to; none when there is no such path, or the path has no such method.
pub fn find(method: &str, path: &str) -> Option<&'static Route> {
    let decoded = segments(path).ok()?;
    let segments: Vec<&str> = decoded.iter().map(String::as_str).collect();
    ROUTES.iter().find(|route| route.method == method && fits(route.path, &segments))
}

/// The route of a path as the table has it, and `other` for a path that is none: a bounded set of names for metrics.
pub fn name_of(path: &str) -> &'static str {
    match path {
        "/" => return "/",
        "/v1" | "/v1/" => return "/v1",
        crate::openapi::PATH => return crate::openapi::PATH,
        _ => {}
    }
    let Ok(decoded) = segments(path) else { return "other" };
    let segments: Vec<&str> = decoded.iter().map(String::as_str).collect();
    ROUTES.iter().find(|route| fits(route.path, &segments)).map_or("other", |route| route.path)
}

/// Whether an answer is what the table, and with it the OpenAPI document, says of it.
fn check_answer(route: &Route, version: Microversion, is_dry_run: bool, answer: &Answer) -> Result<(), ApiError> {
    let (status, shape) = route.good(is_dry_run);
    let wrong = |what: String| ApiError::Internal(format!("the answer of {} is not as described: {what}", route.name));
    if answer.status() != status {
        return Err(wrong(format!("status {} where {status} is due", answer.status())));
    }
    if answer.is_stream() {
        return if route.streams { Ok(()) } else { Err(wrong("it is a stream".into())) };
    }
    match (shape, &answer.body()[..]) {
        (Shape::Nothing, []) => Ok(()),
        (Shape::Nothing, _) => Err(wrong("it has a body".into())),
        (shape, body) => {
            let value = serde_json::from_slice(body).map_err(|e| wrong(e.to_string()))?;
            shape.check(&value, version).map_err(wrong)
        }
    }
}

/// Unknown and repeated query parameters (G-05).
fn check_query(cx: &Context, route: &Route) -> Result<(), ApiError> {
    for (at, (key, value)) in cx.query.iter().enumerate() {
        if !route.query.iter().any(|p| p.name == key && cx.version >= p.since) {
            return Err(ApiError::Invalid(format!("Unknown argument: \"{key}\"")));
        }
        if !is_storable(value) {
            return Err(ApiError::field(key, "It has a character that cannot be stored"));
        }
        if cx.query[..at].iter().any(|(earlier, _)| earlier == key) {
            return Err(ApiError::value(key, value, "It must not be given more than once"));
        }
    }
    Ok(())
}

fn is_open(part: &str) -> Option<&str> {
    part.strip_prefix('{').and_then(|part| part.strip_suffix('}'))
}

fn fits(template: &str, segments: &[&str]) -> bool {
    let mut parts = template.split('/');
    segments.iter().all(|segment| parts.next().is_some_and(|part| part == *segment || is_open(part).is_some())) && parts.next().is_none()
}

fn args(template: &'static str, segments: &[&str]) -> Vec<(&'static str, String)> {
    let open = template.split('/').zip(segments).filter_map(|(part, segment)| Some((is_open(part)?, (*segment).to_owned())));
    open.collect()
}

const EVERYTHING: &str = "DELETE, GET, PATCH, POST";

fn no_route(method: &str, segments: &[&str]) -> ApiError {
    let missing = |argument: &str| ApiError::Invalid(format!("Missing argument: \"{argument}\""));
    let allow = match (method, segments) {
        ("PATCH" | "DELETE", ["clusters"]) | ("PATCH", ["certificates" | "credentials"]) => return missing("cluster_ident"),
        ("PATCH" | "DELETE", ["clustertemplates"]) => return missing("cluster_template_ident"),
        ("PATCH" | "DELETE", ["federations"]) => return missing("federation_ident"),
        ("PATCH" | "DELETE", ["clusters", _, "nodegroups"]) => return missing("nodegroup_id"),
        ("PATCH" | "DELETE", ["quotas"]) => return missing("project_id"),
        ("GET" | "PATCH" | "DELETE", ["quotas", _]) => return missing("resource"),
        (_, ["clusters" | "clustertemplates" | "federations" | "quotas"])
        | (_, ["clusters" | "clustertemplates" | "federations" | "quotas", _])
        | (_, ["quotas", _, _] | ["clusters", _, "nodegroups"] | ["clusters", _, "nodegroups", _]) => EVERYTHING,
        (_, ["certificates"] | ["certificates", _]) => "GET, PATCH, POST",
        (_, ["credentials"] | ["credentials", _]) => "PATCH",
        (_, ["mservices" | "stats" | "labels" | "operations"] | ["operations", _] | ["clusters", _, "operations" | "events"]) => "GET",
        // What is there for POST alone is there.
        ("GET", _) if !ROUTES.iter().any(|route| fits(route.path, segments)) => return ApiError::NoRoute,
        _ => "",
    };
    ApiError::Method { allow }
}

/// The segments below `/v1`. Split first and decoded then: a name may hold any character, a slash too.
pub fn segments(path: &str) -> Result<Vec<String>, ApiError> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    let path = path.strip_prefix("v1/").unwrap_or(path);
    let segments: Vec<String> = path.split('/').map(decode).collect::<Result<_, _>>()?;
    if segments.iter().any(String::is_empty) {
        return Err(ApiError::Invalid("The path has an empty part.".into()));
    }
    Ok(segments)
}

/// Replaces `%41` and the like; a percent sign without two digits behind it stands for itself.
fn decode(segment: &str) -> Result<String, ApiError> {
    let mut rest = segment.as_bytes();
    let mut out = Vec::with_capacity(rest.len());
    while let [first, tail @ ..] = rest {
        let digit = |at: usize| tail.get(at).and_then(|b| char::from(*b).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                out.push(u8::try_from(high * 16 + low).expect("two hexadecimal digits are one byte"));
                rest = &tail[2..];
            }
            _ => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(out).map_err(|_| ApiError::Invalid("The path is not UTF-8.".into()))
}
