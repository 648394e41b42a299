//! Octavia: the load balancers that stacks make, and those a test puts beside them as Kubernetes would.

use std::collections::BTreeSet;

use chrono::TimeDelta;
use indexmap::IndexMap;
use serde_json::{Value, json};

use crate::{
    catalog, clock,
    clock::Moment,
    heat::{self, Resource, Stack},
    http::{Answer, Call, Outcome, Refusal, Route},
    state::{World, dashed_id, page, seeded},
    token::Token,
};

/// The resource types that are load balancers.
pub(crate) const KINDS: [&str; 1] = ["OS::Octavia::LoadBalancer"];

/// The load balancers that no stack made.
pub(crate) struct Store {
    pub(crate) others: IndexMap<String, Other>,
    /// Deletions from now on that end in ERROR.
    pub(crate) failing: u32,
    /// How long a deletion takes.
    duration: TimeDelta,
}

/// A load balancer that no stack made.
pub(crate) struct Other {
    pub(crate) project: String,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) tags: Vec<String>,
    /// The id of the stack on whose network it has its address.
    pub(crate) stack: Option<String>,
    pub(crate) status: String,
    pub(crate) created: Moment,
    /// When the deletion that has begun ends.
    pub(crate) leaves: Option<Moment>,
}

impl Store {
    pub(crate) fn new(duration: TimeDelta) -> Self {
        Self { others: IndexMap::new(), failing: 0, duration }
    }

    /// Adds a load balancer that no stack made.
    pub(crate) fn add(&mut self, other: Other) -> String {
        let id = dashed_id();
        self.others.insert(id.clone(), other);
        id
    }

    /// Ends the deletions that are due. Returns the ports that went with them.
    pub(crate) fn advance(&mut self, now: Moment) -> Vec<String> {
        let mut gone = Vec::new();
        for (id, other) in &mut self.others {
            if other.leaves.is_none_or(|leaves| leaves > now) {
                continue;
            }
            other.leaves = None;
            if self.failing > 0 {
                self.failing -= 1;
                "ERROR".clone_into(&mut other.status);
            } else {
                gone.push(id.clone());
            }
        }
        for id in &gone {
            self.others.shift_remove(id);
        }
        gone.iter().map(|id| port_of(id)).collect()
    }

    /// The stacks whose networks hold ports of load balancers that the stacks did not make.
    pub(crate) fn occupied(&self) -> BTreeSet<String> {
        self.others.values().filter_map(|other| other.stack.clone()).collect()
    }
}

/// The id of a load balancer's port.
pub(crate) fn port_of(id: &str) -> String {
    seeded("vip", id).to_string()
}

/// The calls Octavia knows.
pub(crate) fn route(method: &str, path: &[&str]) -> Option<Route> {
    match (method, path) {
        ("GET", [] | ["v2.0" | "v2"]) => Route::open("octavia.version_show", catalog::version),
        (_, ["v2.0" | "v2", "lbaas", "loadbalancers", rest @ ..]) => match (method, rest) {
            ("GET", []) => Route::new("octavia.loadbalancer_list", list),
            ("GET", [_]) => Route::new("octavia.loadbalancer_show", show),
            ("DELETE", [_]) => Route::new("octavia.loadbalancer_delete", delete),
            _ => None,
        },
        ("GET", ["v2.0" | "v2", "lbaas", "pools", _, "members"]) => Route::new("octavia.pool_member_list", list_members),
        ("GET", ["v2.0" | "v2", "lbaas", "quotas", _]) => Route::new("octavia.quota_show", quota),
        ("DELETE", ["v2.0" | "v2", "lbaas", "pools", _, "members", _]) => Route::new("octavia.pool_member_delete", delete_member),
        _ => None,
    }
}

fn quota(world: &mut World, call: &Call) -> Outcome {
    enter(call)?;
    let project = call.at(3);
    if project != call.project()? {
        return Err(Refusal::forbidden("Policy does not allow this request to be performed."));
    }
    Answer::ok(
        json!({"quota": {"load_balancer": world.quota(project, "load_balancer"), "listener": -1, "pool": -1, "health_monitor": -1, "member": -1}}),
    )
}

/// Members are those that stacks made, in the pool of theirs.
fn list_members(world: &mut World, call: &Call) -> Outcome {
    enter(call)?;
    let pool = call.at(3);
    let found = world.heat.things_named(None, &["OS::Octavia::Pool"], &[pool]).pop();
    let (stack, _) = found.ok_or_else(|| Refusal::not_found(format!("Pool {pool} not found.")))?;
    let members: Vec<Value> = members(stack)
        .map(|member| {
            let status = if member.is_ready() { "ONLINE" } else { "OFFLINE" };
            json!({"id": member.physical, "name": "", "protocol_port": 6443, "provisioning_status": "ACTIVE", "operating_status": status,
                "admin_state_up": true, "project_id": stack.project})
        })
        .collect();
    let members = page(call, members, |member| member["id"].as_str().unwrap_or_default());
    Answer::ok(json!({"members": members, "members_links": []}))
}

/// What is in the pool of a stack.
pub(crate) fn members(stack: &Stack) -> impl Iterator<Item = &Resource> {
    stack.resources.iter().filter(|resource| resource.acts_as == "OS::Octavia::PoolMember" && resource.exists())
}

