//! JSON Patch as upstream understands it (rest-api.md 3.5): a subset of RFC 6902 with scalar values.

use serde::Serialize;
use serde_json::{Map, Value};

use super::body;
use super::literal;
use super::schema::{self, Kind, Schema};
use crate::error::ApiError;

/// One operation of a patch.
#[derive(Debug, PartialEq)]
pub struct Change {
    pub op: Op,
    /// The attribute, and the key within it where there is one.
    pub field: String,
    pub key: Option<String>,
    /// A string, integer or boolean; of a `remove`, which needs none, also null.
    pub value: Value,
}

/// What a patch may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Add,
    Replace,
    Remove,
}

/// Attributes that no patch may touch.
const INTERNAL: [&str; 7] = ["created_at", "id", "links", "updated_at", "uuid", "project_id", "user_id"];

/// Operations at most in one patch.
pub const MAX_CHANGES: usize = 1000;

/// What a patch must keep to besides the rules of every patch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits<'a> {
    /// Attributes that cannot be removed.
    pub mandatory: &'a [&'a str],
    /// Attributes that cannot be touched.
    pub internal: &'a [&'a str],
    /// How the request addresses the resource. openstacksdk repeats it as the resource's `id` in every patch; that changes nothing.
    pub ident: Option<&'a str>,
}

/// Reads a patch.
pub fn parse(content_type: Option<&str>, bytes: &[u8], limits: Limits<'_>) -> Result<Vec<Change>, ApiError> {
    let Value::Array(items) = body::json("patch", content_type, bytes)? else {
        return Err(ApiError::Invalid("Invalid input for patch: the body must be a list of operations".into()));
    };
    if items.len() > MAX_CHANGES {
        return Err(ApiError::Invalid(format!("Invalid input for patch: more than {MAX_CHANGES} operations")));
    }
    items.iter().filter(|item| !repeats_ident(item, limits.ident)).map(|item| change(item, limits)).collect()
}

fn repeats_ident(item: &Value, ident: Option<&str>) -> bool {
    let is_set = matches!(item["op"].as_str(), Some("add" | "replace")) && item["path"] == "/id";
    is_set && ident.is_some_and(|ident| item["value"] == ident)
}

fn change(item: &Value, Limits { mandatory, internal, .. }: Limits<'_>) -> Result<Change, ApiError> {
    let bad = |rule: String| ApiError::Invalid(format!("Invalid input for patch: {rule}"));
    let Value::Object(map) = item else { return Err(bad("each operation must be an object".into())) };
    if let Some(key) = map.keys().find(|k| !["op", "path", "value"].contains(&k.as_str())) {
        return Err(bad(format!("unknown attribute {key}")));
    }
    let op = match map.get("op").and_then(Value::as_str) {
        Some("add") => Op::Add,
        Some("replace") => Op::Replace,
        Some("remove") => Op::Remove,
        other => return Err(bad(format!("op must be add, replace or remove, not {}", other.unwrap_or("absent")))),
    };
    let path = map.get("path").and_then(Value::as_str).ok_or_else(|| bad("path is missing".into()))?;
    let is_segment = |s: &str| !s.is_empty() && s.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
    let segments: Vec<&str> = path.strip_prefix('/').unwrap_or_default().split('/').collect();
    if !segments.iter().all(|s| is_segment(s)) || segments.len() > 2 {
        return Err(bad(format!("path '{path}' must be /attribute or /attribute/key of letters, digits, _ and -")));
    }
    let field = segments[0].to_owned();
    let key = segments.get(1).map(|k| (*k).to_owned());
    if key.is_none() && (INTERNAL.contains(&field.as_str()) || internal.contains(&field.as_str())) {
        return Err(bad(format!("'{path}' is an internal attribute and can not be updated")));
    }
    if op == Op::Remove && key.is_none() && mandatory.contains(&field.as_str()) {
        return Err(bad(format!("'{path}' is a mandatory attribute and can not be removed")));
    }
    let value = map.get("value").cloned().unwrap_or(Value::Null);
    let is_scalar = value.is_string() || value.is_boolean() || value.is_i64() || value.is_u64();
    match op {
        Op::Add | Op::Replace if value.is_null() => return Err(bad("add and replace need a value".into())),
        // A removal needs none, and may have one all the same.
        _ if !value.is_null() && !is_scalar => return Err(schema::invalid(&field, &value, "It must be a string, integer or boolean")),
        _ => {}
    }
    Ok(Change { op, field, key, value })
}

