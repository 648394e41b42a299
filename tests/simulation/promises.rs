//! Whether what was promised became true: the users' book is held against the rows once every operation has ended.
//!
//! An operation that succeeded promises its end, one that was cancelled before it began promises that nothing has changed, and what was
//! recorded with the acceptance itself stays. Of an operation that began and ended in any other way nobody was promised how far it came.

mod nodes;
mod trusts;

use cloud_simulator::{Cloud, StackView};
use model::cluster::Cluster;
use model::cluster::status::{Concerns, Status};
use model::id::ClusterId;
use model::nodegroup::Nodegroup;
use model::operation::{OperationKind, OperationState};
use model::quota::{Demand, Resource};
use model::store::{Conn, Store, StoreError, quota};
use serde_json::Value;

use crate::book::{Book, Promise};
use crate::releases::VERSION_LABEL;
use crate::rows::Rows;
use crate::workload::KEPT_LABEL;

/// A promise, and how its operation ended.
struct Ended<'a> {
    promise: &'a Promise,
    state: OperationState,
    /// Whether anybody has worked on it.
    has_begun: bool,
}

impl Ended<'_> {
    fn has_succeeded(&self, kind: OperationKind) -> bool {
        self.promise.kind == kind && self.state == OperationState::Succeeded
    }

    fn is_removal(&self) -> bool {
        self.promise.kind.removal().is_some()
    }

    /// It was cancelled before anybody had worked on it.
    fn changed_nothing(&self) -> bool {
        self.state == OperationState::Cancelled && !self.has_begun
    }
}

/// Every promise of the book about these clusters that is not kept, in words.
///
/// # Errors
/// What the store says.
pub async fn broken(store: &Store, cloud: &Cloud, book: &Book, clusters: &[ClusterId]) -> Result<Vec<String>, StoreError> {
    let mut found = Vec::new();
    let stacks = cloud.stacks();
    let (mut living, mut nodes) = (0_i64, 0_i64);
    for id in clusters {
        let rows = Rows::read(store, id).await?;
        living += i64::from(rows.cluster.is_some());
        nodes += rows.groups.iter().map(|group| i64::from(group.node_count())).sum::<i64>();
        let ended = ended(id, book, &rows, &mut found);
        of_cluster(id, &rows, (cloud, stacks.as_slice()), &ended, &mut found);
        found.extend(trusts::of_cluster(store, cloud, &rows).await?);
    }
    for (resource, limit) in book.limits {
        let used = match resource {
            Resource::Cluster => living,
            Resource::Node => nodes,
        };
        found.extend(of_quota(store, book, resource, (limit.into(), used)).await?);
    }
    Ok(found)
}

/// How the operations of a cluster ended that were accepted, in order. Each has ended, and there are no others.
fn ended<'a>(id: &'a ClusterId, book: &'a Book, rows: &Rows, found: &mut Vec<String>) -> Vec<Ended<'a>> {
    let mut ended = Vec::new();
    for entry in book.of(id) {
        let (promise, operation) = (&entry.promise, &entry.operation);
        let name = format!("{} {operation} of cluster {id}", promise.kind.as_str());
        match rows.operations.iter().find(|row| row.uuid == operation.as_str()) {
            None => found.push(format!("{name} was accepted and is not there")),
            Some(row) if row.kind() != Some(promise.kind) => found.push(format!("{name} was accepted and is a {}", row.kind)),
            Some(row) => match row.state().filter(|_| row.finished_ms.is_some()) {
                None => found.push(format!("{name} was accepted and is {}", row.state)),
                Some(state) => ended.push(Ended { promise, state, has_begun: row.started_ms.is_some() }),
            },
        }
    }
    for row in &rows.operations {
        if !book.of(id).any(|entry| entry.operation.as_str() == row.uuid) {
            found.push(format!("{} {} of cluster {id} was asked for by nobody", row.kind, row.uuid));
        }
    }
    ended
}

