//! Whether rows, inventory and simulated cloud agree once everything has ended. The simulation and the chaos run ask the same questions.

use std::collections::{BTreeMap, BTreeSet};

use cloud_simulator::Cloud;
use model::cluster::Cluster;
use model::id::{ClusterId, OperationId};
use model::nodegroup::Nodegroup;
use model::operation::{Operation, OperationKind, OperationState};
use model::resource::{CloudResource, ResourceKind};
use model::store::{Conn, Scope, Store, StoreError, cluster, event, nodegroup, operation, resource, rotation};
use serde_json::{Map, Value};

/// What a look at everything came to.
pub struct Agreement {
    /// What is not as it should be, in words.
    pub findings: Vec<String>,
    /// The clusters that are there.
    pub living: BTreeMap<String, Cluster>,
}

/// The rows of these operations that are there.
pub async fn rows(store: &Store, operations: &[OperationId]) -> Result<Vec<Operation>, StoreError> {
    let read = async |conn: &mut Conn| {
        let mut rows = Vec::new();
        for id in operations {
            rows.extend(operation::find(conn, id).await?);
        }
        Ok(rows)
    };
    store.read(read).await
}

/// Looks at everything that these clusters and their operations are said to be.
pub async fn look(store: &Store, cloud: &Cloud, clusters: &[ClusterId], operations: &[OperationId]) -> Result<Agreement, StoreError> {
    let mut findings = Vec::new();
    let rows = rows(store, operations).await?;
    if rows.len() != operations.len() {
        findings.push(format!("{} operations were accepted and {} are there", operations.len(), rows.len()));
    }
    for row in &rows {
        findings.extend(endings(store, row).await?);
        findings.extend(secrets(row));
    }
    let mut living: BTreeMap<String, Cluster> = BTreeMap::new();
    let mut inventory: Vec<CloudResource> = Vec::new();
    let mut leaving: BTreeSet<(String, String)> = BTreeSet::new();
    for id in clusters {
        let of_cluster: Vec<&Operation> = rows.iter().filter(|o| o.cluster_uuid == id.as_str()).collect();
        let recorded = store.read(async |conn: &mut Conn| resource::of_cluster(conn, id).await).await?;
        let row = store.read(async |conn: &mut Conn| cluster::find(conn, &Scope::All, id).await).await?;
        match row {
            Some(row) => {
                findings.extend(status(&row, &of_cluster));
                let groups = store.read(async |conn: &mut Conn| nodegroup::of_cluster(conn, id).await).await?;
                let rotates = |o: &Operation| matches!(o.kind(), Some(OperationKind::CaRotate | OperationKind::CredentialRotate));
                // One that gave way to a deletion which was cancelled then was cut off, too.
                let gave_way = |o: &Operation| o.state() == Some(OperationState::Superseded);
                let was_cut_off = of_cluster.iter().any(|o| rotates(o) && (has_failed(o) || gave_way(o)));
                let is_half_rotated = store.read(async |conn: &mut Conn| rotation::find(conn, id).await).await?.is_some();
                let is_told =
                    |text: &str| !text.ends_with("_COMPLETE") || row.status_reason.as_deref().is_some_and(|r| r.contains("rotation"));
                if is_half_rotated && !is_told(row.status.as_deref().unwrap_or_default()) {
                    findings.push(format!("cluster {id} is {:?} in the middle of a rotation, and does not say so", row.status));
                }
                findings.extend(sizes(cloud, id, was_cut_off, &groups, &recorded));
                leaving.extend(asked_to_go(store, &of_cluster).await?.into_iter().map(|name| (row.uuid.clone(), name)));
                living.insert(row.uuid.clone(), row);
                inventory.extend(recorded);
            }
            None => {
                findings.extend(recorded.iter().map(|r| format!("{} {} is recorded for a cluster that is gone", r.kind, r.name)));
                let removals = of_cluster.iter().filter(|o| has_removed(o)).count();
                if !of_cluster.is_empty() && removals != 1 {
                    findings.push(format!("cluster {id} is gone and {removals} removals succeeded"));
                }
            }
        }
    }
    findings.extend(stacks(cloud, &inventory, &leaving));
    findings.extend(credentials(cloud, &living, &inventory));
    Ok(Agreement { findings, living })
}

/// An operation ends once.
async fn endings(store: &Store, row: &Operation) -> Result<Option<String>, StoreError> {
    let id = row.operation_id();
    let events = store.read(async |conn: &mut Conn| event::of_kinds(conn, &id, &["ended", "superseded"]).await).await?;
    let ends: Vec<&str> = events.iter().map(|e| e.kind.as_str()).collect();
    Ok((ends.len() != 1).then(|| format!("{} {id} has the ends {ends:?}", row.kind)))
}

/// What is said of an operation that has kept what it should not have.
pub const SECRETS: &str = "has ended and has secrets still";

