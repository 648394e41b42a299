//! Queries on `cluster`.

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::connection::{Conn, on_conn};
use super::error::StoreError;
use super::named::has_uuid;
use super::page::Page;
use super::recurring::Recur;
use super::scope::Scope;
use crate::cluster::status::Status;
use crate::cluster::{Cluster, ClusterChange, CreateSpec, DetailedCluster, ListedCluster};
use crate::id::{ClusterId, ProjectId, TemplateId};
use crate::schema::cluster;
use crate::text::storable;
use crate::time::{now, whole_seconds};

/// Narrows a boxed query to a scope.
macro_rules! scoped {
    ($query:expr, $scope:expr) => {
        match $scope {
            Scope::All => $query,
            Scope::Project(p) => $query.filter(cluster::project_id.eq(p.0.clone())),
            Scope::User(u) => $query.filter(cluster::user_id.eq(u.0.clone())),
        }
    };
}

/// The cluster with this uuid.
pub async fn fetch(conn: &mut Conn, scope: &Scope, id: &ClusterId) -> Result<Cluster, StoreError> {
    find(conn, scope, id).await?.ok_or_else(|| StoreError::NotFound { what: "cluster", key: id.to_string() })
}

/// The cluster with this uuid, if the scope sees one.
pub async fn find(conn: &mut Conn, scope: &Scope, id: &ClusterId) -> Result<Option<Cluster>, StoreError> {
    let row = on_conn!(conn, |c| {
        let query = cluster::table.select(Cluster::as_select()).filter(cluster::uuid.eq(id.as_str())).into_boxed();
        scoped!(query, scope).first(&mut **c).await.optional()
    })?;
    Ok(row)
}

/// The one cluster with this name.
///
/// # Errors
/// [`StoreError::NotFound`] or [`StoreError::Ambiguous`].
pub async fn fetch_by_name(conn: &mut Conn, scope: &Scope, name: &str) -> Result<Cluster, StoreError> {
    let mut rows: Vec<Cluster> = on_conn!(conn, |c| {
        let named = cluster::table.select(Cluster::as_select()).filter(cluster::name.eq(name)).filter(has_uuid!(cluster));
        let query = named.limit(2).into_boxed();
        scoped!(query, scope).load(&mut **c).await
    })?;
    match (rows.pop(), rows.is_empty()) {
        (Some(row), true) => Ok(row),
        (Some(_), false) => Err(StoreError::Ambiguous { what: "cluster", key: name.into() }),
        (None, _) => Err(StoreError::NotFound { what: "cluster", key: name.into() }),
    }
}

/// The columns that a list can be sorted by.
pub const SORT_KEYS: &[&str] = &[
    "id",
    "uuid",
    "name",
    "cluster_template_id",
    "api_address",
    "stack_id",
    "project_id",
    "user_id",
    "status",
    "discovery_url",
    "status_reason",
    "create_timeout",
    "coe_version",
    "container_version",
    "keypair",
    "docker_volume_size",
    "labels",
    "master_flavor_id",
    "flavor_id",
    "health_status",
    "health_status_reason",
    "fixed_network",
    "fixed_subnet",
    "floating_ip_enabled",
    "master_lb_enabled",
    "created_at",
    "updated_at",
];

/// Reads columns of one page.
macro_rules! listed {
    ($conn:expr, $scope:expr, $page:expr, $row:ty) => {{
        let (conn, scope, page): (&mut Conn, &Scope, &Page) = ($conn, $scope, $page);
        let marker = match &page.marker {
            Some(uuid) => Some(fetch(conn, scope, &ClusterId::new(uuid.clone())).await?),
            None => None,
        };
        let order = page.order("cluster", "cluster", SORT_KEYS)?;
        let rows: Vec<$row> = on_conn!(conn, |c| {
            let shown = cluster::table.select(<$row>::as_select()).filter(has_uuid!(cluster));
            let query = shown.limit(page.limit).order(order).into_boxed();
            let mut query = scoped!(query, scope);
            if let Some(marker) = &marker {
                query = query.filter(order.behind(marker.id));
            }
            query.load(&mut **c).await?
        });
        if let (true, Some(marker)) = (rows.is_empty(), &marker) {
            // Nothing is behind a row that went meanwhile.
            fetch(conn, scope, &marker.cluster_id()).await?;
        }
        Ok(rows)
    }};
}

/// One page.
///
/// # Errors
/// [`StoreError::NotFound`] for a marker outside the scope, [`StoreError::BadSortKey`].
pub async fn list(conn: &mut Conn, scope: &Scope, page: &Page) -> Result<Vec<DetailedCluster>, StoreError> {
    listed!(conn, scope, page, DetailedCluster)
}

/// One page, with the columns that a plain list shows.
///
/// # Errors
/// As [`list`].
pub async fn list_short(conn: &mut Conn, scope: &Scope, page: &Page) -> Result<Vec<ListedCluster>, StoreError> {
    listed!(conn, scope, page, ListedCluster)
}

