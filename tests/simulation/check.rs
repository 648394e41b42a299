//! What must be true once nothing goes wrong any more.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use futures::FutureExt;
use futures::future::BoxFuture;
use model::cluster::Cluster;
use model::id::{ClusterId, OperationId};
use model::operation::{Operation, OperationState};
use model::resource::{CloudResource, ResourceKind};
use model::store::{Conn, Scope as Rows, Store, cluster, event, nodegroup, operation, resource};
use provider_clients::exchange::{Carrier, Incoming, NoAnswer, Outgoing};
use provider_clients::{Cloud, CloudOptions, Credential, Scope, UserRef};

use crate::carrier::{Message, incoming};
use crate::host::Parts;
use crate::scene;

/// Operations that have not ended or that somebody still holds, in words. (A superseded one keeps the name of an owner who died.)
pub async fn unfinished(store: &Store, operations: &[OperationId]) -> Vec<String> {
    let mut lines = Vec::new();
    let now = model::time::now().timestamp_millis();
    for row in rows(store, operations).await {
        if row.finished_ms.is_none() || (row.owner.is_some() && row.lease_ms >= Some(now)) {
            lines.push(format!(
                "{} {} is {} at {}, waiting for {:?}, held by {:?}",
                row.kind, row.uuid, row.state, row.step, row.waiting_for, row.owner
            ));
        }
    }
    lines
}

async fn rows(store: &Store, operations: &[OperationId]) -> Vec<Operation> {
    let read = async |conn: &mut Conn| {
        let mut rows = Vec::new();
        for id in operations {
            rows.extend(operation::find(conn, id).await?);
        }
        Ok(rows)
    };
    store.read(read).await.expect("the store is there")
}

/// Everything that is not as it should be; at the end every cluster was deleted.
pub async fn all(parts: &Parts, clusters: &[ClusterId], operations: &[OperationId], is_end: bool) -> Vec<String> {
    let store = &parts.store;
    let mut found = Vec::new();
    let rows = rows(store, operations).await;
    if rows.len() != operations.len() {
        found.push(format!("{} operations were accepted and {} are there", operations.len(), rows.len()));
    }
    for row in &rows {
        found.extend(endings(store, row).await);
    }
    let mut living: BTreeMap<String, Cluster> = BTreeMap::new();
    let mut inventory: Vec<CloudResource> = Vec::new();
    for id in clusters {
        let of_cluster: Vec<&Operation> = rows.iter().filter(|o| o.cluster_uuid == id.as_str()).collect();
        let recorded = store.read(async |conn: &mut Conn| resource::of_cluster(conn, id).await).await.expect("read");
        let row = store.read(async |conn: &mut Conn| cluster::find(conn, &Rows::All, id).await).await.expect("read");
        match row {
            Some(row) => {
                found.extend(status(&row, &of_cluster));
                found.extend(sizes(store, id, &recorded).await);
                found.extend(login(parts, &row).await);
                living.insert(row.uuid.clone(), row);
                inventory.extend(recorded);
            }
            None => {
                found.extend(recorded.iter().map(|r| format!("{} {} is recorded for a cluster that is gone", r.kind, r.name)));
                let is_deleted = |o: &&&Operation| o.kind == "cluster_delete" && o.state == OperationState::Succeeded.as_str();
                if !of_cluster.is_empty() && of_cluster.iter().filter(is_deleted).count() != 1 {
                    found.push(format!("cluster {id} is gone and {} deletions succeeded", of_cluster.iter().filter(is_deleted).count()));
                }
            }
        }
    }
    found.extend(stacks(&inventory));
    found.extend(credentials(&living));
    if is_end {
        found.extend(living.keys().map(|id| format!("cluster {id} was deleted and is there")));
        let left = scene::with(|s| s.cloud.cloud().leftovers(None));
        found.extend(left.iter().map(|line| format!("left behind: {line}")));
    }
    found
}

/// An operation ends once.
async fn endings(store: &Store, row: &Operation) -> Option<String> {
    let id = row.operation_id();
    let events = store.read(async |conn: &mut Conn| event::of_operation(conn, &id, 1000).await).await.expect("read");
    let ends: Vec<&str> = events.iter().map(|e| e.kind.as_str()).filter(|kind| matches!(*kind, "ended" | "superseded")).collect();
    (ends.len() != 1).then(|| format!("{} {id} has the ends {ends:?}", row.kind))
}

