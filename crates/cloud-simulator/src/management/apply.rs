//! Apply: fields have owners, and who applies a document says which fields are his from now on. Lists are one field.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// Who owns which fields of an object, by manager.
pub(crate) type Owners = BTreeMap<String, BTreeSet<String>>;

/// A field that is another manager's and has another value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub(crate) manager: String,
    pub(crate) field: String,
}

/// Fields that have no owner: the object's identity.
const IDENTITY: [&str; 10] = [
    "/apiVersion",
    "/kind",
    "/metadata/name",
    "/metadata/namespace",
    "/metadata/uid",
    "/metadata/creationTimestamp",
    "/metadata/resourceVersion",
    "/metadata/generation",
    "/metadata/managedFields",
    "/metadata/deletionTimestamp",
];

/// Every field of a document with its value, by JSON pointer.
pub(crate) fn fields(document: &Value) -> BTreeMap<String, Value> {
    fn walk(value: &Value, at: &str, out: &mut BTreeMap<String, Value>) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                for (key, value) in map {
                    walk(value, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), out);
                }
            }
            Value::Null => {}
            _ => {
                out.insert(at.to_owned(), value.clone());
            }
        }
    }
    let mut out = BTreeMap::new();
    walk(document, "", &mut out);
    out.retain(|at, _| !IDENTITY.contains(&at.as_str()));
    out
}

/// Applies a document to an object for a manager. Nothing is changed when there is a conflict that is not forced.
pub(crate) fn apply(object: &mut Value, owners: &mut Owners, document: &Value, manager: &str, force: bool) -> Result<(), Conflict> {
    let wanted = fields(document);
    for (other, theirs) in owners.iter().filter(|(other, _)| *other != manager) {
        for (field, value) in &wanted {
            if theirs.contains(field) && object.pointer(field).is_some_and(|now| now != value) && !force {
                return Err(Conflict { manager: other.clone(), field: field.clone() });
            }
        }
    }
    for (_, theirs) in owners.iter_mut().filter(|(other, _)| *other != manager) {
        theirs.retain(|field| wanted.get(field).is_none_or(|value| object.pointer(field).is_none_or(|now| now == value)));
    }
    let before = owners.remove(manager).unwrap_or_default();
    for field in before.iter().filter(|field| !wanted.contains_key(*field)) {
        if !owners.values().any(|theirs| theirs.contains(field)) {
            remove(object, field);
        }
    }
    for (field, value) in &wanted {
        set(object, field, value.clone());
    }
    owners.insert(manager.to_owned(), wanted.into_keys().collect());
    Ok(())
}

/// Notes who changed what by any other way of writing.
pub(crate) fn note(before: &Value, after: &Value, owners: &mut Owners, manager: &str) {
    let (before, after) = (fields(before), fields(after));
    let changed: BTreeSet<String> =
        after.iter().filter(|(field, value)| before.get(*field) != Some(value)).map(|(f, _)| f.clone()).collect();
    for theirs in owners.values_mut() {
        theirs.retain(|field| !changed.contains(field) && after.contains_key(field));
    }
    owners.entry(manager.to_owned()).or_default().extend(changed);
}

/// JSON merge patch (RFC 7396).
pub(crate) fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = Value::Object(Map::new());
    }
    let Value::Object(into) = into else { return };
    for (key, value) in patch {
        match value {
            Value::Null => {
                into.shift_remove(key);
            }
            value => merge(into.entry(key.clone()).or_insert(Value::Null), value),
        }
    }
}

fn parts(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~")).collect()
}

fn set(object: &mut Value, pointer: &str, value: Value) {
    let mut at = object;
    for part in parts(pointer) {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        let Value::Object(map) = at else { return };
        at = map.entry(part).or_insert(Value::Null);
    }
    *at = value;
}

fn remove(object: &mut Value, pointer: &str) {
    let parts = parts(pointer);
    let Some((last, before)) = parts.split_last() else { return };
    let mut at = object;
    for part in before {
        let Some(next) = at.get_mut(part) else { return };
        at = next;
    }
    if let Value::Object(map) = at {
        map.shift_remove(last);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_applies_owns_and_gives_back_what_he_leaves_out() {
        let (mut object, mut owners) = (json!({"metadata": {"name": "a"}}), Owners::new());
        let first = json!({"metadata": {"name": "a", "labels": {"x/y": "1"}}, "spec": {"replicas": 2, "list": [1]}});
        apply(&mut object, &mut owners, &first, "helm", false).expect("free");
        apply(&mut object, &mut owners, &json!({"spec": {"replicas": 2}}), "other", false).expect("the same value");
        let conflict = apply(&mut object, &mut owners, &json!({"spec": {"replicas": 3}}), "helm", false).expect_err("shared");
        assert_eq!(conflict, Conflict { manager: "other".into(), field: "/spec/replicas".into() });
        assert_eq!(object["spec"]["replicas"], 2);
        apply(&mut object, &mut owners, &json!({"spec": {"replicas": 3}}), "helm", true).expect("forced");
        // What only helm had is gone; the name is no field.
        assert_eq!(object, json!({"metadata": {"name": "a", "labels": {}}, "spec": {"replicas": 3}}));
    }

    #[test]
    fn a_write_of_another_kind_takes_the_fields_that_it_changes() {
        let (mut object, mut owners) = (json!({}), Owners::new());
        apply(&mut object, &mut owners, &json!({"spec": {"replicas": 2, "paused": false}}), "helm", false).expect("free");
        let before = object.clone();
        merge(&mut object, &json!({"spec": {"replicas": 5}}));
        note(&before, &object, &mut owners, "autoscaler");
        assert!(apply(&mut object, &mut owners, &json!({"spec": {"replicas": 2, "paused": false}}), "helm", false).is_err());
        merge(&mut object, &json!({"spec": {"paused": null}}));
        assert_eq!(object, json!({"spec": {"replicas": 5}}));
    }
}