/// Inserts a new cluster in CREATE_IN_PROGRESS.
pub async fn insert(conn: &mut Conn, spec: &CreateSpec) -> Result<(), StoreError> {
    let row = (
        cluster::created_at.eq(Some(whole_seconds(now()))),
        cluster::uuid.eq(spec.id.as_str()),
        cluster::name.eq(&spec.name),
        cluster::project_id.eq(&spec.project.0),
        cluster::user_id.eq(&spec.user.0),
        cluster::cluster_template_id.eq(spec.template.as_str()),
        cluster::keypair.eq(&spec.keypair),
        cluster::docker_volume_size.eq(spec.docker_volume_size),
        cluster::labels.eq(spec.labels.column()),
        cluster::master_flavor_id.eq(&spec.master_flavor),
        cluster::flavor_id.eq(&spec.flavor),
        cluster::status.eq(Status::CreateInProgress.as_str()),
        cluster::status_reason.eq(spec.note.as_deref().map(storable)),
        cluster::create_timeout.eq(spec.create_timeout),
        cluster::discovery_url.eq(&spec.discovery_url),
        cluster::fixed_network.eq(&spec.fixed_network),
        cluster::fixed_subnet.eq(&spec.fixed_subnet),
        cluster::floating_ip_enabled.eq(spec.floating_ip_enabled),
        cluster::master_lb_enabled.eq(spec.master_lb_enabled),
        cluster::health_status.eq(&spec.health_status),
        cluster::health_status_reason.eq(spec.health_status_reason.column()),
    );
    on_conn!(conn, |c| diesel::insert_into(cluster::table).values(row).execute(&mut **c).await)?;
    Ok(())
}

/// Changes columns. The caller has made sure of his right to do so in the same transaction (an operation's claim, or the row's status).
pub async fn record(conn: &mut Conn, id: &ClusterId, change: &ClusterChange) -> Result<(), StoreError> {
    let mut change = change.clone();
    change.status_reason = change.status_reason.map(|reason| reason.as_deref().map(storable));
    let rows = on_conn!(conn, |c| {
        diesel::update(cluster::table.filter(cluster::uuid.eq(id.as_str())))
            .set((change, cluster::updated_at.eq(Some(whole_seconds(now())))))
            .recurring()
            .execute(&mut **c)
            .await
    })?;
    if rows == 0 { Err(StoreError::Stale { what: "cluster" }) } else { Ok(()) }
}

/// Locks the row for the rest of the transaction by a write that changes nothing, so that what is read after it is the newest.
///
/// # Errors
/// [`StoreError::NotFound`].
pub async fn touch(conn: &mut Conn, id: &ClusterId) -> Result<(), StoreError> {
    let rows = on_conn!(conn, |c| {
        diesel::update(cluster::table.filter(cluster::uuid.eq(id.as_str())))
            .set(cluster::uuid.eq(id.as_str()))
            .recurring()
            .execute(&mut **c)
            .await
    })?;
    if rows == 0 { Err(StoreError::NotFound { what: "cluster", key: id.to_string() }) } else { Ok(()) }
}

/// Moves the status if it is still what the caller saw; the first statement of every transaction that begins an operation, so that two
/// requests for one cluster cannot both pass.
pub async fn begin(conn: &mut Conn, id: &ClusterId, seen: Option<&str>, next: Status) -> Result<(), StoreError> {
    let rows = on_conn!(conn, |c| {
        let row = cluster::table.filter(cluster::uuid.eq(id.as_str()));
        let set = (
            cluster::status.eq(next.as_str()),
            cluster::status_reason.eq(None::<String>),
            cluster::updated_at.eq(Some(whole_seconds(now()))),
        );
        match seen {
            Some(seen) => diesel::update(row.filter(cluster::status.eq(seen))).set(set).recurring().execute(&mut **c).await,
            None => diesel::update(row.filter(cluster::status.is_null())).set(set).recurring().execute(&mut **c).await,
        }
    })?;
    if rows == 0 { Err(StoreError::Stale { what: "cluster" }) } else { Ok(()) }
}

/// Removes the row. Removing what is not there is no error.
pub async fn delete(conn: &mut Conn, id: &ClusterId) -> Result<(), StoreError> {
    on_conn!(conn, |c| diesel::delete(cluster::table.filter(cluster::uuid.eq(id.as_str()))).execute(&mut **c).await)?;
    Ok(())
}

/// Clusters of a project, in whatever status.
pub async fn count(conn: &mut Conn, project: &ProjectId) -> Result<i64, StoreError> {
    Ok(on_conn!(conn, |c| cluster::table.filter(cluster::project_id.eq(&project.0)).count().get_result(&mut **c).await)?)
}

/// Clusters of all projects.
pub async fn count_all(conn: &mut Conn) -> Result<i64, StoreError> {
    Ok(on_conn!(conn, |c| cluster::table.count().get_result(&mut **c).await)?)
}

/// Whether any cluster refers to the template.
pub async fn any_with_template(conn: &mut Conn, template: &TemplateId) -> Result<bool, StoreError> {
    let n: i64 =
        on_conn!(conn, |c| cluster::table.filter(cluster::cluster_template_id.eq(template.as_str())).count().get_result(&mut **c).await)?;
    Ok(n > 0)
}
