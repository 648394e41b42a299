//! Neutron: the seeded networks, and what stacks make: networks, subnets, routers, ports, floating IPs, security groups.
//!
//! Every collection is read the same way; what a project may see is its own, and the external network.

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use crate::{
    catalog,
    heat::{self, Resource, Stack},
    http::{Answer, Call, Outcome, Refusal, Route},
    keystone, octavia,
    state::{World, page, seeded},
};

/// Resource types by the collection their things are in.
const COLLECTIONS: [(&str, &str, [&str; 1]); 6] = [
    ("networks", "network", ["OS::Neutron::Net"]),
    ("subnets", "subnet", ["OS::Neutron::Subnet"]),
    ("routers", "router", ["OS::Neutron::Router"]),
    ("ports", "port", ["OS::Neutron::Port"]),
    ("floatingips", "floatingip", ["OS::Neutron::FloatingIP"]),
    ("security-groups", "security_group", ["OS::Neutron::SecurityGroup"]),
];

/// What there is besides the stacks' things.
pub(crate) struct Store {
    networks: Vec<Value>,
    subnets: Vec<Value>,
    pub(crate) floating_ips: IndexMap<String, FloatingIp>,
}

/// A floating IP that no stack made.
pub(crate) struct FloatingIp {
    pub(crate) project: String,
    pub(crate) description: String,
    pub(crate) port: Option<String>,
}

impl Store {
    /// The ports are gone.
    pub(crate) fn release(&mut self, ports: &[String]) {
        for other in self.floating_ips.values_mut() {
            if other.port.as_ref().is_some_and(|port| ports.contains(port)) {
                other.port = None;
            }
        }
    }

    /// The external network, and a private one for each demo project.
    pub(crate) fn seeded(keystone: &keystone::Store) -> Self {
        let mut store = Self { networks: Vec::new(), subnets: Vec::new(), floating_ips: IndexMap::new() };
        for project in keystone.projects.values() {
            match project.name.as_str() {
                "admin" => store.add("public", "public", &project.id, "172.24.4.0/22", true),
                "demo" | "demo2" => store.add("private", &project.id, &project.id, "10.0.0.0/24", false),
                _ => {}
            }
        }
        store
    }

    /// A network with one subnet, which is called `<name>-subnet`; their ids follow from the key.
    pub(crate) fn add(&mut self, name: &str, key: &str, project: &str, cidr: &str, is_external: bool) {
        let network_id = seeded("network", key).to_string();
        let subnet_id = seeded("subnet", key).to_string();
        let gateway = cidr.rsplit_once('.').map(|(net, _)| format!("{net}.1"));
        self.networks.push(network(&network_id, name, project, is_external, std::slice::from_ref(&subnet_id)));
        self.subnets.push(json!({
            "id": subnet_id, "name": format!("{name}-subnet"), "project_id": project, "tenant_id": project,
            "network_id": network_id, "cidr": cidr, "ip_version": 4, "enable_dhcp": !is_external, "gateway_ip": gateway,
            "dns_nameservers": [], "allocation_pools": [], "host_routes": [], "tags": [], "description": "",
        }));
    }
}

/// The calls Neutron knows.
pub(crate) fn route(method: &str, path: &[&str]) -> Option<Route> {
    match (method, path) {
        ("GET", [] | ["v2.0"]) => Route::open("neutron.version_show", catalog::version),
        ("GET", ["v2.0", "extensions"]) => Route::new("neutron.extension_list", |_, _| Answer::ok(json!({"extensions": []}))),
        ("GET", ["v2.0", collection]) => Route::new(
            match *collection {
                "networks" => "neutron.network_list",
                "subnets" => "neutron.subnet_list",
                "routers" => "neutron.router_list",
                "ports" => "neutron.port_list",
                "floatingips" => "neutron.floatingip_list",
                "security-groups" => "neutron.security_group_list",
                _ => return None,
            },
            list,
        ),
        ("GET", ["v2.0", collection, _]) => Route::new(
            match *collection {
                "networks" => "neutron.network_show",
                "subnets" => "neutron.subnet_show",
                "routers" => "neutron.router_show",
                "ports" => "neutron.port_show",
                "floatingips" => "neutron.floatingip_show",
                "security-groups" => "neutron.security_group_show",
                _ => return None,
            },
            show,
        ),
        ("GET", ["v2.0", "quotas", _, "details.json"]) => Route::new("neutron.quota_show", quota),
        ("DELETE", ["v2.0", "floatingips", _]) => Route::new("neutron.floatingip_delete", delete),
        _ => None,
    }
}

