//! Nova: flavours, keypairs, and the servers and server groups that stacks make.

use serde_json::{Value, json};

use crate::{
    catalog, clock,
    heat::{Resource, Stack},
    http::{Answer, Call, Outcome, Refusal, Route},
    state::{World, page, seeded},
};

const SERVERS: [&str; 1] = ["OS::Nova::Server"];
const GROUPS: [&str; 1] = ["OS::Nova::ServerGroup"];

/// Everything Nova knows by itself.
pub(crate) struct Store {
    flavors: Vec<Value>,
    pub(crate) keypairs: Vec<Keypair>,
}

/// A public key of a user's, by its name.
pub(crate) struct Keypair {
    pub(crate) user: String,
    pub(crate) name: String,
    public_key: String,
    pub(crate) seeded: bool,
}

const SEEDED_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f simulated";

impl Store {
    /// The seeded flavours and keypairs.
    pub(crate) fn seeded() -> Self {
        let flavors =
            [("1", "m1.tiny", 512, 1, 1), ("2", "m1.small", 2048, 1, 20), ("3", "m1.medium", 4096, 2, 40), ("4", "m1.nodisk", 2048, 1, 0)];
        let owners = ["demo", "demo2", "admin", "member2"];
        Self {
            flavors: flavors.into_iter().map(|(id, name, ram, vcpus, disk)| flavor(id, name, ram, vcpus, disk)).collect(),
            keypairs: owners
                .iter()
                .map(|user| Keypair {
                    user: seeded("user", user).simple().to_string(),
                    name: "key".to_owned(),
                    public_key: SEEDED_KEY.to_owned(),
                    seeded: true,
                })
                .collect(),
        }
    }

    /// The key pair of that name among a user's own: Nova and Heat look nowhere else.
    pub(crate) fn keypair(&self, user: &str, name: &str) -> Option<&Keypair> {
        self.keypairs.iter().find(|pair| pair.user == user && pair.name == name)
    }
}

/// The calls Nova knows.
pub(crate) fn route(method: &str, path: &[&str]) -> Option<Route> {
    match (method, path) {
        ("GET", [] | ["v2.1"]) => Route::open("nova.version_show", catalog::version),
        ("GET", ["v2.1", rest @ ..]) => match rest {
            ["flavors"] | ["flavors", "detail"] => Route::new("nova.flavor_list", flavors),
            ["flavors", _] => Route::new("nova.flavor_show", show_flavor),
            ["flavors", _, "os-extra_specs"] => Route::new("nova.flavor_extra_specs", |_, _| Answer::ok(json!({"extra_specs": {}}))),
            ["limits"] => Route::new("nova.limits_show", limits),
            ["os-keypairs"] => Route::new("nova.keypair_list", keypairs),
            ["os-keypairs", _] => Route::new("nova.keypair_show", show_keypair),
            ["servers"] | ["servers", "detail"] => Route::new("nova.server_list", servers),
            ["servers", _] => Route::new("nova.server_show", show_server),
            ["os-server-groups"] => Route::new("nova.server_group_list", groups),
            _ => None,
        },
        ("POST", ["v2.1", "os-keypairs"]) => Route::new("nova.keypair_create", import_keypair),
        ("DELETE", ["v2.1", "os-keypairs", _]) => Route::new("nova.keypair_delete", delete_keypair),
        _ => None,
    }
}

fn flavors(world: &mut World, call: &Call) -> Outcome {
    let flavors = page(call, world.nova.flavors.clone(), |flavor| flavor["id"].as_str().unwrap_or_default());
    Answer::ok(json!({"flavors": flavors}))
}

fn show_flavor(world: &mut World, call: &Call) -> Outcome {
    let id = call.at(2);
    let flavor = world.nova.flavors.iter().find(|flavor| flavor["id"] == id);
    let flavor = flavor.ok_or_else(|| Refusal::not_found(format!("Flavor {id} could not be found.")))?;
    Answer::ok(json!({"flavor": flavor}))
}

/// Counts the servers of stacks, each as one of a small flavor; the simulated Cluster API has its machines elsewhere.
fn limits(world: &mut World, call: &Call) -> Outcome {
    let project = call.project()?;
    let used = world.heat.things(Some(project), &SERVERS).count();
    let groups = world.heat.things(Some(project), &GROUPS).count();
    let most = |resource| world.quota(project, resource);
    Answer::ok(json!({"limits": {"rate": [], "absolute": {
        "maxTotalInstances": most("instances"), "totalInstancesUsed": used,
        "maxTotalCores": most("cores"), "totalCoresUsed": used,
        "maxTotalRAMSize": most("ram"), "totalRAMUsed": 2048 * used,
        "maxServerGroups": most("server_groups"), "totalServerGroupsUsed": groups,
        "maxServerGroupMembers": most("server_group_members"),
    }}}))
}

/// Whose key pairs a call is about: the caller's, or from microversion 2.10 on those of the user whom an administrator names.
fn keys_of(call: &Call) -> Result<&str, Refusal> {
    let token = call.token()?;
    let version = call.microversion.as_deref().and_then(|version| version.strip_prefix("compute 2."));
    let named = call.query("user_id").filter(|_| version.and_then(|minor| minor.parse::<u32>().ok()).is_some_and(|minor| minor >= 10));
    match named {
        Some(user) if user == token.user || token.has_role("admin") => Ok(user),
        Some(_) => Err(Refusal::new(403, "forbidden", "Policy doesn't allow os_compute_api:os-keypairs to be performed.")),
        None => Ok(&token.user),
    }
}

fn keypairs(world: &mut World, call: &Call) -> Outcome {
    let user = keys_of(call)?;
    let own = world.nova.keypairs.iter().filter(|pair| pair.user == user);
    Answer::ok(json!({"keypairs": own.map(|pair| json!({"keypair": keypair(pair)})).collect::<Vec<_>>()}))
}

