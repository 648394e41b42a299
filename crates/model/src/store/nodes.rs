//! Queries on `nodegroup_nodes`: how the nodes of a group register. A group without a row has neither labels nor taints.

use std::collections::HashMap;

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::connection::{Conn, on_conn};
use super::error::StoreError;
use crate::id::{ClusterId, NodegroupId};
use crate::json::{Labels, python_json};
use crate::nodegroup::Nodes;
use crate::schema::nodegroup_nodes;

/// What is kept for the groups of a cluster, by the group's uuid.
pub async fn of_cluster(conn: &mut Conn, cluster: &ClusterId) -> Result<HashMap<String, Nodes>, StoreError> {
    let rows: Vec<(String, String, String)> = on_conn!(conn, |c| {
        nodegroup_nodes::table
            .select((nodegroup_nodes::nodegroup_uuid, nodegroup_nodes::node_labels, nodegroup_nodes::node_taints))
            .filter(nodegroup_nodes::cluster_uuid.eq(cluster.as_str()))
            .load(&mut **c)
            .await
    })?;
    let read =
        |labels: &str, taints: &str| Nodes { labels: Labels::read(Some(labels)), taints: serde_json::from_str(taints).unwrap_or_default() };
    Ok(rows.into_iter().map(|(group, labels, taints)| (group, read(&labels, &taints))).collect())
}

/// What is kept for one group.
pub async fn of_group(conn: &mut Conn, cluster: &ClusterId, group: &NodegroupId) -> Result<Nodes, StoreError> {
    Ok(of_cluster(conn, cluster).await?.remove(group.as_str()).unwrap_or_default())
}

/// Keeps it, in place of what was kept before.
pub async fn record(conn: &mut Conn, cluster: &ClusterId, group: &NodegroupId, nodes: &Nodes) -> Result<(), StoreError> {
    forget(conn, group).await?;
    let row = (
        nodegroup_nodes::nodegroup_uuid.eq(group.as_str()),
        nodegroup_nodes::cluster_uuid.eq(cluster.as_str()),
        nodegroup_nodes::node_labels.eq(nodes.labels.column()),
        nodegroup_nodes::node_taints.eq(python_json(&nodes.taints)),
    );
    on_conn!(conn, |c| diesel::insert_into(nodegroup_nodes::table).values(row).execute(&mut **c).await)?;
    Ok(())
}

/// Forgets what is kept for a group.
pub async fn forget(conn: &mut Conn, group: &NodegroupId) -> Result<(), StoreError> {
    on_conn!(conn, |c| {
        diesel::delete(nodegroup_nodes::table.filter(nodegroup_nodes::nodegroup_uuid.eq(group.as_str()))).execute(&mut **c).await
    })?;
    Ok(())
}

/// Forgets what is kept for all groups of a cluster.
pub async fn forget_all(conn: &mut Conn, cluster: &ClusterId) -> Result<(), StoreError> {
    on_conn!(conn, |c| {
        diesel::delete(nodegroup_nodes::table.filter(nodegroup_nodes::cluster_uuid.eq(cluster.as_str()))).execute(&mut **c).await
    })?;
    Ok(())
}
