//! The service catalogue and the version documents that clients discover the services by.

use serde_json::{Value, json};

use crate::{
    http::{Answer, Call, Outcome},
    service::Service,
    state::{World, seeded},
};

struct Entry {
    service: Service,
    kind: &'static str,
    name: &'static str,
    path: &'static str,
    per_project: bool,
}

const ENTRIES: [Entry; 10] = [
    Entry { service: Service::Keystone, kind: "identity", name: "keystone", path: "", per_project: false },
    Entry { service: Service::Heat, kind: "orchestration", name: "heat", path: "/v1", per_project: true },
    Entry { service: Service::Nova, kind: "compute", name: "nova", path: "/v2.1", per_project: false },
    Entry { service: Service::Neutron, kind: "network", name: "neutron", path: "", per_project: false },
    Entry { service: Service::Glance, kind: "image", name: "glance", path: "", per_project: false },
    Entry { service: Service::Octavia, kind: "load-balancer", name: "octavia", path: "", per_project: false },
    Entry { service: Service::Cinder, kind: "volumev3", name: "cinderv3", path: "/v3", per_project: true },
    Entry { service: Service::Cinder, kind: "block-storage", name: "cinder", path: "/v3", per_project: false },
    Entry { service: Service::Barbican, kind: "key-manager", name: "barbican", path: "", per_project: false },
    // The last one's address is not ours; see `endpoints`.
    Entry { service: Service::Keystone, kind: "container-infra", name: "magnum", path: "", per_project: false },
];

const REGION: &str = "RegionOne";

/// The address a catalogue entry shows, if it shows one to this project.
fn address(entry: &Entry, base: &str, container_infra: Option<&str>, project: Option<&str>) -> Option<String> {
    if entry.kind == "container-infra" {
        return container_infra.map(str::to_owned);
    }
    let root = format!("{base}/{}{}", entry.service.prefix(), entry.path);
    if !entry.per_project {
        return Some(root);
    }
    project.map(|project| format!("{root}/{project}"))
}

/// The catalogue as a token carries it, without what was withdrawn from it.
pub(crate) fn catalog(base: &str, container_infra: Option<&str>, project: Option<&str>, withdrawn: &[&str]) -> Value {
    let shown = ENTRIES.iter().filter(|entry| !withdrawn.contains(&entry.kind));
    let entries = shown.filter_map(|entry| {
        let url = address(entry, base, container_infra, project)?;
        let endpoints: Vec<Value> = ["public", "internal", "admin"]
            .iter()
            .map(|interface| {
                let id = seeded("endpoint", &format!("{}/{interface}", entry.kind)).simple().to_string();
                json!({"id": id, "interface": interface, "region_id": REGION, "region": REGION, "url": url})
            })
            .collect();
        Some(json!({"endpoints": endpoints, "id": service_id(entry.kind), "type": entry.kind, "name": entry.name}))
    });
    Value::Array(entries.collect())
}

/// The services as an administrator lists them.
pub(crate) fn services(kind: Option<&str>, name: Option<&str>) -> Value {
    let services = ENTRIES
        .iter()
        .filter(|entry| kind.is_none_or(|kind| kind == entry.kind) && name.is_none_or(|name| name == entry.name))
        .map(|entry| json!({"id": service_id(entry.kind), "type": entry.kind, "name": entry.name, "enabled": true, "links": {}}));
    json!({"services": services.collect::<Vec<_>>(), "links": {"next": null, "self": null, "previous": null}})
}

/// The endpoints as an administrator lists them.
pub(crate) fn endpoints(base: &str, container_infra: Option<&str>, call: &Call) -> Value {
    let mut endpoints = Vec::new();
    for entry in &ENTRIES {
        let Some(url) = address(entry, base, container_infra, Some("%(project_id)s")) else {
            continue;
        };
        for interface in ["public", "internal", "admin"] {
            let service = service_id(entry.kind);
            let wanted = |key: &str, value: &str| call.query(key).is_none_or(|wanted| wanted == value);
            if wanted("service_id", &service) && wanted("interface", interface) {
                let id = seeded("endpoint", &format!("{}/{interface}", entry.kind)).simple().to_string();
                endpoints.push(json!({"id": id, "interface": interface, "region": REGION, "region_id": REGION,
                    "service_id": service, "url": url, "enabled": true, "links": {}}));
            }
        }
    }
    json!({"endpoints": endpoints, "links": {"next": null, "self": null, "previous": null}})
}

fn service_id(kind: &str) -> String {
    seeded("service", kind).simple().to_string()
}

/// `GET /`: where the services are, for people.
pub(crate) fn root(base: &str) -> Answer {
    let services: Vec<String> = Service::ALL.iter().map(|service| format!("{base}/{}", service.prefix())).collect();
    Answer { status: 200, headers: Vec::new(), body: Some(json!({"services": services})) }
}

/// The version document of the called service: a list at its root, one version below.
pub(crate) fn version(_: &mut World, call: &Call) -> Outcome {
    let service = call.service;
    let (id, path, microversions) = match service {
        Service::Keystone => ("v3.14", "v3", None),
        Service::Heat => ("v1.0", "v1", None),
        Service::Nova => ("v2.1", "v2.1", Some(("2.1", "2.96"))),
        Service::Neutron => ("v2.0", "v2.0", None),
        Service::Glance => ("v2.17", "v2", None),
        Service::Octavia => ("v2.27", "v2", None),
        Service::Cinder => ("v3.0", "v3", Some(("3.0", "3.71"))),
        Service::Barbican => ("v1", "v1", Some(("1.0", "1.1"))),
    };
    let status = match service {
        Service::Keystone | Service::Barbican => "stable",
        _ => "CURRENT",
    };
    let mut version = json!({
        "id": id,
        "status": status,
        "updated": "2025-01-01T00:00:00Z",
        "links": [{"rel": "self", "href": format!("{}/{}/{path}/", call.base, service.prefix())}],
        "media-types": [{"base": "application/json", "type": "application/json"}],
    });
    if let Some((min, max)) = microversions {
        version["min_version"] = json!(min);
        // Barbican says max_version, the others version.
        version[if service == Service::Barbican { "max_version" } else { "version" }] = json!(max);
    }
    if !call.path.is_empty() {
        return Answer::ok(json!({"version": version}));
    }
    let list = json!([version]);
    let body = match service {
        Service::Keystone | Service::Barbican => json!({"versions": {"values": list}}),
        _ => json!({"versions": list}),
    };
    let status = match service {
        Service::Nova | Service::Neutron | Service::Octavia => 200,
        _ => 300,
    };
    Answer::with(status, body)
}
