//! Queries on `nodegroup`.

use diesel::prelude::*;
use diesel::sql_types::{Integer, Nullable};
use diesel_async::RunQueryDsl;

use super::connection::{Conn, on_conn};
use super::error::StoreError;
use super::many::{Many, among};
use super::nodes;
use super::page::Page;
use super::recurring::Recur;
use crate::cluster::CreateSpec;
use crate::cluster::status::Status;
use crate::id::{ClusterId, NodegroupId, ProjectId};
use crate::nodegroup::{DefaultNodegroup, NewNodegroup, Nodegroup, NodegroupChange, Nodes, UNSAID_COUNT};
use crate::schema::nodegroup;
use crate::text::storable;
use crate::time::{now, whole_seconds};

diesel::define_sql_function! {
    /// The number, or the other one where it is NULL.
    fn coalesce(number: Nullable<Integer>, instead: Integer) -> Integer;
}

/// The groups of one cluster, in order of creation.
pub async fn of_cluster(conn: &mut Conn, cluster: &ClusterId) -> Result<Vec<Nodegroup>, StoreError> {
    Ok(on_conn!(conn, |c| {
        nodegroup::table
            .select(Nodegroup::as_select())
            .filter(nodegroup::cluster_id.eq(cluster.as_str()))
            .order(nodegroup::id.asc())
            .load(&mut **c)
            .await
    })?)
}

/// The groups of these clusters, in no order.
pub async fn of_clusters(conn: &mut Conn, clusters: &[&str]) -> Result<Vec<Nodegroup>, StoreError> {
    if clusters.is_empty() {
        return Ok(Vec::new());
    }
    let many = Many::of("nodegroup.cluster_id", clusters);
    Ok(on_conn!(conn, |c| {
        let query = nodegroup::table.select(Nodegroup::as_select()).into_boxed();
        among!(query, nodegroup::cluster_id, many).load(&mut **c).await
    })?)
}

/// The group of a cluster that a request names: by uuid, by name, or by its internal number (rest-api.md 6.1).
pub async fn find_in_cluster(conn: &mut Conn, cluster: &ClusterId, ident: &str) -> Result<Option<Nodegroup>, StoreError> {
    let mut named: Vec<Nodegroup> = on_conn!(conn, |c| {
        nodegroup::table
            .select(Nodegroup::as_select())
            .filter(nodegroup::cluster_id.eq(cluster.as_str()))
            .filter(nodegroup::uuid.eq(ident).or(nodegroup::name.eq(ident)))
            .order(nodegroup::id.asc())
            .load(&mut **c)
            .await
    })?;
    // A group may be named like another one's uuid; the uuid wins.
    if let Some(at) = named.iter().position(|g| g.uuid == ident) {
        return Ok(Some(named.swap_remove(at)));
    }
    if let Some(group) = named.pop() {
        return Ok(Some(group));
    }
    let Ok(number) = ident.parse::<i32>() else { return Ok(None) };
    Ok(on_conn!(conn, |c| {
        nodegroup::table
            .select(Nodegroup::as_select())
            .filter(nodegroup::cluster_id.eq(cluster.as_str()))
            .filter(nodegroup::id.eq(number))
            .first(&mut **c)
            .await
            .optional()
    })?)
}

/// As [`find_in_cluster`], for a group that must exist.
///
/// # Errors
/// [`StoreError::NotFound`].
pub async fn fetch_in_cluster(conn: &mut Conn, cluster: &ClusterId, ident: &str) -> Result<Nodegroup, StoreError> {
    find_in_cluster(conn, cluster, ident).await?.ok_or_else(|| StoreError::NotFound { what: "nodegroup", key: ident.into() })
}

/// The group with this uuid.
pub async fn find(conn: &mut Conn, id: &NodegroupId) -> Result<Option<Nodegroup>, StoreError> {
    Ok(on_conn!(conn, |c| {
        nodegroup::table.select(Nodegroup::as_select()).filter(nodegroup::uuid.eq(id.as_str())).first(&mut **c).await.optional()
    })?)
}

