//! From a request to the store and back, in the words of a Kubernetes API server.

mod checks;

use actix_web::{
    HttpRequest, HttpResponse,
    http::{Method, StatusCode, header},
    web::{Bytes, Data, Query},
};
use serde_json::{Value, json};
use std::time::Duration;

use crate::{
    clock,
    fault::How,
    management::{
        Shared, World, apply, discovery,
        discovery::KINDS,
        protobuf,
        store::{Key, tidy},
        watch::{self, Watch},
    },
};

/// What is answered.
struct Answer {
    status: u16,
    body: Value,
}

/// Why not.
struct Refusal {
    status: u16,
    reason: &'static str,
    message: String,
}

type Outcome = Result<Answer, Refusal>;

/// What a path names.
struct Target {
    kind: usize,
    namespace: Option<String>,
    name: Option<String>,
    is_status: bool,
}

struct Call<'a> {
    method: &'a Method,
    query: Vec<(String, String)>,
    content: String,
    body: Bytes,
}

impl Call<'_> {
    fn query(&self, key: &str) -> Option<&str> {
        self.query.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    fn manager(&self) -> &str {
        self.query("fieldManager").unwrap_or("unknown")
    }

    /// Apply documents are YAML, of which JSON is a part.
    fn document(&self) -> Result<Value, Refusal> {
        let unreadable =
            |error: String| Refusal { status: 400, reason: "BadRequest", message: format!("the body cannot be read: {error}") };
        if self.content.contains("protobuf") {
            return protobuf::secret(&self.body).ok_or_else(|| unreadable("it is no secret".to_owned()));
        }
        let text = std::str::from_utf8(&self.body).unwrap_or_default();
        let read = if self.content.contains("yaml") {
            serde_saphyr::from_str(text).map_err(|error| error.to_string())
        } else {
            serde_json::from_str(text).map_err(|error| error.to_string())
        };
        read.map_err(unreadable)
    }
}

/// Answers one request.
pub(crate) async fn answer(shared: Data<Shared>, request: HttpRequest, body: Bytes) -> HttpResponse {
    let path: Vec<String> = request.path().split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let target = target(&path);
    let watches = request.query_string().split('&').any(|part| part == "watch=true" || part == "watch=1");
    let operation = match operation(request.method(), target.as_ref()) {
        "kubernetes.list" if watches => "kubernetes.watch",
        other => other,
    };
    let fault = shared.lock().faults.meet(operation);
    let (mut is_lost, mut is_held) = (false, false);
    match fault {
        None => {}
        Some(How::Status(status, message)) => return render(refusal(&Refusal { status, reason: "Injected", message })),
        Some(How::Unauthorized) => return render(unauthorized()),
        Some(How::Slow(duration)) => tokio::time::sleep(duration).await,
        Some(How::Refuse) => return crate::http::lost(),
        Some(How::AcceptThenLose) => is_lost = true,
        Some(How::Hold) => shared.gate.hold().await,
        Some(How::ActThenHold) => is_held = true,
    }
    let bearer = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    // Helm sends no token where there is no TLS; a wrong one is refused all the same.
    if bearer.is_some_and(|text| text.strip_prefix("Bearer ") != Some(shared.token().as_str())) {
        return render(unauthorized());
    }
    let header_of = |name: header::HeaderName| request.headers().get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
    let call = Call {
        method: request.method(),
        query: Query::<Vec<(String, String)>>::from_query(request.query_string()).map(Query::into_inner).unwrap_or_default(),
        content: header_of(header::CONTENT_TYPE),
        body,
    };
    if let (Some(target), "kubernetes.watch") = (&target, operation) {
        return watched(&shared, target, &call);
    }
    let wants_all = header_of(header::ACCEPT).contains("g=apidiscovery.k8s.io");
    let outcome = {
        let mut world = shared.lock();
        world.advance();
        match target {
            Some(target) => {
                let outcome = act(&mut world, &target, &call);
                if outcome.is_ok() && *call.method != Method::GET {
                    world.faults.note_effect(operation);
                }
                outcome
            }
            None => document(&path, wants_all),
        }
    };
    if is_held {
        shared.gate.hold().await;
    }
    if is_lost {
        return crate::http::lost();
    }
    match outcome {
        Ok(answer) if wants_all && answer.body["kind"] == "APIGroupDiscoveryList" => {
            let kind = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
            HttpResponse::Ok().insert_header((header::CONTENT_TYPE, kind)).body(answer.body.to_string())
        }
        Ok(answer) => render(answer),
        Err(refused) => render(refusal(&refused)),
    }
}

