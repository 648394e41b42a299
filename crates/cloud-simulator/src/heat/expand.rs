//! Unfolds a template into the resources it stands for: conditions decided, groups counted, nested templates opened.
//!
//! Members come before the group they belong to: a group is complete when all its members are.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::{
    heat::{
        stack::{Removed, Resource, StackName},
        template::{Blueprint, effective},
        value::{Scope, as_text, with_index},
    },
    http::Refusal,
    state::{dashed_id, seeded},
};

/// Heat's own bounds are in the same region (`max_resources_per_stack`, `max_nested_stack_depth`).
const MOST_RESOURCES: usize = 20_000;
const DEEPEST: usize = 5;

/// Where in the tree we are.
struct Place<'a> {
    stack: StackName,
    path: &'a str,
    parent: Option<&'a str>,
    depth: usize,
}

/// What there was before, and what comes out.
struct Tree<'a> {
    before: &'a [Resource],
    removed: &'a mut Removed,
    resources: Vec<Resource>,
}

/// All resources of a stack; `before` are those it has, `removed` the members of groups that never come back, to which those are added
/// that the groups' removal policies name.
pub(crate) fn expand(
    blueprint: &Blueprint,
    stack: StackName,
    parameters: &Map<String, Value>,
    before: &[Resource],
    removed: &mut Removed,
) -> Result<Vec<Resource>, Refusal> {
    let mut tree = Tree { before, removed, resources: Vec::new() };
    let place = Place { stack, path: "", parent: None, depth: 0 };
    template(blueprint, &blueprint.template, parameters, &place, &mut tree)?;
    Ok(tree.resources)
}

impl Tree<'_> {
    /// The names of a group's members: as many as wanted, without those that were taken away.
    fn members(&mut self, path: &str, properties: &Value, count: u64) -> Vec<String> {
        let policies = properties["removal_policies"].as_array().into_iter().flatten();
        let named: Vec<String> = policies
            .flat_map(|policy| policy["resource_list"].as_array().into_iter().flatten())
            .filter_map(Value::as_str)
            .filter_map(|asked| self.member(path, asked))
            .collect();
        let removed = self.removed.entry(path.to_owned()).or_default();
        removed.extend(named);
        (0u64..).map(|index| index.to_string()).filter(|name| !removed.contains(name)).take(usize::try_from(count).unwrap_or(0)).collect()
    }

    /// The member of a group that goes by this name, or whose reference or server this is.
    fn member(&self, path: &str, asked: &str) -> Option<String> {
        let inside = format!("{path}/");
        self.before.iter().find_map(|resource| {
            let rest = resource.path.strip_prefix(&inside)?;
            let (name, deeper) = rest.split_once('/').map_or((rest, false), |(name, _)| (name, true));
            let is_asked = match deeper {
                false => name == asked || resource.physical == asked,
                true => resource.acts_as == "OS::Nova::Server" && resource.physical == asked,
            };
            is_asked.then(|| name.to_owned())
        })
    }
}

fn template(
    blueprint: &Blueprint,
    template: &Value,
    parameters: &Map<String, Value>,
    place: &Place,
    out: &mut Tree<'_>,
) -> Result<(), Refusal> {
    check_references(template)?;
    let scope = Scope { parameters, conditions: &template["conditions"], files: &blueprint.files, things: &HashMap::new() };
    for (name, definition) in template["resources"].as_object().into_iter().flatten() {
        if definition.get("condition").and_then(|condition| scope.holds(condition)) == Some(false) {
            continue;
        }
        let kind = definition["type"].as_str().ok_or_else(|| invalid(format!("resources.{name}: a type is required")))?;
        let properties = scope.resolve(definition.get("properties").unwrap_or(&Value::Null)).unwrap_or_default();
        resource(blueprint, name, kind, properties, place, out)?;
        if let Some(external) = definition.get("external_id") {
            let id = as_text(&scope.resolve(external).unwrap_or_default());
            taken_up(out.resources.last_mut(), id)?;
        }
    }
    Ok(())
}

/// Makes a resource of what is there: shown as any other, and no stack's. Heat looks for it by id, and finds none by a name.
fn taken_up(resource: Option<&mut Resource>, id: String) -> Result<(), Refusal> {
    let Some(resource) = resource else { return Ok(()) };
    if Uuid::try_parse(&id).is_err() {
        return Err(invalid(format!("Invalid external resource: Resource {id} ({}) can not be found.", resource.kind)));
    }
    resource.physical = id;
    resource.acts_as = "OS::Heat::None".to_owned();
    Ok(())
}

