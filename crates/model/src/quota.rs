//! The quota row, and what a project can have a quota of.

use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::schema::quotas;

/// What a project can have a quota of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Clusters, in whatever status. The only one that upstream knows.
    Cluster,
    /// Nodes that its clusters' groups want, control planes included: the number that `GET /v1/stats` shows. Ours.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    pub resource: Resource,
    pub count: i64,
    /// The limit of projects without a row of their own; none: no limit.
    pub default: Option<i64>,
}

/// What a project uses (`GET /v1/stats`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Clusters, in whatever status.
    pub clusters: i64,
    /// Nodes that their groups want, control planes included.
    pub nodes: i64,
}