/// Begins a watch, or says why not.
fn watched(shared: &Data<Shared>, target: &Target, call: &Call<'_>) -> HttpResponse {
    let begun = watch::begin(Watch {
        shared: shared.clone(),
        kind: target.kind,
        namespace: target.namespace.clone(),
        selector: call.query("labelSelector").unwrap_or_default().to_owned(),
        version: call.query("resourceVersion").and_then(|text| text.parse().ok()).filter(|version| *version > 0),
        wants_bookmarks: call.query("allowWatchBookmarks") == Some("true"),
        lasts: Duration::from_secs(call.query("timeoutSeconds").and_then(|text| text.parse().ok()).unwrap_or(1800)),
    });
    begun.unwrap_or_else(|gone| render(Answer { status: 410, body: gone }))
}

fn operation(method: &Method, target: Option<&Target>) -> &'static str {
    match (method.as_str(), target) {
        (_, None) => "kubernetes.discover",
        ("GET", Some(Target { name: None, .. })) => "kubernetes.list",
        ("GET", _) => "kubernetes.get",
        ("POST", _) => "kubernetes.create",
        ("PUT", _) => "kubernetes.update",
        ("PATCH", _) => "kubernetes.patch",
        ("DELETE", _) => "kubernetes.delete",
        _ => "kubernetes.other",
    }
}

/// The kind and object that a path names; none for a path of discovery.
fn target(path: &[&str]) -> Option<Target> {
    let (group, version, rest) = match path {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return None,
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, plural, more @ ..] if *plural != "status" => (Some((*namespace).to_owned()), (plural, more)),
        [plural, more @ ..] => (None, (plural, more)),
        [] => return None,
    };
    let (plural, more) = rest;
    let kind = discovery::find(group, version, plural)?;
    let (name, is_status) = match more {
        [] => (None, false),
        [name] => (Some((*name).to_owned()), false),
        [name, "status"] => (Some((*name).to_owned()), true),
        _ => return None,
    };
    Some(Target { kind, namespace, name, is_status })
}

fn document(path: &[&str], wants_all: bool) -> Outcome {
    let body = match path {
        ["version"] => Some(discovery::version()),
        ["api"] if wants_all => Some(discovery::aggregated(true)),
        ["apis"] if wants_all => Some(discovery::aggregated(false)),
        ["api"] => Some(json!({"kind": "APIVersions", "versions": ["v1"]})),
        ["apis"] => Some(discovery::api_groups()),
        ["openapi", "v3"] => Some(discovery::openapi_index()),
        ["openapi", "v3", "api", version] => discovery::openapi("", version),
        ["openapi", "v3", "apis", group, version] => discovery::openapi(group, version),
        ["api", version] => discovery::resources("", version),
        ["apis", group, version] => discovery::resources(group, version),
        _ => None,
    };
    let body = body.ok_or_else(|| Refusal {
        status: 404,
        reason: "NotFound",
        message: "the server could not find the requested resource".to_owned(),
    })?;
    Ok(Answer { status: 200, body })
}

fn act(world: &mut World, target: &Target, call: &Call<'_>) -> Outcome {
    let key = target.name.as_ref().map(|name| Key {
        kind: target.kind,
        namespace: target.namespace.clone().unwrap_or_default(),
        name: name.clone(),
    });
    match (call.method.as_str(), key) {
        ("GET", None) => list(world, target, call),
        ("GET", Some(key)) => world.store.get(&key).map(|object| ok(object.clone())).ok_or_else(|| missing(&key)),
        ("POST", None) => create(world, target, call),
        ("PUT", Some(key)) => update(world, &key, call, target.is_status),
        ("PATCH", Some(key)) if call.content.starts_with("application/apply-patch") => applied(world, &key, call),
        ("PATCH", Some(key)) => patch(world, &key, call, target.is_status),
        ("DELETE", Some(key)) => {
            let gone = world.store.delete(&key, clock::now()).ok_or_else(|| missing(&key))?;
            let details = json!({"name": key.name, "kind": key.kind().plural, "uid": gone["metadata"]["uid"]});
            match gone["metadata"]["deletionTimestamp"].is_null() {
                true => Ok(ok(json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}))),
                false => Ok(ok(gone)),
            }
        }
        ("DELETE", None) => {
            let selector = call.query("labelSelector").unwrap_or_default();
            let keys: Vec<Key> = selected(world, target, selector).map(|(key, _)| key.clone()).collect();
            for key in &keys {
                world.store.delete(key, clock::now());
            }
            Ok(ok(json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})))
        }
        _ => Err(Refusal { status: 405, reason: "MethodNotAllowed", message: "the server does not allow this method".to_owned() }),
    }
}

fn ok(body: Value) -> Answer {
    Answer { status: 200, body }
}

fn selected<'w>(world: &'w World, target: &'w Target, selector: &'w str) -> impl Iterator<Item = (&'w Key, &'w Value)> {
    world.store.selected(target.kind, target.namespace.as_deref(), selector)
}