/// A resource as a patch sees it: as it is shown.
pub fn document<T: Serialize>(view: &T) -> Result<Map<String, Value>, ApiError> {
    match serde_json::to_value(view) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(ApiError::Internal("a resource is shown as an object".into())),
        Err(error) => Err(ApiError::Internal(format!("show a resource to a patch: {error}"))),
    }
}

/// Applies one operation to a resource. Fields of `rules` are read and checked by them; what others may become is for the caller to say.
pub fn apply(document: &mut Map<String, Value>, change: &Change, rules: &'static Schema) -> Result<(), ApiError> {
    let field = change.field.as_str();
    let missing = |what: &str| ApiError::Invalid(format!("Couldn't apply JSON patch: {what}"));
    let Some(present) = document.get_mut(field) else { return Err(missing(&format!("there is no attribute /{field}"))) };
    if let Some(key) = &change.key {
        let Value::Object(map) = present else { return Err(missing(&format!("/{field} has no members"))) };
        match change.op {
            Op::Remove => drop(map.shift_remove(key).ok_or_else(|| missing(&format!("there is no /{field}/{key}")))?),
            Op::Replace if !map.contains_key(key) => return Err(missing(&format!("there is no /{field}/{key}"))),
            Op::Add | Op::Replace => drop(map.insert(key.clone(), change.value.clone())),
        }
        return rules.field(field).map_or(Ok(()), |rule| rule.check(present));
    }
    let wanted = match change.op {
        Op::Add if !present.is_null() => {
            return Err(ApiError::Invalid(format!("The attribute /{field} has existed, please use 'replace' operation instead.")));
        }
        Op::Remove => Value::Null,
        Op::Add | Op::Replace => match rules.field(field) {
            Some(rule) => {
                let value =
                    read(rule.kind, present, &change.value).ok_or_else(|| schema::invalid(field, &change.value, rule.kind.hint()))?;
                rule.check(&value)?;
                value
            }
            None => read(Kind::of(present), present, &change.value).unwrap_or_else(|| change.value.clone()),
        },
    };
    *present = wanted;
    Ok(())
}

/// Applies a whole patch to a resource as it is shown: what becomes of it.
pub fn applied(before: &Map<String, Value>, changes: &[Change], rules: &'static Schema) -> Result<Map<String, Value>, ApiError> {
    let mut after = before.clone();
    changes.iter().try_for_each(|change| apply(&mut after, change, rules))?;
    Ok(after)
}

/// As [`applied`], for a resource (`noun`) of which only the fields of `rules` may change; every other may be replaced by itself.
pub fn applied_within(
    noun: &str,
    before: &Map<String, Value>,
    changes: &[Change],
    rules: &'static Schema,
) -> Result<Map<String, Value>, ApiError> {
    let after = applied(before, changes, rules)?;
    let is_other = |key: &&str| rules.field(key).is_none() && before.get(*key) != after.get(*key);
    let others: Vec<&str> = before.keys().map(String::as_str).filter(is_other).collect();
    if !others.is_empty() {
        return Err(ApiError::Invalid(format!("cannot change {noun} property(ies) {}.", others.join(", "))));
    }
    Ok(after)
}