/// What has a port that is no resource of its own. That of a network is Neutron's, for DHCP or metadata.
const WITH_PORTS: [&str; 3] = ["OS::Neutron::Net", "OS::Neutron::RouterInterface", "OS::Octavia::LoadBalancer"];

/// Counts what stacks made, and what others did of floating IPs.
fn quota(world: &mut World, call: &Call) -> Outcome {
    let project = call.at(2);
    if project != call.project()? && !call.token()?.has_role("admin") {
        return Err(Refusal::new(403, "AdminRequired", "User does not have admin privileges."));
    }
    // Looked at once: to go over thousands of stacks for each takes longer than all the rest.
    let live = world.heat.all_live().filter(|stack| stack.project == project);
    let made: Vec<&str> = live.flat_map(|stack| &stack.resources).filter(|made| made.exists()).map(|made| made.acts_as.as_str()).collect();
    let count = |kinds: &[&str]| made.iter().filter(|kind| kinds.contains(kind)).count();
    let detail = |(_, singular, kinds): &(&str, &str, [&str; 1])| {
        let others = match *singular {
            "floatingip" => world.neutron.floating_ips.values().filter(|other| other.project == project).count(),
            "port" => count(&WITH_PORTS),
            _ => 0,
        };
        let used = count(kinds) + others;
        ((*singular).to_owned(), json!({"limit": world.quota(project, singular), "used": used, "reserved": 0}))
    };
    let quota: Map<String, Value> = COLLECTIONS.iter().map(detail).collect();
    Answer::ok(json!({"quota": quota}))
}

fn list(world: &mut World, call: &Call) -> Outcome {
    let collection = call.at(1);
    let ids: Vec<&str> = call.query.iter().filter(|(key, _)| key == "id").map(|(_, id)| id.as_str()).collect();
    let items: Vec<Value> = seen(world, call, &ids)?.into_iter().filter(|item| is_asked_for(call, item)).collect();
    let items = page(call, items, |item| item["id"].as_str().unwrap_or_default());
    Answer::ok(json!({collection.replace('-', "_"): items}))
}

fn show(world: &mut World, call: &Call) -> Outcome {
    let (collection, id) = (call.at(1), call.at(2));
    let singular = COLLECTIONS.iter().find(|(name, ..)| *name == collection).map_or("item", |(_, singular, _)| singular);
    let item = seen(world, call, &[id])?.into_iter().find(|item| item["id"] == id);
    let item = item.ok_or_else(|| missing(singular, id))?;
    Answer::ok(json!({singular: item}))
}

fn delete(world: &mut World, call: &Call) -> Outcome {
    let id = call.at(2);
    if !seen(world, call, &[id])?.iter().any(|item| item["id"] == id) {
        return Err(missing("floatingip", id));
    }
    world.neutron.floating_ips.shift_remove(id);
    for resource in world.heat.stacks.values_mut().flat_map(|stack| &mut stack.resources) {
        if resource.physical == id {
            resource.gone = true;
        }
    }
    Answer::empty(204)
}

fn missing(singular: &str, id: &str) -> Refusal {
    let kind = match singular {
        "network" => "NetworkNotFound",
        "subnet" => "SubnetNotFound",
        "router" => "RouterNotFound",
        "port" => "PortNotFound",
        "floatingip" => "FloatingIPNotFound",
        _ => "SecurityGroupNotFound",
    };
    let mut name = singular.replace('_', " ");
    if let Some(first) = name.get_mut(0..1) {
        first.make_ascii_uppercase();
    }
    Refusal::new(404, kind, format!("{name} {id} could not be found."))
}