fn show_keypair(world: &mut World, call: &Call) -> Outcome {
    let (name, user) = (call.at(2), &call.token()?.user);
    let own = world.nova.keypair(user, name).ok_or_else(|| no_keypair(name, user))?;
    Answer::ok(json!({"keypair": keypair(own)}))
}

fn import_keypair(world: &mut World, call: &Call) -> Outcome {
    let body = call.json()?;
    let given = |key: &str| {
        let text = body["keypair"][key].as_str().filter(|text| !text.is_empty());
        text.map(str::to_owned).ok_or_else(|| Refusal::bad_request(format!("'{key}' is a required property")))
    };
    let (user, name, public_key) = (call.token()?.user.clone(), given("name")?, given("public_key")?);
    if world.nova.keypair(&user, &name).is_some() {
        return Err(Refusal::new(409, "conflictingRequest", format!("Key pair '{name}' already exists.")));
    }
    let pair = Keypair { user, name, public_key, seeded: false };
    let view = keypair(&pair);
    world.nova.keypairs.push(pair);
    Answer::ok(json!({"keypair": view}))
}

fn delete_keypair(world: &mut World, call: &Call) -> Outcome {
    let (name, user) = (call.at(2), keys_of(call)?);
    let at = world.nova.keypairs.iter().position(|pair| pair.user == user && pair.name == name);
    world.nova.keypairs.remove(at.ok_or_else(|| no_keypair(name, user))?);
    Answer::empty(202)
}

fn no_keypair(name: &str, user: &str) -> Refusal {
    Refusal::not_found(format!("Keypair {name} not found for user {user}"))
}

fn servers(world: &mut World, call: &Call) -> Outcome {
    let token = call.token()?;
    let everyone = call.flag("all_tenants") == Some(true) && token.has_role("admin");
    let project = if everyone { None } else { Some(call.project()?) };
    let found: Vec<Value> = world
        .heat
        .things(project, &SERVERS)
        .filter(|(_, resource)| call.query("name").is_none_or(|pattern| is_named(&resource.label, pattern)))
        .map(|(stack, resource)| server(stack, resource))
        .collect();
    Answer::ok(json!({"servers": page(call, found, |server| server["id"].as_str().unwrap_or_default())}))
}

/// Of the expressions that Nova takes, those that are asked with: a beginning, in which every sign that means something is escaped; else any
/// part of a name.
fn is_named(name: &str, pattern: &str) -> bool {
    match pattern.strip_prefix('^') {
        Some(beginning) => name.starts_with(&beginning.replace('\\', "")),
        None => name.contains(pattern),
    }
}

fn show_server(world: &mut World, call: &Call) -> Outcome {
    let id = call.at(2);
    let found = world.heat.things_named(Some(call.project()?), &SERVERS, &[id]).pop();
    let (stack, resource) = found.ok_or_else(|| Refusal::not_found(format!("Instance {id} could not be found.")))?;
    Answer::ok(json!({"server": server(stack, resource)}))
}

fn groups(world: &mut World, call: &Call) -> Outcome {
    let groups: Vec<Value> = world
        .heat
        .things(Some(call.project()?), &GROUPS)
        .map(|(stack, resource)| {
            json!({"id": resource.physical, "name": resource.label, "project_id": stack.project, "members": [],
                "metadata": {}, "policies": resource.properties["policies"]})
        })
        .collect();
    Answer::ok(json!({"server_groups": groups}))
}

fn flavor(id: &str, name: &str, ram: u32, vcpus: u32, disk: u32) -> Value {
    json!({"id": id, "name": name, "ram": ram, "vcpus": vcpus, "disk": disk, "swap": "", "rxtx_factor": 1.0,
        "OS-FLV-EXT-DATA:ephemeral": 0, "OS-FLV-DISABLED:disabled": false, "os-flavor-access:is_public": true,
        "description": null, "extra_specs": {}, "links": []})
}

fn keypair(pair: &Keypair) -> Value {
    json!({"name": pair.name, "user_id": pair.user, "type": "ssh", "fingerprint": "00:11:22:33:44:55:66:77:88:99:aa:bb:cc:dd:ee:ff",
        "public_key": pair.public_key,
        "id": 1, "created_at": "2025-01-01T00:00:00Z", "deleted": false, "deleted_at": null, "updated_at": null})
}

fn server(stack: &Stack, resource: &Resource) -> Value {
    let status = if resource.is_ready() { "ACTIVE" } else { "BUILD" };
    json!({
        "id": resource.physical,
        "name": resource.label,
        "status": status,
        "tenant_id": stack.project,
        "user_id": stack.owner,
        "created": clock::whole(stack.created),
        "updated": clock::whole(resource.changed.unwrap_or(stack.created)),
        "addresses": {},
        "image": {"id": resource.properties["image"]},
        "flavor": {"id": resource.properties["flavor"], "original_name": resource.properties["flavor"], "vcpus": 1, "ram": 2048,
            "disk": 20, "ephemeral": 0, "swap": 0, "extra_specs": {}},
        "metadata": resource.properties["metadata"].as_object().cloned().unwrap_or_default(),
        "key_name": resource.properties["key_name"],
        "hostId": "",
        "accessIPv4": "",
        "accessIPv6": "",
        "config_drive": "",
        "progress": 0,
        "security_groups": [],
        "os-extended-volumes:volumes_attached": [],
        "OS-EXT-AZ:availability_zone": "nova",
        "OS-EXT-STS:vm_state": if status == "ACTIVE" { "active" } else { "building" },
        "OS-EXT-STS:task_state": null,
        "OS-EXT-STS:power_state": 1,
        "links": [],
    })
}