/// Which groups of a cluster a list shows.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// Only those of this project (a caller who is no admin).
    pub project: Option<ProjectId>,
    /// Only those of this role.
    pub role: Option<String>,
}

/// The columns that a list can be sorted by.
pub const SORT_KEYS: &[&str] = &[
    "id",
    "uuid",
    "name",
    "cluster_id",
    "project_id",
    "docker_volume_size",
    "labels",
    "flavor_id",
    "image_id",
    "node_addresses",
    "node_count",
    "max_node_count",
    "min_node_count",
    "role",
    "is_default",
    "stack_id",
    "status",
    "status_reason",
    "version",
    "created_at",
    "updated_at",
];

/// One page of a cluster's groups.
///
/// # Errors
/// [`StoreError::NotFound`] for a marker that is no shown group of the cluster, [`StoreError::BadSortKey`].
pub async fn page(conn: &mut Conn, cluster: &ClusterId, shown: &Shown, page: &Page) -> Result<Vec<Nodegroup>, StoreError> {
    macro_rules! visible {
        () => {{
            let mut query = nodegroup::table.select(Nodegroup::as_select()).filter(nodegroup::cluster_id.eq(cluster.as_str())).into_boxed();
            if let Some(project) = &shown.project {
                query = query.filter(nodegroup::project_id.eq(&project.0));
            }
            if let Some(role) = &shown.role {
                query = query.filter(nodegroup::role.eq(role));
            }
            query
        }};
    }
    let marked = async |conn: &mut Conn, uuid: &str| -> Result<Nodegroup, StoreError> {
        let row = on_conn!(conn, |c| visible!().filter(nodegroup::uuid.eq(uuid)).first(&mut **c).await.optional())?;
        row.ok_or_else(|| StoreError::NotFound { what: "nodegroup", key: uuid.to_owned() })
    };
    let marker = match &page.marker {
        Some(uuid) => Some(marked(conn, uuid).await?),
        None => None,
    };
    let order = page.order("nodegroup", "nodegroup", SORT_KEYS)?;
    let rows: Vec<Nodegroup> = on_conn!(conn, |c| {
        let mut query = visible!().limit(page.limit).order(order);
        if let Some(marker) = &marker {
            query = query.filter(order.behind(marker.id));
        }
        query.load(&mut **c).await?
    });
    if let (true, Some(marker)) = (rows.is_empty(), &marker) {
        // Nothing is behind a row that went meanwhile.
        marked(conn, &marker.uuid).await?;
    }
    Ok(rows)
}

/// Inserts a group that the user asked for, in CREATE_IN_PROGRESS, with how its nodes register.
///
/// # Errors
/// [`StoreError::Duplicate`] when the cluster has a group of this name.
pub async fn insert(conn: &mut Conn, group: &NewNodegroup) -> Result<(), StoreError> {
    let row = (
        nodegroup::created_at.eq(Some(whole_seconds(now()))),
        nodegroup::uuid.eq(group.id.as_str()),
        nodegroup::name.eq(&group.name),
        nodegroup::cluster_id.eq(group.cluster.as_str()),
        nodegroup::project_id.eq(&group.project.0),
        nodegroup::docker_volume_size.eq(group.docker_volume_size),
        nodegroup::labels.eq(group.labels.column()),
        nodegroup::flavor_id.eq(&group.flavor),
        nodegroup::image_id.eq(&group.image),
        nodegroup::node_addresses.eq("[]"),
        nodegroup::node_count.eq(group.node_count),
        nodegroup::min_node_count.eq(group.min_node_count),
        nodegroup::max_node_count.eq(group.max_node_count),
        nodegroup::role.eq(&group.role),
        nodegroup::is_default.eq(false),
        nodegroup::status.eq(Status::CreateInProgress.as_str()),
    );
    match on_conn!(conn, |c| diesel::insert_into(nodegroup::table).values(row).execute(&mut **c).await).map_err(StoreError::from) {
        Err(StoreError::Duplicate { .. }) => return Err(StoreError::Duplicate { what: "a nodegroup of this name in the cluster" }),
        other => other?,
    };
    if group.nodes == Nodes::default() {
        return Ok(());
    }
    nodes::record(conn, &group.cluster, &group.id, &group.nodes).await
}

