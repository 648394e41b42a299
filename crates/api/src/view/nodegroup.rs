//! Nodegroups as clients send and see them (rest-api.md 6).

use model::nodegroup::{Nodegroup, Nodes};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::cluster::STATUS;
use super::labels::StoredMap;
use super::page::Next;
use super::schema::{Field, Kind, Schema};
use super::shape::{LINKS, MAYBE_COUNT, MAYBE_TEXT, MAYBE_TIME, NEXT, Object, Property, Shape, TEXTS};
use super::time::Time;

const NAME: Kind = Kind::Text { min: 1, max: 255 };
const WORD: Kind = Kind::Text { min: 0, max: 65_535 };
const COUNT: Kind = Kind::Integer { min: 0, max: i32::MAX };

/// `POST /v1/clusters/{cluster}/nodegroups` (rest-api.md 6.3).
pub static CREATE: Schema = Schema {
    argument: "nodegroup",
    fields: &[
        Field::optional("name", NAME, "The group's name, unused in its cluster; it must be given."),
        Field::optional("flavor_id", NAME, "Flavor of its nodes, by name or id; default the cluster's."),
        Field::optional("image_id", NAME, "Image of its nodes, by name or id; default the template's."),
        Field::optional("node_count", COUNT, "Nodes; default 1."),
        Field::optional("min_node_count", COUNT, "Fewest nodes that a resize may ask for; default 0."),
        Field::optional("max_node_count", COUNT, "Most nodes that a resize may ask for; 0 and null mean no bound."),
        Field::optional("role", NAME, "Any word but master; default worker."),
        Field::optional("docker_volume_size", Kind::Integer { min: 1, max: i32::MAX }, "GB of the container volume of each node."),
        Field::optional("labels", Kind::Labels, "Labels; default the cluster's, an empty object means none."),
        Field::optional("merge_labels", Kind::Boolean, "Whether the labels are laid over the cluster's instead of taking their place."),
        Field::optional("node_labels", Kind::StringMap, "Kubernetes labels of its nodes."),
        Field::optional("node_taints", Kind::StringMaps, "Kubernetes taints of its nodes: key, value, effect."),
        Field::optional("uuid", Kind::Uuid, "Taken and not used."),
        Field::optional("cluster_id", Kind::Uuid, "Taken and not used."),
        Field::optional("status", Kind::OneOf(model::cluster::status::Status::WORDS), "Taken and not used."),
        Field::optional("is_default", Kind::Boolean, "Taken and not used."),
        Field::optional("version", WORD, "Taken and not used."),
        Field::optional("status_reason", WORD, "Taken and not used."),
        Field::optional("id", Kind::Integer { min: 1, max: i32::MAX }, "Taken and not used."),
        Field::optional("labels_added", Kind::Labels, "Taken and not used."),
        Field::optional("labels_overridden", Kind::Labels, "Taken and not used."),
        Field::optional("labels_skipped", Kind::Labels, "Taken and not used."),
        Field::read_only("project_id"),
        Field::read_only("links"),
        Field::read_only("node_addresses"),
        Field::read_only("stack_id"),
        Field::read_only("created_at"),
        Field::read_only("updated_at"),
    ],
};

/// Rules of the fields that a patch may change (N-19 bans the rest).
pub static PATCH: Schema = Schema {
    argument: "patch",
    fields: &[
        Field::optional("min_node_count", COUNT, "Fewest nodes that a resize may ask for."),
        Field::optional("max_node_count", COUNT, "Most nodes that a resize may ask for."),
        Field::optional("node_labels", Kind::StringMap, "Kubernetes labels of its nodes."),
        Field::optional("node_taints", Kind::StringMaps, "Kubernetes taints of its nodes."),
    ],
};

static TAINT: Object = Object {
    name: "Taint",
    properties: &[
        Property::always("key", Shape::Text, "The taint's key."),
        Property::sometimes("value", Shape::Text, "The taint's value."),
        Property::always("effect", Shape::Text, "NoSchedule, PreferNoSchedule or NoExecute."),
    ],
    like: None,
};

/// What the list shows of a group.
macro_rules! group_properties {
    ($($more:expr),* $(,)?) => {
        &[
            Property::always("uuid", Shape::Uuid, "The group's uuid."),
            Property::always("name", MAYBE_TEXT, "The group's name."),
            Property::always("flavor_id", MAYBE_TEXT, "Flavor of its nodes, as it was given."),
            Property::always("image_id", MAYBE_TEXT, "Image of its nodes, as it was given."),
            Property::always("node_count", Shape::Integer(0), "Nodes."),
            Property::always("role", MAYBE_TEXT, "master, or any other word for workers."),
            Property::always("min_node_count", Shape::Integer(0), "Fewest nodes; lists always show 0."),
            Property::always("max_node_count", MAYBE_COUNT, "Most nodes; lists always show null."),
            Property::always("is_default", Shape::Boolean, "Whether every cluster has it."),
            Property::always("stack_id", MAYBE_TEXT, "What the driver made: the Heat stack's id."),
            Property::always("status", STATUS, "What happens to it, or happened last."),
            Property::always("merge_labels", Shape::Boolean, "Always false."),
            $($more),*
        ]
    };
}

static SHORT: Object = Object { name: "NodegroupSummary", properties: group_properties![], like: Some(&CREATE) };

