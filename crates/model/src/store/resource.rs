//! Queries on `cloud_resource`, the inventory.

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::connection::{Conn, on_conn};
use super::error::StoreError;
use crate::id::ClusterId;
use crate::resource::{CloudResource, ResourceKind};
use crate::schema::cloud_resource;
use crate::time::{millis, now};

/// Records a thing before it is made (id not known yet) or once it is (id known); a second record of the same thing updates the first.
pub async fn record(
    conn: &mut Conn,
    cluster: &ClusterId,
    kind: ResourceKind,
    name: &str,
    resource_id: Option<&str>,
) -> Result<(), StoreError> {
    let at = millis(now());
    on_conn!(conn, |c| {
        let rows = diesel::update(
            cloud_resource::table
                .filter(cloud_resource::cluster_uuid.eq(cluster.as_str()))
                .filter(cloud_resource::kind.eq(kind.as_str()))
                .filter(cloud_resource::name.eq(name)),
        )
        .set((resource_id.map(|id| cloud_resource::resource_id.eq(id)), cloud_resource::updated_ms.eq(at)))
        .execute(&mut **c)
        .await?;
        if rows == 0 {
            diesel::insert_into(cloud_resource::table)
                .values((
                    cloud_resource::cluster_uuid.eq(cluster.as_str()),
                    cloud_resource::kind.eq(kind.as_str()),
                    cloud_resource::name.eq(name),
                    cloud_resource::resource_id.eq(resource_id),
                    cloud_resource::on_delete.eq("delete"),
                    cloud_resource::created_ms.eq(at),
                    cloud_resource::updated_ms.eq(at),
                ))
                .execute(&mut **c)
                .await?;
        }
    });
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