/// What it was lent, and what it drew, goes with its end.
fn secrets(row: &Operation) -> Option<String> {
    let has_password = row.payload().is_ok_and(|payload| payload.sealed_password.is_some());
    let is_left = row.finished_ms.is_some() && (row.sealed_token.is_some() || has_password);
    is_left.then(|| format!("{} {} {SECRETS}", row.kind, row.uuid))
}

/// The status says what became of the operations.
fn status(row: &Cluster, operations: &[&Operation]) -> Vec<String> {
    let status = row.status.clone().unwrap_or_default();
    let failed: Vec<_> = operations
        .iter()
        .filter(|o| has_failed(o))
        .map(|o| format!("{} ({})", o.kind, o.outcome_reason.clone().unwrap_or_default()))
        .collect();
    let is_right = status.ends_with("_COMPLETE") || (status.ends_with("_FAILED") && !failed.is_empty());
    if is_right { Vec::new() } else { vec![format!("cluster {} is {status}; failed: {failed:?}", row.uuid)] }
}

/// The cluster went with it.
fn has_removed(operation: &Operation) -> bool {
    operation.kind().is_some_and(|kind| kind.removal().is_some()) && operation.state() == Some(OperationState::Succeeded)
}

/// Removes from the cloud what the reports of operations that removed clusters say was left; what else is left nobody was told of. Says what a report
/// named that cannot be removed by it.
pub async fn remove_reported(store: &Store, cloud: &Cloud, operations: &[OperationId]) -> Result<Vec<String>, StoreError> {
    let mut findings = Vec::new();
    for row in rows(store, operations).await?.iter().filter(|o| has_removed(o)) {
        let id = row.operation_id();
        let events = store.read(async |conn: &mut Conn| event::of_kinds(conn, &id, &["leak_report"]).await).await?;
        for leak in events.iter().flat_map(|event| event.details().leaks.unwrap_or_default()) {
            if !cloud.remove_reported(&leak.kind, &leak.name, leak.id.as_deref()) {
                findings.push(format!("the report of {} {id} names {} {}", row.kind, leak.kind, leak.name));
            }
        }
    }
    Ok(findings)
}

/// It did not succeed, and nothing took its place.
fn has_failed(operation: &Operation) -> bool {
    matches!(operation.state(), Some(OperationState::Failed | OperationState::Cancelled))
}

/// Groups that are complete have as many nodes as their stack; those of the Cluster API driver have none. Where a rotation of authorities
/// or credentials was cut off, which is about no group, new nodes may be beside those that were to go.
fn sizes(cloud: &Cloud, id: &ClusterId, was_cut_off: bool, groups: &[Nodegroup], inventory: &[CloudResource]) -> Vec<String> {
    if inventory.iter().any(|r| r.kind() == Some(ResourceKind::HelmRelease)) {
        return Vec::new();
    }
    let stacks = cloud.stacks();
    let mut found = Vec::new();
    for group in groups.iter().filter(|g| !g.is_master() && g.status.as_deref().is_some_and(|s| s.ends_with("_COMPLETE"))) {
        let stack = stacks.iter().find(|s| group.stack_id.as_deref() == Some(s.id.as_str()));
        match stack {
            None => found.push(format!("group {} of cluster {id} is complete and has no stack", group.name)),
            Some(stack) if !inventory.iter().any(|r| r.resource_id.as_deref() == Some(stack.id.as_str())) => {
                found.push(format!("the stack of group {} of cluster {id} is not in the inventory", group.name));
            }
            Some(stack) => {
                let count = stack.parameters.get("number_of_minions").map(|n| n.as_str().map_or_else(|| n.to_string(), str::to_owned));
                let more = if was_cut_off { former(&stack.parameters) } else { 0 };
                let seen = count.as_deref().and_then(|count| count.parse::<i32>().ok());
                let is_right = group.node_count.zip(seen).is_some_and(|(n, seen)| n <= seen && seen - n <= more);
                // One that was cancelled leaves its stack at work.
                let is_done = was_cut_off || stack.status.ends_with("_COMPLETE");
                if !is_right || !is_done {
                    let (name, wanted) = (&group.name, group.node_count);
                    found.push(format!("group {name} of cluster {id} has {wanted:?} nodes, its stack ({}) {count:?}", stack.status));
                }
            }
        }
    }
    found
}

/// Workers that a replacement which was cut off has still to see off, or that have gone since without it: of a former generation, or of this one
/// and given up. Beside those that there are to be there may be as many more.
fn former(parameters: &Map<String, Value>) -> i32 {
    // Heat takes a map, and its JSON.
    let former: Value = match parameters.get("former_minions") {
        Some(Value::String(text)) => serde_json::from_str(text).unwrap_or_default(),
        other => other.cloned().unwrap_or_default(),
    };
    i32::try_from(former.as_object().map_or(0, Map::len)).unwrap_or(i32::MAX)
}

