//! Operations of the document: a route's parameters, body, answer and refusals.

use serde_json::{Map, Value, json};

use super::schemas::{self, Components};
use crate::answer::EVENT_STREAM;
use crate::idempotency;
use crate::microversion::{HEADER, MAX, MIN, Microversion};
use crate::routes::{Parameter, Route, Takes};
use crate::view::forecast::FORECAST;
use crate::view::shape::Shape;

/// What every request may be refused with, because of its head, its token, its microversion, its size, or the state of the cloud.
const ALWAYS: &[u16] = &[400, 401, 403, 406, 408, 413, 414, 415, 429, 431, 503];
/// What a request for a document that needs no token may be refused with.
pub const OF_PUBLIC: &[u16] = &[406, 408, 414, 431];

/// A route.
pub fn of(route: &Route, components: &mut Components) -> Value {
    let mut operation = json!({
        "operationId": route.name,
        "summary": summary(route.name),
        "description": about(route),
        "tags": [route.path.split('/').next().unwrap_or_default()],
        "parameters": parameters_of(route),
        "responses": responses(route, components),
    });
    if route.since > MIN {
        operation["x-openstack"] = json!({"min-ver": route.since.to_string()});
    }
    let body = match route.body {
        Takes::Nothing => None,
        Takes::Object(schema) => Some(components.request(&request_name(route.name), schema)),
        Takes::Patch => Some(components.patch()),
    };
    if let Some(schema) = body {
        operation["requestBody"] = json!({"required": true, "content": {"application/json": {"schema": schema}}});
    }
    operation
}

/// A document that needs no token.
pub fn public(name: &str, about: &str, content: &Value, versioned: bool) -> Value {
    let mut good = answer("Good.", content);
    if versioned && let Some(headers) = good["headers"].as_object_mut() {
        headers.extend(version_headers());
    }
    let mut responses = Map::from_iter([("200".to_owned(), good)]);
    for status in OF_PUBLIC {
        responses.insert(status.to_string(), refusal(*status));
    }
    let parameters = if versioned { vec![json!({"$ref": "#/components/parameters/microversion-1.1"})] } else { Vec::new() };
    json!({
        "operationId": name,
        "summary": summary(name),
        "description": about,
        "tags": ["versions"],
        "security": [],
        "parameters": parameters,
        "responses": responses,
    })
}

/// The health check, which is outside the API: without a token, a request id, and any of the usual refusals.
pub fn health(schema: &Value) -> Value {
    let answer = |about: &str| {
        let text = json!({"schema": {"type": "string"}});
        json!({"description": about, "content": {"text/plain": text, "text/html": text, "application/json": {"schema": schema}}})
    };
    json!({
        "operationId": "check_health",
        "summary": summary("check_health"),
        "description": "Whether this process takes requests, for load balancers: it asks nobody else. Any method is answered, HEAD with 204.",
        "tags": ["health"],
        "security": [],
        "responses": {
            "200": answer("It does."),
            "503": answer("It does not: the operator has taken it out of service, or it is about to stop."),
        },
    })
}

