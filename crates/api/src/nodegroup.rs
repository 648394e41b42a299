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

/// The cluster and the group that the path names.
async fn find(cx: &Context, scope: &Scope) -> Result<Found, ApiError> {
    let (cluster, group) = (cx.arg("cluster"), cx.arg("nodegroup"));
    let read = async |conn: &mut Conn| {
        let cluster = crate::cluster::find(conn, scope, cluster).await?;
        let (group, nodes) = group_of(conn, &cluster, group).await?;
        Ok::<_, StoreError>(Found { cluster, group, nodes })
    };
    Ok(cx.shared.store.read(read).await?)
}

/// The group that the path names, in a cluster that was found before.
async fn find_in(cx: &Context, cluster: Cluster) -> Result<Found, ApiError> {
    let ident = cx.arg("nodegroup");
    let (group, nodes) = {
        let cluster = &cluster;
        cx.shared.store.read(async |conn: &mut Conn| group_of(conn, cluster, ident).await).await?
    };
    Ok(Found { cluster, group, nodes })
}

async fn group_of(conn: &mut Conn, cluster: &Cluster, ident: &str) -> Result<(Nodegroup, Nodes), StoreError> {
    let id = cluster.cluster_id();
    let group = nodegroup::fetch_in_cluster(conn, &id, ident).await?;
    let nodes = nodes::of_group(conn, &id, &group.nodegroup_id()).await?;
    Ok((group, nodes))
}
