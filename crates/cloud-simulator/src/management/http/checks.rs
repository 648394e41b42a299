//! Where an object may be, and which one a document is meant for.

use serde_json::Value;

use super::{Key, Refusal, World};

/// A name, and a namespace that is there.
pub(super) fn place(world: &World, key: &Key) -> Result<(), Refusal> {
    let is_name = |name: &str| {
        !name.is_empty()
            && name.len() <= 253
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.')
            && name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.ends_with(|c: char| c.is_ascii_alphanumeric())
    };
    if !is_name(&key.name) {
        let message = format!("{} \"{}\" is invalid: metadata.name: Invalid value", key.kind().kind, key.name);
        return Err(Refusal { status: 422, reason: "Invalid", message });
    }
    let is_there = !key.kind().is_namespaced || world.store.of_kind("Namespace").any(|(known, _)| known.name == key.namespace);
    if is_there {
        return Ok(());
    }
    Err(Refusal { status: 404, reason: "NotFound", message: format!("namespaces \"{}\" not found", key.namespace) })
}

/// A document that names the version it is meant for is for no other one.
pub(super) fn version(key: &Key, document: &Value, before: &Value) -> Result<(), Refusal> {
    let differs = |field: &str| {
        let meant = &document["metadata"][field];
        !meant.is_null() && *meant != before["metadata"][field]
    };
    if !differs("resourceVersion") && !differs("uid") {
        return Ok(());
    }
    let message = format!(
        "Operation cannot be fulfilled on {} \"{}\": the object has been modified; please apply your changes to the latest version and try again",
        key.kind().resource(),
        key.name
    );
    Err(Refusal { status: 409, reason: "Conflict", message })
}