fn list(world: &mut World, target: &Target, call: &Call<'_>) -> Outcome {
    let kind = &KINDS[target.kind];
    let selector = call.query("labelSelector").unwrap_or_default();
    let mut items: Vec<Value> = selected(world, target, selector).map(|(_, object)| object.clone()).collect();
    let from: usize = call.query("continue").and_then(|token| token.parse().ok()).unwrap_or(0);
    let limit: usize = call.query("limit").and_then(|limit| limit.parse().ok()).filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let is_more = items.len() > from.saturating_add(limit);
    items = items.into_iter().skip(from).take(limit).collect();
    let mut metadata = json!({"resourceVersion": world.store.version().to_string()});
    if is_more {
        metadata["continue"] = (from + limit).to_string().into();
    } else if kind.group.contains('.') && kind.group != "rbac.authorization.k8s.io" {
        // Present and empty for custom kinds only.
        metadata["continue"] = "".into();
    }
    Ok(ok(json!({"apiVersion": kind.api_version(), "kind": format!("{}List", kind.kind), "metadata": metadata, "items": items})))
}

fn create(world: &mut World, target: &Target, call: &Call<'_>) -> Outcome {
    let mut document = call.document()?;
    tidy(&mut document);
    let name = document["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let key = Key { kind: target.kind, namespace: target.namespace.clone().unwrap_or_default(), name };
    checks::place(world, &key)?;
    if world.store.get(&key).is_some() {
        let message = format!("{} \"{}\" already exists", key.kind().resource(), key.name);
        return Err(Refusal { status: 409, reason: "AlreadyExists", message });
    }
    let made = world.store.insert(key.clone(), document, clock::now());
    apply::note(&json!({}), &made, world.store.owners(&key), call.manager());
    Ok(Answer { status: 201, body: made })
}

fn update(world: &mut World, key: &Key, call: &Call<'_>, is_status: bool) -> Outcome {
    let document = call.document()?;
    let before = world.store.get(key).ok_or_else(|| missing(key))?.clone();
    checks::version(key, &document, &before)?;
    written(world, key, &before, document, is_status, call.manager())
}

fn patch(world: &mut World, key: &Key, call: &Call<'_>, is_status: bool) -> Outcome {
    let known = ["application/merge-patch+json", "application/strategic-merge-patch+json"];
    if !known.iter().any(|kind| call.content.starts_with(kind)) {
        return Err(Refusal {
            status: 415,
            reason: "UnsupportedMediaType",
            message: format!("the body of type {} is not supported", call.content),
        });
    }
    let before = world.store.get(key).ok_or_else(|| missing(key))?.clone();
    let mut document = before.clone();
    apply::merge(&mut document, &call.document()?);
    written(world, key, &before, document, is_status, call.manager())
}

fn written(world: &mut World, key: &Key, before: &Value, document: Value, is_status: bool, manager: &str) -> Outcome {
    match world.store.replace(key, document, is_status) {
        Some(after) => {
            apply::note(before, &after, world.store.owners(key), manager);
            Ok(ok(after))
        }
        None => Ok(ok(before.clone())),
    }
}

fn applied(world: &mut World, key: &Key, call: &Call<'_>) -> Outcome {
    let mut document = call.document()?;
    tidy(&mut document);
    checks::place(world, key)?;
    let is_new = world.store.get(key).is_none();
    let mut object = world.store.get(key).cloned().unwrap_or_else(|| json!({"metadata": {}}));
    checks::version(key, &document, &object)?;
    let mut owners = std::mem::take(world.store.owners(key));
    let outcome = apply::apply(&mut object, &mut owners, &document, call.manager(), call.query("force") == Some("true"));
    *world.store.owners(key) = owners;
    if let Err(conflict) = outcome {
        let field = conflict.field.replace('/', ".");
        let message = format!("Apply failed with 1 conflict: conflict with \"{}\": {field}", conflict.manager);
        return Err(Refusal { status: 409, reason: "Conflict", message });
    }
    if is_new {
        return Ok(Answer { status: 201, body: world.store.insert(key.clone(), object, clock::now()) });
    }
    world.store.replace(key, object, false).map(ok).ok_or_else(|| missing(key))
}

fn missing(key: &Key) -> Refusal {
    Refusal { status: 404, reason: "NotFound", message: format!("{} \"{}\" not found", key.kind().resource(), key.name) }
}

fn unauthorized() -> Answer {
    refusal(&Refusal { status: 401, reason: "Unauthorized", message: "Unauthorized".to_owned() })
}

fn refusal(refused: &Refusal) -> Answer {
    let Refusal { status, reason, message } = refused;
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason,
        "code": status});
    Answer { status: *status, body }
}

fn render(answer: Answer) -> HttpResponse {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = HttpResponse::build(status);
    if status == StatusCode::TOO_MANY_REQUESTS {
        // As a real one: its queues are short.
        response.insert_header((header::RETRY_AFTER, "1"));
    }
    response.insert_header((header::CONTENT_TYPE, "application/json")).body(answer.body.to_string())
}