fn delete_member(world: &mut World, call: &Call) -> Outcome {
    enter(call)?;
    let (pool, id) = (call.at(3), call.at(5));
    let mut resources = world.heat.all_live_mut().flat_map(|stack| &mut stack.resources);
    match resources.find(|r| r.physical == id && r.acts_as == "OS::Octavia::PoolMember" && !r.gone) {
        Some(member) => {
            member.gone = true;
            Answer::empty(204)
        }
        None => Err(Refusal::not_found(format!("Member {id} of pool {pool} not found."))),
    }
}

fn list(world: &mut World, call: &Call) -> Outcome {
    let token = enter(call)?;
    let balancers: Vec<Value> = seen(world, token)
        .into_iter()
        .filter(|balancer| {
            ["name", "id", "description", "project_id", "vip_address", "provisioning_status"]
                .iter()
                .all(|key| call.query(key).is_none_or(|asked| balancer[*key] == asked))
        })
        .collect();
    let balancers = page(call, balancers, |balancer| balancer["id"].as_str().unwrap_or_default());
    Answer::ok(json!({"loadbalancers": balancers, "loadbalancers_links": []}))
}

fn show(world: &mut World, call: &Call) -> Outcome {
    let token = enter(call)?;
    let id = call.at(3);
    let found = seen(world, token).into_iter().find(|balancer| balancer["id"] == id);
    Answer::ok(json!({"loadbalancer": found.ok_or_else(|| missing(id))?}))
}

fn delete(world: &mut World, call: &Call) -> Outcome {
    let token = enter(call)?;
    let id = call.at(3);
    if !seen(world, token).iter().any(|balancer| balancer["id"] == id) {
        return Err(missing(id));
    }
    let duration = world.octavia.duration;
    if let Some(other) = world.octavia.others.get_mut(id) {
        if other.status.starts_with("PENDING_") {
            let message = format!("Load Balancer {id} is immutable and cannot be updated.");
            return Err(Refusal::new(409, "ImmutableObject", message));
        }
        if call.flag("cascade") != Some(true) {
            let message = format!("Cannot delete Load Balancer {id} - it has children");
            return Err(Refusal::new(400, "ValidationException", message));
        }
        "PENDING_DELETE".clone_into(&mut other.status);
        other.leaves = Some(call.now + duration);
        // A delete that takes no time is done before the answer.
        world.advance(call.now);
        return Answer::empty(204);
    }
    for resource in world.heat.stacks.values_mut().flat_map(|stack| &mut stack.resources) {
        if resource.physical == id {
            resource.gone = true;
        }
    }
    Answer::empty(204)
}

fn enter(call: &Call) -> Result<&Token, Refusal> {
    let token = call.token()?;
    if token.has_role("load-balancer_member") || token.has_role("admin") {
        return Ok(token);
    }
    Err(Refusal::forbidden("Policy does not allow this request to be performed."))
}

fn missing(id: &str) -> Refusal {
    Refusal::not_found(format!("Load Balancer {id} not found."))
}

fn seen(world: &World, token: &Token) -> Vec<Value> {
    // An administrator sees those of every project.
    let project = if token.has_role("admin") { None } else { token.project_id() };
    let of_stacks = world.heat.things(project, &KINDS).map(|(stack, resource)| of_stack(stack, resource));
    let others = world.octavia.others.iter();
    let others = others.filter(|(_, other)| project.is_none_or(|project| project == other.project)).map(|(id, other)| {
        let mut view = view(id, &other.name, &other.description, &other.project, "172.24.7.1", &other.status, other.created);
        view["tags"] = json!(other.tags);
        let subnet = other.stack.as_deref().and_then(|stack| subnet_of(world, stack));
        if let Some(subnet) = subnet {
            view["vip_subnet_id"] = json!(subnet);
        }
        view
    });
    of_stacks.chain(others).collect()
}

fn subnet_of(world: &World, stack: &str) -> Option<String> {
    let resources = &world.heat.stacks.get(stack)?.resources;
    resources.iter().find(|resource| resource.acts_as == "OS::Neutron::Subnet").map(|resource| resource.physical.clone())
}

fn of_stack(stack: &Stack, resource: &Resource) -> Value {
    let status = if resource.is_ready() { "ACTIVE" } else { "PENDING_CREATE" };
    let address = heat::address_of(stack, resource);
    let description = resource.properties["description"].as_str().unwrap_or_default();
    view(&resource.physical, &resource.label, description, &stack.project, &address, status, stack.created)
}

fn view(id: &str, name: &str, description: &str, project: &str, address: &str, status: &str, created: Moment) -> Value {
    json!({
        "id": id,
        "name": name,
        "description": description,
        "project_id": project,
        "tenant_id": project,
        "provisioning_status": status,
        "operating_status": if status == "ACTIVE" { "ONLINE" } else { "OFFLINE" },
        "admin_state_up": true,
        "vip_address": address,
        "vip_port_id": port_of(id),
        "vip_subnet_id": seeded("subnet", project).to_string(),
        "vip_network_id": seeded("network", project).to_string(),
        "provider": "octavia",
        "listeners": [],
        "pools": [],
        "tags": [],
        "flavor_id": null,
        "created_at": clock::whole(created),
        "updated_at": clock::whole(created),
    })
}
