//! Reads what a client sends with a stack: template, files, environments and parameters, and refuses what Heat would refuse.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value, json};

use crate::{heat::value::as_text, http::Refusal};

/// A template with everything it refers to.
#[derive(Clone)]
pub(crate) struct Blueprint {
    pub(crate) template: Value,
    /// Nested templates and other files by name, still as they were sent.
    pub(crate) files: HashMap<String, Value>,
    /// Resource types by the type or file that stands for them.
    pub(crate) registry: HashMap<String, String>,
    /// Parameters as they were given.
    pub(crate) given: Map<String, Value>,
}

impl Blueprint {
    /// Reads the body of a create or an update. `before` is what an update with PATCH keeps.
    pub(crate) fn read(body: &Value, before: Option<&Self>) -> Result<Self, Refusal> {
        let template = match (&body["template"], before) {
            (Value::Null, Some(before)) => before.template.clone(),
            (Value::Null, None) => {
                return Err(Refusal::new(400, "HTTPBadRequest", "No template specified"));
            }
            (given, _) => document(given, "template")?,
        };
        if template.get("heat_template_version").is_none() && template.get("HeatTemplateFormatVersion").is_none() {
            return Err(Refusal::new(
                400,
                "InvalidTemplateVersion",
                "The template version is invalid: \"heat_template_version\" is missing",
            ));
        }
        let mut files = before.map(|before| before.files.clone()).unwrap_or_default();
        for (name, content) in body["files"].as_object().into_iter().flatten() {
            files.insert(name.clone(), content.clone());
        }
        let mut blueprint = Self {
            template,
            registry: before.map(|before| before.registry.clone()).unwrap_or_default(),
            given: before.map(|before| before.given.clone()).unwrap_or_default(),
            files,
        };
        for name in body["environment_files"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let file = blueprint.files.get(name).cloned();
            let file =
                file.ok_or_else(|| Refusal::new(400, "StackValidationFailed", format!("Environment file {name} is not in files")))?;
            blueprint.environment(&document(&file, name)?);
        }
        if !body["environment"].is_null() && body["environment"] != "" {
            blueprint.environment(&document(&body["environment"], "environment")?);
        }
        for (name, value) in body["parameters"].as_object().into_iter().flatten() {
            blueprint.given.insert(name.clone(), value.clone());
        }
        for name in body["clear_parameters"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            blueprint.given.shift_remove(name);
        }
        Ok(blueprint)
    }

    fn environment(&mut self, environment: &Value) {
        for (kind, stand_in) in environment["resource_registry"].as_object().into_iter().flatten() {
            if let Some(stand_in) = stand_in.as_str() {
                self.registry.insert(kind.clone(), stand_in.to_owned());
            }
        }
        for key in ["parameter_defaults", "parameters"] {
            for (name, value) in environment[key].as_object().into_iter().flatten() {
                // A default for a parameter that the template does not have is no mistake.
                if key == "parameters" || self.template["parameters"].get(name).is_some() {
                    self.given.insert(name.clone(), value.clone());
                }
            }
        }
    }

    /// The parameters of the top template with defaults and types, refused as Heat refuses them.
    pub(crate) fn parameters(&self, stack_name: &str, stack_id: &str, project: &str) -> Result<Map<String, Value>, Refusal> {
        let declared = &self.template["parameters"];
        if let Some(name) = self.given.keys().find(|name| declared.get(name.as_str()).is_none()) {
            return Err(Refusal::new(400, "UnknownUserParameter", format!("The Parameter ({name}) was not defined in template.")));
        }
        let mut parameters = effective(declared, &self.given)?;
        parameters.insert("OS::stack_name".to_owned(), json!(stack_name));
        parameters.insert("OS::stack_id".to_owned(), json!(stack_id));
        parameters.insert("OS::project_id".to_owned(), json!(project));
        Ok(parameters)
    }

