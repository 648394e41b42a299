//! Cinder: one volume type, and the volumes that stacks make.

use serde_json::{Value, json};

use crate::{
    catalog, clock,
    heat::{Resource, Stack},
    http::{Answer, Call, Outcome, Refusal, Route},
    state::{World, page, seeded},
};

const KINDS: [&str; 1] = ["OS::Cinder::Volume"];

/// The calls Cinder knows, with and without the project in the path.
pub(crate) fn route(method: &str, path: &[&str]) -> Option<Route> {
    match (method, path) {
        ("GET", [] | ["v3"]) => Route::open("cinder.version_show", catalog::version),
        ("GET", ["v3", "types"] | ["v3", _, "types"]) => Route::new("cinder.type_list", types),
        ("GET", ["v3", "volumes"] | ["v3", "volumes", "detail"] | ["v3", _, "volumes"] | ["v3", _, "volumes", "detail"]) => {
            Route::new("cinder.volume_list", list)
        }
        ("GET", ["v3", "types", _] | ["v3", _, "types", _]) => Route::new("cinder.type_show", show_type),
        ("GET", ["v3", "volumes", _] | ["v3", _, "volumes", _]) => Route::new("cinder.volume_show", show),
        _ => None,
    }
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
    let project = call.project()?;
    let volumes: Vec<Value> = world
        .heat
        .things(Some(project), &KINDS)
        .map(|(stack, resource)| view(stack, resource))
        .filter(|volume| call.query("name").is_none_or(|name| volume["name"] == name))
        .collect();
    Answer::ok(json!({"volumes": page(call, volumes, |volume| volume["id"].as_str().unwrap_or_default())}))
}

fn show(world: &mut World, call: &Call) -> Outcome {
    let id = call.path.last().map_or("", String::as_str);
    let project = call.project()?;
    let found = world.heat.things(Some(project), &KINDS).find(|(_, resource)| resource.physical == id);
    let (stack, resource) = found.ok_or_else(|| Refusal::not_found(format!("Volume {id} could not be found.")))?;
    Answer::ok(json!({"volume": view(stack, resource)}))
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
