//! What the player does to single objects, and how it finds them.

use serde_json::{Map, Value, json};

use crate::management::{
    apply::merge,
    discovery,
    store::{CLUSTER_NAME, Key, Store},
};

pub(super) fn find(store: &Store, kind: &str, namespace: &str, name: &str) -> Option<Key> {
    let key = |at: usize| Key { kind: at, namespace: namespace.to_owned(), name: name.to_owned() };
    discovery::named(kind).map(key).find(|key| store.get(key).is_some())
}

pub(super) fn is_leaving(store: &Store, key: &Key) -> bool {
    store.get(key).is_some_and(|object| !object["metadata"]["deletionTimestamp"].is_null())
}

/// The machines of an owner, oldest first; each bears its owner's name and a number.
pub(super) fn machines_of(store: &Store, owner: &Key) -> Vec<Key> {
    let Some(uid) = store.get(owner).map(|object| object["metadata"]["uid"].clone()) else { return Vec::new() };
    let is_owned = |machine: &Value| machine["metadata"]["ownerReferences"].as_array().into_iter().flatten().any(|o| o["uid"] == uid);
    let start = format!("{}-", owner.name);
    let named = discovery::named("Machine").flat_map(|kind| store.named_like(kind, &owner.namespace, &start));
    named.filter(|(_, machine)| is_owned(machine)).map(|(key, _)| key.clone()).collect()
}

/// Owner, finalizer and label, once.
pub(super) fn own(store: &mut Store, key: &Key, owner: Option<&Value>, finalizer: &str, cluster: &str) {
    let Some(object) = store.get(key) else { return };
    if !object["metadata"]["deletionTimestamp"].is_null() {
        return;
    }
    let mut metadata = Map::new();
    if !cluster.is_empty() && object["metadata"]["labels"][CLUSTER_NAME] != cluster {
        metadata.insert("labels".to_owned(), json!({CLUSTER_NAME: cluster}));
    }
    let has_finalizer = object["metadata"]["finalizers"].as_array().is_some_and(|all| all.iter().any(|f| f == finalizer));
    if !finalizer.is_empty() && !has_finalizer {
        metadata.insert("finalizers".to_owned(), json!([finalizer]));
    }
    if let Some(owner) = owner
        && object["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty)
    {
        let reference = json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"]});
        metadata.insert("ownerReferences".to_owned(), json!([reference]));
    }
    if !metadata.is_empty() {
        change(store, key, &json!({"metadata": metadata}));
    }
}

/// A merge patch of all but the status.
pub(super) fn change(store: &mut Store, key: &Key, patch: &Value) {
    if let Some(mut object) = store.get(key).cloned() {
        merge(&mut object, patch);
        store.replace(key, object, false);
    }
}

/// A merge patch of the status.
pub(super) fn report(store: &mut Store, key: &Key, status: Value) {
    if let Some(mut object) = store.get(key).cloned() {
        merge(&mut object["status"], &status);
        store.replace(key, object, true);
    }
}
