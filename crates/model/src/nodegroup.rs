//! The nodegroup row.

use chrono::NaiveDateTime;
use diesel::prelude::*;
use serde::{Deserialize, Serialize};

use crate::cluster::status::Status;
use crate::id::{ClusterId, NodegroupId, ProjectId};
use crate::json::{Labels, read_list};
use crate::schema::nodegroup;

/// The role of control plane groups; any other role counts as worker.
pub const MASTER: &str = "master";
/// The role of the default worker group.
pub const WORKER: &str = "worker";
/// The name of the control plane group that every cluster has.
pub const DEFAULT_MASTER: &str = "default-master";
/// The name of the worker group that every cluster has.
pub const DEFAULT_WORKER: &str = "default-worker";

/// Wanted nodes of a group whose row does not say how many (upstream's rule).
pub const UNSAID_COUNT: i32 = 1;

/// A row of upstream's `nodegroup` table, as stored.
#[derive(Clone, Debug, Default, Queryable, Selectable)]
#[diesel(table_name = nodegroup)]
pub struct Nodegroup {
    pub created_at: Option<NaiveDateTime>,
    pub updated_at: Option<NaiveDateTime>,
    pub id: i32,
    pub uuid: String,
    pub name: String,
    pub cluster_id: String,
    pub project_id: String,
    pub docker_volume_size: Option<i32>,
    pub labels: Option<String>,
    pub flavor_id: Option<String>,
    pub image_id: Option<String>,
    pub node_addresses: Option<String>,
    pub node_count: Option<i32>,
    pub max_node_count: Option<i32>,
    pub min_node_count: Option<i32>,
    pub role: Option<String>,
    pub is_default: Option<bool>,
    pub stack_id: Option<String>,
    pub status: Option<String>,
    pub status_reason: Option<String>,
    pub version: Option<String>,
}

impl Nodegroup {
    /// The public id.
    pub fn nodegroup_id(&self) -> NodegroupId {
        NodegroupId::new(self.uuid.clone())
    }

    /// The status, or none when the column holds no word of the enumeration.
    pub fn status(&self) -> Option<Status> {
        self.status.as_deref().and_then(Status::parse)
    }

    /// Whether it is one of the two groups that every cluster has.
    pub fn is_default(&self) -> bool {
        self.is_default == Some(true)
    }

    /// Whether it holds control plane nodes.
    pub fn is_master(&self) -> bool {
        self.role.as_deref() == Some(MASTER)
    }

    /// Wanted nodes; NULL reads as [`UNSAID_COUNT`].
    pub fn node_count(&self) -> i32 {
        self.node_count.unwrap_or(UNSAID_COUNT)
    }

    /// Addresses of its nodes.
    pub fn addresses(&self) -> Vec<String> {
        read_list(self.node_addresses.as_deref())
    }

    /// The full effective labels.
    pub fn labels(&self) -> Labels {
        Labels::read(self.labels.as_deref())
    }
}

/// How the nodes of a group register with Kubernetes; kept in a table of ours, for upstream's has no room for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes {
    pub labels: Labels,
    pub taints: Vec<Taint>,
}

/// What a request changes of [`Nodes`], whose rest another request may have changed meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodesChange {
    /// All labels.
    pub labels: Option<Labels>,
    /// Labels one by one; without a value: taken away.
    pub single_labels: Vec<(String, Option<String>)>,
    /// All taints.
    pub taints: Option<Vec<Taint>>,
}

impl NodesChange {
    /// Changes what is kept.
    pub fn apply(&self, nodes: &mut Nodes) {
        if let Some(labels) = &self.labels {
            nodes.labels = labels.clone();
        }
        for (key, value) in &self.single_labels {
            match value {
                Some(value) => drop(nodes.labels.0.insert(key.clone(), value.clone())),
                None => drop(nodes.labels.0.shift_remove(key)),
            }
        }
        if let Some(taints) = &self.taints {
            nodes.taints = taints.clone();
        }
    }
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taint {
    pub key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// What the API hands to the store for a new group: checked values only.
#[derive(Clone, Debug)]
pub struct NewNodegroup {
    pub id: NodegroupId,
    pub cluster: ClusterId,
    pub project: ProjectId,
    pub name: String,
    pub role: String,
    pub flavor: Option<String>,
    pub image: Option<String>,
    pub node_count: i32,
    pub min_node_count: i32,
    /// None: no maximum.
    pub max_node_count: Option<i32>,
    pub docker_volume_size: Option<i32>,
    /// In full: what the group takes from its cluster is in there.
    pub labels: Labels,
    pub nodes: Nodes,
}

/// What is inserted for one of the two default groups of a new cluster.
#[derive(Clone, Debug)]
pub struct DefaultNodegroup {
    pub role: DefaultRole,
    pub node_count: i32,
    pub min_node_count: Option<i32>,
    pub max_node_count: Option<i32>,
    pub flavor: Option<String>,
    pub image: Option<String>,
    pub docker_volume_size: Option<i32>,
}

/// Which default group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultRole {
    Master,
    Worker,
}

impl DefaultRole {
    /// The group's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Master => DEFAULT_MASTER,
            Self::Worker => DEFAULT_WORKER,
        }
    }

    /// The group's role word.
    pub fn role(self) -> &'static str {
        match self {
            Self::Master => MASTER,
            Self::Worker => WORKER,
        }
    }
}

/// Columns that change after creation; an absent field leaves its column alone.
#[derive(Clone, Debug, Default, AsChangeset)]
#[diesel(table_name = nodegroup)]
pub struct NodegroupChange {
    pub status: Option<String>,
    pub image_id: Option<Option<String>>,
    /// As [`Labels::column`] writes them.
    pub labels: Option<Option<String>>,
    pub status_reason: Option<Option<String>>,
    pub stack_id: Option<Option<String>>,
    pub node_addresses: Option<String>,
    pub node_count: Option<i32>,
    pub min_node_count: Option<i32>,
    pub max_node_count: Option<Option<i32>>,
}

impl NodegroupChange {
    /// A change of status with its reason (none clears the reason).
    pub fn status(status: Status, reason: Option<String>) -> Self {
        Self { status: Some(status.as_str().into()), status_reason: Some(reason), ..Self::default() }
    }
}
