//! Barbican: secrets and the containers that hold them together, each of one project.
//!
//! References are whole URLs, on a host of Barbican's own configuration which need not be the one that the catalogue names.

use indexmap::IndexMap;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use crate::{
    catalog, clock,
    clock::Moment,
    http::{Answer, Call, Outcome, Refusal, Route},
    state::{World, dashed_id},
    token::Token,
};

/// What references begin with: an address that nobody reaches, as a Barbican that stands behind a proxy may show it.
const HREF: &str = "http://barbican.internal:9311/v1";
/// How many are listed unless more are asked for, and at most.
const PAGE: (usize, usize) = (10, 100);

/// What is kept.
#[derive(Default)]
pub(crate) struct Store {
    pub(crate) secrets: IndexMap<String, Secret>,
    pub(crate) containers: IndexMap<String, Container>,
}

/// A secret. No `Debug`: it holds one.
pub(crate) struct Secret {
    pub(crate) project: String,
    pub(crate) name: String,
    /// As it is given out; what came in base64 is decoded.
    pub(crate) payload: Option<String>,
    pub(crate) content_type: String,
    pub(crate) created: Moment,
}

/// Secrets held together.
pub(crate) struct Container {
    pub(crate) project: String,
    pub(crate) name: String,
    pub(crate) kind: String,
    /// The parts' names, and the ids of their secrets.
    pub(crate) parts: Vec<(String, String)>,
    pub(crate) created: Moment,
}

/// The calls Barbican knows.
pub(crate) fn route(method: &str, path: &[&str]) -> Option<Route> {
    match (method, path) {
        ("GET", [] | ["v1"]) => Route::open("barbican.version_show", catalog::version),
        ("POST", ["v1", "secrets"]) => Route::new("barbican.secret_create", create_secret),
        ("GET", ["v1", "secrets"]) => Route::new("barbican.secret_list", list_secrets),
        ("GET", ["v1", "secrets", _]) => Route::new("barbican.secret_show", show_secret),
        ("GET", ["v1", "secrets", _, "payload"]) => Route::new("barbican.secret_payload", show_payload),
        ("DELETE", ["v1", "secrets", _]) => Route::new("barbican.secret_delete", delete_secret),
        ("POST", ["v1", "containers"]) => Route::new("barbican.container_create", create_container),
        ("GET", ["v1", "containers"]) => Route::new("barbican.container_list", list_containers),
        ("GET", ["v1", "containers", _]) => Route::new("barbican.container_show", show_container),
        ("DELETE", ["v1", "containers", _]) => Route::new("barbican.container_delete", delete_container),
        _ => None,
    }
}

fn create_secret(world: &mut World, call: &Call) -> Outcome {
    let project = writer(call)?.to_owned();
    let body = call.json()?;
    let content_type = body["payload_content_type"].as_str().map(str::to_owned);
    let payload = match (body["payload"].as_str(), &content_type, body["payload_content_encoding"].as_str()) {
        (None, ..) => None,
        (Some(_), None, _) => return Err(invalid("If 'payload' is supplied, 'payload_content_type' must also be supplied.")),
        (Some(text), Some(kind), None) if kind.starts_with("text/plain") => Some(text.to_owned()),
        (Some(text), Some(_), Some("base64")) => Some(decoded(text).ok_or_else(|| invalid("payload is not base64 of text"))?),
        (Some(_), Some(_), _) => return Err(invalid("payload_content_encoding must be specified when payload_content_type is binary.")),
    };
    let secret = Secret {
        project,
        name: body["name"].as_str().unwrap_or_default().to_owned(),
        payload,
        content_type: content_type.unwrap_or_else(|| "application/octet-stream".to_owned()),
        created: call.now,
    };
    let id = dashed_id();
    world.barbican.secrets.insert(id.clone(), secret);
    Answer::with(201, json!({"secret_ref": secret_ref(&id)}))
}

fn list_secrets(world: &mut World, call: &Call) -> Outcome {
    let project = call.project()?;
    let name = call.query("name").map(|name| percent_decode_str(name).decode_utf8_lossy().into_owned());
    let found = world.barbican.secrets.iter().filter(|(_, secret)| secret.project == project);
    let found: Vec<Value> = found
        .filter(|(_, secret)| name.as_ref().is_none_or(|name| secret.name == *name))
        .map(|(id, secret)| view_secret(id, secret))
        .collect();
    Answer::ok(listed(call, "secrets", found))
}

fn show_secret(world: &mut World, call: &Call) -> Outcome {
    let id = call.at(2);
    Answer::ok(view_secret(id, secret(world, call)?))
}

fn show_payload(world: &mut World, call: &Call) -> Outcome {
    let secret = secret(world, call)?;
    let Some(payload) = &secret.payload else { return Err(missing("secret")) };
    if call.accept.as_deref().is_some_and(|accept| accept != secret.content_type) {
        return Err(Refusal::new(406, "NotAcceptable", "Secret payload retrieval issue seen - wrong accept type."));
    }
    let headers = vec![("Content-Type", secret.content_type.clone())];
    Ok(Answer { status: 200, headers, body: Some(Value::String(payload.clone())) })
}

fn delete_secret(world: &mut World, call: &Call) -> Outcome {
    writer(call)?;
    secret(world, call)?;
    world.barbican.secrets.shift_remove(call.at(2));
    Answer::empty(204)
}

