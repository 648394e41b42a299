//! What users ask for, accepted by the store as the API has it accepted.

use std::time::Duration;

use model::cluster::{Cluster, CreateSpec};
use model::id::{ClusterId, NodegroupId, OperationId, ProjectId, UserId};
use model::json::Labels;
use model::labels::DELETE_VOLUMES;
use model::nodegroup::{DEFAULT_WORKER, DefaultNodegroup, DefaultRole, NewNodegroup, Nodegroup, NodegroupChange, Nodes, WORKER};
use model::operation::{EventDetails, NewOperation, Operation, OperationKind, Payload};
use model::quota::{Demand, Resource};
use model::random::range;
use model::seal::Sealer;
use model::store::{Conn, Scope, Store, StoreError, cluster, event, exit, lifecycle, nodegroup, nodes, operation, quota};

use crate::book::{AtOnce, Entry, Promise};
use crate::releases::{Release, VERSION_LABEL};

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Create,
    Resize,
    /// A patch of the cluster's size.
    Patch,
    AddGroup,
    ResizeGroup,
    /// A patch of a group's bounds and of the labels of its nodes to come, which changes nothing in the cloud.
    UpdateGroup,
    /// The same of the default workers.
    Relabel,
    RemoveGroup,
    RotateCredential,
    RotateAuthorities,
    /// To the latest version as a rule; else all nodes are replaced by ones of the version that is there.
    Upgrade,
    /// What is unfinished ends before its end.
    Cancel,
    /// What was accepted last ends before its end, as a rule before it has begun.
    CancelNewest,
    /// What failed last is done again.
    Retry,
    Delete,
    /// Whatever the cloud says.
    ForceDelete,
    /// Rows and credentials go, stacks stay.
    Abandon,
}

impl Act {
    /// What is asked for when the cluster is to go.
    pub fn removal() -> Self {
        match range(0..8) {
            0 | 1 => Self::ForceDelete,
            2 => Self::Abandon,
            _ => Self::Delete,
        }
    }
}

/// What came of a request that was not refused.
pub enum Asked {
    /// Nothing could be asked: there is no such thing, or it is there already.
    Nothing,
    /// An operation was stored; this one is to be rung for: it does its work.
    New(Box<Entry>, OperationId),
    /// None was stored: this one does the same already.
    Known(OperationId),
    /// It was about what is there; this one is to be rung for.
    Ring(OperationId),
}

/// The most nodes that are asked for in one group.
const LARGEST: i32 = 4;

/// A label of every cluster that no upgrade may touch.
pub const KEPT_LABEL: (&str, &str) = ("owner", "users");

/// The user, as the requests need him.
pub struct User {
    pub id: UserId,
    pub project: ProjectId,
    /// A fresh token.
    pub token: String,
    pub sealer: Sealer,
    /// In the order of their versions.
    pub releases: Vec<Release>,
    /// Some of what is asked for has less time than it needs.
    pub is_pressed: bool,
}

/// What a request changes in the rows besides statuses.
enum Change {
    Nothing,
    /// The size of the group that it is about.
    Size(i32),
    /// A new group.
    Group(Box<NewNodegroup>),
    /// What is in force at once.
    Bounds(AtOnce),
}

impl User {
    /// From the beginning of an operation to its latest end.
    fn deadline(&self) -> Duration {
        Duration::from_secs(if self.is_pressed && range(0..12) == 0 { range(5..90) } else { 3600 })
    }

    fn operation(&self, kind: OperationKind, cluster: &ClusterId, payload: Payload) -> NewOperation {
        let id = OperationId::generate();
        NewOperation {
            kind,
            cluster: cluster.clone(),
            project: self.project.clone(),
            user: self.id.clone(),
            // By this the calls to the cloud are known.
            request_id: Some(format!("req-{id}")),
            deadline: self.deadline(),
            payload,
            sealed_token: Some(self.sealer.seal(&id, &self.token.clone().into())),
            id,
        }
    }

