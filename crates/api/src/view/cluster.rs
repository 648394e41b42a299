//! Clusters as clients see them. Borrowed from the rows: a list of a thousand is written without copying them.

mod shown;

use std::borrow::Cow;

use model::cluster::status::Status;
use model::nodegroup::Nodegroup;
use model::store::beside::Group;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use self::shown::{Detail, Summary};
use super::labels::{StoredMap, stored_list};
use super::links::Links;
use super::page::Next;
use super::schema::{Field, Kind, Presence, Schema};
use super::shape::{LINKS, MAYBE_COUNT, MAYBE_TEXT, MAYBE_TIME, NEXT, Object, Property, Shape, TEXTS};
use super::time::Time;
use crate::microversion::{CLUSTER_ID, Microversion};

const NAME: Kind = Kind::Text { min: 1, max: 255 };
const WORD: Kind = Kind::Text { min: 0, max: 65_535 };

/// `POST /v1/clusters` (rest-api.md 5.3).
pub static CREATE: Schema = Schema {
    argument: "cluster",
    fields: &[
        Field {
            name: "cluster_template_id",
            kind: Kind::Text { min: 0, max: 255 },
            presence: Presence::Present,
            about: "The template: its uuid, its name, or its number.",
        },
        Field::optional("name", Kind::Name, "The cluster's name; one is made up when it is left out."),
        Field::optional("keypair", NAME, "The Nova key pair that opens the nodes; default the template's."),
        Field::optional("node_count", Kind::Integer { min: 0, max: i32::MAX }, "Workers; default 1. Zero needs microversion 1.10."),
        Field::optional("master_count", Kind::Integer { min: 1, max: i32::MAX }, "Masters, an odd number; default 1."),
        Field::optional("docker_volume_size", Kind::Integer { min: 1, max: i32::MAX }, "GB of the container volume of each node."),
        Field::optional("labels", Kind::Labels, "Labels; default the template's."),
        Field::optional("merge_labels", Kind::Boolean, "Whether the labels are laid over the template's instead of taking their place."),
        Field::optional("master_flavor_id", NAME, "Flavor of the masters, by name or id; default the template's."),
        Field::optional("flavor_id", NAME, "Flavor of the workers, by name or id; default the template's."),
        Field::optional("create_timeout", Kind::Integer { min: 0, max: i32::MAX }, "Minutes that the creation may take; default 60."),
        Field::optional("fixed_network", NAME, "An existing network for the nodes, by name or id."),
        Field::optional("fixed_subnet", NAME, "An existing subnet for the nodes, by name or id."),
        Field::optional("floating_ip_enabled", Kind::Boolean, "Whether nodes get floating IPs; default the template's."),
        Field::optional("master_lb_enabled", Kind::Boolean, "Whether a load balancer stands before the masters; default the template's."),
        Field::optional("discovery_url", Kind::Text { min: 0, max: 255 }, "Stored and shown; nothing is fetched from it."),
        Field::optional("uuid", Kind::Uuid, "Taken and not used."),
        Field::optional("status", Kind::OneOf(model::cluster::status::Status::WORDS), "Taken and not used."),
        Field::optional("status_reason", WORD, "Taken and not used."),
        Field::optional("health_status", Kind::OneOf(&["HEALTHY", "UNHEALTHY", "UNKNOWN"]), "Taken and not used: health is observed."),
        Field::optional("health_status_reason", Kind::Labels, "Taken and not used: health is observed."),
        Field::optional("faults", Kind::Labels, "Taken and not used."),
        Field::optional("labels_added", Kind::Labels, "Taken and not used."),
        Field::optional("labels_overridden", Kind::Labels, "Taken and not used."),
        Field::optional("labels_skipped", Kind::Labels, "Taken and not used."),
        Field::read_only("links"),
        Field::read_only("stack_id"),
        Field::read_only("cluster_id"),
        Field::read_only("api_address"),
        Field::read_only("coe_version"),
        Field::read_only("container_version"),
        Field::read_only("project_id"),
        Field::read_only("user_id"),
        Field::read_only("node_addresses"),
        Field::read_only("master_addresses"),
        Field::read_only("created_at"),
        Field::read_only("updated_at"),
    ],
};