    /// The template that stands for a resource type, if one does.
    pub(crate) fn nested(&self, kind: &str) -> Result<Option<Value>, Refusal> {
        let is_file = kind.ends_with(".yaml") || kind.ends_with(".yml") || kind.ends_with(".template") || kind.ends_with(".json");
        match self.files.get(kind) {
            Some(file) if is_file => document(file, kind).map(Some),
            None if is_file => {
                Err(Refusal::new(400, "StackValidationFailed", format!("Could not fetch remote template \"{kind}\": it is not in files")))
            }
            _ => Ok(None),
        }
    }

    /// What a resource type stands for after the environment has been asked.
    pub(crate) fn mapped<'a>(&'a self, kind: &'a str) -> &'a str {
        // One step is what clients use; a chain that bites its tail must not hang us.
        self.registry.get(kind).map_or(kind, String::as_str)
    }
}

/// Declared parameters with their given or default values, as their types want them.
pub(crate) fn effective(declared: &Value, given: &Map<String, Value>) -> Result<Map<String, Value>, Refusal> {
    let mut parameters = Map::new();
    for (name, schema) in declared.as_object().into_iter().flatten() {
        let value = match given.get(name).or_else(|| schema.get("default")) {
            Some(value) => value,
            None => {
                return Err(Refusal::new(400, "UserParameterMissing", format!("The Parameter ({name}) was not provided.")));
            }
        };
        parameters.insert(name.clone(), typed(name, schema["type"].as_str().unwrap_or("string"), value)?);
    }
    Ok(parameters)
}

fn typed(name: &str, kind: &str, value: &Value) -> Result<Value, Refusal> {
    let wrong = |what: &str| {
        let message = format!("Parameter '{name}' is invalid: Value '{}' {what}", as_text(value));
        Refusal::new(400, "StackValidationFailed", message)
    };
    // What is not known before the resources exist arrives here as null, from a nested template's properties.
    if value.is_null() {
        return Ok(Value::Null);
    }
    Ok(match kind {
        "number" => match value {
            Value::Number(_) => value.clone(),
            other => {
                let text = as_text(other);
                let whole = text.parse::<i64>().map(Value::from);
                whole.or_else(|_| text.parse::<f64>().map(Value::from)).map_err(|_| wrong("is not a number"))?
            }
        },
        "boolean" => match as_text(value).to_ascii_lowercase().as_str() {
            "true" | "t" | "on" | "y" | "yes" | "1" => json!(true),
            "false" | "f" | "off" | "n" | "no" | "0" => json!(false),
            _ => return Err(wrong("is not a boolean")),
        },
        "comma_delimited_list" => match value {
            Value::Array(_) => value.clone(),
            other => as_text(other).split(',').filter(|part| !part.is_empty()).map(|part| json!(part.trim())).collect(),
        },
        "json" => match value {
            Value::String(text) if text.is_empty() => json!({}),
            Value::String(text) => serde_json::from_str(text).map_err(|_| wrong("is not valid JSON"))?,
            other => other.clone(),
        },
        _ => json!(as_text(value)),
    })
}

/// Documents that are remembered at most: a driver sends the same few templates with each of its stacks.
const REMEMBERED: usize = 16;

/// What a text of YAML says.
fn parsed(text: &str) -> Result<Value, serde_saphyr::Error> {
    static LATELY: Mutex<BTreeMap<String, Value>> = Mutex::new(BTreeMap::new());
    let lately = || LATELY.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = lately().get(text) {
        return Ok(known.clone());
    }
    let parsed: Value = serde_saphyr::from_str(text)?;
    let mut lately = lately();
    if lately.len() >= REMEMBERED {
        lately.clear();
    }
    lately.insert(text.to_owned(), parsed.clone());
    Ok(parsed)
}

/// A document that came as JSON object or as YAML (or JSON) text.
fn document(given: &Value, what: &str) -> Result<Value, Refusal> {
    let parsed = match given {
        Value::Object(_) => given.clone(),
        Value::String(text) => {
            parsed(text).map_err(|error| Refusal::new(400, "HTTPBadRequest", format!("Error parsing {what}: {error}")))?
        }
        _ => Value::Null,
    };
    if parsed.is_object() {
        Ok(parsed)
    } else {
        Err(Refusal::new(400, "HTTPBadRequest", format!("The {what} is not a JSON object or YAML mapping.")))
    }
}