fn create_container(world: &mut World, call: &Call) -> Outcome {
    let project = writer(call)?.to_owned();
    let body = call.json()?;
    let mut parts = Vec::new();
    for part in body["secret_refs"].as_array().into_iter().flatten() {
        let name = part["name"].as_str().unwrap_or_default().to_owned();
        let id = part["secret_ref"].as_str().unwrap_or_default().rsplit('/').next().unwrap_or_default().to_owned();
        if world.barbican.secrets.get(&id).is_none_or(|secret| secret.project != project) {
            return Err(Refusal::not_found(format!("Secret provided for '{name}' doesn't exist.")));
        }
        parts.push((name, id));
    }
    let kind = body["type"].as_str().unwrap_or_default().to_owned();
    let known = ["certificate", "private_key", "private_key_passphrase", "intermediates"];
    let is_certificate =
        parts.iter().any(|(name, _)| name == "certificate") && parts.iter().all(|(name, _)| known.contains(&name.as_str()));
    if kind == "certificate" && !is_certificate {
        return Err(invalid(
            "type is certificate: only reference names certificate, private_key, private_key_passphrase, or intermediates",
        ));
    }
    let name = body["name"].as_str().unwrap_or_default().to_owned();
    let id = dashed_id();
    world.barbican.containers.insert(id.clone(), Container { project, name, kind, parts, created: call.now });
    Answer::with(201, json!({"container_ref": container_ref(&id)}))
}

fn list_containers(world: &mut World, call: &Call) -> Outcome {
    let project = call.project()?;
    let found = world.barbican.containers.iter().filter(|(_, container)| container.project == project);
    let found: Vec<Value> = found
        .filter(|(_, container)| call.query("name").is_none_or(|name| container.name == name))
        .map(|(id, container)| view_container(id, container))
        .collect();
    Answer::ok(listed(call, "containers", found))
}

fn show_container(world: &mut World, call: &Call) -> Outcome {
    let id = call.at(2);
    Answer::ok(view_container(id, container(world, call)?))
}

fn delete_container(world: &mut World, call: &Call) -> Outcome {
    writer(call)?;
    container(world, call)?;
    world.barbican.containers.shift_remove(call.at(2));
    Answer::empty(204)
}

/// The project of a caller who may write.
fn writer(call: &Call) -> Result<&str, Refusal> {
    let token: &Token = call.token()?;
    if token.has_role("admin") || token.has_role("creator") || token.has_role("member") {
        return call.project();
    }
    Err(Refusal::forbidden("Forbidden: the caller may not do this."))
}

/// The secret that a path names, if it is of the caller's project.
fn secret<'a>(world: &'a World, call: &Call) -> Result<&'a Secret, Refusal> {
    let project = call.project()?;
    let found = world.barbican.secrets.get(call.at(2)).ok_or_else(|| missing("secret"))?;
    if found.project == project { Ok(found) } else { Err(Refusal::forbidden("Forbidden: it is another project's.")) }
}

fn container<'a>(world: &'a World, call: &Call) -> Result<&'a Container, Refusal> {
    let project = call.project()?;
    let found = world.barbican.containers.get(call.at(2)).ok_or_else(|| missing("container"))?;
    if found.project == project { Ok(found) } else { Err(Refusal::forbidden("Forbidden: it is another project's.")) }
}

fn missing(what: &str) -> Refusal {
    Refusal::not_found(format!("Not Found. Sorry but your {what} is in another castle."))
}

fn invalid(message: &str) -> Refusal {
    Refusal::bad_request(format!("Provided object does not match schema: {message}"))
}

fn secret_ref(id: &str) -> String {
    format!("{HREF}/secrets/{id}")
}

fn container_ref(id: &str) -> String {
    format!("{HREF}/containers/{id}")
}

fn listed(call: &Call, what: &str, all: Vec<Value>) -> Value {
    let number = |key: &str| call.query(key).and_then(|text| text.parse::<usize>().ok());
    let (offset, limit) = (number("offset").unwrap_or(0), number("limit").unwrap_or(PAGE.0).min(PAGE.1));
    let total = all.len();
    json!({what: all.into_iter().skip(offset).take(limit).collect::<Vec<_>>(), "total": total})
}

fn view_secret(id: &str, secret: &Secret) -> Value {
    let mut view = json!({
        "secret_ref": secret_ref(id),
        "name": secret.name,
        "status": "ACTIVE",
        "secret_type": "opaque",
        "algorithm": null,
        "bit_length": null,
        "mode": null,
        "expiration": null,
        "created": clock::whole(secret.created),
        "updated": clock::whole(secret.created),
    });
    if secret.payload.is_some() {
        view["content_types"] = json!({"default": secret.content_type});
    }
    view
}

fn view_container(id: &str, container: &Container) -> Value {
    let parts: Vec<Value> = container.parts.iter().map(|(name, secret)| json!({"name": name, "secret_ref": secret_ref(secret)})).collect();
    json!({
        "container_ref": container_ref(id),
        "name": container.name,
        "type": container.kind,
        "status": "ACTIVE",
        "secret_refs": parts,
        "consumers": [],
        "created": clock::whole(container.created),
        "updated": clock::whole(container.created),
    })
}

/// Base64 of text.
fn decoded(text: &str) -> Option<String> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<u8> = text.trim_end_matches('=').bytes().map(digit).collect::<Option<_>>()?;
    let bits = digits.chunks(4).flat_map(|group| {
        let whole = group.iter().fold(0u32, |all, digit| (all << 6) | u32::from(*digit)) << (6 * (4 - group.len()));
        whole.to_be_bytes().into_iter().skip(1).take(group.len() * 3 / 4).collect::<Vec<_>>()
    });
    String::from_utf8(bits.collect()).ok()
}

#[cfg(test)]
mod tests {
    use super::decoded;

    #[test]
    fn base64_of_text_is_decoded() {
        for (text, wanted) in [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYmFy", "foobar"), ("w7w=", "ü")] {
            assert_eq!(decoded(text).as_deref(), Some(wanted), "{text}");
        }
        assert!(decoded("Zm9-").is_none() && decoded("/w==").is_none());
    }
}