/// `POST /v1/clusters/{cluster}/actions/resize` (rest-api.md 5.7).
pub static RESIZE: Schema = Schema {
    argument: "cluster_resize_req",
    fields: &[
        Field::needed("node_count", Kind::Integer { min: 0, max: i32::MAX }, "The group's new size. Zero needs microversion 1.10."),
        Field::optional("nodes_to_remove", Kind::Texts, "Nodes that go first: ids or names of servers, member numbers or addresses."),
        Field::optional("nodegroup", NAME, "The group: its uuid, name or number; default the default worker group."),
    ],
};

/// `POST /v1/clusters/{cluster}/actions/upgrade` (rest-api.md 5.8).
pub static UPGRADE: Schema = Schema {
    argument: "cluster_upgrade_req",
    fields: &[
        Field::optional("cluster_template", NAME, "The template to upgrade to, by uuid or name; it must be given."),
        Field::optional("max_batch_size", Kind::Integer { min: 1, max: i32::MAX }, "Nodes upgraded at once; default 1."),
        Field::optional("nodegroup", NAME, "The group: its uuid, name or number; default the default worker group."),
    ],
};

/// `POST /v1/clusters/{cluster}/actions/transfer` (ours).
pub static TRANSFER: Schema = Schema {
    argument: "cluster_transfer_req",
    fields: &[Field::needed(
        "user_id",
        NAME,
        "The Keystone id of the user who is to have the cluster; he must have a role in its project.",
    )],
};

/// Rules of the fields that a patch may change; of every other field only the present value is taken (P-08).
pub static PATCH: Schema = Schema {
    argument: "patch",
    fields: &[
        Field::optional("node_count", Kind::Integer { min: 0, max: i32::MAX }, "Size of the default worker group."),
        Field::optional("health_status", Kind::OneOf(&["HEALTHY", "UNHEALTHY", "UNKNOWN"]), "Health, as an agent in the cluster sees it."),
        Field::optional("health_status_reason", Kind::Labels, "What the health is made of."),
    ],
};

/// What the plain list shows of a cluster, and a word for the rest (rest-api.md 5.2).
macro_rules! cluster_properties {
    ($stack:expr; $($more:expr),* $(,)?) => {
        &[
            Property::always("uuid", Shape::Uuid, "The cluster's uuid."),
            Property::always("name", MAYBE_TEXT, "The cluster's name."),
            Property::always("cluster_template_id", MAYBE_TEXT, "The uuid of its template."),
            Property::always("keypair", MAYBE_TEXT, "The Nova key pair that opens the nodes."),
            Property::always("node_count", Shape::Integer(0), "Workers, over all nodegroups."),
            Property::always("master_count", Shape::Integer(0), "Masters."),
            Property::always("docker_volume_size", MAYBE_COUNT, ""),
            Property::always("labels", Shape::StringMap, "The labels in force."),
            Property::always("master_flavor_id", MAYBE_TEXT, "Flavor of the masters, as it was given."),
            Property::always("flavor_id", MAYBE_TEXT, "Flavor of the workers, as it was given."),
            Property::always("create_timeout", Shape::Nullable(&Shape::Integer(i64::MIN)), "Minutes that the creation may take."),
            Property::always("links", LINKS, "Where it is."),
            $stack,
            Property::since(CLUSTER_ID, "cluster_id", MAYBE_TEXT, "What the driver made: the Heat stack's id."),
            Property::always("status", STATUS, "What happens to it, or happened last."),
            Property::always("health_status", MAYBE_TEXT, "HEALTHY, UNHEALTHY, UNKNOWN, or null before it was looked at."),
            Property::always("merge_labels", Shape::Boolean, "Always false."),
            $($more),*
        ]
    };
}

macro_rules! detailed_cluster {
    ($stack:expr; $($more:expr),* $(,)?) => {
        cluster_properties![
            $stack;
            Property::always("status_reason", MAYBE_TEXT, "Why the status is what it is."),
            Property::always("health_status_reason", Shape::StringMap, "What was seen of its health, part by part."),
            Property::always("discovery_url", MAYBE_TEXT, ""),
            Property::always("api_address", MAYBE_TEXT, "Address of the Kubernetes API."),
            Property::always("coe_version", MAYBE_TEXT, "Version of Kubernetes."),
            Property::always("container_version", MAYBE_TEXT, "Version of the container runtime."),
            Property::always("project_id", MAYBE_TEXT, "The owner."),
            Property::always("user_id", MAYBE_TEXT, "Who made it."),
            Property::always("node_addresses", TEXTS, "Addresses of the workers."),
            Property::always("master_addresses", TEXTS, "Addresses of the masters."),
            Property::always("fixed_network", MAYBE_TEXT, ""),
            Property::always("fixed_subnet", MAYBE_TEXT, ""),
            Property::always("floating_ip_enabled", Shape::Boolean, ""),
            Property::always("master_lb_enabled", Shape::Boolean, ""),
            Property::always("labels_overridden", Shape::StringMap, "Labels of another value than the template's, which is shown."),
            Property::always("labels_added", Shape::StringMap, "Labels that the template has not."),
            Property::always("labels_skipped", Shape::StringMap, "Labels that only the template has."),
            Property::always("created_at", MAYBE_TIME, "When it was made."),
            Property::always("updated_at", MAYBE_TIME, "When it was changed last."),
            $($more),*
        ]
    };
}