/// The status says what became of the operations.
fn status(row: &Cluster, operations: &[&Operation]) -> Vec<String> {
    let status = row.status.clone().unwrap_or_default();
    let failed: Vec<_> = operations
        .iter()
        .filter(|o| o.state == OperationState::Failed.as_str())
        .map(|o| format!("{} ({})", o.kind, o.outcome_reason.clone().unwrap_or_default()))
        .collect();
    let is_right = match failed.is_empty() {
        true => status.ends_with("_COMPLETE"),
        false => status.ends_with("_COMPLETE") || status.ends_with("_FAILED"),
    };
    if is_right { Vec::new() } else { vec![format!("cluster {} is {status}; failed: {failed:?}", row.uuid)] }
}

/// Groups that are complete have as many nodes as their stack.
async fn sizes(store: &Store, id: &ClusterId, inventory: &[CloudResource]) -> Vec<String> {
    let groups = store.read(async |conn: &mut Conn| nodegroup::of_cluster(conn, id).await).await.expect("read");
    let stacks = scene::with(|s| s.cloud.cloud().stacks());
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
                if count != group.node_count.map(|n| n.to_string()) || !stack.status.ends_with("_COMPLETE") {
                    let (name, wanted) = (&group.name, group.node_count);
                    found.push(format!("group {name} of cluster {id} has {wanted:?} nodes, its stack ({}) {count:?}", stack.status));
                }
            }
        }
    }
    found
}

/// The inventory and the cloud have the same stacks.
fn stacks(inventory: &[CloudResource]) -> Vec<String> {
    let mut found = Vec::new();
    let stacks = scene::with(|s| s.cloud.cloud().stacks());
    let recorded: Vec<&CloudResource> = inventory.iter().filter(|r| r.kind == ResourceKind::Stack.as_str()).collect();
    for stack in &stacks {
        match recorded.iter().filter(|r| r.name == stack.name).count() {
            1 => {}
            n => found.push(format!("stack {} ({}) is {n} times in the inventory", stack.name, stack.status)),
        }
    }
    for record in recorded {
        let is_there = stacks.iter().any(|s| s.name == record.name && record.resource_id.as_ref().is_none_or(|id| *id == s.id));
        if !is_there && record.resource_id.is_some() {
            found.push(format!("stack {} is in the inventory and not in the cloud", record.name));
        }
    }
    found
}

/// Users and trusts are those of clusters that are there, and one of each.
fn credentials(living: &BTreeMap<String, Cluster>) -> Vec<String> {
    let mut found = Vec::new();
    let mut trusts: BTreeMap<String, usize> = BTreeMap::new();
    for line in scene::with(|s| s.cloud.cloud().leftovers(None)) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["user", name, ..] => {
                let cluster = name.split('_').next().unwrap_or_default();
                if !living.contains_key(cluster) {
                    found.push(format!("a trustee of a cluster that is gone: {line}"));
                }
            }
            ["trust", _, "from", _, "to", trustee] if living.values().any(|c| c.trustee_user_id.as_deref() == Some(trustee)) => {
                *trusts.entry(trustee.to_owned()).or_default() += 1;
            }
            _ => {}
        }
    }
    found.extend(trusts.iter().filter(|(_, n)| **n > 1).map(|(trustee, n)| format!("{n} trusts for trustee {trustee}")));
    found
}

/// What a sound cluster's row says of its trustee is true: one can log in with it.
async fn login(parts: &Parts, row: &Cluster) -> Vec<String> {
    if !row.status.as_deref().is_some_and(|s| s.ends_with("_COMPLETE")) {
        return Vec::new();
    }
    let (Some(user), Some(password), Some(trust)) = (&row.trustee_user_id, &row.trustee_password, &row.trust_id) else {
        return vec![format!("cluster {} is {:?} and has no trust", row.uuid, row.status)];
    };
    let cloud = Cloud::carried_by(CloudOptions::new(parts.auth_url.clone()), Arc::new(Straight)).expect("a cloud");
    let session = cloud.session(Credential::Password {
        user: UserRef { id: Some(user.clone()), ..UserRef::default() },
        password: password.clone().into(),
        scope: Scope::Trust { id: trust.clone() },
    });
    match session.token().await {
        Ok(_) => Vec::new(),
        Err(error) => vec![format!("the credentials of cluster {} are of no use: {error}", row.uuid)],
    }
}

/// A way to the cloud on which nothing happens.
struct Straight;

impl Carrier for Straight {
    fn carry(&self, request: Outgoing) -> BoxFuture<'_, Result<Incoming, NoAnswer>> {
        async move { Ok(incoming(Message::of(&request).perform(self.now()))) }.boxed()
    }

    fn now(&self) -> DateTime<Utc> {
        model::time::now()
    }
}
