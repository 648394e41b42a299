//! Queries on `cloud_resource`, the inventory.

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::collation::AsUpstreams;
use super::connection::{Conn, on_conn};
use super::dialect::upsert;
use super::error::StoreError;
use crate::id::ClusterId;
use crate::resource::{CloudResource, OnDelete, ResourceKind};
use crate::schema::{cloud_resource, cluster, operation};
use crate::time::{millis, now};

/// Records a thing before it is made (id not known yet) or once it is (id known); a second record of the same thing updates the first.
pub async fn record(
    conn: &mut Conn,
    cluster: &ClusterId,
    kind: ResourceKind,
    name: &str,
    resource_id: Option<&str>,
) -> Result<(), StoreError> {
    record_for(conn, cluster, kind, name, resource_id, OnDelete::Remove).await
}

/// As [`record`], with what the deletion of the cluster is to do with it.
pub async fn record_for(
    conn: &mut Conn,
    cluster: &ClusterId,
    kind: ResourceKind,
    name: &str,
    resource_id: Option<&str>,
    on_delete: OnDelete,
) -> Result<(), StoreError> {
    let at = millis(now());
    let row = (
        cloud_resource::cluster_uuid.eq(cluster.as_str()),
        cloud_resource::kind.eq(kind.as_str()),
        cloud_resource::name.eq(name),
        cloud_resource::resource_id.eq(resource_id),
        cloud_resource::on_delete.eq(on_delete.as_str()),
        cloud_resource::created_ms.eq(at),
        cloud_resource::updated_ms.eq(at),
    );
    // An id that is known stays known.
    let change = (
        resource_id.map(|id| cloud_resource::resource_id.eq(id)),
        cloud_resource::on_delete.eq(on_delete.as_str()),
        cloud_resource::updated_ms.eq(at),
    );
    upsert!(conn, cloud_resource, (cloud_resource::cluster_uuid, cloud_resource::kind, cloud_resource::name), row, change);
    Ok(())
}

/// What is recorded for a cluster.
pub async fn of_cluster(conn: &mut Conn, cluster: &ClusterId) -> Result<Vec<CloudResource>, StoreError> {
    Ok(on_conn!(conn, |c| {
        cloud_resource::table
            .select(CloudResource::as_select())
            .filter(cloud_resource::cluster_uuid.eq(cluster.as_str()))
            .order(cloud_resource::id.asc())
            .load(&mut **c)
            .await
    })?)
}

/// Forgets that one thing was about to be made: it is known that it was not.
pub async fn unannounce(conn: &mut Conn, cluster: &ClusterId, kind: ResourceKind, name: &str) -> Result<(), StoreError> {
    on_conn!(conn, |c| {
        diesel::delete(
            cloud_resource::table
                .filter(cloud_resource::cluster_uuid.eq(cluster.as_str()))
                .filter(cloud_resource::kind.eq(kind.as_str()))
                .filter(cloud_resource::name.eq(name))
                .filter(cloud_resource::resource_id.is_null()),
        )
        .execute(&mut **c)
        .await
    })?;
    Ok(())
}

/// Forgets one thing that is gone.
pub async fn forget_one(conn: &mut Conn, cluster: &ClusterId, kind: ResourceKind, name: &str) -> Result<(), StoreError> {
    on_conn!(conn, |c| {
        diesel::delete(
            cloud_resource::table
                .filter(cloud_resource::cluster_uuid.eq(cluster.as_str()))
                .filter(cloud_resource::kind.eq(kind.as_str()))
                .filter(cloud_resource::name.eq(name)),
        )
        .execute(&mut **c)
        .await
    })?;
    Ok(())
}

/// Forgets one thing that is gone, by its id.
pub async fn forget_id(conn: &mut Conn, cluster: &ClusterId, kind: ResourceKind, resource_id: &str) -> Result<(), StoreError> {
    on_conn!(conn, |c| {
        diesel::delete(
            cloud_resource::table
                .filter(cloud_resource::cluster_uuid.eq(cluster.as_str()))
                .filter(cloud_resource::kind.eq(kind.as_str()))
                .filter(cloud_resource::resource_id.eq(resource_id)),
        )
        .execute(&mut **c)
        .await
    })?;
    Ok(())
}

/// Forgets all things of a kind: they are gone.
pub async fn forget(conn: &mut Conn, cluster: &ClusterId, kind: ResourceKind) -> Result<(), StoreError> {
    on_conn!(conn, |c| {
        diesel::delete(
            cloud_resource::table.filter(cloud_resource::cluster_uuid.eq(cluster.as_str())).filter(cloud_resource::kind.eq(kind.as_str())),
        )
        .execute(&mut **c)
        .await
    })?;
    Ok(())
}

/// Forgets everything of a cluster.
pub async fn forget_all(conn: &mut Conn, cluster: &ClusterId) -> Result<(), StoreError> {
    on_conn!(conn, |c| {
        diesel::delete(cloud_resource::table.filter(cloud_resource::cluster_uuid.eq(cluster.as_str()))).execute(&mut **c).await
    })?;
    Ok(())
}

/// The first `limit` things after the row of this id (0: from the first) whose cluster is gone, with no operation on it that may still see
/// to them, not touched since `before_ms`. (One that was superseded is still held until its holder has noticed, or until the lease of a
/// dead one is over.)
pub async fn ownerless(conn: &mut Conn, after: i64, before_ms: i64, limit: i64) -> Result<Vec<CloudResource>, StoreError> {
    let of_cluster = cluster::table.filter(cluster::uuid.eq(AsUpstreams(cloud_resource::cluster_uuid)));
    let held = operation::owner.is_not_null().and(operation::lease_ms.ge(millis(now()))).assume_not_null();
    let unfinished =
        operation::table.filter(operation::cluster_uuid.eq(cloud_resource::cluster_uuid)).filter(operation::finished_ms.is_null().or(held));
    Ok(on_conn!(conn, |c| {
        cloud_resource::table
            .select(CloudResource::as_select())
            .filter(cloud_resource::id.gt(after))
            .filter(cloud_resource::updated_ms.lt(before_ms))
            .filter(diesel::dsl::not(diesel::dsl::exists(of_cluster)))
            .filter(diesel::dsl::not(diesel::dsl::exists(unfinished)))
            .order(cloud_resource::id.asc())
            .limit(limit)
            .load(&mut **c)
            .await
    })?)
}

/// Of these clusters, those of which anything is known: the row, a thing in the inventory, or an operation that has not ended.
pub async fn known_clusters(conn: &mut Conn, ids: &[String]) -> Result<Vec<String>, StoreError> {
    Ok(on_conn!(conn, |c| {
        let mut known: Vec<String> = cluster::table.select(cluster::uuid).filter(cluster::uuid.eq_any(ids)).load(&mut **c).await?;
        let recorded: Vec<String> = cloud_resource::table
            .select(cloud_resource::cluster_uuid)
            .filter(cloud_resource::cluster_uuid.eq_any(ids))
            .load(&mut **c)
            .await?;
        let unfinished = operation::table.filter(operation::finished_ms.is_null());
        let at_work: Vec<String> =
            unfinished.select(operation::cluster_uuid).filter(operation::cluster_uuid.eq_any(ids)).load(&mut **c).await?;
        known.extend(recorded);
        known.extend(at_work);
        known
    }))
}
