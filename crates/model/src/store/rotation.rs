//! Queries on `ca_rotation`: clusters whose authorities are being replaced.

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::connection::{Conn, on_conn};
use super::error::StoreError;
use super::recurring::Recur;
use crate::certificate::{Authority, Phase, References, Role, Rotation};
use crate::id::{ClusterId, KeypairId};
use crate::schema::ca_rotation;
use crate::time::{millis, now};

/// The rotation of a cluster's authorities, if one has begun.
pub async fn find(conn: &mut Conn, cluster: &ClusterId) -> Result<Option<Rotation>, StoreError> {
    Ok(on_conn!(conn, |c| {
        ca_rotation::table
            .select(Rotation::as_select())
            .filter(ca_rotation::cluster_uuid.eq(cluster.as_str()))
            .first(&mut **c)
            .await
            .optional()
    })?)
}

/// The pairs whose authorities are trusted beside the cluster's own, while there are any.
pub async fn beside(conn: &mut Conn, cluster: &ClusterId) -> Result<Option<References>, StoreError> {
    Ok(find(conn, cluster).await?.and_then(|rotation| rotation.beside()))
}

/// Begins one; `generation` names the nodes that it makes.
pub async fn begin(conn: &mut Conn, cluster: &ClusterId, generation: &str) -> Result<(), StoreError> {
    let row = (
        ca_rotation::cluster_uuid.eq(cluster.as_str()),
        ca_rotation::generation.eq(generation),
        ca_rotation::phase.eq(Phase::Trust.as_str()),
        ca_rotation::started_ms.eq(millis(now())),
    );
    on_conn!(conn, |c| diesel::insert_into(ca_rotation::table).values(row).execute(&mut **c).await)?;
    Ok(())
}

/// Keeps the reference of one of the new pairs.
pub async fn record(conn: &mut Conn, cluster: &ClusterId, role: Role, reference: &KeypairId) -> Result<(), StoreError> {
    let is = |other: Role| (role == other).then(|| reference.as_str());
    let change = (
        is(Role::Authority(Authority::Kubernetes)).map(|r| ca_rotation::ca_cert_ref.eq(r)),
        is(Role::Authority(Authority::Etcd)).map(|r| ca_rotation::etcd_ca_cert_ref.eq(r)),
        is(Role::Authority(Authority::FrontProxy)).map(|r| ca_rotation::front_proxy_ca_cert_ref.eq(r)),
        is(Role::Client).map(|r| ca_rotation::magnum_cert_ref.eq(r)),
    );
    let row = ca_rotation::table.filter(ca_rotation::cluster_uuid.eq(cluster.as_str()));
    let rows = on_conn!(conn, |c| diesel::update(row).set(change).recurring().execute(&mut **c).await)?;
    found(rows)
}

/// Goes on to a phase, with these pairs beside the cluster's own.
pub async fn enter(conn: &mut Conn, cluster: &ClusterId, phase: Phase, beside: &References) -> Result<(), StoreError> {
    let change = (
        ca_rotation::phase.eq(phase.as_str()),
        ca_rotation::ca_cert_ref.eq(&beside.kubernetes),
        ca_rotation::etcd_ca_cert_ref.eq(&beside.etcd),
        ca_rotation::front_proxy_ca_cert_ref.eq(&beside.front_proxy),
        ca_rotation::magnum_cert_ref.eq(&beside.client),
    );
    let row = ca_rotation::table.filter(ca_rotation::cluster_uuid.eq(cluster.as_str()));
    let rows = on_conn!(conn, |c| diesel::update(row).set(change).recurring().execute(&mut **c).await)?;
    found(rows)
}

/// Ends it; one that is not there is no error.
pub async fn end(conn: &mut Conn, cluster: &ClusterId) -> Result<(), StoreError> {
    on_conn!(conn, |c| {
        diesel::delete(ca_rotation::table.filter(ca_rotation::cluster_uuid.eq(cluster.as_str()))).execute(&mut **c).await
    })?;
    Ok(())
}

fn found(rows: usize) -> Result<(), StoreError> {
    if rows == 0 { Err(StoreError::Stale { what: "rotation of authorities" }) } else { Ok(()) }
}