/// One group, alone.
pub static NODEGROUP: Object = Object {
    name: "Nodegroup",
    properties: group_properties![
        Property::always("id", Shape::Integer(0), "Its number."),
        Property::always("cluster_id", MAYBE_TEXT, "The uuid of its cluster."),
        Property::always("project_id", MAYBE_TEXT, "The owner."),
        Property::always("docker_volume_size", MAYBE_COUNT, "GB of the container volume of each node."),
        Property::always("labels", Shape::StringMap, "The labels in force."),
        Property::always("labels_overridden", Shape::StringMap, "Labels of another value than the cluster's, which is shown."),
        Property::always("labels_added", Shape::StringMap, "Labels that the cluster has not."),
        Property::always("labels_skipped", Shape::StringMap, "Labels that only the cluster has."),
        Property::always("links", LINKS, "Where it is."),
        Property::always("node_addresses", TEXTS, "Addresses of its nodes."),
        Property::always("status_reason", MAYBE_TEXT, "Why the status is what it is."),
        Property::always("version", MAYBE_TEXT, "Version of Kubernetes, where it is its own."),
        Property::always("node_labels", Shape::StringMap, "Kubernetes labels of its nodes."),
        Property::always("node_taints", Shape::List(&Shape::Object(&TAINT)), "Kubernetes taints of its nodes."),
        Property::always("created_at", MAYBE_TIME, "When it was made."),
        Property::always("updated_at", MAYBE_TIME, "When it was changed last."),
    ],
    like: Some(&CREATE),
};

/// The list.
pub static PAGE: Object = Object {
    name: "Nodegroups",
    properties: &[Property::always("nodegroups", Shape::List(&Shape::Object(&SHORT)), "The groups."), NEXT],
    like: None,
};

/// One nodegroup, in full.
pub struct NodegroupView<'a> {
    pub row: &'a Nodegroup,
    /// What upstream's table has no column for.
    pub nodes: &'a Nodes,
    /// The cluster's labels, for the differences.
    pub cluster_labels: Option<&'a str>,
    pub base: &'a str,
}

impl Serialize for NodegroupView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let row = self.row;
        let labels = StoredMap::read(row.labels.as_deref());
        let origin = StoredMap::read(self.cluster_labels);
        let differences = labels.against(&origin);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &row.id)?;
        map.serialize_entry("uuid", &row.uuid)?;
        map.serialize_entry("name", &row.name)?;
        map.serialize_entry("cluster_id", &row.cluster_id)?;
        map.serialize_entry("project_id", &row.project_id)?;
        map.serialize_entry("docker_volume_size", &row.docker_volume_size)?;
        map.serialize_entry("labels", &labels)?;
        map.serialize_entry("labels_overridden", &differences.overridden)?;
        map.serialize_entry("labels_added", &differences.added)?;
        map.serialize_entry("labels_skipped", &differences.skipped)?;
        map.serialize_entry("links", &GroupLinks { base: self.base, cluster: &row.cluster_id, id: &row.uuid })?;
        map.serialize_entry("flavor_id", &row.flavor_id)?;
        map.serialize_entry("image_id", &row.image_id)?;
        map.serialize_entry("node_addresses", &row.addresses())?;
        map.serialize_entry("node_count", &row.node_count())?;
        map.serialize_entry("role", &row.role)?;
        map.serialize_entry("max_node_count", &row.max_node_count)?;
        map.serialize_entry("min_node_count", &row.min_node_count.unwrap_or(0))?;
        map.serialize_entry("is_default", &row.is_default.unwrap_or(false))?;
        map.serialize_entry("stack_id", &row.stack_id)?;
        map.serialize_entry("status", &row.status)?;
        map.serialize_entry("status_reason", &row.status_reason)?;
        map.serialize_entry("version", &row.version)?;
        map.serialize_entry("merge_labels", &false)?;
        map.serialize_entry("node_labels", &self.nodes.labels)?;
        map.serialize_entry("node_taints", &self.nodes.taints)?;
        map.serialize_entry("created_at", &Time::of(row.created_at))?;
        map.serialize_entry("updated_at", &Time::of(row.updated_at))?;
        map.end()
    }
}

struct GroupLinks<'a> {
    base: &'a str,
    cluster: &'a str,
    id: &'a str,
}

impl Serialize for GroupLinks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let collection = format!("clusters/{}/nodegroups", self.cluster);
        super::links::Links { base: self.base, collection: &collection, id: self.id }.serialize(serializer)
    }
}

/// One nodegroup of a list.
pub struct ShortNodegroup<'a>(pub &'a Nodegroup);

impl Serialize for ShortNodegroup<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let row = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("uuid", &row.uuid)?;
        map.serialize_entry("name", &row.name)?;
        map.serialize_entry("flavor_id", &row.flavor_id)?;
        map.serialize_entry("image_id", &row.image_id)?;
        map.serialize_entry("node_count", &row.node_count())?;
        map.serialize_entry("role", &row.role)?;
        // Upstream's lists show the defaults here, whatever the values are; clients read the bounds of a single group.
        map.serialize_entry("min_node_count", &0)?;
        map.serialize_entry("max_node_count", &None::<i32>)?;
        map.serialize_entry("is_default", &row.is_default.unwrap_or(false))?;
        map.serialize_entry("stack_id", &row.stack_id)?;
        map.serialize_entry("status", &row.status)?;
        map.serialize_entry("merge_labels", &false)?;
        map.end()
    }
}

/// A page of nodegroups.
#[derive(Serialize)]
pub struct NodegroupPage<'a> {
    pub nodegroups: Vec<ShortNodegroup<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Next<'a>>,
}