    /// Has a request accepted.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn ask(&self, store: &Store, id: &ClusterId, act: Act) -> Result<Asked, StoreError> {
        if act == Act::Create {
            return self.create(store, id).await;
        }
        let Some(row) = store.read(async |conn: &mut Conn| cluster::find(conn, &Scope::All, id).await).await? else {
            return Ok(Asked::Nothing);
        };
        let groups = store.read(async |conn: &mut Conn| nodegroup::of_cluster(conn, id).await).await?;
        let added = groups.iter().find(|g| !g.is_default());
        let workers = groups.iter().find(|g| g.is_default() && !g.is_master());
        let size = range(1..=LARGEST);
        let sized = |group: &Nodegroup| Payload { node_count: Some(size), ..about(group) };
        let whole = Payload::default;
        let (kind, payload, change) = match (act, added, workers) {
            (Act::Delete, ..) => (OperationKind::ClusterDelete, whole(), Change::Nothing),
            (Act::ForceDelete, ..) => (OperationKind::ClusterForceDelete, whole(), Change::Nothing),
            (Act::Abandon, ..) => (OperationKind::ClusterAbandon, whole(), Change::Nothing),
            (Act::RotateCredential, ..) => (OperationKind::CredentialRotate, whole(), Change::Nothing),
            (Act::RotateAuthorities, ..) => (OperationKind::CaRotate, whole(), Change::Nothing),
            (Act::Upgrade, _, Some(group)) => (OperationKind::ClusterUpgrade, self.upgrade(&row, group), Change::Nothing),
            (Act::Resize, _, Some(group)) | (Act::ResizeGroup, Some(group), _) => {
                (OperationKind::ClusterResize, sized(group), Change::Size(size))
            }
            (Act::Patch, ..) => {
                let payload = Payload { node_count: Some(size), rollback: range(0..2) == 0, ..whole() };
                (OperationKind::ClusterUpdate, payload, Change::Size(size))
            }
            (Act::UpdateGroup, Some(group), _) | (Act::Relabel, _, Some(group)) => {
                (OperationKind::NodegroupUpdate, about(group), Change::Bounds(at_once(size)))
            }
            (Act::RemoveGroup, Some(group), _) => (OperationKind::NodegroupDelete, about(group), Change::Nothing),
            // The API refuses it before the cluster has an address.
            (Act::AddGroup, None, _) if row.api_address.is_some() => {
                let group = self.another_group(&row, size);
                let payload = Payload { nodegroup: Some(group.id.clone()), node_count: Some(size), ..whole() };
                (OperationKind::NodegroupCreate, payload, Change::Group(Box::new(group)))
            }
            (Act::Cancel, ..) => return cancel(store, id, None).await,
            (Act::CancelNewest, ..) => {
                let unfinished = store.read(async |conn: &mut Conn| operation::unfinished(conn, id).await).await?;
                return cancel(store, id, unfinished.last().map(Operation::operation_id).as_ref()).await;
            }
            (Act::Retry, ..) => return self.retry(store, id).await,
            (Act::Create | Act::Upgrade | Act::Resize | Act::Relabel, ..)
            | (Act::AddGroup | Act::ResizeGroup | Act::UpdateGroup | Act::RemoveGroup, ..) => return Ok(Asked::Nothing),
        };
        self.begin(store, id, kind, payload, change).await
    }

    fn upgrade(&self, row: &Cluster, group: &Nodegroup) -> Payload {
        let is_present = |release: &&Release| row.cluster_template_id.as_deref() == Some(release.template.as_str());
        let latest = self.releases.last().filter(|_| range(0..3) > 0);
        let wanted = latest.or_else(|| self.releases.iter().find(is_present));
        Payload {
            template: wanted.map(|release| release.template.clone()),
            max_batch_size: Some(range(1..=2)),
            generation: Some(OperationId::generate().as_str().to_owned()),
            ..about(group)
        }
    }

    async fn retry(&self, store: &Store, id: &ClusterId) -> Result<Asked, StoreError> {
        let failed = store.read(async |conn: &mut Conn| exit::last_failed(conn, &Scope::All, id).await).await?;
        let kind = failed.kind().expect("a kind of this version");
        let payload = failed.payload().expect("a payload of this version").again(failed.operation_id());
        let change = match (kind, payload.node_count) {
            // The row may say by now what was reached.
            (OperationKind::ClusterUpdate | OperationKind::ClusterResize | OperationKind::NodegroupCreate, Some(size)) => {
                Change::Size(size)
            }
            _ => Change::Nothing,
        };
        self.begin(store, id, kind, payload, change).await
    }

    async fn create(&self, store: &Store, id: &ClusterId) -> Result<Asked, StoreError> {
        let release = self.releases.first().expect("a template");
        let mut labels = Labels::default();
        labels.0.insert(VERSION_LABEL.into(), release.version.into());
        labels.0.insert(KEPT_LABEL.0.into(), KEPT_LABEL.1.into());
        if range(0..2) == 0 {
            labels.0.insert(DELETE_VOLUMES.into(), "true".into());
        }
        let spec = &CreateSpec {
            id: id.clone(),
            name: format!("k-{}", &id.as_str()[..8]),
            template: release.template.clone(),
            project: self.project.clone(),
            user: self.id.clone(),
            keypair: None,
            docker_volume_size: None,
            labels,
            master_flavor: Some("m1.small".into()),
            flavor: Some("m1.small".into()),
            create_timeout: Some(60),
            discovery_url: None,
            fixed_network: None,
            fixed_subnet: None,
            floating_ip_enabled: false,
            master_lb_enabled: false,
            health_status: None,
            health_status_reason: Labels::default(),
            note: None,
        };
        let new = &self.operation(OperationKind::ClusterCreate, id, Payload::default());
        let workers: i32 = range(1..=3);
        let demands = &[(Resource::Cluster, 1), (Resource::Node, i64::from(workers + 1))].map(|(resource, count)| Demand {
            resource,
            count,
            default: None,
            group: None,
        });
        store
            .write(async |conn: &mut Conn| {
                quota::reserve(conn, &spec.project, demands).await?;
                cluster::insert(conn, spec).await?;
                let groups = [(DefaultRole::Master, 1), (DefaultRole::Worker, workers)].map(|(role, node_count)| {
                    let flavor = spec.flavor.clone();
                    DefaultNodegroup {
                        role,
                        node_count,
                        min_node_count: None,
                        max_node_count: None,
                        flavor,
                        image: None,
                        docker_volume_size: None,
                    }
                });
                nodegroup::insert_defaults(conn, spec, &groups).await?;
                operation::insert(conn, new).await
            })
            .await?;
        let promise = Promise { size: Some(workers), release: Some(release.clone()), ..Promise::of(new.kind, &new.payload) };
        Ok(Asked::New(Box::new(Entry { cluster: id.clone(), operation: new.id.clone(), promise }), new.id.clone()))
    }

    async fn begin(
        &self,
        store: &Store,
        id: &ClusterId,
        kind: OperationKind,
        payload: Payload,
        change: Change,
    ) -> Result<Asked, StoreError> {
        let new = &self.operation(kind, id, payload);
        let more = &growth(store, id, &new.payload, &change).await?;
        let change = &change;
        let accepted = store
            .write(async |conn: &mut Conn| {
                event::queue_up(conn, id).await?;
                quota::reserve(conn, &new.project, std::slice::from_ref(more)).await?;
                let accepted = lifecycle::accept(conn, &Scope::All, new).await?;
                if accepted.is_to_be_done() {
                    record(conn, id, change, accepted.group.as_ref()).await?;
                }
                Ok::<_, StoreError>(accepted)
            })
            .await?;
        if !accepted.is_new {
            return Ok(Asked::Known(accepted.at_work));
        }
        let release = self.releases.iter().find(|release| new.payload.template.as_ref() == Some(&release.template)).cloned();
        let at_once = if let Change::Bounds(at_once) = change { Some(at_once.clone()) } else { None };
        let promise = Promise { release, at_once, ..Promise::of(kind, &new.payload) };
        Ok(Asked::New(Box::new(Entry { cluster: id.clone(), operation: accepted.operation, promise }), accepted.at_work))
    }

    fn another_group(&self, row: &Cluster, node_count: i32) -> NewNodegroup {
        NewNodegroup {
            id: NodegroupId::generate(),
            cluster: row.cluster_id(),
            project: self.project.clone(),
            name: "more".into(),
            role: WORKER.into(),
            flavor: Some("m1.small".into()),
            image: Some("fedora-coreos".into()),
            node_count,
            min_node_count: 0,
            max_node_count: None,
            docker_volume_size: None,
            labels: row.labels(),
            nodes: Nodes::default(),
        }
    }
}

