//! Stacks, resources, events and outputs as Heat shows them.

use std::net::Ipv4Addr;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    clock,
    heat::{
        stack::{Event, Resource, Stack, status_name},
        value::{Scope, as_text},
    },
};

/// The address of a stack.
pub(crate) fn stack_href(base: &str, stack: &Stack) -> String {
    href(base, &stack.project, &stack.name, &stack.id)
}

fn href(base: &str, project: &str, name: &str, id: &str) -> String {
    format!("{base}/orchestration/v1/{project}/stacks/{name}/{id}")
}

/// A stack in a list.
#[derive(Serialize)]
pub(crate) struct Listed<'a> {
    id: &'a str,
    stack_name: &'a str,
    description: &'a str,
    project: &'a str,
    stack_status: String,
    stack_status_reason: &'a str,
    creation_time: String,
    updated_time: Option<String>,
    deletion_time: Option<String>,
    stack_owner: Option<String>,
    stack_user_project_id: Option<String>,
    parent: Option<String>,
    tags: Option<&'a [String]>,
    links: [Link; 1],
}

#[derive(Serialize)]
struct Link {
    href: String,
    rel: &'static str,
}

/// The stacks of a list as they go out. Lists of hundreds are asked for many times a second, and nobody else is served while one is written: they are
/// made into text without a JSON value in between.
#[derive(Serialize)]
pub(crate) struct List<'a> {
    pub(crate) stacks: Vec<Listed<'a>>,
}

impl<'a> Listed<'a> {
    pub(crate) fn of(base: &str, stack: &'a Stack) -> Self {
        Self {
            id: &stack.id,
            stack_name: &stack.name,
            description: description(stack),
            project: &stack.project,
            stack_status: status_name(stack.action, stack.phase),
            stack_status_reason: &stack.reason,
            creation_time: clock::whole(stack.created),
            updated_time: stack.updated.map(clock::whole),
            deletion_time: stack.deleted.map(clock::whole),
            stack_owner: None,
            stack_user_project_id: None,
            parent: None,
            tags: (!stack.tags.is_empty()).then_some(&stack.tags),
            links: [Link { href: stack_href(base, stack), rel: "self" }],
        }
    }
}

pub(crate) fn stack(base: &str, stack: &Stack, with_outputs: bool) -> Value {
    let mut view = json!({
        "id": stack.id,
        "stack_name": stack.name,
        "description": description(stack),
        "template_description": description(stack),
        "links": [{"href": stack_href(base, stack), "rel": "self"}],
        "parameters": parameters(stack),
        "stack_status": status_name(stack.action, stack.phase),
        "stack_status_reason": stack.reason,
        "creation_time": clock::whole(stack.created),
        "updated_time": stack.updated.map(clock::whole),
        "deletion_time": stack.deleted.map(clock::whole),
        "timeout_mins": stack.timeout_mins,
        "disable_rollback": stack.disable_rollback,
        "notification_topics": [],
        "capabilities": [],
        "parent": null,
        "stack_owner": stack.owner,
        "stack_user_project_id": stack.project,
        "tags": tags(stack),
    });
    if with_outputs {
        view["outputs"] = outputs(stack).into();
    }
    view
}

/// Parameters as texts, the hidden ones masked.
fn parameters(stack: &Stack) -> Value {
    let declared = &stack.blueprint.template["parameters"];
    let shown = stack.parameters.iter().map(|(name, value)| {
        let text = match value {
            // A list is shown as it may be given.
            Value::Array(items) if declared[name]["type"] == "comma_delimited_list" => {
                items.iter().map(as_text).collect::<Vec<_>>().join(",")
            }
            other => as_text(other),
        };
        let is_hidden = matches!(&declared[name]["hidden"], Value::Bool(true)) || declared[name]["hidden"] == "true";
        (name.clone(), if is_hidden { json!("******") } else { json!(text) })
    });
    shown.collect::<Map<_, _>>().into()
}

pub(crate) fn resource(base: &str, stack: &Stack, resource: &Resource) -> Value {
    let own = href(base, &stack.project, &resource.stack.name, &resource.stack.id);
    let mut links =
        vec![json!({"href": format!("{own}/resources/{}", resource.name), "rel": "self"}), json!({"href": own, "rel": "stack"})];
    if let Some(nested) = &resource.nested {
        links.push(json!({"href": href(base, &stack.project, &nested.name, &nested.id), "rel": "nested"}));
    }
    let mut view = json!({
        "resource_name": resource.name,
        "logical_resource_id": resource.name,
        "physical_resource_id": if resource.status.is_some() { resource.physical.as_str() } else { "" },
        "resource_type": resource.kind,
        "resource_status": resource.status_name(),
        "resource_status_reason": resource.reason,
        "creation_time": clock::whole(stack.created),
        "updated_time": clock::whole(resource.changed.unwrap_or(stack.created)),
        "required_by": [],
        "links": links,
    });
    if let Some(parent) = &resource.parent {
        view["parent_resource"] = json!(parent);
    }
    view
}

