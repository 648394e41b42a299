//! Cluster templates as clients send and see them: one table of fields serves create, patch and answers.

use model::json::Labels;
use model::template::ClusterTemplate;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::labels::StoredMap;
use super::links::Links;
use super::page::Next;
use super::time::Time;
use super::{literal, schema};
use crate::error::ApiError;

/// Fields that a client may set, in the order of upstream's answers.
pub const FIELDS: &[&str] = &[
    "name",
    "coe",
    "image_id",
    "flavor_id",
    "master_flavor_id",
    "dns_nameserver",
    "keypair_id",
    "external_network_id",
    "fixed_network",
    "fixed_subnet",
    "network_driver",
    "apiserver_port",
    "docker_volume_size",
    "cluster_distro",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "volume_driver",
    "registry_enabled",
    "labels",
    "tls_disabled",
    "public",
    "server_type",
    "insecure_registry",
    "docker_storage_driver",
    "master_lb_enabled",
    "floating_ip_enabled",
    "hidden",
    "tags",
    "driver",
];

/// Fields that only answers have.
pub const READ_ONLY: &[&str] = &["project_id", "user_id", "links", "created_at", "updated_at"];

/// A field of a row, with its rule.
enum Slot<'a> {
    Text(&'a mut Option<String>, usize, usize),
    Integer(&'a mut Option<i32>, i32, i32),
    Flag(&'a mut Option<bool>, bool),
    Labels(&'a mut Option<String>),
}

fn slot<'a>(row: &'a mut ClusterTemplate, field: &str) -> Option<Slot<'a>> {
    let text = |s| Some(Slot::Text(s, 1, 255));
    match field {
        "name" => text(&mut row.name),
        "coe" => text(&mut row.coe),
        "image_id" => text(&mut row.image_id),
        "flavor_id" => text(&mut row.flavor_id),
        "master_flavor_id" => text(&mut row.master_flavor_id),
        "dns_nameserver" => text(&mut row.dns_nameserver),
        "keypair_id" => text(&mut row.keypair_id),
        "external_network_id" => text(&mut row.external_network_id),
        "fixed_network" => text(&mut row.fixed_network),
        "fixed_subnet" => text(&mut row.fixed_subnet),
        "network_driver" => text(&mut row.network_driver),
        "cluster_distro" => text(&mut row.cluster_distro),
        "http_proxy" => text(&mut row.http_proxy),
        "https_proxy" => text(&mut row.https_proxy),
        "no_proxy" => text(&mut row.no_proxy),
        "volume_driver" => text(&mut row.volume_driver),
        "server_type" => text(&mut row.server_type),
        "insecure_registry" => text(&mut row.insecure_registry),
        "docker_storage_driver" => text(&mut row.docker_storage_driver),
        "tags" => Some(Slot::Text(&mut row.tags, 0, 255)),
        "driver" => text(&mut row.driver),
        "apiserver_port" => Some(Slot::Integer(&mut row.apiserver_port, 1024, 65535)),
        "docker_volume_size" => Some(Slot::Integer(&mut row.docker_volume_size, 1, i32::MAX)),
        "registry_enabled" => Some(Slot::Flag(&mut row.registry_enabled, false)),
        "tls_disabled" => Some(Slot::Flag(&mut row.tls_disabled, false)),
        "public" => Some(Slot::Flag(&mut row.public, false)),
        "master_lb_enabled" => Some(Slot::Flag(&mut row.master_lb_enabled, false)),
        "floating_ip_enabled" => Some(Slot::Flag(&mut row.floating_ip_enabled, true)),
        "hidden" => Some(Slot::Flag(&mut row.hidden, false)),
        "labels" => Some(Slot::Labels(&mut row.labels)),
        _ => None,
    }
}

fn unknown(field: &str) -> ApiError {
    ApiError::Invalid(format!("Unknown attribute {field}"))
}

/// Sets a field from a request, by its rule; null clears it (booleans: to their default).
pub fn assign(row: &mut ClusterTemplate, field: &str, value: &Value) -> Result<(), ApiError> {
    match (slot(row, field).ok_or_else(|| unknown(field))?, value) {
        (Slot::Text(place, ..), Value::Null) => *place = None,
        (Slot::Integer(place, ..), Value::Null) => *place = None,
        (Slot::Flag(place, default), Value::Null) => *place = Some(default),
        (Slot::Labels(place), Value::Null) => *place = Some(Labels::default().column()),
        (Slot::Text(place, min, max), value) => *place = Some(schema::text(field, value, min, max)?),
        (Slot::Integer(place, min, max), value) => *place = Some(schema::integer(field, value, min, max)?),
        (Slot::Flag(place, _), value) => *place = Some(schema::boolean(field, value)?),
        // Patches carry maps as text.
        (Slot::Labels(place), Value::String(text)) => {
            let read = literal::parse(text).ok_or_else(|| schema::invalid(field, value, "It must be an object, or text that holds one"))?;
            let labels = if read.is_null() { Labels::default() } else { schema::labels(field, &read)? };
            *place = Some(labels.column());
        }
        (Slot::Labels(place), value) => *place = Some(schema::labels(field, value)?.column()),
    }
    Ok(())
}

/// Whether a field exists, and whether it has a value.
pub fn is_set(row: &mut ClusterTemplate, field: &str) -> Result<bool, ApiError> {
    Ok(match slot(row, field).ok_or_else(|| unknown(field))? {
        Slot::Text(place, ..) => place.is_some(),
        Slot::Integer(place, ..) => place.is_some(),
        Slot::Flag(place, _) => place.is_some(),
        Slot::Labels(place) => place.is_some(),
    })
}

/// A new template with every default.
pub fn empty(uuid: String, project: String, user: String) -> ClusterTemplate {
    ClusterTemplate {
        created_at: Some(model::time::whole_seconds(model::time::now())),
        updated_at: None,
        id: 0,
        uuid,
        name: None,
        flavor_id: None,
        keypair_id: None,
        image_id: None,
        external_network_id: None,
        dns_nameserver: None,
        apiserver_port: None,
        project_id: Some(project),
        user_id: Some(user),
        docker_volume_size: None,
        fixed_network: None,
        master_flavor_id: None,
        cluster_distro: None,
        coe: None,
        http_proxy: None,
        https_proxy: None,
        no_proxy: None,
        registry_enabled: Some(false),
        network_driver: None,
        labels: Some(Labels::default().column()),
        tls_disabled: Some(false),
        public: Some(false),
        server_type: Some("vm".into()),
        volume_driver: None,
        insecure_registry: None,
        docker_storage_driver: None,
        master_lb_enabled: Some(false),
        fixed_subnet: None,
        floating_ip_enabled: Some(true),
        hidden: Some(false),
        tags: None,
        driver: None,
    }
}

/// One template.
pub struct TemplateView<'a> {
    pub row: &'a ClusterTemplate,
    pub base: &'a str,
}