fn about(group: &Nodegroup) -> Payload {
    Payload { nodegroup: Some(group.nodegroup_id()), ..Payload::default() }
}

/// The most nodes of a group become so many more than the largest size that is ever asked for, and its nodes to come get another label.
fn at_once(more: i32) -> AtOnce {
    let mut node_labels = Labels::default();
    node_labels.0.insert("pool".into(), format!("p{}", range(0..1000)));
    AtOnce { most: LARGEST + more, node_labels }
}

async fn cancel(store: &Store, id: &ClusterId, named: Option<&OperationId>) -> Result<Asked, StoreError> {
    let cancel =
        async |conn: &mut Conn| exit::cancel(conn, &Scope::All, id, named, &EventDetails::default(), Some("container-infra.api")).await;
    let cancelled = store.write(cancel).await?;
    Ok(cancelled.ring.map_or(Asked::Nothing, Asked::Ring))
}

/// Nodes that a request adds to what the rows of its project say.
async fn growth(store: &Store, id: &ClusterId, payload: &Payload, change: &Change) -> Result<Demand, StoreError> {
    let nodes = |count: i32, group: Option<NodegroupId>| Demand { resource: Resource::Node, count: count.into(), default: None, group };
    match change {
        Change::Nothing | Change::Bounds(_) => Ok(nodes(0, None)),
        Change::Group(new) => Ok(nodes(new.node_count, None)),
        Change::Size(size) => {
            let ident = payload.nodegroup.as_ref().map_or(DEFAULT_WORKER, NodegroupId::as_str);
            let present = store.read(async |conn: &mut Conn| nodegroup::fetch_in_cluster(conn, id, ident).await).await?;
            Ok(nodes(size - present.node_count(), Some(present.nodegroup_id())))
        }
    }
}

/// Writes what a request changes besides statuses, of the group that it is about.
async fn record(conn: &mut Conn, id: &ClusterId, change: &Change, group: Option<&Nodegroup>) -> Result<(), StoreError> {
    match (change, group.map(Nodegroup::nodegroup_id)) {
        (Change::Nothing, _) => Ok(()),
        (Change::Group(new), _) => nodegroup::insert(conn, new).await,
        (Change::Size(size), Some(group)) => {
            let change = NodegroupChange { node_count: Some(*size), ..NodegroupChange::default() };
            nodegroup::record(conn, &group, &change).await
        }
        (Change::Bounds(at_once), Some(group)) => {
            let change = NodegroupChange { max_node_count: Some(Some(at_once.most)), ..NodegroupChange::default() };
            nodegroup::record(conn, &group, &change).await?;
            let nodes = Nodes { labels: at_once.node_labels.clone(), taints: Vec::new() };
            nodes::record(conn, id, &group, &nodes).await
        }
        (Change::Size(_) | Change::Bounds(_), None) => Err(StoreError::Stale { what: "nodegroup" }),
    }
}
