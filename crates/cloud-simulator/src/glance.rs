//! Glance: a few images, two of them of one name.

use serde_json::{Value, json};

use crate::{
    catalog,
    http::{Answer, Call, Outcome, Refusal, Route},
    state::{World, dashed_id, page, seeded},
};

/// Everything Glance knows.
pub(crate) struct Store {
    images: Vec<Value>,
}

impl Store {
    /// The seeded images, all public.
    pub(crate) fn seeded() -> Self {
        let images = [
            ("fedora-coreos", "fedora-coreos", Some("fedora-coreos")),
            ("flatcar", "flatcar", Some("flatcar")),
            ("ubuntu", "ubuntu", Some("ubuntu")),
            ("ubuntu-capi", "ubuntu-capi", Some("ubuntu")),
            ("ubuntu-capi-next", "ubuntu-capi-next", Some("ubuntu")),
            ("no-distro", "no-distro", None),
            ("twin", "twin-1", Some("fedora-coreos")),
            ("twin", "twin-2", Some("fedora-coreos")),
        ];
        Self { images: images.into_iter().map(|(name, key, distro)| image(name, key, distro)).collect() }
    }

    /// Another image as one of those that there are, by the name of that; Glance lists the newest first. Returns its id; none where there is none as it.
    pub(crate) fn add(&mut self, name: &str, like: &str) -> Option<String> {
        let mut new = self.images.iter().find(|image| image["name"] == like)?.clone();
        let id = dashed_id();
        new["id"] = json!(id);
        new["name"] = json!(name);
        self.images.insert(0, new);
        Some(id)
    }

    pub(crate) fn set_needs(&mut self, name: &str, disk: u64, memory: u64) {
        for image in self.named(name) {
            image["min_disk"] = json!(disk);
            image["min_ram"] = json!(memory);
        }
    }

    pub(crate) fn set_disk(&mut self, name: &str, size: u64) {
        for image in self.named(name) {
            image["virtual_size"] = json!(size);
        }
    }

    fn named(&mut self, name: &str) -> impl Iterator<Item = &mut Value> {
        self.images.iter_mut().filter(move |image| image["name"] == name)
    }
}

/// The calls Glance knows.
pub(crate) fn route(method: &str, path: &[&str]) -> Option<Route> {
    match (method, path) {
        ("GET", [] | ["versions"] | ["v2"]) => Route::open("glance.version_show", catalog::version),
        ("GET", ["v2", "images"]) => Route::new("glance.image_list", list),
        ("GET", ["v2", "images", _]) => Route::new("glance.image_show", show),
        _ => None,
    }
}

fn list(world: &mut World, call: &Call) -> Outcome {
    let images = world.glance.images.iter().filter(|image| {
        ["name", "id", "status", "visibility", "os_distro"]
            .iter()
            .all(|key| call.query(key).is_none_or(|asked| asked.split(',').any(|asked| image[*key] == asked.trim_start_matches("in:"))))
    });
    let images = page(call, images.cloned().collect(), |image| image["id"].as_str().unwrap_or_default());
    Answer::ok(json!({"images": images, "first": "/v2/images", "schema": "/v2/schemas/images"}))
}

fn show(world: &mut World, call: &Call) -> Outcome {
    let id = call.at(2);
    let image = world.glance.images.iter().find(|image| image["id"] == id);
    let image = image.ok_or_else(|| Refusal::not_found(format!("Failed to find image {id}")))?;
    Answer::ok(image.clone())
}

fn image(name: &str, key: &str, distro: Option<&str>) -> Value {
    let id = seeded("image", key).to_string();
    let mut image = json!({
        "id": id,
        "name": name,
        "status": "active",
        "visibility": "public",
        "protected": false,
        "os_hidden": false,
        "owner": seeded("project", "admin").simple().to_string(),
        "container_format": "bare",
        "disk_format": "qcow2",
        "size": 1_048_576,
        "virtual_size": null,
        "min_disk": 0,
        "min_ram": 0,
        "checksum": null,
        "tags": [],
        "created_at": "2025-01-01T00:00:00Z",
        "updated_at": "2025-01-01T00:00:00Z",
        "self": format!("/v2/images/{id}"),
        "file": format!("/v2/images/{id}/file"),
        "schema": "/v2/schemas/image",
    });
    if let Some(distro) = distro {
        image["os_distro"] = json!(distro);
    }
    // Images that were built for Cluster API say which Kubernetes they carry.
    if let Some(version) = match name {
        "ubuntu-capi" => Some("v1.33.4"),
        "ubuntu-capi-next" => Some("v1.34.1"),
        _ => None,
    } {
        image["kube_version"] = json!(version);
    }
    image
}
