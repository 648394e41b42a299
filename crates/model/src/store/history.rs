//! Queries on what was asked for and what became of it: pages of `operation`, also of clusters that are gone.

use std::collections::HashMap;

use diesel::dsl::exists;
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use diesel_async::RunQueryDsl;

use super::connection::{Conn, on_conn};
use super::error::StoreError;
use super::operation::JOINED;
use super::page::Page;
use super::recurring::Recur;
use super::scope::Scope;
use crate::id::{ClusterId, OperationId};
use crate::operation::{Operation, OperationState};
use crate::schema::{cluster, operation};

/// Which operations a list shows.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// Only those on this cluster.
    pub cluster: Option<ClusterId>,
    /// Only those in this state.
    pub state: Option<String>,
    /// Only those of this kind.
    pub kind: Option<String>,
}

/// What a list can be sorted by.
pub const SORT_KEYS: &[&str] = &["id", "uuid", "kind", "cluster_id", "project_id", "user_id", "state", "created_at", "updated_at"];

/// What the table calls those that have another name there.
const COLUMNS: &[(&str, &str)] = &[("cluster_id", "cluster_uuid"), ("created_at", "created_ms"), ("updated_at", "updated_ms")];

/// A boxed query of the operations that a scope sees.
macro_rules! seen_by {
    ($scope:expr) => {{
        let query = operation::table.select(Operation::as_select()).into_boxed();
        match $scope {
            Scope::All => query,
            Scope::Project(p) => query.filter(operation::project_id.eq(p.0.clone())),
            Scope::User(u) => query.filter(operation::user_id.eq(u.0.clone())),
        }
    }};
}

/// The operation of this id, if the scope sees one.
pub async fn fetch(conn: &mut Conn, scope: &Scope, id: &OperationId) -> Result<Operation, StoreError> {
    let row = on_conn!(conn, |c| seen_by!(scope).filter(operation::uuid.eq(id.as_str())).first(&mut **c).await.optional())?;
    row.ok_or_else(|| StoreError::NotFound { what: "operation", key: id.to_string() })
}

/// One page.
///
/// # Errors
/// [`StoreError::NotFound`] for a marker that the scope does not see, [`StoreError::BadSortKey`].
pub async fn page(conn: &mut Conn, scope: &Scope, shown: &Shown, page: &Page) -> Result<Vec<Operation>, StoreError> {
    let marker = match &page.marker {
        Some(uuid) => Some(fetch(conn, scope, &OperationId::new(uuid.clone())).await?),
        None => None,
    };
    let order = page.order("operation", "operation", SORT_KEYS)?.called(COLUMNS);
    let rows: Vec<Operation> = on_conn!(conn, |c| {
        let mut query = seen_by!(scope).limit(page.limit).order(order);
        if let Some(cluster) = &shown.cluster {
            query = query.filter(operation::cluster_uuid.eq(cluster.as_str()));
        }
        if let Some(state) = &shown.state {
            query = query.filter(operation::state.eq(state));
        }
        if let Some(kind) = &shown.kind {
            query = query.filter(operation::kind.eq(kind));
        }
        if let Some(marker) = &marker {
            query = query.filter(order.behind(marker.id));
        }
        query.load(&mut **c).await?
    });
    if let (true, Some(marker)) = (rows.is_empty(), &marker) {
        // Nothing is behind a row that went meanwhile.
        fetch(conn, scope, &marker.operation_id()).await?;
    }
    Ok(rows)
}

/// Whether the scope sees a cluster, or any operation on one that is gone. In one statement: it is asked before each page of what a cluster has
/// behind it.
pub async fn is_known(conn: &mut Conn, scope: &Scope, id: &ClusterId) -> Result<bool, StoreError> {
    macro_rules! either {
        ($cluster:expr, $operations:expr) => {
            on_conn!(conn, |c| diesel::select(exists($cluster).or(exists($operations))).get_result(&mut **c).await)?
        };
    }
    let there = cluster::table.filter(cluster::uuid.eq(id.as_str()));
    let told = operation::table.filter(operation::cluster_uuid.eq(id.as_str()));
    Ok(match scope {
        Scope::All => either!(there, told),
        Scope::Project(p) => either!(there.filter(cluster::project_id.eq(&p.0)), told.filter(operation::project_id.eq(&p.0))),
        Scope::User(u) => either!(there.filter(cluster::user_id.eq(&u.0)), told.filter(operation::user_id.eq(&u.0))),
    })
}

/// Finished operations of a cluster looked through for the one that another one does again: whoever names it and whoever hands on what it had
/// must find the same.
pub const LOOKED_THROUGH: i64 = 100;

/// The last `limit` operations of a cluster that have ended, the newest first, without those that another one stood for from the first
/// ([`super::operation::join`]): nobody ever does these again, or goes by them.
pub async fn finished(conn: &mut Conn, cluster: &ClusterId, limit: i64) -> Result<Vec<Operation>, StoreError> {
    let joined = format!("{JOINED}%");
    Ok(on_conn!(conn, |c| {
        operation::table
            .select(Operation::as_select())
            .filter(operation::cluster_uuid.eq(cluster.as_str()))
            .filter(operation::state.ne_all(OperationState::UNFINISHED))
            .filter(operation::outcome_reason.is_null().or(operation::outcome_reason.not_like(&joined)))
            .order(operation::id.desc())
            .limit(limit)
            .recurring()
            .load(&mut **c)
            .await
    })?)
}

#[derive(QueryableByName)]
struct Freed {
    #[diesel(sql_type = BigInt)]
    id: i64,
    #[diesel(sql_type = BigInt)]
    freed_ms: i64,
}

/// When the last operation before each of these on its cluster ended, by the numbers of their rows. Those that nothing was before, or nothing
/// that has ended and is kept, are left out.
pub async fn freed(conn: &mut Conn, rows: &[i64]) -> Result<HashMap<i64, i64>, StoreError> {
    if rows.is_empty() {
        return Ok(HashMap::new());
    }
    let ids = rows.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    let sql = format!(
        "SELECT o.id AS id, MAX(e.finished_ms) AS freed_ms FROM operation o JOIN operation e ON e.cluster_uuid = o.cluster_uuid AND e.id < o.id \
         WHERE o.id IN ({ids}) AND e.finished_ms IS NOT NULL GROUP BY o.id"
    );
    let freed: Vec<Freed> = on_conn!(conn, |c| diesel::sql_query(sql).load(&mut **c).await)?;
    Ok(freed.into_iter().map(|row| (row.id, row.freed_ms)).collect())
}