pub(crate) fn event(base: &str, stack: &Stack, event: &Event) -> Value {
    let own = stack_href(base, stack);
    json!({
        "id": event.id,
        "event_time": clock::whole(event.time),
        "resource_name": event.name,
        "logical_resource_id": event.name,
        "physical_resource_id": event.physical,
        "resource_status": event.status,
        "resource_status_reason": event.reason,
        "links": [
            {"href": format!("{own}/resources/{}/events/{}", event.name, event.id), "rel": "self"},
            {"href": format!("{own}/resources/{}", event.name), "rel": "resource"},
            {"href": own, "rel": "stack"},
        ],
    })
}

/// The declared outputs. They are known by their names, since nothing runs that could give them their real values.
pub(crate) fn outputs(stack: &Stack) -> Vec<Value> {
    let declared = stack.blueprint.template["outputs"].as_object();
    let things = stack.resources.iter().filter(|resource| resource.depth == 0).map(|r| (r.name.as_str(), r.physical.as_str())).collect();
    let scope = Scope {
        parameters: &stack.parameters,
        conditions: &stack.blueprint.template["conditions"],
        files: &stack.blueprint.files,
        things: &things,
    };
    declared
        .into_iter()
        .flatten()
        .filter(|(_, output)| output.get("condition").and_then(|condition| scope.holds(condition)) != Some(false))
        .map(|(name, output)| {
            let value = if stack.has_outputs { output_value(stack, &scope, name, &output["value"]) } else { Value::Null };
            let description = output["description"].as_str().unwrap_or("No description given");
            json!({"output_key": name, "output_value": value, "description": description})
        })
        .collect()
}

fn output_value(stack: &Stack, scope: &Scope, name: &str, value: &Value) -> Value {
    let is_private = name.contains("private");
    if name.contains("refs_map") {
        let group = if name.contains("master") { "kube_masters" } else { "kube_minions" };
        let members = stack.resources.iter().filter(|resource| resource.depth == 1 && resource.parent.as_deref() == Some(group));
        return members.map(|member| (member.name.clone(), json!(member.physical))).collect::<Map<_, _>>().into();
    }
    if name.starts_with("kube_masters") {
        return addresses(stack, "kube_masters", "number_of_masters", 10, is_private);
    }
    if name.starts_with("kube_minions") {
        return addresses(stack, "kube_minions", "number_of_minions", 100, is_private);
    }
    if name.contains("address") {
        return json!(address(stack.serial, 5, is_private));
    }
    scope.resolve(value).filter(|value| !value.is_null()).unwrap_or_else(|| json!(""))
}

/// The addresses of a group's members, by their numbers, as Neutron tells them of their ports and floating IPs; of as many as a parameter says where
/// the template has no such group.
fn addresses(stack: &Stack, group: &str, parameter: &str, first: u32, is_private: bool) -> Value {
    let shown = |host: u32| json!(address(stack.serial, host, is_private));
    if !stack.resources.iter().any(|resource| resource.depth == 0 && resource.name == group) {
        let count: u32 = stack.parameters.get(parameter).map(as_text).and_then(|count| count.parse().ok()).unwrap_or(0);
        return (0..count.min(5_000)).map(|number| shown(first + number)).collect();
    }
    let kind = if is_private { "OS::Neutron::Port" } else { "OS::Neutron::FloatingIP" };
    let members = stack.resources.iter().filter(|resource| resource.depth == 1 && resource.parent.as_deref() == Some(group));
    let of_member = |member: &Resource| {
        let own = member.nested.as_ref().map(|nested| nested.id.as_str());
        let door = stack.resources.iter().find(|r| r.acts_as == kind && Some(r.stack.id.as_str()) == own);
        let number: Option<u32> = member.name.parse().ok();
        door.map(|door| json!(address_of(stack, door))).or_else(|| Some(shown(first + number?)))
    };
    members.filter_map(of_member).collect()
}

/// The address of what a stack has on a network: of a floating IP the public one.
pub(crate) fn address_of(stack: &Stack, resource: &Resource) -> String {
    address(stack.serial, 2 + resource.number, resource.acts_as != "OS::Neutron::FloatingIP")
}

/// An address that looks as if it came from the stack's network or from the public one.
fn address(serial: u32, host: u32, is_private: bool) -> String {
    let network: u32 = if is_private { 0x0a00_0000 } else { 0xac10_0000 };
    let room: u32 = if is_private { 1 << 24 } else { 1 << 20 };
    Ipv4Addr::from(network + (serial.wrapping_mul(2048).wrapping_add(host) % room)).to_string()
}

fn description(stack: &Stack) -> &str {
    stack.blueprint.template["description"].as_str().unwrap_or("No description")
}

fn tags(stack: &Stack) -> Value {
    if stack.tags.is_empty() { Value::Null } else { json!(stack.tags) }
}
