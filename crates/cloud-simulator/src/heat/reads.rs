//! What looks at stacks: list, show, resources, events, outputs, what they were made from, and the redirect from a bare name.

use percent_encoding::{NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use serde_json::{Map, Value, json};

use crate::{
    heat::{Stack, Store, enter, may_see, no_stack, stack::status_name, view},
    http::{Answer, Call, Outcome, Refusal},
    state::{World, page},
};

pub(crate) fn list(world: &mut World, call: &Call) -> Outcome {
    let project = enter(call, false)?.project_id();
    // Worked out once: hundreds of ids are asked for besides.
    let asked = |key: &str| -> Vec<&str> {
        let values = call.query.iter().filter(|(name, _)| name == key);
        values.flat_map(|(_, value)| value.split(',')).collect()
    };
    let (names, actions, statuses) = (asked("name"), asked("action"), asked("status"));
    let wanted = |asked: &[&str], value: &str| asked.is_empty() || asked.contains(&value);
    let show_deleted = call.flag("show_deleted") == Some(true);
    let is_global = call.flag("global_tenant") == Some(true);
    if is_global && !(world.heat.allows_global_index && call.token()?.has_role("admin")) {
        return Err(Refusal::forbidden("You are not authorized to use global_index."));
    }
    let ids: Vec<&str> = call.query.iter().filter(|(key, _)| key == "id").map(|(_, id)| id.as_str()).collect();
    let named = ids.iter().filter_map(|id| world.heat.stacks.get_full(*id)).map(|(place, _, stack)| (place, stack));
    let mut candidates: Vec<(usize, &Stack)> =
        if ids.is_empty() { world.heat.stacks.values().enumerate().collect() } else { named.collect() };
    candidates.sort_by_key(|(place, _)| *place);
    candidates.dedup_by_key(|(place, _)| *place);
    let mut stacks: Vec<&Stack> = candidates
        .into_iter()
        .map(|(_, stack)| stack)
        .filter(|stack| {
            (is_global || project == Some(&stack.project))
                && (show_deleted || stack.deleted.is_none())
                && wanted(&names, &stack.name)
                && wanted(&actions, stack.action.name())
                && (wanted(&statuses, stack.phase.name()) || wanted(&statuses, &status_name(stack.action, stack.phase)))
                && call.query("tags").is_none_or(|tags| tags.split(',').all(|tag| stack.tags.iter().any(|own| own == tag)))
                && call.query("tags-any").is_none_or(|tags| tags.split(',').any(|tag| stack.tags.iter().any(|own| own == tag)))
        })
        .collect();
    // Newest first, as Heat sorts.
    stacks.reverse();
    let stacks = page(call, stacks, |stack| &stack.id);
    Answer::written(&view::List { stacks: stacks.into_iter().map(|stack| view::Listed::of(&call.base, stack)).collect() })
}

/// `/stacks/{name or id}` and one level below it leads to `/stacks/{name}/{id}`; a deleted stack is found by its id only.
pub(crate) fn lookup(world: &mut World, call: &Call) -> Outcome {
    let token = enter(call, false)?;
    let (project, asked) = (call.at(1), call.at(3));
    let stack = world.heat.live(Some(project), asked).or_else(|| world.heat.stacks.get(asked));
    let stack = stack.filter(|stack| may_see(token, stack)).ok_or_else(|| no_stack(asked))?;
    let mut location = view::stack_href(&call.base, stack);
    if !call.at(4).is_empty() {
        location = format!("{location}/{}", call.at(4));
    }
    let query: Vec<String> = call.query.iter().map(|(key, value)| format!("{}={}", encoded(key), encoded(value))).collect();
    if !query.is_empty() {
        location = format!("{location}?{}", query.join("&"));
    }
    Ok(Answer { status: 302, headers: vec![("Location", location)], body: None })
}

fn encoded(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, NON_ALPHANUMERIC)
}

pub(crate) fn show(world: &mut World, call: &Call) -> Outcome {
    let stack = named(&world.heat, call)?;
    Answer::ok(json!({"stack": view::stack(&call.base, stack, call.flag("resolve_outputs") != Some(false))}))
}

