//! Queries on `nodegroup`.

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::connection::{Conn, on_conn};
use super::error::StoreError;
use crate::cluster::CreateSpec;
use crate::cluster::status::Status;
use crate::id::{ClusterId, NodegroupId};
use crate::nodegroup::{DefaultNodegroup, Nodegroup, NodegroupChange};
use crate::schema::nodegroup;
use crate::text::storable;
use crate::time::{now, whole_seconds};

/// The groups of the given clusters, in order of creation.
pub async fn of_clusters(conn: &mut Conn, clusters: &[&str]) -> Result<Vec<Nodegroup>, StoreError> {
    if clusters.is_empty() {
        return Ok(Vec::new());
    }
    if let Some(padded) = pad(clusters) {
        return Ok(on_conn!(conn, |c| {
            let mut query = nodegroup::table.select(Nodegroup::as_select()).order(nodegroup::id.asc()).into_boxed();
            for id in padded {
                query = query.or_filter(nodegroup::cluster_id.eq(id));
            }
            query.load(&mut **c).await
        })?);
    }
    Ok(on_conn!(conn, |c| {
        nodegroup::table
            .select(Nodegroup::as_select())
            .filter(nodegroup::cluster_id.eq_any(clusters))
            .order(nodegroup::id.asc())
            .load(&mut **c)
            .await
    })?)
}

/// Pages of a usual size are filled up to one of few lengths by repeating the last id, so that their statement is prepared once for a
/// connection: a list of varying length (`IN`) would be prepared anew each time, which costs the database as much as the query. None
/// for longer ones, where that cost does not count.
fn pad<'a>(ids: &[&'a str]) -> Option<Vec<&'a str>> {
    let last = ids.last()?;
    let length = [1, 4, 32].into_iter().find(|n| *n >= ids.len())?;
    let mut padded = ids.to_vec();
    padded.resize(length, last);
    Some(padded)
}

/// The groups of one cluster.
pub async fn of_cluster(conn: &mut Conn, cluster: &ClusterId) -> Result<Vec<Nodegroup>, StoreError> {
    of_clusters(conn, &[cluster.as_str()]).await
}

/// Inserts a default group of a new cluster, in CREATE_IN_PROGRESS.
pub async fn insert_default(conn: &mut Conn, spec: &CreateSpec, group: &DefaultNodegroup) -> Result<(), StoreError> {
    let row = (
        nodegroup::created_at.eq(Some(whole_seconds(now()))),
        nodegroup::uuid.eq(NodegroupId::generate().as_str().to_owned()),
        nodegroup::name.eq(group.role.name()),
        nodegroup::cluster_id.eq(spec.id.as_str()),
        nodegroup::project_id.eq(&spec.project.0),
        nodegroup::docker_volume_size.eq(group.docker_volume_size),
        nodegroup::labels.eq(spec.labels.column()),
        nodegroup::flavor_id.eq(&group.flavor),
        nodegroup::image_id.eq(&group.image),
        nodegroup::node_addresses.eq("[]"),
        nodegroup::node_count.eq(group.node_count),
        nodegroup::min_node_count.eq(group.min_node_count),
        nodegroup::role.eq(group.role.role()),
        nodegroup::is_default.eq(true),
        nodegroup::status.eq(Status::CreateInProgress.as_str()),
    );
    on_conn!(conn, |c| diesel::insert_into(nodegroup::table).values(row).execute(&mut **c).await)?;
    Ok(())
}

/// Changes columns of one group.
pub async fn record(conn: &mut Conn, id: &NodegroupId, change: &NodegroupChange) -> Result<(), StoreError> {
    let rows = on_conn!(conn, |c| {
        diesel::update(nodegroup::table.filter(nodegroup::uuid.eq(id.as_str())))
            .set((clean(change), nodegroup::updated_at.eq(Some(whole_seconds(now())))))
            .execute(&mut **c)
            .await
    })?;
    if rows == 0 { Err(StoreError::Stale { what: "nodegroup" }) } else { Ok(()) }
}

/// Changes columns of all groups of a cluster.
pub async fn record_all(conn: &mut Conn, cluster: &ClusterId, change: &NodegroupChange) -> Result<(), StoreError> {
    on_conn!(conn, |c| {
        diesel::update(nodegroup::table.filter(nodegroup::cluster_id.eq(cluster.as_str())))
            .set((clean(change), nodegroup::updated_at.eq(Some(whole_seconds(now())))))
            .execute(&mut **c)
            .await
    })?;
    Ok(())
}

fn clean(change: &NodegroupChange) -> NodegroupChange {
    let mut change = change.clone();
    change.status_reason = change.status_reason.map(|reason| reason.as_deref().map(storable));
    change
}

/// Removes all groups of a cluster.
pub async fn delete_all(conn: &mut Conn, cluster: &ClusterId) -> Result<(), StoreError> {
    on_conn!(conn, |c| diesel::delete(nodegroup::table.filter(nodegroup::cluster_id.eq(cluster.as_str()))).execute(&mut **c).await)?;
    Ok(())
}
