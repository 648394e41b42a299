//! The users' own book of what was accepted, and what each request promised.

use model::cluster::status::Concerns;
use model::id::{ClusterId, NodegroupId, OperationId, ProjectId};
use model::json::Labels;
use model::nodegroup::{DEFAULT_WORKER, Nodegroup};
use model::operation::{OperationKind, Payload};
use model::quota::Resource;
use model::store::{Conn, Store, StoreError, quota};

use crate::releases::Release;

/// What an accepted request promises.
#[derive(Clone, Debug)]
pub struct Promise {
    pub kind: OperationKind,
    /// The group that it is about; none: the default workers, or the cluster as a whole.
    pub group: Option<NodegroupId>,
    /// How many nodes the group has once the operation has succeeded.
    pub size: Option<i32>,
    /// What the cluster is made from, or is brought to by the operation's success.
    pub release: Option<Release>,
    /// What is so from the acceptance on, whatever becomes of the operation.
    pub at_once: Option<AtOnce>,
}

/// Bounds of a group, and the labels of its nodes to come.
#[derive(Clone, Debug)]
pub struct AtOnce {
    pub most: i32,
    pub node_labels: Labels,
}

impl Promise {
    /// What an operation of this kind with this payload promises of sizes.
    pub fn of(kind: OperationKind, payload: &Payload) -> Self {
        Self { kind, group: payload.nodegroup.clone(), size: payload.node_count, release: None, at_once: None }
    }

    /// Whether it is about this group, alone or with its whole cluster while that is made.
    pub fn is_about(&self, group: &Nodegroup) -> bool {
        match (self.kind, self.kind.concerns(), &self.group) {
            (OperationKind::ClusterCreate, ..) | (_, Concerns::OneGroup, None) => group.name == DEFAULT_WORKER,
            (_, Concerns::OneGroup, Some(id)) => group.uuid == id.as_str(),
            (_, Concerns::AllGroups | Concerns::NoGroup, _) => false,
        }
    }
}

/// One accepted request.
#[derive(Clone, Debug)]
pub struct Entry {
    pub cluster: ClusterId,
    pub operation: OperationId,
    pub promise: Promise,
}

/// All of them, in order of acceptance, and what the project is allowed.
pub struct Book {
    pub project: ProjectId,
    /// The project's quotas of clusters and of nodes.
    pub limits: [(Resource, i32); 2],
    entries: Vec<Entry>,
}

impl Book {
    /// An empty one, of a project that is given these quotas.
    ///
    /// # Errors
    /// When the store does not take them.
    pub async fn open(store: &Store, project: ProjectId, limits: [(Resource, i32); 2]) -> Result<Self, StoreError> {
        for (resource, limit) in limits {
            let id = project.0.as_str();
            store.write(async |conn: &mut Conn| quota::insert(conn, id, resource, limit).await).await?;
        }
        Ok(Self { project, limits, entries: Vec::new() })
    }

    /// Writes an accepted request down.
    pub fn note(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    /// What was accepted about a cluster.
    pub fn of<'a>(&'a self, cluster: &'a ClusterId) -> impl Iterator<Item = &'a Entry> {
        self.entries.iter().filter(move |entry| entry.cluster == *cluster)
    }
}