/// A value of a patch in the form that the resource has: maps and lists travel as text that holds a literal, and clients send numbers and
/// booleans as text too. None when it cannot be read.
fn read(kind: Kind, present: &Value, value: &Value) -> Option<Value> {
    match kind {
        Kind::Labels | Kind::StringMap | Kind::StringMaps | Kind::Texts => match value {
            Value::String(text) => literal::parse(text),
            other => Some(other.clone()),
        },
        Kind::Integer { .. } => schema::number(value).map(Value::from),
        Kind::Boolean => schema::flag(value).map(Value::from),
        Kind::Text { .. } | Kind::Name | Kind::Uuid | Kind::OneOf(_) => Some(value.clone()),
    }
    .filter(|read| !(present.is_object() && read.is_array()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Vec<Change>, ApiError> {
        parse(Some("application/json"), text.as_bytes(), Limits { mandatory: &["coe"], internal: &["stack_id"], ident: Some("blue") })
    }

    #[test]
    fn what_upstream_refuses_is_refused() {
        assert_eq!(read("[]").expect("valid"), []);
        assert_eq!(read(r#"[{"op": "add", "path": "/id", "value": "blue"}]"#).expect("changes nothing"), []);
        assert!(read(r#"[{"op": "add", "path": "/id", "value": "green"}]"#).is_err());
        for value in ["null", "1", "true", r#""a,b""#] {
            read(&format!(r#"[{{"op": "remove", "path": "/tags", "value": {value}}}]"#)).expect("a removal may have a value");
        }
        for key in ["a", "größe", "サイズ-1_x"] {
            let one = read(&format!(r#"[{{"op": "replace", "path": "/labels/{key}", "value": "b"}}]"#)).expect("valid");
            assert_eq!((one[0].field.as_str(), one[0].key.as_deref()), ("labels", Some(key)));
        }
        for bad in [
            "{}",
            "null",
            "[1]",
            r#"[{"op": "move", "path": "/a", "value": 1}]"#,
            r#"[{"op": "add", "path": "/a", "from": "/b"}]"#,
            r#"[{"op": "add", "path": "/a"}]"#,
            r#"[{"op": "add", "path": "/a b", "value": 1}]"#,
            r#"[{"op": "add", "path": "/labels/a.b", "value": 1}]"#,
            r#"[{"op": "add", "path": "/labels/a\u2013b", "value": 1}]"#,
            r#"[{"op": "add", "path": "a", "value": 1}]"#,
            r#"[{"op": "replace", "path": "/labels", "value": {}}]"#,
            r#"[{"op": "replace", "path": "/uuid", "value": "x"}]"#,
            r#"[{"op": "remove", "path": "/coe"}]"#,
            r#"[{"op": "remove", "path": "/tags", "value": {}}]"#,
            r#"[{"op": "remove", "path": "/tags", "value": ["a"]}]"#,
            r#"[{"op": "remove", "path": "/tags", "value": 1.5}]"#,
        ] {
            assert!(matches!(read(bad), Err(ApiError::Invalid(_))), "{bad}");
        }
    }

    /// An operation, well formed or not: what the contract's table says of it is asked part by part, not by the code under test.
    #[derive(Clone, Debug)]
    struct Item {
        op: Option<&'static str>,
        path: Option<String>,
        value: Option<Value>,
        more: Option<&'static str>,
    }

    impl Item {
        fn json(&self) -> Value {
            let mut map = serde_json::Map::new();
            for (key, value) in
                [("op", self.op.map(Value::from)), ("path", self.path.clone().map(Value::from)), ("value", self.value.clone())]
            {
                if let Some(value) = value {
                    map.insert(key.into(), value);
                }
            }
            if let Some(key) = self.more {
                map.insert(key.into(), Value::from("/b"));
            }
            Value::Object(map)
        }

        /// The table of rest-api.md 3.5.
        fn is_good(&self) -> bool {
            let Some(path) = &self.path else { return false };
            let shaped = path.starts_with('/')
                && !path.ends_with('/')
                && !path.contains("//")
                && path.matches('/').count() <= 2
                && path.chars().all(|c| c == '/' || c == '_' || c == '-' || c.is_alphanumeric());
            let forbidden = ["/created_at", "/id", "/links", "/updated_at", "/uuid", "/project_id", "/user_id"].contains(&path.as_str());
            let valued = matches!(&self.value, Some(Value::String(_) | Value::Bool(_)))
                || matches!(&self.value, Some(Value::Number(n)) if !n.is_f64());
            let possible = match self.op {
                Some("remove") => path != "/coe" && (valued || self.value.as_ref().is_none_or(Value::is_null)),
                Some("add" | "replace") => valued,
                _ => false,
            };
            self.more.is_none() && shaped && !forbidden && possible
        }
    }

    fn item() -> impl Strategy<Value = Item> {
        let op = prop::sample::select(vec![Some("add"), Some("replace"), Some("remove"), Some("test"), Some("ADD"), None]);
        let path = prop_oneof![
            8 => "(/(labels|name|coe|uuid|id|links|user_id|node_count|x-y)){1,3}".prop_map(Some),
            2 => "/?[a-z./~ é_-]{0,6}".prop_map(Some),
            1 => Just(None),
        ];
        let value = prop_oneof![
            Just(None),
            Just(Some(Value::Null)),
            any::<bool>().prop_map(|b| Some(b.into())),
            any::<i64>().prop_map(|n| Some(n.into())),
            Just(Some(serde_json::json!(1.5))),
            ".{0,5}".prop_map(|s| Some(s.into())),
            Just(Some(serde_json::json!({"a": "b"}))),
            Just(Some(serde_json::json!([1]))),
        ];
        let more = prop::sample::select(vec![None, None, None, None, None, Some("from"), Some("Op")]);
        (op, path, value, more).prop_map(|(op, path, value, more)| Item { op, path, value, more })
    }

    /// An operation whose value is of the field's type.
    fn typed() -> impl Strategy<Value = Change> {
        let op = prop::sample::select(vec![Op::Add, Op::Replace, Op::Remove]);
        let text = || "[a-c]{1,2}".prop_map(Value::from);
        let on = |field: &'static str, key: Option<&'static str>, value: BoxedStrategy<Value>| {
            value.prop_map(move |value| (field, key, value)).boxed()
        };
        let size = (1..9_i64).prop_map(Value::from).boxed();
        let place = prop_oneof![
            on("name", None, text().boxed()),
            on("tags", None, text().boxed()),
            on("docker_volume_size", None, size),
            on("labels", Some("x"), text().boxed()),
            on("labels", Some("y"), text().boxed()),
            on("name", Some("x"), text().boxed()),
            on("nothing", None, text().boxed()),
        ];
        (op, place).prop_map(|(op, (field, key, value))| Change {
            op,
            field: field.into(),
            key: key.map(str::to_owned),
            value: if op == Op::Remove { Value::Null } else { value },
        })
    }

    /// The document after the operation, by the letter: a pointer that leads nowhere, or an `add` to an attribute that has a value, fails.
    fn expected(document: &Value, change: &Change) -> Option<Value> {
        let mut next = document.clone();
        let root = format!("/{}", change.field);
        let Some(key) = &change.key else {
            let slot = next.pointer_mut(&root)?;
            if change.op == Op::Add && *slot != Value::Null {
                return None;
            }
            *slot = change.value.clone();
            return Some(next);
        };
        let is_there = document.pointer(&format!("{root}/{key}")).is_some();
        let members = next.pointer_mut(&root)?.as_object_mut()?;
        match change.op {
            Op::Add => {}
            Op::Replace | Op::Remove if !is_there => return None,
            Op::Replace | Op::Remove => {}
        }
        if change.op == Op::Remove {
            members.shift_remove(key);
        } else {
            members.insert(key.clone(), change.value.clone());
        }
        Some(next)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_patch_is_taken_whole_or_not_at_all_and_says_what_was_written(items in prop::collection::vec(item(), 0..4)) {
            let text = Value::Array(items.iter().map(Item::json).collect()).to_string();
            match read(&text) {
                Ok(changes) => {
                    prop_assert!(items.iter().all(Item::is_good), "{}", text);
                    prop_assert_eq!(changes.len(), items.len());
                    for (change, item) in changes.iter().zip(&items) {
                        let path = change.key.as_ref().map_or_else(|| format!("/{}", change.field), |key| format!("/{}/{key}", change.field));
                        prop_assert_eq!(Some(&path), item.path.as_ref());
                        let op = match change.op {
                            Op::Add => "add",
                            Op::Replace => "replace",
                            Op::Remove => "remove",
                        };
                        prop_assert_eq!(Some(op), item.op);
                        prop_assert_eq!(&change.value, item.value.as_ref().unwrap_or(&Value::Null));
                    }
                }
                Err(error) => {
                    prop_assert!(!items.iter().all(Item::is_good), "{}: {}", text, error);
                    prop_assert!(matches!(error, ApiError::Invalid(_)));
                }
            }
        }

        #[test]
        fn operations_in_order_make_what_rfc_6902_and_upstreams_add_make(changes in prop::collection::vec(typed(), 0..12)) {
            let start = || serde_json::json!({"name": "a", "labels": {"x": "1"}, "docker_volume_size": null, "tags": null});
            let Value::Object(mut document) = start() else { unreachable!("an object") };
            let mut model = start();
            for change in &changes {
                let found = apply(&mut document, change, &crate::view::template::SCHEMA);
                match expected(&model, change) {
                    Some(next) => {
                        prop_assert!(found.is_ok(), "{:?} on {}: {:?}", change, model, found);
                        model = next;
                        prop_assert_eq!(&Value::Object(document.clone()), &model, "{:?}", change);
                    }
                    None => {
                        prop_assert!(matches!(found, Err(ApiError::Invalid(_))), "{:?} on {}", change, model);
                        break;
                    }
                }
            }
        }

        #[test]
        fn whatever_is_sent_is_answered(bytes in prop::collection::vec(any::<u8>(), 0..64), kind in prop::option::of(".{0,20}")) {
            let _ = parse(kind.as_deref(), &bytes, Limits { mandatory: &["coe"], ..Limits::default() });
        }
    }
}