fn resource(blueprint: &Blueprint, name: &str, kind: &str, properties: Value, place: &Place, out: &mut Tree<'_>) -> Result<(), Refusal> {
    if out.resources.len() >= MOST_RESOURCES || place.depth > DEEPEST {
        return Err(Refusal::new(403, "StackResourceLimitExceeded", "Maximum resources per stack exceeded."));
    }
    let path = if place.path.is_empty() { name.to_owned() } else { format!("{}/{name}", place.path) };
    let mapped = blueprint.mapped(kind);
    // The same place in the tree keeps its nested stack over updates.
    let inner = seeded(&place.stack.id, name);
    let suffix = &inner.simple().to_string()[..12];
    let stack = StackName { name: format!("{}-{name}-{suffix}", place.stack.name), id: inner.to_string() };
    let inside = Place { stack: stack.clone(), path: &path, parent: Some(name), depth: place.depth + 1 };

    let mut nested = None;
    if mapped == "OS::Heat::ResourceGroup" {
        let count = match &properties["count"] {
            Value::Null => 1,
            Value::Number(count) => count.as_u64().unwrap_or(0),
            Value::String(count) => count.parse().unwrap_or(0),
            _ => 0,
        };
        let definition = &properties["resource_def"];
        let member = definition["type"].as_str().ok_or_else(|| invalid(format!("resources.{name}: resource_def needs a type")))?;
        let mark = properties["index_var"].as_str().unwrap_or("%index%");
        for index in out.members(&path, &properties, count.min(MOST_RESOURCES as u64)) {
            resource(blueprint, &index, member, with_index(definition["properties"].clone(), mark, &index), &inside, out)?;
        }
        nested = Some(stack);
    } else if let Some(document) = blueprint.nested(mapped)? {
        let given = properties.as_object().cloned().unwrap_or_default();
        let declared = &document["parameters"];
        if let Some(unknown) = given.keys().find(|key| declared.get(key.as_str()).is_none()) {
            return Err(invalid(format!("Property error: resources.{path}.properties: Unknown Property {unknown}")));
        }
        let mut parameters = effective(declared, &given)
            .map_err(|refusal| invalid(format!("Property error: resources.{path}.properties: {}", refusal.message)))?;
        parameters.insert("OS::stack_name".to_owned(), json!(stack.name));
        parameters.insert("OS::stack_id".to_owned(), json!(stack.id));
        template(blueprint, &document, &parameters, &inside, out)?;
        nested = Some(stack);
    }

    let physical = nested.as_ref().map_or_else(dashed_id, |stack| stack.id.clone());
    let label = properties["name"].as_str().filter(|label| !label.is_empty()).map(str::to_owned);
    out.resources.push(Resource {
        label: label.unwrap_or_else(|| format!("{}-{name}-{suffix}", place.stack.name)),
        path,
        name: name.to_owned(),
        // Heat shows the type the template asked for, and does nothing for one that is mapped to None.
        kind: if mapped == "OS::Heat::None" { mapped.to_owned() } else { kind.to_owned() },
        acts_as: mapped.to_owned(),
        parent: place.parent.map(str::to_owned),
        depth: place.depth,
        stack: place.stack.clone(),
        nested,
        physical,
        properties: without_user_data(properties),
        ..Resource::default()
    });
    Ok(())
}

/// User data and nested properties are large and nobody asks for them back.
fn without_user_data(mut properties: Value) -> Value {
    if let Some(map) = properties.as_object_mut() {
        map.shift_remove("user_data");
        map.shift_remove("resource_def");
        map.shift_remove("config");
    }
    properties
}

/// Every reference inside a template must name something of it.
fn check_references(template: &Value) -> Result<(), Refusal> {
    let sections = [&template["resources"], &template["outputs"], &template["conditions"]];
    for section in sections {
        references(template, section)?;
    }
    Ok(())
}

fn references(template: &Value, value: &Value) -> Result<(), Refusal> {
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| references(template, item)),
        Value::Object(map) => map.iter().try_for_each(|(key, argument)| {
            let first = argument.as_str().or_else(|| argument.get(0).and_then(Value::as_str));
            let section = match key.as_str() {
                "get_param" if map.len() == 1 => "parameters",
                "get_resource" | "get_attr" if map.len() == 1 => "resources",
                "depends_on" => "resources",
                _ => return references(template, argument),
            };
            match first {
                Some(name) if !name.starts_with("OS::") && template[section].get(name).is_none() => {
                    let (kind, message) = if section == "parameters" {
                        ("UserParameterMissing", format!("The Parameter ({name}) was not defined in template."))
                    } else {
                        ("InvalidTemplateReference", format!("The specified reference \"{name}\" is incorrect."))
                    };
                    Err(Refusal::new(400, kind, message))
                }
                _ => Ok(()),
            }
        }),
        _ => Ok(()),
    }
}

fn invalid(message: String) -> Refusal {
    Refusal::new(400, "StackValidationFailed", message)
}