/// A status word of a cluster or nodegroup; rows of long ago may have none.
pub const STATUS: Shape = Shape::Nullable(&Shape::OneOf(model::cluster::status::Status::WORDS));

/// In lists.
const STACK: Property = Property::before(CLUSTER_ID, "stack_id", MAYBE_TEXT, "What the driver made: the Heat stack's id.");

/// Agents inside a cluster ask for the newest microversion, whatever it is, and for the stack by the name that it had when they were written
/// (magnum-auto-healer of cloud-provider-openstack).
const STACK_OF_ONE: Property = Property::always_before(
    CLUSTER_ID,
    "stack_id",
    MAYBE_TEXT,
    "What the driver made: the Heat stack's id. From 1.13 on, who asks through the cluster's own trust alone is shown it.",
);

static SHORT: Object = Object { name: "ClusterSummary", properties: cluster_properties![STACK;], like: Some(&CREATE) };
static DETAIL: Object = Object { name: "ClusterDetail", properties: detailed_cluster![STACK;], like: Some(&CREATE) };

/// One cluster, alone.
pub static CLUSTER: Object = Object {
    name: "Cluster",
    properties: detailed_cluster![
        STACK_OF_ONE;
        Property::sometimes("faults", Shape::StringMap, "Why nodegroups failed, by name; only while the status is a failed one.")
    ],
    like: Some(&CREATE),
};

/// The plain list.
pub static PAGE: Object = Object {
    name: "Clusters",
    properties: &[Property::always("clusters", Shape::List(&Shape::Object(&SHORT)), "The clusters."), NEXT],
    like: None,
};

/// The detail list.
pub static DETAIL_PAGE: Object = Object {
    name: "ClustersDetail",
    properties: &[Property::always("clusters", Shape::List(&Shape::Object(&DETAIL)), "The clusters."), NEXT],
    like: None,
};

/// What the groups of a cluster come to.
#[derive(Default)]
pub struct Nodes<'a> {
    masters: i32,
    workers: i32,
    master_addresses: Vec<Cow<'a, str>>,
    worker_addresses: Vec<Cow<'a, str>>,
}

/// Every group that is none of masters is one of workers (upstream's rule).
impl<'a> FromIterator<Group<'a>> for Nodes<'a> {
    fn from_iter<I: IntoIterator<Item = Group<'a>>>(groups: I) -> Self {
        let mut found = Self::default();
        for group in groups {
            let (nodes, all) = match group.is_master {
                true => (&mut found.masters, &mut found.master_addresses),
                false => (&mut found.workers, &mut found.worker_addresses),
            };
            *nodes = nodes.saturating_add(group.node_count);
            all.extend(stored_list(Some(group.addresses)));
        }
        found
    }
}

/// One cluster of the plain list.
pub struct SummaryView<'a> {
    pub row: Summary<'a>,
    pub nodes: Nodes<'a>,
    pub base: &'a str,
    pub version: Microversion,
}

impl Summary<'_> {
    fn write<M: SerializeMap>(
        &self,
        map: &mut M,
        labels: &StoredMap<'_>,
        (nodes, base, version): (&Nodes<'_>, &str, Microversion),
    ) -> Result<(), M::Error> {
        map.serialize_entry("uuid", self.uuid)?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("cluster_template_id", &self.cluster_template_id)?;
        map.serialize_entry("keypair", &self.keypair)?;
        map.serialize_entry("node_count", &nodes.workers)?;
        map.serialize_entry("master_count", &nodes.masters)?;
        map.serialize_entry("docker_volume_size", &self.docker_volume_size)?;
        map.serialize_entry("labels", labels)?;
        map.serialize_entry("master_flavor_id", &self.master_flavor_id)?;
        map.serialize_entry("flavor_id", &self.flavor_id)?;
        map.serialize_entry("create_timeout", &self.create_timeout)?;
        map.serialize_entry("links", &Links { base, collection: "clusters", id: self.uuid })?;
        map.serialize_entry(if version >= CLUSTER_ID { "cluster_id" } else { "stack_id" }, &self.stack_id)?;
        map.serialize_entry("status", &self.status)?;
        map.serialize_entry("health_status", &self.health_status)?;
        map.serialize_entry("merge_labels", &false)
    }
}

