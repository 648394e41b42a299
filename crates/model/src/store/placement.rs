//! Queries on `capi_placement`: which management cluster a cluster of the Cluster API driver is on.

use std::collections::HashMap;

use diesel::dsl::{count_star, exists, not};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::collation::{AsOurs, AsUpstreams};
use super::connection::{Conn, on_conn};
use super::dialect::{self, Guard, upsert};
use super::error::StoreError;
use crate::id::ClusterId;
use crate::placement::DEFAULT;
use crate::schema::{capi_placement, cluster};
use crate::time::{millis, now};

/// The name of the management cluster that a cluster is on; none: nobody has recorded it.
pub async fn find(conn: &mut Conn, id: &ClusterId) -> Result<Option<String>, StoreError> {
    Ok(on_conn!(conn, |c| {
        capi_placement::table
            .select(capi_placement::management_cluster)
            .filter(capi_placement::cluster_uuid.eq(id.as_str()))
            .first(&mut **c)
            .await
            .optional()
    })?)
}

/// The same for several clusters at once, by their uuids; those that are not recorded are left out.
pub async fn of_clusters(conn: &mut Conn, ids: &[&str]) -> Result<HashMap<String, String>, StoreError> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows: Vec<(String, String)> = on_conn!(conn, |c| {
        capi_placement::table
            .select((capi_placement::cluster_uuid, capi_placement::management_cluster))
            .filter(capi_placement::cluster_uuid.eq_any(ids))
            .load(&mut **c)
            .await
    })?;
    Ok(rows.into_iter().collect())
}

/// Begins a choice: whoever chooses at the same time waits until this transaction has ended.
///
/// To be the first statement of the transaction, before anything is read: one that has read before would go on seeing the rows as they were.
pub async fn begin(conn: &mut Conn) -> Result<(), StoreError> {
    dialect::touch_guard(conn, Guard::Placement).await
}

/// A pattern for the ids of Heat's stacks; releases are called otherwise.
const STACK_ID: &str = "________-____-____-____-____________";

/// How many clusters are on each management cluster, by its name; rows that a cluster left behind do not count. Those that nobody has recorded, as
/// upstream's, count as [`DEFAULT`]'s, where they are looked for.
pub async fn counts(conn: &mut Conn) -> Result<HashMap<String, i64>, StoreError> {
    let rows: Vec<(String, i64)> = on_conn!(conn, |c| {
        capi_placement::table
            .filter(exists(cluster::table.filter(cluster::uuid.eq(AsUpstreams(capi_placement::cluster_uuid)))))
            .group_by(capi_placement::management_cluster)
            .select((capi_placement::management_cluster, count_star()))
            .load(&mut **c)
            .await
    })?;
    let unrecorded: i64 = on_conn!(conn, |c| {
        cluster::table
            .filter(cluster::stack_id.not_like(STACK_ID))
            .filter(not(exists(capi_placement::table.filter(capi_placement::cluster_uuid.eq(AsOurs(cluster::uuid))))))
            .count()
            .get_result(&mut **c)
            .await
    })?;
    let mut counts: HashMap<String, i64> = rows.into_iter().collect();
    if unrecorded > 0 {
        *counts.entry(DEFAULT.to_owned()).or_default() += unrecorded;
    }
    Ok(counts)
}

/// How many clusters are on other management clusters than `name`, and up to `limit` of them, each with where it is.
pub async fn elsewhere(conn: &mut Conn, name: &str, limit: i64) -> Result<(i64, Vec<(String, String)>), StoreError> {
    Ok(on_conn!(conn, |c| {
        let others = || {
            capi_placement::table
                .filter(capi_placement::management_cluster.ne(name))
                .filter(exists(cluster::table.filter(cluster::uuid.eq(AsUpstreams(capi_placement::cluster_uuid)))))
        };
        let count = others().count().get_result(&mut **c).await?;
        let columns = (capi_placement::cluster_uuid, capi_placement::management_cluster);
        Ok::<_, diesel::result::Error>((
            count,
            others().select(columns).order(capi_placement::cluster_uuid.asc()).limit(limit).load(&mut **c).await?,
        ))
    })?)
}

/// Records where a cluster is, in the place of what was recorded before.
pub async fn record(conn: &mut Conn, id: &ClusterId, name: &str) -> Result<(), StoreError> {
    let (is_on, since) = (capi_placement::management_cluster.eq(name), capi_placement::placed_ms.eq(millis(now())));
    let row = (capi_placement::cluster_uuid.eq(id.as_str()), is_on, since);
    upsert!(conn, capi_placement, capi_placement::cluster_uuid, row, (is_on, since));
    Ok(())
}

/// Forgets a cluster; one that is not recorded is no error.
pub async fn forget(conn: &mut Conn, id: &ClusterId) -> Result<(), StoreError> {
    on_conn!(conn, |c| {
        diesel::delete(capi_placement::table.filter(capi_placement::cluster_uuid.eq(id.as_str()))).execute(&mut **c).await
    })?;
    Ok(())
}

/// Removes up to `limit` rows of clusters that are gone (upstream, while it has the database, knows nothing of them); how many it was.
pub async fn remove_ownerless(conn: &mut Conn, limit: i64) -> Result<usize, StoreError> {
    let gone: Vec<String> = on_conn!(conn, |c| {
        capi_placement::table
            .select(capi_placement::cluster_uuid)
            .filter(not(exists(cluster::table.filter(cluster::uuid.eq(AsUpstreams(capi_placement::cluster_uuid))))))
            .limit(limit)
            .load(&mut **c)
            .await
    })?;
    if gone.is_empty() {
        return Ok(0);
    }
    Ok(on_conn!(conn, |c| {
        diesel::delete(capi_placement::table.filter(capi_placement::cluster_uuid.eq_any(&gone))).execute(&mut **c).await
    })?)
}
