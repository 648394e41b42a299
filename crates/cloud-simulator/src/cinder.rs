//! Cinder: one volume type, the volumes that stacks make, and those a test puts beside them as Kubernetes would.

use indexmap::IndexMap;
use serde_json::{Value, json};

use crate::{
    catalog, clock,
    clock::Moment,
    heat::{Resource, Stack},
    http::{Answer, Call, Outcome, Refusal, Route},
    state::{World, dashed_id, page, seeded},
    token::Token,
};

const KINDS: [&str; 1] = ["OS::Cinder::Volume"];

/// The volumes that no stack made.
#[derive(Default)]
pub(crate) struct Store {
    pub(crate) others: IndexMap<String, Other>,
}

/// A volume that no stack made.
pub(crate) struct Other {
    pub(crate) project: String,
    pub(crate) name: String,
    pub(crate) metadata: Value,
    /// The id of the stack to one of whose servers it is attached.
    pub(crate) stack: Option<String>,
    /// Cinder deletes no volume that has one.
    pub(crate) has_snapshot: bool,
    pub(crate) created: Moment,
}

impl Store {
    /// Adds a volume that no stack made.
    pub(crate) fn add(&mut self, other: Other) -> String {
        let id = dashed_id();
        self.others.insert(id.clone(), other);
        id
    }
}

/// The calls Cinder knows, with and without the project in the path.
pub(crate) fn route(method: &str, path: &[&str]) -> Option<Route> {
    match (method, path) {
        ("GET", [] | ["v3"]) => Route::open("cinder.version_show", catalog::version),
        ("GET", ["v3", "limits"] | ["v3", _, "limits"]) => Route::new("cinder.limits_show", limits),
        ("GET", ["v3", "types"] | ["v3", _, "types"]) => Route::new("cinder.type_list", types),
        ("GET", ["v3", "volumes"] | ["v3", "volumes", "detail"] | ["v3", _, "volumes"] | ["v3", _, "volumes", "detail"]) => {
            Route::new("cinder.volume_list", list)
        }
        ("GET", ["v3", "types", _] | ["v3", _, "types", _]) => Route::new("cinder.type_show", show_type),
        ("GET", ["v3", "volumes", _] | ["v3", _, "volumes", _]) => Route::new("cinder.volume_show", show),
        ("DELETE", ["v3", "volumes", _] | ["v3", _, "volumes", _]) => Route::new("cinder.volume_delete", delete),
        _ => None,
    }
}

fn limits(world: &mut World, call: &Call) -> Outcome {
    let project = call.project()?;
    let volumes = seen(world, Some(project));
    let gigabytes: u64 = volumes.iter().filter_map(|volume| volume["size"].as_u64()).sum();
    Answer::ok(json!({"limits": {"rate": [], "absolute": {
        "maxTotalVolumes": world.quota(project, "volumes"), "totalVolumesUsed": volumes.len(),
        "maxTotalVolumeGigabytes": world.quota(project, "gigabytes"), "totalGigabytesUsed": gigabytes,
    }}}))
}

fn types(_: &mut World, _: &Call) -> Outcome {
    Answer::ok(json!({"volume_types": [fake_type()]}))
}

fn show_type(_: &mut World, call: &Call) -> Outcome {
    let asked = call.path.last().map_or("", String::as_str);
    let only = fake_type();
    if only["id"] == asked {
        return Answer::ok(json!({"volume_type": only}));
    }
    Err(Refusal::not_found(format!("Volume type {asked} could not be found.")))
}

fn list(world: &mut World, call: &Call) -> Outcome {
    let token = call.token()?;
    let of_all = call.flag("all_tenants") == Some(true) && token.has_role("admin");
    let project = if of_all { call.query("project_id") } else { Some(call.project()?) };
    let volumes: Vec<Value> =
        seen(world, project).into_iter().filter(|volume| call.query("name").is_none_or(|name| volume["name"] == name)).collect();
    Answer::ok(json!({"volumes": page(call, volumes, |volume| volume["id"].as_str().unwrap_or_default())}))
}

fn show(world: &mut World, call: &Call) -> Outcome {
    Answer::ok(json!({"volume": named(world, call)?}))
}

fn delete(world: &mut World, call: &Call) -> Outcome {
    let volume = named(world, call)?;
    let id = call.path.last().map_or("", String::as_str);
    let has_snapshot = world.cinder.others.get(id).is_some_and(|other| other.has_snapshot);
    if has_snapshot || (volume["status"] != "available" && volume["status"] != "error") {
        let message = "Invalid volume: Volume status must be available or error or error_restoring or error_extending or error_managing and \
            must not be migrating, attached, belong to a group, have snapshots or be disassociated from snapshots after volume transfer.";
        return Err(Refusal::bad_request(message));
    }
    world.cinder.others.shift_remove(id);
    for resource in world.heat.stacks.values_mut().flat_map(|stack| &mut stack.resources) {
        if resource.physical == id {
            resource.gone = true;
        }
    }
    Answer::empty(202)
}

/// The volume that a path names, if the caller may see it.
fn named(world: &World, call: &Call) -> Result<Value, Refusal> {
    let id = call.path.last().map_or("", String::as_str);
    let token: &Token = call.token()?;
    let project = if token.has_role("admin") { None } else { Some(call.project()?) };
    let found = seen(world, project).into_iter().find(|volume| volume["id"] == id);
    found.ok_or_else(|| Refusal::not_found(format!("Volume {id} could not be found.")))
}

/// The volumes of a project, or of all.
fn seen(world: &World, project: Option<&str>) -> Vec<Value> {
    let of_stacks = world.heat.things(project, &KINDS).map(|(stack, resource)| view(stack, resource));
    let others = world.cinder.others.iter().filter(|(_, other)| project.is_none_or(|project| project == other.project));
    of_stacks.chain(others.map(|(id, other)| view_of_other(world, id, other))).collect()
}

/// It is attached as long as the stack is there.
fn view_of_other(world: &World, id: &str, other: &Other) -> Value {
    let servers = other.stack.as_ref().and_then(|stack| world.heat.stacks.get(stack)).filter(|stack| stack.deleted.is_none());
    let server =
        servers.and_then(|stack| stack.resources.iter().find(|resource| resource.acts_as == "OS::Nova::Server" && resource.exists()));
    let attachments: Vec<Value> = server.iter().map(|server| json!({"server_id": server.physical, "volume_id": id})).collect();
    json!({
        "id": id,
        "name": other.name,
        "status": if server.is_some() { "in-use" } else { "available" },
        "size": 1,
        "volume_type": "fake",
        "availability_zone": "nova",
        "bootable": "false",
        "attachments": attachments,
        "metadata": other.metadata,
        "created_at": clock::whole(other.created),
        "os-vol-tenant-attr:tenant_id": other.project,
    })
}

fn fake_type() -> Value {
    json!({"id": seeded("volume-type", "fake").to_string(), "name": "fake", "description": null, "is_public": true,
        "os-volume-type-access:is_public": true, "qos_specs_id": null, "extra_specs": {"volume_backend_name": "fake"}})
}

fn view(stack: &Stack, resource: &Resource) -> Value {
    json!({
        "id": resource.physical,
        "name": resource.label,
        "status": if resource.is_ready() { "available" } else { "creating" },
        "size": resource.properties["size"],
        "volume_type": "fake",
        "availability_zone": "nova",
        "bootable": "false",
        "attachments": [],
        "metadata": {},
        "created_at": clock::whole(stack.created),
        "os-vol-tenant-attr:tenant_id": stack.project,
    })
}
