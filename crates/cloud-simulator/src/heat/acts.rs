//! What changes stacks: create, update, delete, signal.

use serde_json::{Value, json};

use crate::{
    heat::{
        Resource, Stack, enter, expand, may_see, no_stack,
        stack::{NewStack, Phase, Removed, StackName, Update},
        template::Blueprint,
        value::as_text,
        view,
    },
    http::{Answer, Call, Outcome, Refusal},
    keystone::NewTrust,
    nova,
    state::{World, dashed_id, seeded},
    token::Token,
};

pub(crate) fn create(world: &mut World, call: &Call) -> Outcome {
    let token = enter(call, true)?.clone();
    let project = call.at(1).to_owned();
    let body = call.json()?;
    let name = checked_name(&body)?;
    if world.heat.live(Some(&project), &name).is_some_and(|stack| stack.name == name) {
        return Err(Refusal::new(409, "StackExists", format!("The Stack ({name}) already exists.")));
    }
    let named = StackName { name, id: dashed_id() };
    let blueprint = Blueprint::read(&body, None)?;
    let parameters = blueprint.parameters(&named.name, &named.id, &project)?;
    let resources = expand::expand(&blueprint, named.clone(), &parameters, &[], &mut Removed::new())?;
    check_keys(&world.nova, &token, &resources)?;
    let timeout_mins = timeout(&body)?;
    let trust = own_trust(world, &token, call)?;

    world.heat.serial += 1;
    let new = NewStack {
        named,
        project,
        owner: world.keystone.users.get(&token.user).map(|user| user.name.clone()).unwrap_or_default(),
        blueprint,
        parameters,
        tags: tags(&body["tags"]),
        timeout_mins,
        disable_rollback: body["disable_rollback"].as_bool().unwrap_or(true),
        resources,
        trust: Some(trust),
        serial: world.heat.serial,
    };
    let stack = Stack::begin(new, call.now, world.heat.stack_duration);
    let href = view::stack_href(&call.base, &stack);
    let answer = json!({"stack": {"id": stack.id, "links": [{"href": href, "rel": "self"}]}});
    world.heat.keep(stack);
    Ok(Answer { status: 201, headers: vec![("Location", href)], body: Some(answer) })
}

pub(crate) fn update(world: &mut World, call: &Call) -> Outcome {
    let token = enter(call, true)?.clone();
    let body = call.json()?;
    let duration = world.heat.stack_duration;
    let stack = named(world, call)?;
    not_busy(stack)?;
    let blueprint = Blueprint::read(&body, call.is_patch.then_some(&stack.blueprint))?;
    let parameters = blueprint.parameters(&stack.name, &stack.id, &stack.project)?;
    let named_so = StackName { name: stack.name.clone(), id: stack.id.clone() };
    let mut removed = stack.removed.clone();
    let resources = expand::expand(&blueprint, named_so, &parameters, &stack.resources, &mut removed)?;
    let trust = stack.trust.clone();
    check_keys(&world.nova, &token, &resources)?;
    // What the real one does now it does after its answer: nobody hears that it is nothing.
    let Some(trust) = made_over(world, &token, trust, call) else { return Answer::with(202, json!({})) };
    let stack = named(world, call)?;
    stack.trust = Some(trust);
    if let Some(minutes) = timeout(&body)? {
        stack.timeout_mins = Some(minutes);
    }
    if !body["tags"].is_null() || !call.is_patch {
        stack.tags = tags(&body["tags"]);
    }
    stack.disable_rollback = body["disable_rollback"].as_bool().unwrap_or(stack.disable_rollback);
    stack.begin_update(Update { blueprint, parameters, resources, removed }, call.now, duration);
    Answer::with(202, json!({}))
}

pub(crate) fn delete(world: &mut World, call: &Call) -> Outcome {
    enter(call, true)?;
    let duration = world.heat.delete_duration;
    named(world, call)?.begin_delete(call.now, duration);
    // A delete that takes no time is done before the answer.
    world.advance(call.now);
    Answer::empty(204)
}

/// A signal is kept by the handle of a wait condition, in place of the last one of the same id. What succeeds need not be signalled here: it ends by
/// the clock.
pub(crate) fn signal(world: &mut World, call: &Call) -> Outcome {
    enter(call, true)?;
    let body = call.json()?;
    let (stack, path) = handle(world, call)?;
    let signals = stack.signals.entry(path).or_default();
    let id = body["id"].as_str().map_or_else(|| (signals.len() + 1).to_string(), str::to_owned);
    signals.insert(id, json!({"status": body["status"], "reason": body["reason"], "data": body["data"]}));
    Answer::with(200, Value::Null)
}

/// What a handle was told.
pub(crate) fn metadata(world: &mut World, call: &Call) -> Outcome {
    enter(call, false)?;
    let (stack, path) = handle(world, call)?;
    Answer::ok(json!({"metadata": stack.signals.get(&path).cloned().unwrap_or_default()}))
}