impl Serialize for SummaryView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let Self { row, nodes, base, version } = self;
        row.write(&mut map, &StoredMap::read(row.labels), (nodes, base, *version))?;
        map.end()
    }
}

/// One cluster in detail.
pub struct ClusterView<'a> {
    pub row: Detail<'a>,
    pub nodes: Nodes<'a>,
    /// The template's labels, for the differences; read once for all that were made from it.
    pub template_labels: &'a StoredMap<'a>,
    /// The groups whose failures are shown; none in a list.
    pub faults: Option<&'a [Nodegroup]>,
    /// Whether an agent inside the cluster asks, to whom the stack is `stack_id` also where it is `cluster_id`.
    pub through_own_trust: bool,
    pub base: &'a str,
    pub version: Microversion,
}

struct Faults<'a>(&'a [Nodegroup]);

impl Serialize for Faults<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let failed = self.0.iter().filter(|g| g.status.as_deref().is_some_and(|s| s.ends_with("FAILED")));
        serializer.collect_map(failed.map(|g| (&g.name, g.status_reason.as_deref().unwrap_or_default())))
    }
}

impl Serialize for ClusterView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { row, nodes, template_labels, faults, through_own_trust, base, version } = self;
        let labels = StoredMap::read(row.summary.labels);
        let differences = labels.against(template_labels);
        let mut map = serializer.serialize_map(None)?;
        row.summary.write(&mut map, &labels, (nodes, base, *version))?;
        map.serialize_entry("status_reason", &row.status_reason)?;
        map.serialize_entry("health_status_reason", &StoredMap::read(row.health_status_reason))?;
        map.serialize_entry("discovery_url", &row.discovery_url)?;
        map.serialize_entry("api_address", &row.api_address)?;
        map.serialize_entry("coe_version", &row.coe_version)?;
        map.serialize_entry("container_version", &row.container_version)?;
        map.serialize_entry("project_id", &row.project_id)?;
        map.serialize_entry("user_id", &row.user_id)?;
        map.serialize_entry("node_addresses", &nodes.worker_addresses)?;
        map.serialize_entry("master_addresses", &nodes.master_addresses)?;
        map.serialize_entry("fixed_network", &row.fixed_network)?;
        map.serialize_entry("fixed_subnet", &row.fixed_subnet)?;
        // NULL reads as true and as false (upstream's rules).
        map.serialize_entry("floating_ip_enabled", &row.floating_ip_enabled.unwrap_or(true))?;
        map.serialize_entry("master_lb_enabled", &row.master_lb_enabled.unwrap_or(false))?;
        map.serialize_entry("labels_overridden", &differences.overridden)?;
        map.serialize_entry("labels_added", &differences.added)?;
        map.serialize_entry("labels_skipped", &differences.skipped)?;
        map.serialize_entry("created_at", &Time::of(row.created_at))?;
        map.serialize_entry("updated_at", &Time::of(row.updated_at))?;
        if let Some(groups) = faults
            && row.summary.status.and_then(Status::parse).is_some_and(Status::is_failed)
        {
            map.serialize_entry("faults", &Faults(groups))?;
        }
        if *through_own_trust && *version >= CLUSTER_ID {
            map.serialize_entry("stack_id", &row.summary.stack_id)?;
        }
        map.end()
    }
}

/// A page of clusters.
#[derive(Serialize)]
pub struct ClusterPage<'a, T> {
    pub clusters: T,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Next<'a>>,
}

/// Rows, and how each is seen. The views are made one after the other as they are written, so that no page of them is kept beside the rows.
pub struct Each<'a, R, F> {
    rows: &'a [R],
    view: F,
}

impl<'a, R, V, F: Fn(&'a R) -> V> Each<'a, R, F> {
    /// Of these rows.
    pub fn of(rows: &'a [R], view: F) -> Self {
        Self { rows, view }
    }
}

impl<'a, R, V: Serialize, F: Fn(&'a R) -> V> Serialize for Each<'a, R, F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.rows.iter().map(&self.view))
    }
}