fn summary(name: &str) -> String {
    let words = name.replace('_', " ");
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// `create_cluster` takes a `CreateCluster`.
fn request_name(name: &str) -> String {
    name.split('_').map(summary).collect()
}

fn about(route: &Route) -> String {
    let acts: Vec<String> = route.acts.iter().map(|act| format!("`{}`", act.as_str())).collect();
    let policies = format!("Policies: {}.", acts.join(", "));
    if route.since > MIN { format!("{policies} Needs microversion {} or higher.", route.since) } else { policies }
}

fn parameters_of(route: &Route) -> Vec<Value> {
    let open = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let path = open.map(|name| {
        json!({
            "name": name,
            "in": "path",
            "required": true,
            "description": path_about(name),
            "schema": {"type": "string", "minLength": 1},
        })
    });
    let query = route.query.iter().map(query_parameter);
    let reference = |name: &str| json!({"$ref": format!("#/components/parameters/{name}")});
    let version = reference(&format!("microversion-{}", route.since));
    let key = route.changes().then(|| reference(KEY));
    let last_event = route.streams.then(|| reference(LAST_EVENT));
    path.chain(query).chain([version]).chain(key).chain(last_event).collect()
}

fn path_about(name: &str) -> String {
    match name {
        "project" | "project_id" => "A project's id.".to_owned(),
        "resource" => "What is counted: Cluster or Node.".to_owned(),
        "operation" => "The operation: its uuid.".to_owned(),
        thing => format!("The {thing}: its uuid or its name."),
    }
}

fn query_parameter(parameter: &Parameter) -> Value {
    let mut value = json!({
        "name": parameter.name,
        "in": "query",
        "description": parameter.about,
        "schema": schemas::parameter(parameter.holds),
    });
    if parameter.since > MIN {
        value["x-openstack"] = json!({"min-ver": parameter.since.to_string()});
    }
    value
}

/// The header that asks for a microversion: one for each version that a route may begin with.
pub fn parameters() -> Value {
    let named = Microversion::all().map(|since| {
        let versions = Microversion::all().filter(|v| *v >= since).map(|v| format!("container-infra {v}"));
        let words: Vec<String> = versions.chain(["container-infra latest".to_owned()]).collect();
        let parameter = json!({
            "name": HEADER,
            "in": "header",
            "required": since > MIN,
            "description": format!(
                "The microversion that the request is meant in; {MIN} when left out. The service may also be called \
                 container-infrastructure or container-infrastructure-management."
            ),
            "schema": {"type": "string", "enum": words},
        });
        (format!("microversion-{since}"), parameter)
    });
    let key = json!({
        "name": idempotency::HEADER,
        "in": "header",
        "description": "A word of the client's own for this request. Sent again within 24 hours, the same request of the same user in the \
                        same roles gets the first answer again and is not done twice; another request with the same word gets 422.",
        "schema": {"type": "string", "minLength": 1, "maxLength": idempotency::LONGEST, "pattern": "^[!-~]+$"},
    });
    let last_event = json!({
        "name": "Last-Event-ID",
        "in": "header",
        "description": "Of a stream: the id of the last event that the client has seen. Without it a stream begins with the first event kept.",
        "schema": {"type": "integer", "minimum": 0},
    });
    Value::Object(named.chain([(KEY.to_owned(), key), (LAST_EVENT.to_owned(), last_event)]).collect())
}

/// Names of parameters that more than one route has.
const KEY: &str = "idempotency-key";
const LAST_EVENT: &str = "last-event-id";

/// Headers of answers.
pub fn headers() -> Value {
    let version = |about: &str| {
        json!({
            "description": about,
            "required": true,
            "schema": {"type": "string", "pattern": "^container-infrastructure-management 1\\.[0-9]+$"},
        })
    };
    json!({
        "request-id": {
            "description": "What the request is called in logs.",
            "required": true,
            "schema": {"type": "string", "pattern": "^req-[0-9a-f-]{36}$"},
        },
        "version": version("The microversion that was served."),
        "min-version": version(&format!("The lowest microversion: {MIN}.")),
        "max-version": version(&format!("The highest microversion: {MAX}.")),
        "location": {"description": "Where the new thing is.", "schema": {"type": "string", "format": "uri"}},
        "authenticate": {"description": "Where tokens are had.", "required": true, "schema": {"type": "string"}},
        "retry-after": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 0}},
    })
}

fn header(name: &str) -> Value {
    json!({"$ref": format!("#/components/headers/{name}")})
}

fn version_headers() -> Map<String, Value> {
    Map::from_iter([
        (HEADER.to_owned(), header("version")),
        ("OpenStack-API-Minimum-Version".to_owned(), header("min-version")),
        ("OpenStack-API-Maximum-Version".to_owned(), header("max-version")),
    ])
}

