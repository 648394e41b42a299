//! The quota row, and what a project can have a quota of.

use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::id::NodegroupId;
use crate::schema::quotas;

/// What a project can have a quota of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Clusters, in whatever status. The only one that upstream knows.
    Cluster,
    /// Nodes of its clusters' groups, control planes included: those that their rows want, which is the number that `GET /v1/stats` shows,
    /// and those beyond that groups have, or may come to have, by operations that are unfinished: a group that shrinks has its nodes until it
    /// has shrunk. Ours.
    Node,
}

impl Resource {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Cluster, Self::Node];

    /// The word of paths, bodies and rows.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::Node => "Node",
        }
    }

    /// The resource of exactly this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|r| r.as_str() == word)
    }
}

/// A row of upstream's `quotas` table, as stored.
#[derive(Clone, Debug, Queryable, Selectable)]
#[diesel(table_name = quotas)]
pub struct Quota {
    pub id: i32,
    pub created_at: Option<NaiveDateTime>,
    pub updated_at: Option<NaiveDateTime>,
    pub project_id: Option<String>,
    pub resource: Option<String>,
    pub hard_limit: i32,
}

impl Quota {
    /// Whether it is the quota of this project and resource to the letter: MariaDB compares without regard to case.
    pub fn is_of(&self, project: &str, resource: Resource) -> bool {
        self.project_id.as_deref() == Some(project) && self.resource.as_deref() == Some(resource.as_str())
    }
}

/// So many more of a resource. None or less than none is always granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    pub resource: Resource,
    /// How many more than the rows say.
    pub count: i64,
    /// The limit of projects without a row of their own; none: no limit.
    pub default: Option<i64>,
    /// The group that the nodes are for, if there is one already: what counts of it beyond its row is not counted again.
    pub group: Option<NodegroupId>,
}

/// What a project uses (`GET /v1/stats`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Clusters, in whatever status.
    pub clusters: i64,
    /// Nodes that their groups want by their rows, control planes included.
    pub nodes: i64,
}