pub(crate) fn resources(world: &mut World, call: &Call) -> Outcome {
    let stack = named(&world.heat, call)?;
    let depth: usize = call.query("nested_depth").and_then(|depth| depth.parse().ok()).unwrap_or(0);
    let wanted = |key: &str, value: &str| {
        let mut asked = call.query.iter().filter(|(name, _)| name == key).peekable();
        asked.peek().is_none() || asked.any(|(_, asked)| asked == value)
    };
    let resources = stack.resources.iter().filter(|resource| {
        resource.depth <= depth
            && wanted("type", &resource.kind)
            && wanted("name", &resource.name)
            && wanted("status", resource.status.map_or("COMPLETE", |(_, phase)| phase.name()))
            && wanted("action", resource.status.map_or("INIT", |(action, _)| action.name()))
    });
    Answer::ok(json!({"resources": resources.map(|resource| view::resource(&call.base, stack, resource)).collect::<Vec<_>>()}))
}

pub(crate) fn resource(world: &mut World, call: &Call) -> Outcome {
    let stack = named(&world.heat, call)?;
    let name = call.at(6);
    let resource = stack.resources.iter().find(|resource| resource.depth == 0 && resource.name == name);
    let resource = resource.ok_or_else(|| {
        let message = format!("The Resource ({name}) could not be found in Stack {}.", stack.name);
        Refusal::new(404, "ResourceNotFound", message)
    })?;
    let mut view = view::resource(&call.base, stack, resource);
    view["attributes"] = json!({});
    view["description"] = json!("");
    Answer::ok(json!({"resource": view}))
}

pub(crate) fn events(world: &mut World, call: &Call) -> Outcome {
    let stack = named(&world.heat, call)?;
    let events = page(call, stack.events.iter().collect(), |event| &event.id);
    Answer::ok(json!({"events": events.into_iter().map(|event| view::event(&call.base, stack, event)).collect::<Vec<_>>()}))
}

pub(crate) fn outputs(world: &mut World, call: &Call) -> Outcome {
    let stack = named(&world.heat, call)?;
    let outputs: Vec<Value> = view::outputs(stack)
        .into_iter()
        .map(|output| json!({"output_key": output["output_key"], "description": output["description"]}))
        .collect();
    Answer::ok(json!({"outputs": outputs}))
}

pub(crate) fn output(world: &mut World, call: &Call) -> Outcome {
    // Heat shows a stack that is gone, but works nothing out for it any more.
    let stack = Some(named(&world.heat, call)?).filter(|stack| stack.deleted.is_none()).ok_or_else(|| no_stack(call.at(3)))?;
    let key = call.at(6);
    let output = view::outputs(stack).into_iter().find(|output| output["output_key"] == key);
    let output = output.ok_or_else(|| Refusal::new(404, "NotFound", format!("Specified output key {key} not found.")))?;
    Answer::ok(json!({"output": output}))
}

pub(crate) fn template(world: &mut World, call: &Call) -> Outcome {
    let stack = named(&world.heat, call)?;
    Answer::ok(stack.blueprint.template.clone())
}

pub(crate) fn files(world: &mut World, call: &Call) -> Outcome {
    let stack = named(&world.heat, call)?;
    Answer::ok(json!(stack.blueprint.files))
}

pub(crate) fn environment(world: &mut World, call: &Call) -> Outcome {
    let stack = named(&world.heat, call)?;
    let blueprint = &stack.blueprint;
    let is_hidden = |name: &str| blueprint.template["parameters"][name]["hidden"] == true;
    let shown = |(name, value): (&String, &Value)| (name.clone(), if is_hidden(name) { json!("******") } else { value.clone() });
    let parameters: Map<String, Value> = blueprint.given.iter().map(shown).collect();
    Answer::ok(json!({"parameters": parameters, "parameter_defaults": {}, "resource_registry": blueprint.registry}))
}

/// The stack a path names by name and id, the deleted ones included.
fn named<'a>(store: &'a Store, call: &Call) -> Result<&'a Stack, Refusal> {
    let token = enter(call, false)?;
    let (name, id) = (call.at(3), call.at(4));
    let stack = store.stacks.get(id).filter(|stack| may_see(token, stack) && stack.name == name);
    stack.ok_or_else(|| no_stack(name))
}