fn answer(about: &str, schema: &Value) -> Value {
    json!({
        "description": about,
        "headers": {"x-openstack-request-id": header("request-id")},
        "content": {"application/json": {"schema": schema}},
    })
}

fn responses(route: &Route, components: &mut Components) -> Value {
    let mut good = match route.answer {
        Shape::Nothing => json!({"description": "Done; no body.", "headers": {"x-openstack-request-id": header("request-id")}}),
        shape => answer(if route.success == 202 { "Accepted; the work goes on." } else { "Good." }, &components.shape(&shape)),
    };
    let foretold = route.foretells().then(|| {
        let mut foretold = answer("With `dry_run`: nothing is done, and this would be.", &components.shape(&Shape::Object(&FORECAST)));
        foretold["headers"].as_object_mut().expect("an answer has headers").extend(version_headers());
        ("200".to_owned(), foretold)
    });
    if route.streams {
        good["content"][EVENT_STREAM] =
            json!({"schema": {"type": "string", "description": "Server-sent events; each holds one event of the list."}});
    }
    if let Some(headers) = good["headers"].as_object_mut() {
        headers.extend(version_headers());
        if route.success == 201 {
            headers.insert("Location".to_owned(), header("location"));
        }
    }
    let mut responses = Map::from_iter(foretold.into_iter().chain([(route.success.to_string(), good)]));
    for status in refusals_of(route) {
        responses.insert(status.to_string(), refusal(status));
    }
    Value::Object(responses)
}

/// The statuses that a route may refuse a request with, in order.
pub fn refusals_of(route: &Route) -> Vec<u16> {
    let open = route.path.contains('{');
    let takes_body = !matches!(route.body, Takes::Nothing);
    let pages = route.query.iter().any(|p| p.name == "marker");
    let changes = route.changes();
    let more = [(404, open || takes_body || pages), (409, open || takes_body || changes), (422, changes)];
    let mut statuses: Vec<u16> = ALWAYS.iter().copied().chain(more.into_iter().filter(|(_, may)| *may).map(|(status, _)| status)).collect();
    statuses.sort_unstable();
    statuses
}

fn refusal(status: u16) -> Value {
    json!({"$ref": format!("#/components/responses/{status}")})
}

/// Every way to be refused, by its status.
pub fn refusals() -> Value {
    let schema = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let errors = schema("Errors");
    let plain = |about: &str| answer(about, &errors);
    let mut unauthenticated = answer("No token, or none that Keystone knows.", &schema("TokenError"));
    unauthenticated["headers"]["WWW-Authenticate"] = header("authenticate");
    let version = answer(
        "The microversion, or the Accept header, cannot be served.",
        &json!({"anyOf": [errors, schema("UnsupportedMicroversions")]}),
    );
    let mut often = plain("Too many requests of the project.");
    often["headers"]["Retry-After"] = header("retry-after");
    let mut down = plain("The database, Keystone or another service does not answer.");
    // Not with every one: whether it is worth another try is not always known.
    down["headers"]["Retry-After"] = header("retry-after");
    down["content"]["text/plain"] = json!({"schema": {"type": "string"}});
    json!({
        "400": plain("The request breaks a rule; the text names field and rule."),
        "401": unauthenticated,
        "403": plain("The policy, or a quota, does not allow it."),
        "404": plain("Nothing of this name in the caller's sight."),
        "406": version,
        "408": plain("The body did not arrive in time."),
        "409": plain("The state of things does not allow it, or several things have the name."),
        "413": plain("The body is too large."),
        "414": plain("The path and query are too long."),
        "415": plain("The body is not JSON."),
        "422": plain("The idempotency key was used for another request, or by somebody else of the project."),
        "429": often,
        "431": plain("The head of the request is too large."),
        "503": down,
    })
}