/// Neutron filters by any attribute, given once or several times.
fn is_asked_for(call: &Call, item: &Value) -> bool {
    call.query.iter().all(|(key, _)| {
        let Some(own) = item.get(key) else {
            return true;
        };
        let own = match own {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        call.query.iter().any(|(name, asked)| {
            let is_flag = asked.eq_ignore_ascii_case("true") || asked.eq_ignore_ascii_case("false");
            name == key && (*asked == own || (is_flag && asked.eq_ignore_ascii_case(&own)))
        })
    })
}

/// Everything of the called collection that the caller may see; where ids are given, of what stacks made no more than these.
fn seen(world: &World, call: &Call, ids: &[&str]) -> Result<Vec<Value>, Refusal> {
    let token = call.token()?;
    let project = if token.has_role("admin") { None } else { Some(call.project()?) };
    let collection = call.at(1);
    let mut items: Vec<Value> = match collection {
        "networks" => world.neutron.networks.clone(),
        "subnets" => world.neutron.subnets.clone(),
        _ => Vec::new(),
    };
    items.retain(|item| project.is_none_or(|project| item["project_id"] == project || item["router:external"] == true));
    if let Some((_, _, kinds)) = COLLECTIONS.iter().find(|(name, ..)| *name == collection) {
        let made = if ids.is_empty() { world.heat.things(project, kinds).collect() } else { world.heat.things_named(project, kinds, ids) };
        items.extend(made.into_iter().map(|(stack, resource)| view(collection, stack, resource)));
    }
    if collection == "ports" {
        items.extend(world.heat.things(project, &octavia::KINDS).map(|(stack, resource)| {
            let id = octavia::port_of(&resource.physical);
            let name = format!("octavia-lb-{}", resource.physical);
            port(&id, &name, stack, resource, "Octavia")
        }));
    }
    if collection == "floatingips" {
        let others = world.neutron.floating_ips.iter().filter(|(_, other)| project.is_none_or(|project| project == other.project));
        items.extend(others.map(|(id, other)| {
            json!({"id": id, "project_id": other.project, "tenant_id": other.project, "description": other.description, "tags": [],
                "status": if other.port.is_some() { "ACTIVE" } else { "DOWN" }, "port_id": other.port, "fixed_ip_address": null,
                "router_id": null, "floating_ip_address": "172.24.6.1", "floating_network_id": null})
        }));
    }
    Ok(items)
}

fn network(id: &str, name: &str, project: &str, is_external: bool, subnets: &[String]) -> Value {
    json!({"id": id, "name": name, "project_id": project, "tenant_id": project, "router:external": is_external,
        "shared": false, "status": "ACTIVE", "admin_state_up": true, "subnets": subnets, "mtu": 1450, "tags": [],
        "description": "", "availability_zones": [], "port_security_enabled": true, "is_default": is_external})
}

fn port(id: &str, name: &str, stack: &Stack, resource: &Resource, owner: &str) -> Value {
    let address = heat::address_of(stack, resource);
    json!({"id": id, "name": name, "project_id": stack.project, "tenant_id": stack.project, "status": "ACTIVE",
        "admin_state_up": true, "network_id": resource.properties["network"], "device_owner": owner, "device_id": "",
        "mac_address": format!("fa:16:3e:{:02x}:{:02x}:{:02x}", stack.serial % 256, resource.number / 256 % 256, resource.number % 256),
        "fixed_ips": [{"subnet_id": null, "ip_address": address}], "security_groups": [], "allowed_address_pairs": [],
        "tags": [], "description": ""})
}

fn view(collection: &str, stack: &Stack, resource: &Resource) -> Value {
    let (id, name) = (&resource.physical, &resource.label);
    if collection == "networks" {
        return network(id, name, &stack.project, false, &[]);
    }
    if collection == "ports" {
        return port(id, name, stack, resource, "compute:nova");
    }
    let mut item = Map::new();
    for (key, value) in [
        ("id", json!(id)),
        ("project_id", json!(stack.project)),
        ("tenant_id", json!(stack.project)),
        ("description", json!(resource.properties["description"].as_str().unwrap_or_default())),
        ("tags", json!([])),
    ] {
        item.insert(key.to_owned(), value);
    }
    if collection != "floatingips" {
        item.insert("name".to_owned(), json!(name));
    }
    let more = match collection {
        "subnets" => {
            json!({"cidr": resource.properties["cidr"], "ip_version": resource.properties["ip_version"].as_u64().unwrap_or(4),
            "network_id": resource.properties["network"], "ipv6_address_mode": resource.properties["ipv6_address_mode"],
            "ipv6_ra_mode": resource.properties["ipv6_ra_mode"], "gateway_ip": null, "enable_dhcp": true, "dns_nameservers": [], "allocation_pools": [], "host_routes": []})
        }
        "routers" => {
            json!({"status": "ACTIVE", "admin_state_up": true, "routes": [], "ha": false, "distributed": false,
            "external_gateway_info": resource.properties["external_gateway_info"]})
        }
        "floatingips" => {
            json!({"status": "ACTIVE", "port_id": null, "fixed_ip_address": null, "router_id": null,
            "floating_ip_address": heat::address_of(stack, resource),
            "floating_network_id": resource.properties["floating_network"]})
        }
        _ => json!({"security_group_rules": [], "stateful": true, "shared": false}),
    };
    item.extend(more.as_object().cloned().unwrap_or_default());
    item.into()
}
