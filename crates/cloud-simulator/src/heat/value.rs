//! The intrinsic functions of a template, as far as they decide what exists and what it is called.
//!
//! What depends on a real resource (`get_attr`, `get_resource`) or on a language of its own (`yaql`) has no value here.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// What the functions of one template can refer to.
pub(crate) struct Scope<'a> {
    pub(crate) parameters: &'a Map<String, Value>,
    pub(crate) conditions: &'a Value,
    pub(crate) files: &'a HashMap<String, Value>,
    /// What resources refer to, by name; empty before they exist.
    pub(crate) things: &'a HashMap<&'a str, &'a str>,
}

/// Functions may be nested this deep; more is a condition that refers to itself.
const DEEPEST: usize = 50;

impl Scope<'_> {
    /// The value of an expression; `None` when it cannot be known before the resources exist.
    pub(crate) fn resolve(&self, value: &Value) -> Option<Value> {
        self.resolve_at(value, 0)
    }

    /// Whether a condition holds; `None` when that cannot be known.
    pub(crate) fn holds(&self, condition: &Value) -> Option<bool> {
        self.holds_at(condition, 0)
    }

    fn resolve_at(&self, value: &Value, depth: usize) -> Option<Value> {
        if depth > DEEPEST {
            return None;
        }
        let depth = depth + 1;
        match value {
            Value::Object(map) if map.len() == 1 => {
                let (name, argument) = map.iter().next()?;
                match self.function(name, argument, depth) {
                    Some(outcome) => outcome,
                    None => Some(self.each(map, depth)),
                }
            }
            Value::Object(map) => Some(self.each(map, depth)),
            Value::Array(items) => Some(items.iter().map(|item| self.resolve_at(item, depth).unwrap_or_default()).collect()),
            plain => Some(plain.clone()),
        }
    }

    fn each(&self, map: &Map<String, Value>, depth: usize) -> Value {
        map.iter().map(|(key, value)| (key.clone(), self.resolve_at(value, depth).unwrap_or_default())).collect::<Map<_, _>>().into()
    }

    /// `None` when the name is no function; `Some(None)` when its value cannot be known.
    fn function(&self, name: &str, argument: &Value, depth: usize) -> Option<Option<Value>> {
        Some(match name {
            "get_param" => self.parameter(argument, depth),
            "get_file" => argument.as_str().and_then(|name| self.files.get(name)).cloned(),
            "str_replace" | "str_replace_strict" | "str_replace_vivid" => self.replace(argument, depth),
            "list_join" => self.join(argument, depth),
            "if" => {
                let parts = argument.as_array()?;
                self.holds_at(parts.first()?, depth).and_then(|holds| {
                    let branch = parts.get(if holds { 1 } else { 2 })?;
                    self.resolve_at(branch, depth)
                })
            }
            "equals" | "not" | "and" | "or" => self.logic(name, argument, depth).map(Value::Bool),
            "get_resource" => argument.as_str().and_then(|name| self.things.get(name)).map(|id| Value::from(*id)),
            "list_concat" => self.concat(argument, depth),
            "get_attr" | "yaql" | "repeat" | "digest" | "str_split" | "map_merge" | "map_replace" | "resource_facade" | "contains"
            | "filter" | "list_concat_unique" | "make_url" => None,
            _ => return None,
        })
    }

    fn parameter(&self, argument: &Value, depth: usize) -> Option<Value> {
        match argument {
            Value::String(name) => self.parameters.get(name).cloned(),
            Value::Array(path) => {
                let mut value = self.parameters.get(path.first()?.as_str()?)?;
                for step in &path[1..] {
                    let found = match self.resolve_at(step, depth)? {
                        Value::String(key) => value.get(key),
                        Value::Number(index) => value.get(usize::try_from(index.as_u64()?).ok()?),
                        _ => return None,
                    };
                    // What a path does not lead to is an empty text, in Heat.
                    let Some(found) = found else { return Some(Value::from("")) };
                    value = found;
                }
                Some(value.clone())
            }
            _ => None,
        }
    }

    fn replace(&self, argument: &Value, depth: usize) -> Option<Value> {
        let mut text = as_text(&self.resolve_at(argument.get("template")?, depth)?);
        for (name, value) in argument.get("params")?.as_object()? {
            let value = self.resolve_at(value, depth).map(|value| as_text(&value)).unwrap_or_default();
            text = text.replace(name, &value);
        }
        Some(text.into())
    }

    fn join(&self, argument: &Value, depth: usize) -> Option<Value> {
        let parts = argument.as_array()?;
        let separator = parts.first()?.as_str()?;
        let mut texts = Vec::new();
        for list in &parts[1..] {
            for item in self.resolve_at(list, depth)?.as_array()? {
                texts.push(as_text(item));
            }
        }
        Some(texts.join(separator).into())
    }

    fn concat(&self, argument: &Value, depth: usize) -> Option<Value> {
        let mut all = Vec::new();
        for list in argument.as_array()? {
            all.extend(self.resolve_at(list, depth)?.as_array()?.iter().cloned());
        }
        Some(all.into())
    }

    fn holds_at(&self, condition: &Value, depth: usize) -> Option<bool> {
        if depth > DEEPEST {
            return None;
        }
        match condition {
            Value::Bool(holds) => Some(*holds),
            Value::String(name) => self.holds_at(self.conditions.get(name)?, depth + 1),
            other => self.resolve_at(other, depth + 1)?.as_bool(),
        }
    }

    fn logic(&self, name: &str, argument: &Value, depth: usize) -> Option<bool> {
        match name {
            "not" => self.holds_at(argument, depth).map(|holds| !holds),
            "equals" => {
                let parts = argument.as_array()?;
                let one = self.resolve_at(parts.first()?, depth)?;
                let other = self.resolve_at(parts.get(1)?, depth)?;
                Some(one == other)
            }
            "and" => {
                let all: Option<Vec<bool>> = argument.as_array()?.iter().map(|part| self.holds_at(part, depth)).collect();
                Some(all?.into_iter().all(|holds| holds))
            }
            _ => {
                let all: Option<Vec<bool>> = argument.as_array()?.iter().map(|part| self.holds_at(part, depth)).collect();
                Some(all?.into_iter().any(|holds| holds))
            }
        }
    }
}

/// A value as it stands inside a text.
pub(crate) fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Puts a group member's index where its definition asks for it.
pub(crate) fn with_index(value: Value, mark: &str, index: &str) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace(mark, index)),
        Value::Array(items) => items.into_iter().map(|item| with_index(item, mark, index)).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, with_index(value, mark, index))).collect::<Map<_, _>>().into(),
        other => other,
    }
}
