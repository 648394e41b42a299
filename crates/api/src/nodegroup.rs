//! Nodegroups.

pub mod create;
pub mod delete;
pub mod list;
mod rules;
pub mod show;
pub mod update;

use model::cluster::Cluster;
use model::nodegroup::{Nodegroup, Nodes};
use model::store::{Conn, Scope, StoreError, nodegroup, nodes};

use crate::context::Context;
use crate::error::ApiError;

/// A cluster, one of its groups, and how that group's nodes register.
struct Found {
    cluster: Cluster,
    group: Nodegroup,
    nodes: Nodes,
}

/// The group that the path names.
async fn find(cx: &Context, scope: &Scope) -> Result<Found, ApiError> {
    let (cluster, group) = (cx.arg("cluster"), cx.arg("nodegroup"));
    let read = async |conn: &mut Conn| {
        let cluster = crate::cluster::find(conn, scope, cluster).await?;
        let id = cluster.cluster_id();
        let group = nodegroup::fetch_in_cluster(conn, &id, group).await?;
        let nodes = nodes::of_group(conn, &id, &group.nodegroup_id()).await?;
        Ok::<_, StoreError>(Found { cluster, group, nodes })
    };
    Ok(cx.shared.store.read(read).await?)
}