fn of_cluster(id: &ClusterId, rows: &Rows, (cloud, stacks): (&Cloud, &[StackView]), ended: &[Ended<'_>], found: &mut Vec<String>) {
    let is_made = ended.iter().any(|e| e.promise.kind == OperationKind::ClusterCreate);
    let is_removed = ended.iter().any(|e| e.is_removal() && e.state == OperationState::Succeeded);
    let Some(cluster) = &rows.cluster else {
        if is_made && !is_removed {
            found.push(format!("cluster {id} was asked for, was never removed, and is not there"));
        }
        if !rows.groups.is_empty() || !rows.nodes.is_empty() {
            found.push(format!("of cluster {id}, which is gone, {} groups are left", rows.groups.len().max(rows.nodes.len())));
        }
        return;
    };
    if !is_made || is_removed {
        found.push(format!("cluster {id} is there, and should not be"));
    }
    let was_given_up = |e: &Ended<'_>| !e.has_begun && matches!(e.state, OperationState::Cancelled | OperationState::Superseded);
    if cluster.status() == Some(Status::DeleteFailed) && ended.iter().filter(|e| e.is_removal()).all(was_given_up) {
        found.push(format!("cluster {id} says that its deletion failed, and nobody has begun any"));
    }
    // What a removal that did not succeed has left, nobody was promised.
    if ended.iter().any(Ended::is_removal) {
        return;
    }
    of_release(cluster, stacks, ended, found);
    of_groups(id, rows, ended, found);
    for group in &rows.groups {
        of_group(id, rows, group, ended, found);
        nodes::of_group(id, rows, group, (cloud, stacks), ended, found);
    }
}

/// The cluster is of the template that it was made from, or that the last upgrade which succeeded has brought it to.
fn of_release(cluster: &Cluster, stacks: &[StackView], ended: &[Ended<'_>], found: &mut Vec<String>) {
    let is_in_force = |e: &&Ended<'_>| e.promise.kind == OperationKind::ClusterCreate || e.has_succeeded(OperationKind::ClusterUpgrade);
    let last = ended.iter().filter(is_in_force).rfind(|e| e.promise.release.is_some());
    let Some((end, release)) = last.and_then(|e| Some((e, e.promise.release.as_ref()?))) else { return };
    let id = &cluster.uuid;
    if cluster.cluster_template_id.as_deref() != Some(release.template.as_str()) {
        found.push(format!("cluster {id} is of template {:?}, {} was promised", cluster.cluster_template_id, release.template));
    }
    let labels = cluster.labels();
    for (label, wanted) in [(VERSION_LABEL, release.version), KEPT_LABEL] {
        if labels.get(label) != Some(wanted) {
            found.push(format!("cluster {id} has the label {label} = {:?}, {wanted} was promised", labels.get(label)));
        }
    }
    if end.state != OperationState::Succeeded {
        return;
    }
    if cluster.coe_version.as_deref() != Some(release.version) {
        found.push(format!("cluster {id} is of version {:?}, {} was promised", cluster.coe_version, release.version));
    }
    // One that began after it and did not succeed may have left the stack half way.
    let is_unfinished = |e: &Ended<'_>| e.promise.kind == OperationKind::ClusterUpgrade && !e.changed_nothing();
    if ended.iter().rev().take_while(|e| !std::ptr::eq(*e, end)).any(is_unfinished) {
        return;
    }
    let stack = stacks.iter().find(|stack| cluster.stack_id.as_deref() == Some(stack.id.as_str()));
    let version = stack.and_then(|stack| stack.parameters.get("kube_version")).and_then(Value::as_str);
    if version != Some(release.version) {
        found.push(format!("the stack of cluster {id} is of version {version:?}, {} was promised", release.version));
    }
}

/// The groups are the two that every cluster has, and those that were added and not removed.
fn of_groups(id: &ClusterId, rows: &Rows, ended: &[Ended<'_>], found: &mut Vec<String>) {
    let defaults = rows.groups.iter().filter(|group| group.is_default()).count();
    if defaults != 2 {
        found.push(format!("cluster {id} has {defaults} default groups"));
    }
    let added = || ended.iter().filter(|e| e.promise.kind == OperationKind::NodegroupCreate).filter_map(|e| e.promise.group.as_ref());
    for group in added() {
        let is_removed = ended.iter().any(|e| e.has_succeeded(OperationKind::NodegroupDelete) && e.promise.group.as_ref() == Some(group));
        let is_there = rows.groups.iter().any(|row| row.uuid == group.as_str());
        match (is_there, is_removed) {
            (true, false) | (false, true) => {}
            (true, true) => found.push(format!("group {group} of cluster {id} was removed and is there")),
            (false, false) => found.push(format!("group {group} of cluster {id} was added, was never removed, and is not there")),
        }
    }
    for row in rows.groups.iter().filter(|row| !row.is_default() && !added().any(|group| group.as_str() == row.uuid)) {
        found.push(format!("group {} of cluster {id} was asked for by nobody", row.uuid));
    }
}

fn of_group(id: &ClusterId, rows: &Rows, group: &Nodegroup, ended: &[Ended<'_>], found: &mut Vec<String>) {
    let name = &group.name;
    if let Some(size) = size(group, ended)
        && group.node_count != Some(size)
    {
        found.push(format!("group {name} of cluster {id} has {:?} nodes, {size} were promised", group.node_count));
    }
    let about = ended.iter().filter(|e| e.promise.is_about(group));
    let Some(at_once) = about.filter_map(|e| e.promise.at_once.as_ref()).next_back() else { return };
    if group.max_node_count != Some(at_once.most) {
        let (most, promised) = (group.max_node_count, at_once.most);
        found.push(format!("group {name} of cluster {id} has {most:?} nodes at most, {promised} were promised"));
    }
    let labels = rows.nodes.get(&group.uuid).map(|nodes| &nodes.labels);
    if labels != Some(&at_once.node_labels) {
        found.push(format!("nodes of group {name} of cluster {id} get the labels {labels:?}, {:?} were promised", at_once.node_labels));
    }
}

/// How many nodes a group was promised to have; none where nobody was.
fn size(group: &Nodegroup, ended: &[Ended<'_>]) -> Option<i32> {
    if group.is_master() {
        return Some(1);
    }
    let mut size = None;
    for end in ended {
        let is_about = end.promise.is_about(group);
        if end.changed_nothing() {
            continue;
        }
        if end.state == OperationState::Succeeded {
            if let (true, Some(asked)) = (is_about, end.promise.size) {
                size = Some(asked);
            }
        } else if is_about || end.promise.kind.concerns() == Concerns::NoGroup {
            // What replaces nodes may have left more than there were.
            size = None;
        }
    }
    size
}

/// What the project is granted is what it was given, and what counts of it is what its rows say. `expected`: limit and use.
async fn of_quota(store: &Store, book: &Book, resource: Resource, expected: (i64, i64)) -> Result<Option<String>, StoreError> {
    let (project, demands) = (&book.project, &[Demand { resource, count: i64::from(i32::MAX), default: None, group: None }]);
    let told = match store.read(async |conn: &mut Conn| quota::check(conn, project, demands).await).await {
        Err(StoreError::QuotaReached { limit, used, .. }) => Some((limit, used)),
        Err(error) => return Err(error),
        Ok(()) => None,
    };
    let is_right = told == Some(expected);
    Ok((!is_right).then(|| format!("quota of {}: limit and use are {told:?}, {expected:?} were promised", resource.as_str())))
}
