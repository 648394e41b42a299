//! Cluster templates as clients send and see them: one table of fields serves create, patch and answers.

use model::json::Labels;
use model::template::ClusterTemplate;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::labels::StoredMap;
use super::links::Links;
use super::page::Next;
use super::schema;
use super::schema::{Field, Kind, Presence, Schema};
use super::shape::{LINKS, MAYBE_COUNT, MAYBE_TEXT, MAYBE_TIME, NEXT, Object, Property, Shape};
use super::time::Time;
use crate::error::ApiError;

const TEXT: Kind = Kind::Text { min: 1, max: 255 };

/// `POST /v1/clustertemplates` (rest-api.md 7.2): the fields in the order of upstream's answers.
pub static SCHEMA: Schema = Schema {
    argument: "cluster_template",
    fields: &[
        Field::optional("name", TEXT, "The template's name, any text; one is made up when it is left out."),
        Field::needed("coe", Kind::OneOf(&["kubernetes"]), "The container orchestration engine."),
        Field::needed("image_id", TEXT, "Glance image of the nodes, by name or id."),
        Field::optional("flavor_id", TEXT, "Flavor of the workers, by name or id."),
        Field::optional("master_flavor_id", TEXT, "Flavor of the masters, by name or id."),
        Field::optional("dns_nameserver", TEXT, "IPv4 address of a name server, or several separated by commas."),
        Field::optional("keypair_id", TEXT, "Nova key pair; looked up when a cluster is made."),
        Field::optional("external_network_id", TEXT, "The external network, by name or id."),
        Field::optional("fixed_network", TEXT, "An existing network for the nodes, by name or id."),
        Field::optional("fixed_subnet", TEXT, "An existing subnet for the nodes, by name or id."),
        Field::optional("network_driver", Kind::OneOf(&["flannel", "calico", "cilium"]), "The pod network, as far as the cloud allows it."),
        Field::optional("apiserver_port", Kind::Integer { min: 1024, max: 65_535 }, "Port of the Kubernetes API."),
        Field::optional("docker_volume_size", Kind::Integer { min: 1, max: i32::MAX }, "GB of the container volume of each node."),
        Field::optional("cluster_distro", TEXT, "The image's os_distro takes its place; a patch alone can say another."),
        Field::optional("http_proxy", TEXT, "Proxy of the nodes for http."),
        Field::optional("https_proxy", TEXT, "Proxy of the nodes for https."),
        Field::optional("no_proxy", TEXT, "Hosts that the nodes reach without proxy."),
        Field::optional("volume_driver", Kind::OneOf(&["cinder"]), "The volume driver."),
        Field::optional("registry_enabled", Kind::Boolean, "Whether clusters have a registry of their own."),
        Field::optional("labels", Kind::Labels, "Labels of clusters made from it."),
        Field::optional("tls_disabled", Kind::Boolean, "Whether the Kubernetes API goes without TLS."),
        Field::optional("public", Kind::Boolean, "Whether every project may use it; needs the policy clustertemplate:publish."),
        Field::optional("server_type", Kind::OneOf(&["vm", "bm"]), "Whether nodes are virtual or bare metal."),
        Field::optional("insecure_registry", TEXT, "A registry that the nodes trust without TLS."),
        Field::optional("docker_storage_driver", TEXT, "Storage driver of the container runtime."),
        Field::optional("master_lb_enabled", Kind::Boolean, "Whether a load balancer stands before the masters."),
        Field::optional("floating_ip_enabled", Kind::Boolean, "Whether nodes get floating IPs."),
        Field::optional("hidden", Kind::Boolean, "Whether it is left out of use by others; needs the policy clustertemplate:publish."),
        Field::optional("tags", Kind::Text { min: 0, max: 255 }, "Tags, separated by commas."),
        Field::optional("driver", TEXT, "The driver of its clusters, by name."),
        Field::optional("uuid", Kind::Uuid, "The uuid that the template shall have."),
        Field::read_only("project_id"),
        Field::read_only("user_id"),
        Field::read_only("links"),
        Field::read_only("created_at"),
        Field::read_only("updated_at"),
    ],
};

