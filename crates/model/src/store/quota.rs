//! Queries on `quotas`.

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::cluster;
use super::connection::{Conn, on_conn};
use super::error::StoreError;
use crate::id::ProjectId;
use crate::schema::quotas;

/// The only resource upstream has a quota for.
pub const CLUSTER: &str = "Cluster";

/// Refuses one more cluster in a project that has as many as it may.
///
/// # Errors
/// [`StoreError::LimitReached`] naming the limit.
pub async fn check_clusters(conn: &mut Conn, project: &ProjectId, default_limit: i64) -> Result<(), StoreError> {
    let limit: Option<i32> = on_conn!(conn, |c| {
        quotas::table
            .select(quotas::hard_limit)
            .filter(quotas::project_id.eq(&project.0))
            .filter(quotas::resource.eq(CLUSTER))
            .first(&mut **c)
            .await
            .optional()
    })?;
    let limit = limit.map_or(default_limit, i64::from);
    if cluster::count(conn, project).await? >= limit {
        return Err(StoreError::LimitReached { what: "clusters in this project", limit });
    }
    Ok(())
}