impl Serialize for TemplateView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let row = self.row;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("uuid", &row.uuid)?;
        map.serialize_entry("name", &row.name)?;
        map.serialize_entry("coe", &row.coe)?;
        map.serialize_entry("image_id", &row.image_id)?;
        map.serialize_entry("flavor_id", &row.flavor_id)?;
        map.serialize_entry("master_flavor_id", &row.master_flavor_id)?;
        map.serialize_entry("dns_nameserver", &row.dns_nameserver)?;
        map.serialize_entry("keypair_id", &row.keypair_id)?;
        map.serialize_entry("external_network_id", &row.external_network_id)?;
        map.serialize_entry("fixed_network", &row.fixed_network)?;
        map.serialize_entry("fixed_subnet", &row.fixed_subnet)?;
        map.serialize_entry("network_driver", &row.network_driver)?;
        map.serialize_entry("apiserver_port", &row.apiserver_port)?;
        map.serialize_entry("docker_volume_size", &row.docker_volume_size)?;
        map.serialize_entry("cluster_distro", &row.cluster_distro)?;
        map.serialize_entry("links", &Links { base: self.base, collection: "clustertemplates", id: &row.uuid })?;
        map.serialize_entry("http_proxy", &row.http_proxy)?;
        map.serialize_entry("https_proxy", &row.https_proxy)?;
        map.serialize_entry("no_proxy", &row.no_proxy)?;
        map.serialize_entry("volume_driver", &row.volume_driver)?;
        map.serialize_entry("registry_enabled", &row.registry_enabled.unwrap_or(false))?;
        map.serialize_entry("labels", &StoredMap::read(row.labels.as_deref()))?;
        map.serialize_entry("tls_disabled", &row.is_tls_disabled())?;
        map.serialize_entry("public", &row.is_public())?;
        map.serialize_entry("server_type", &row.server_type)?;
        map.serialize_entry("insecure_registry", &row.insecure_registry)?;
        map.serialize_entry("docker_storage_driver", &row.docker_storage_driver)?;
        map.serialize_entry("master_lb_enabled", &row.master_lb_enabled.unwrap_or(false))?;
        map.serialize_entry("floating_ip_enabled", &row.floating_ip_enabled.unwrap_or(true))?;
        map.serialize_entry("project_id", &row.project_id)?;
        map.serialize_entry("user_id", &row.user_id)?;
        map.serialize_entry("hidden", &row.is_hidden())?;
        map.serialize_entry("tags", &row.tags)?;
        map.serialize_entry("driver", &row.driver)?;
        map.serialize_entry("created_at", &Time::of(row.created_at))?;
        map.serialize_entry("updated_at", &Time::of(row.updated_at))?;
        map.end()
    }
}

/// A page of templates.
#[derive(Serialize)]
pub struct TemplatePage<'a> {
    pub clustertemplates: Vec<TemplateView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Next<'a>>,
}