/// One template.
pub static TEMPLATE: Object = Object {
    name: "ClusterTemplate",
    properties: &[
        Property::always("uuid", Shape::Uuid, "The template's uuid."),
        Property::always("name", MAYBE_TEXT, ""),
        Property::always("coe", MAYBE_TEXT, ""),
        Property::always("image_id", MAYBE_TEXT, ""),
        Property::always("flavor_id", MAYBE_TEXT, ""),
        Property::always("master_flavor_id", MAYBE_TEXT, ""),
        Property::always("dns_nameserver", MAYBE_TEXT, ""),
        Property::always("keypair_id", MAYBE_TEXT, ""),
        Property::always("external_network_id", MAYBE_TEXT, ""),
        Property::always("fixed_network", MAYBE_TEXT, ""),
        Property::always("fixed_subnet", MAYBE_TEXT, ""),
        Property::always("network_driver", MAYBE_TEXT, ""),
        Property::always("apiserver_port", MAYBE_COUNT, ""),
        Property::always("docker_volume_size", MAYBE_COUNT, ""),
        Property::always("cluster_distro", MAYBE_TEXT, "The image's os_distro, unless a patch said another."),
        Property::always("links", LINKS, "Where it is."),
        Property::always("http_proxy", MAYBE_TEXT, ""),
        Property::always("https_proxy", MAYBE_TEXT, ""),
        Property::always("no_proxy", MAYBE_TEXT, ""),
        Property::always("volume_driver", MAYBE_TEXT, ""),
        Property::always("registry_enabled", Shape::Boolean, ""),
        Property::always("labels", Shape::StringMap, ""),
        Property::always("tls_disabled", Shape::Boolean, ""),
        Property::always("public", Shape::Boolean, ""),
        Property::always("server_type", MAYBE_TEXT, ""),
        Property::always("insecure_registry", MAYBE_TEXT, ""),
        Property::always("docker_storage_driver", MAYBE_TEXT, ""),
        Property::always("master_lb_enabled", Shape::Boolean, ""),
        Property::always("floating_ip_enabled", Shape::Boolean, ""),
        Property::always("project_id", MAYBE_TEXT, "The owner."),
        Property::always("user_id", MAYBE_TEXT, "Who made it."),
        Property::always("hidden", Shape::Boolean, ""),
        Property::always("tags", MAYBE_TEXT, ""),
        Property::always("driver", MAYBE_TEXT, ""),
        Property::always("created_at", MAYBE_TIME, "When it was made."),
        Property::always("updated_at", MAYBE_TIME, "When it was changed last."),
    ],
    like: Some(&SCHEMA),
};

/// Either list of templates: both show all.
pub static PAGE: Object = Object {
    name: "ClusterTemplates",
    properties: &[Property::always("clustertemplates", Shape::List(&Shape::Object(&TEMPLATE)), "The templates."), NEXT],
    like: None,
};

/// The fields that a request sets, and a patch changes.
pub fn attributes() -> impl Iterator<Item = &'static Field> {
    SCHEMA.fields.iter().filter(|f| f.presence != Presence::ReadOnly && f.name != "uuid")
}

/// The place of a field in a row.
enum Slot<'a> {
    Text(&'a mut Option<String>),
    Integer(&'a mut Option<i32>),
    /// With the value that stands for null.
    Flag(&'a mut Option<bool>, bool),
    Labels(&'a mut Option<String>),
}

fn slot<'a>(row: &'a mut ClusterTemplate, field: &str) -> Option<Slot<'a>> {
    Some(match field {
        "name" => Slot::Text(&mut row.name),
        "coe" => Slot::Text(&mut row.coe),
        "image_id" => Slot::Text(&mut row.image_id),
        "flavor_id" => Slot::Text(&mut row.flavor_id),
        "master_flavor_id" => Slot::Text(&mut row.master_flavor_id),
        "dns_nameserver" => Slot::Text(&mut row.dns_nameserver),
        "keypair_id" => Slot::Text(&mut row.keypair_id),
        "external_network_id" => Slot::Text(&mut row.external_network_id),
        "fixed_network" => Slot::Text(&mut row.fixed_network),
        "fixed_subnet" => Slot::Text(&mut row.fixed_subnet),
        "network_driver" => Slot::Text(&mut row.network_driver),
        "cluster_distro" => Slot::Text(&mut row.cluster_distro),
        "http_proxy" => Slot::Text(&mut row.http_proxy),
        "https_proxy" => Slot::Text(&mut row.https_proxy),
        "no_proxy" => Slot::Text(&mut row.no_proxy),
        "volume_driver" => Slot::Text(&mut row.volume_driver),
        "server_type" => Slot::Text(&mut row.server_type),
        "insecure_registry" => Slot::Text(&mut row.insecure_registry),
        "docker_storage_driver" => Slot::Text(&mut row.docker_storage_driver),
        "tags" => Slot::Text(&mut row.tags),
        "driver" => Slot::Text(&mut row.driver),
        "apiserver_port" => Slot::Integer(&mut row.apiserver_port),
        "docker_volume_size" => Slot::Integer(&mut row.docker_volume_size),
        "registry_enabled" => Slot::Flag(&mut row.registry_enabled, false),
        "tls_disabled" => Slot::Flag(&mut row.tls_disabled, false),
        "public" => Slot::Flag(&mut row.public, false),
        "master_lb_enabled" => Slot::Flag(&mut row.master_lb_enabled, false),
        "floating_ip_enabled" => Slot::Flag(&mut row.floating_ip_enabled, true),
        "hidden" => Slot::Flag(&mut row.hidden, false),
        "labels" => Slot::Labels(&mut row.labels),
        _ => return None,
    })
}

fn unknown(field: &str) -> ApiError {
    ApiError::Invalid(format!("Unknown attribute {field}"))
}

/// Sets a field from a request, by its rule; null clears it (booleans: to their default).
pub fn assign(row: &mut ClusterTemplate, field: &str, value: &Value) -> Result<(), ApiError> {
    let rule = attributes().find(|f| f.name == field).ok_or_else(|| unknown(field))?;
    rule.check(value)?;
    match slot(row, field).ok_or_else(|| unknown(field))? {
        Slot::Text(place) => *place = value.as_str().map(str::to_owned),
        Slot::Integer(place) => *place = schema::number(value).and_then(|n| i32::try_from(n).ok()),
        Slot::Flag(place, default) => *place = Some(schema::flag(value).unwrap_or(default)),
        Slot::Labels(place) if value.is_null() => *place = Some(Labels::default().column()),
        Slot::Labels(place) => *place = Some(schema::labels(field, value)?.column()),
    }
    Ok(())
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