/// The resource that a path names in a stack or in one nested in it, and the stack that all of it belongs to.
fn handle<'a>(world: &'a mut World, call: &Call) -> Result<(&'a mut Stack, String), Refusal> {
    let (name, id, resource) = (call.at(3), call.at(4), call.at(6));
    let token = call.token()?;
    let is_it = |own: &&Resource| own.stack.id == id && own.stack.name == name && own.name == resource;
    for stack in world.heat.all_live_mut().filter(|stack| may_see(token, stack)) {
        if let Some(path) = stack.resources.iter().find(is_it).map(|own| own.path.clone()) {
            return Ok((stack, path));
        }
    }
    Err(Refusal::new(404, "ResourceNotFound", format!("The Resource ({resource}) could not be found in Stack {name}.")))
}

/// The live stack a path names by name and id.
fn named<'a>(world: &'a mut World, call: &Call) -> Result<&'a mut Stack, Refusal> {
    let (name, id) = (call.at(3), call.at(4));
    let token = call.token()?;
    let stack = world.heat.stacks.get_mut(id);
    stack.filter(|stack| may_see(token, stack) && stack.name == name && stack.deleted.is_none()).ok_or_else(|| no_stack(name))
}

fn not_busy(stack: &Stack) -> Result<(), Refusal> {
    if stack.phase != Phase::InProgress {
        return Ok(());
    }
    let message = format!("Stack {} already has an action ({}) in progress.", stack.name, stack.action.name());
    Err(Refusal::new(409, "ActionInProgress", message))
}

/// Heat acts for the owner long after the request, so it has the owner trust it. With a trust-scoped token that works only when
/// that trust may be handed on, which is the rule clients trip over.
fn own_trust(world: &mut World, token: &Token, call: &Call) -> Result<String, Refusal> {
    let wanted = NewTrust {
        trustor: token.user.clone(),
        trustee: seeded("user", "heat").simple().to_string(),
        project: token.project_id().map(str::to_owned),
        impersonation: true,
        roles: token.roles.clone(),
        expires_at: None,
        allow_redelegation: false,
        redelegation_count: None,
    };
    let trust = world.keystone.make_trust(token, wanted, call.now);
    trust.map(|trust| trust.id).map_err(|refusal| Refusal::new(refusal.status, "Forbidden", refusal.message))
}

/// The trust of a stack that is about to be changed with this token. Another user than the one it is from becomes the stack's owner; none where
/// that cannot be, or nobody can log in by the trust that there is (read and measured in Heat 24.1).
fn made_over(world: &mut World, token: &Token, trust: Option<String>, call: &Call) -> Option<String> {
    let id = trust?;
    let trust = world.keystone.live_trust(&id, call.now)?.clone();
    let project = trust.project.clone()?;
    let held = world.keystone.roles_of(&trust.trustor, &project);
    let is_enabled = world.keystone.users.get(&trust.trustor).is_some_and(|user| user.enabled);
    if !is_enabled || !trust.roles.iter().all(|role| held.contains(role)) {
        return None;
    }
    if trust.trustor == token.user {
        return Some(id);
    }
    let own = own_trust(world, token, call).ok()?;
    world.keystone.delete_trust(&id);
    Some(own)
}

/// Heat looks for the key pairs of servers among those of the user who asks.
fn check_keys(nova: &nova::Store, token: &Token, resources: &[Resource]) -> Result<(), Refusal> {
    let servers = resources.iter().filter(|resource| resource.acts_as == "OS::Nova::Server");
    for (server, name) in servers.filter_map(|server| Some((server, server.properties["key_name"].as_str()?))) {
        if nova.keypair(&token.user, name).is_none() {
            let text = format!(
                "Property error: : resources.{}.properties.key_name: : Error validating value '{name}': The Key ({name}) could not be found.",
                server.name
            );
            return Err(Refusal::new(400, "StackValidationFailed", text));
        }
    }
    Ok(())
}

fn checked_name(body: &Value) -> Result<String, Refusal> {
    let name = body["stack_name"].as_str();
    let name = name.ok_or_else(|| Refusal::new(400, "HTTPBadRequest", "No stack name specified"))?;
    let is_good = name.len() <= 255
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-.".contains(letter));
    if is_good {
        return Ok(name.to_owned());
    }
    Err(Refusal::new(
        400,
        "StackValidationFailed",
        format!(
            "Invalid stack name {name} must contain only alphanumeric or \"_-.\" characters, must start with alpha and must be 255 characters or less."
        ),
    ))
}

fn timeout(body: &Value) -> Result<Option<u64>, Refusal> {
    let given = &body["timeout_mins"];
    if given.is_null() {
        return Ok(None);
    }
    let minutes = given.as_u64().or_else(|| given.as_str().and_then(|text| text.parse().ok()));
    minutes.map(Some).ok_or_else(|| Refusal::new(400, "ValueError", "Only integer is allowed for timeout_mins"))
}

fn tags(given: &Value) -> Vec<String> {
    match given {
        Value::Array(tags) => tags.iter().map(as_text).collect(),
        other => as_text(other).split(',').filter(|tag| !tag.is_empty()).map(str::to_owned).collect(),
    }
}
