//! Octavia: the load balancers that stacks make, and those a test puts beside them as Kubernetes would.

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
#[derive(Default)]
pub(crate) struct Store {
    pub(crate) others: IndexMap<String, Other>,
}

/// A load balancer that no stack made.
pub(crate) struct Other {
    pub(crate) project: String,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) created: Moment,
}

impl Store {
    /// Adds a load balancer that no stack made.
    pub(crate) fn add(&mut self, other: Other) -> String {
        let id = dashed_id();
        self.others.insert(id.clone(), other);
        id
    }
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
        _ => None,
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
    if world.octavia.others.shift_remove(id).is_none() {
        for resource in world.heat.stacks.values_mut().flat_map(|stack| &mut stack.resources) {
            if resource.physical == id {
                resource.gone = true;
            }
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
    let others = world
        .octavia
        .others
        .iter()
        .filter(|(_, other)| project.is_none_or(|project| project == other.project))
        .map(|(id, other)| view(id, &other.name, &other.description, &other.project, "172.24.7.1", "ACTIVE", other.created));
    of_stacks.chain(others).collect()
}

fn of_stack(stack: &Stack, resource: &Resource) -> Value {
    let status = if resource.is_ready() { "ACTIVE" } else { "PENDING_CREATE" };
    let address = heat::address(stack.serial, 2 + resource.number, true);
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
        "vip_port_id": seeded("vip", id).to_string(),
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