/// Names of a cluster's stacks that Heat was asked to delete by an operation which did not see them go, and that were not asked for since: Heat
/// may carry out later what it was asked for, and the inventory need not know it until the next operation looks.
async fn asked_to_go(store: &Store, operations: &[&Operation]) -> Result<BTreeSet<String>, StoreError> {
    let mut last: BTreeMap<String, (i64, bool)> = BTreeMap::new();
    for row in operations {
        let id = row.operation_id();
        let events = store.read(async |conn: &mut Conn| event::of_kinds(conn, &id, &[MADE, ASKED, ASKED_AGAIN]).await).await?;
        let has_seen_to_it = row.state() == Some(OperationState::Succeeded);
        for event in events {
            let latest = last.entry(event.message).or_default();
            *latest = (*latest).max((event.id, event.kind != MADE && !has_seen_to_it));
        }
    }
    Ok(last.into_iter().filter(|(_, (_, is_to_go))| *is_to_go).map(|(name, _)| name).collect())
}

/// The event of a request to make a stack, which is its message.
const MADE: &str = "stack_create";
/// The event of a request to delete a stack.
const ASKED: &str = "stack_delete";
/// The event of one after a deletion that failed.
const ASKED_AGAIN: &str = "stack_delete_again";

/// The inventory and the cloud have the same stacks, but for those that are leaving: pairs of cluster and name ([`asked_to_go`]).
fn stacks(cloud: &Cloud, inventory: &[CloudResource], leaving: &BTreeSet<(String, String)>) -> Vec<String> {
    let mut found = Vec::new();
    let stacks = cloud.stacks();
    let recorded: Vec<&CloudResource> = inventory.iter().filter(|r| r.kind == ResourceKind::Stack.as_str()).collect();
    for stack in &stacks {
        match recorded.iter().filter(|r| r.name == stack.name).count() {
            1 => {}
            n => found.push(format!("stack {} ({}) is {n} times in the inventory", stack.name, stack.status)),
        }
    }
    for record in recorded {
        let is_there = stacks.iter().any(|s| s.name == record.name && record.resource_id.as_ref().is_none_or(|id| *id == s.id));
        let is_leaving = || leaving.contains(&(record.cluster_uuid.clone(), record.name.clone()));
        if !is_there && record.resource_id.is_some() && !is_leaving() {
            found.push(format!("stack {} is in the inventory and not in the cloud", record.name));
        }
    }
    found
}

/// Whether the inventory has the key pair of a user, made or announced.
fn has_key_pair(inventory: &[CloudResource], user: &str, name: &str) -> bool {
    inventory.iter().any(|r| r.kind() == Some(ResourceKind::KeyPair) && r.name == format!("{user}/{name}"))
}

/// Users are those of clusters that are there, and one of each kind; trusts are in the inventory, or were announced there, and so are key pairs.
fn credentials(cloud: &Cloud, living: &BTreeMap<String, Cluster>, inventory: &[CloudResource]) -> Vec<String> {
    let recorded: Vec<&CloudResource> = inventory.iter().filter(|r| r.kind() == Some(ResourceKind::Trust)).collect();
    let mut found = Vec::new();
    // Those that are not recorded, by the cluster of their trustee.
    let mut trusts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut users: BTreeMap<(String, &str), usize> = BTreeMap::new();
    for line in cloud.leftovers(None) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["user", name, ..] => {
                let cluster = name.split('_').next().unwrap_or_default();
                if !living.contains_key(cluster) {
                    found.push(format!("a user of a cluster that is gone: {line}"));
                }
                let kind = if name.ends_with("_stacks") { "owner" } else { "trustee" };
                *users.entry((cluster.to_owned(), kind)).or_default() += 1;
            }
            ["key", "pair", name, "of", user] if !has_key_pair(inventory, user, name) => {
                found.push(format!("a key pair that is in no inventory: {line}"));
            }
            ["trust", id, "from", _, "to", trustee] if !recorded.iter().any(|r| r.resource_id.as_deref() == Some(id)) => {
                if let Some(cluster) = living.values().find(|c| c.trustee_user_id.as_deref() == Some(trustee)) {
                    *trusts.entry(&cluster.uuid).or_default() += 1;
                }
            }
            _ => {}
        }
    }
    found.extend(users.iter().filter(|(_, n)| **n > 1).map(|((cluster, kind), n)| format!("{n} users that are {kind} of {cluster}")));
    for (cluster, n) in trusts {
        let announced = recorded.iter().filter(|r| r.cluster_uuid == cluster && r.resource_id.is_none()).count();
        if n > announced {
            found.push(format!("{n} trusts for the trustee of cluster {cluster} are in no inventory, and {announced} were announced"));
        }
    }
    found
}