/// Nodes that the groups of a project want by their rows, or of all of them; control planes included.
pub async fn count_nodes(conn: &mut Conn, project: Option<&ProjectId>) -> Result<i64, StoreError> {
    let nodes: Option<i64> = on_conn!(conn, |c| {
        let query = nodegroup::table.select(diesel::dsl::sum(coalesce(nodegroup::node_count, UNSAID_COUNT))).into_boxed();
        match project {
            Some(project) => query.filter(nodegroup::project_id.eq(&project.0)).first(&mut **c).await,
            None => query.first(&mut **c).await,
        }
    })?;
    Ok(nodes.unwrap_or(0))
}

/// Inserts the default groups of a new cluster, in CREATE_IN_PROGRESS.
pub async fn insert_defaults(conn: &mut Conn, spec: &CreateSpec, groups: &[DefaultNodegroup; 2]) -> Result<(), StoreError> {
    // Of owned text: Diesel takes rows that borrow one at a time only.
    let rows = groups.each_ref().map(|group| {
        (
            nodegroup::created_at.eq(Some(whole_seconds(now()))),
            nodegroup::uuid.eq(NodegroupId::generate().as_str().to_owned()),
            nodegroup::name.eq(group.role.name()),
            nodegroup::cluster_id.eq(spec.id.as_str().to_owned()),
            nodegroup::project_id.eq(spec.project.0.clone()),
            nodegroup::docker_volume_size.eq(group.docker_volume_size),
            nodegroup::labels.eq(spec.labels.column()),
            nodegroup::flavor_id.eq(group.flavor.clone()),
            nodegroup::image_id.eq(group.image.clone()),
            nodegroup::node_addresses.eq("[]"),
            nodegroup::node_count.eq(group.node_count),
            nodegroup::min_node_count.eq(group.min_node_count),
            nodegroup::max_node_count.eq(group.max_node_count),
            nodegroup::role.eq(group.role.role()),
            nodegroup::is_default.eq(true),
            nodegroup::status.eq(Status::CreateInProgress.as_str()),
        )
    });
    match conn {
        Conn::Mysql(c) => {
            diesel::insert_into(nodegroup::table).values(rows).recurring().execute(&mut **c).await?;
        }
        // Diesel has no statement with several rows for SQLite, where the way is short.
        Conn::Sqlite(c) => {
            for row in rows {
                diesel::insert_into(nodegroup::table).values(row).execute(&mut **c).await?;
            }
        }
    }
    Ok(())
}

/// Changes columns of one group.
pub async fn record(conn: &mut Conn, id: &NodegroupId, change: &NodegroupChange) -> Result<(), StoreError> {
    let rows = on_conn!(conn, |c| {
        diesel::update(nodegroup::table.filter(nodegroup::uuid.eq(id.as_str())))
            .set((clean(change), nodegroup::updated_at.eq(Some(whole_seconds(now())))))
            .recurring()
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
            .recurring()
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

/// Removes a group and what is kept beside it. Removing what is not there is no error.
pub async fn delete(conn: &mut Conn, id: &NodegroupId) -> Result<(), StoreError> {
    nodes::forget(conn, id).await?;
    on_conn!(conn, |c| diesel::delete(nodegroup::table.filter(nodegroup::uuid.eq(id.as_str()))).execute(&mut **c).await)?;
    Ok(())
}

/// Removes all groups of a cluster and what is kept beside them.
pub async fn delete_all(conn: &mut Conn, cluster: &ClusterId) -> Result<(), StoreError> {
    nodes::forget_all(conn, cluster).await?;
    on_conn!(conn, |c| diesel::delete(nodegroup::table.filter(nodegroup::cluster_id.eq(cluster.as_str()))).execute(&mut **c).await)?;
    Ok(())
}
