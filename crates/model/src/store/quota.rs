//! Queries on `quotas`, and the reservations that keep a project within them.

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::connection::{Conn, on_conn};
use super::error::StoreError;
use super::page::Page;
use super::recurring::Recur;
use super::scope::Scope;
use super::sealing::hex;
use super::{cluster, dialect, lifecycle, nodegroup};
use crate::id::{NodegroupId, ProjectId};
use crate::quota::{Demand, Quota, Resource, Usage};
use crate::schema::{cluster as clusters, quotas};
use crate::time::{now, whole_seconds};

const WHAT: &str = "quota";

/// Takes so many more for a project, or refuses.
///
/// To be the first statement of the transaction that stores what uses them up, before anything is read: it writes the project's guard row,
/// so that such transactions of one project run one behind the other, and each counts what the one before it has stored. (A transaction
/// that has read before would go on seeing the rows as they were at its first read.) Whatever is stored afterwards must be stored in the
/// same transaction. To reserve nothing, or to give something back, needs no call.
///
/// # Errors
/// [`StoreError::QuotaReached`] naming limit and use, of the first demand that passes its limit.
pub async fn reserve(conn: &mut Conn, project: &ProjectId, demands: &[Demand]) -> Result<(), StoreError> {
    if demands.iter().all(|demand| demand.count <= 0) {
        return Ok(());
    }
    dialect::touch_guard(conn, dialect::Guard::Project(&project.0)).await?;
    check(conn, project, demands).await
}

/// Whether so many more would be granted now. No promise: only [`reserve`] is one.
///
/// # Errors
/// [`StoreError::QuotaReached`] naming limit and use, of the first demand that passes its limit.
pub async fn check(conn: &mut Conn, project: &ProjectId, demands: &[Demand]) -> Result<(), StoreError> {
    let demands = || demands.iter().filter(|demand| demand.count > 0);
    let (own, clusters) = match demands().any(|demand| demand.resource == Resource::Cluster) {
        true => limits_and_clusters(conn, project).await?,
        // Who asks for nodes only does not pay for the count of clusters.
        false => (limits(conn, project).await?, 0),
    };
    for &Demand { resource, count, default, ref group } in demands() {
        let Some(limit) = own.of(resource).or(default) else { continue };
        let (used, has) = match resource {
            Resource::Cluster => (clusters, 0),
            Resource::Node => nodes(conn, project, group.as_ref()).await?,
        };
        let asked = count - has;
        if asked > 0 && used.saturating_add(asked) > limit {
            return Err(StoreError::QuotaReached { resource, limit, used, asked });
        }
    }
    Ok(())
}

/// The limits of a project that has rows of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limits {
    clusters: Option<i32>,
    nodes: Option<i32>,
}

impl Limits {
    fn of(self, resource: Resource) -> Option<i64> {
        let limit = match resource {
            Resource::Cluster => self.clusters,
            Resource::Node => self.nodes,
        };
        limit.map(i64::from)
    }
}

async fn limits(conn: &mut Conn, project: &ProjectId) -> Result<Limits, StoreError> {
    let rows = of_project(conn, &project.0).await?;
    let of = |resource| rows.iter().find(|row| row.is_of(&project.0, resource)).map(|row| row.hard_limit);
    Ok(Limits { clusters: of(Resource::Cluster), nodes: of(Resource::Node) })
}

/// A project's own limits, and how many clusters it has; one statement, for it is part of each creation of a cluster.
async fn limits_and_clusters(conn: &mut Conn, project: &ProjectId) -> Result<(Limits, i64), StoreError> {
    let project = project.0.as_str();
    // As [`Quota::is_of`] does: the plain comparisons are for the index, those of bytes for the case of letters.
    macro_rules! limit {
        ($resource:expr) => {
            quotas::table
                .select(quotas::hard_limit)
                .filter(quotas::project_id.eq(project))
                .filter(hex(quotas::project_id).eq(hex(project)))
                .filter(quotas::resource.eq($resource.as_str()))
                .filter(hex(quotas::resource).eq(hex($resource.as_str())))
                .single_value()
        };
    }
    let counted = clusters::table.filter(clusters::project_id.eq(project)).count().single_value();
    let query = diesel::select((counted, limit!(Resource::Cluster), limit!(Resource::Node)));
    let (counted, of_clusters, of_nodes): (Option<i64>, Option<i32>, Option<i32>) = on_conn!(conn, |c| query.get_result(&mut **c).await)?;
    Ok((Limits { clusters: of_clusters, nodes: of_nodes }, counted.unwrap_or(0)))
}

/// Nodes of a project that count, and how many of them a group has beyond what its row says.
async fn nodes(conn: &mut Conn, project: &ProjectId, group: Option<&NodegroupId>) -> Result<(i64, i64), StoreError> {
    let wanted = nodegroup::count_nodes(conn, Some(project)).await?;
    let beyond = lifecycle::beyond_rows(conn, project).await?;
    let of_group = group.and_then(|id| beyond.get(id)).copied().unwrap_or(0);
    Ok((wanted + beyond.values().sum::<i64>(), of_group))
}

/// What a project uses, or all of them together.
pub async fn usage(conn: &mut Conn, project: Option<&ProjectId>) -> Result<Usage, StoreError> {
    let clusters = match project {
        Some(project) => cluster::count(conn, project).await?,
        None => cluster::count_all(conn).await?,
    };
    Ok(Usage { clusters, nodes: nodegroup::count_nodes(conn, project).await? })
}

/// The row of a project and resource, if there is one.
pub async fn find(conn: &mut Conn, project: &str, resource: Resource) -> Result<Option<Quota>, StoreError> {
    Ok(of_project(conn, project).await?.into_iter().find(|row| row.is_of(project, resource)))
}

/// The rows of a project, one for each resource at most, and those of projects whose ids differ in case only.
async fn of_project(conn: &mut Conn, project: &str) -> Result<Vec<Quota>, StoreError> {
    Ok(on_conn!(conn, |c| { quotas::table.select(Quota::as_select()).filter(quotas::project_id.eq(project)).load(&mut **c).await })?)
}

/// What a quota is called that is not there, by the words for its project and resource.
pub fn key(project: &str, resource: &str) -> String {
    format!("of project_id {project} and resource {resource}")
}

/// The row of a project and resource.
pub async fn fetch(conn: &mut Conn, project: &str, resource: Resource) -> Result<Quota, StoreError> {
    let missing = || StoreError::NotFound { what: WHAT, key: key(project, resource.as_str()) };
    find(conn, project, resource).await?.ok_or_else(missing)
}

/// The columns that a list can be sorted by.
pub const SORT_KEYS: &[&str] = &["id", "hard_limit", "created_at", "updated_at", "project_id", "resource"];

/// One page. The marker is an internal id, as text.
///
/// # Errors
/// [`StoreError::NotFound`] for a marker outside the scope, [`StoreError::BadSortKey`].
pub async fn list(conn: &mut Conn, scope: &Scope, page: &Page) -> Result<Vec<Quota>, StoreError> {
    let project = match scope {
        Scope::All => None,
        Scope::Project(project) => Some(project.0.clone()),
        // Quotas belong to projects.
        Scope::User(_) => return Ok(Vec::new()),
    };
    let marker = match &page.marker {
        Some(id) => Some(by_id(conn, project.as_deref(), id).await?),
        None => None,
    };
    let order = page.order(WHAT, "quotas", SORT_KEYS)?;
    let rows: Vec<Quota> = on_conn!(conn, |c| {
        let mut query = quotas::table.select(Quota::as_select()).limit(page.limit).order(order).into_boxed();
        if let Some(project) = &project {
            query = query.filter(quotas::project_id.eq(project));
        }
        if let Some(marker) = &marker {
            query = query.filter(order.behind(marker.id));
        }
        query.load(&mut **c).await?
    });
    if let (true, Some(id)) = (rows.is_empty(), &page.marker) {
        // Nothing is behind a row that went meanwhile.
        by_id(conn, project.as_deref(), id).await?;
    }
    Ok(rows)
}

async fn by_id(conn: &mut Conn, project: Option<&str>, id: &str) -> Result<Quota, StoreError> {
    let row: Option<Quota> = match id.parse::<i32>() {
        Ok(number) => {
            on_conn!(conn, |c| quotas::table.select(Quota::as_select()).filter(quotas::id.eq(number)).first(&mut **c).await.optional())?
        }
        Err(_) => None,
    };
    let visible = row.filter(|row| project.is_none_or(|p| row.project_id.as_deref() == Some(p)));
    visible.ok_or_else(|| StoreError::NotFound { what: WHAT, key: id.to_owned() })
}

/// Stores a new row.
///
/// # Errors
/// [`StoreError::Duplicate`] when project and resource have one.
pub async fn insert(conn: &mut Conn, project: &str, resource: Resource, hard_limit: i32) -> Result<(), StoreError> {
    let row = (
        quotas::created_at.eq(Some(whole_seconds(now()))),
        quotas::project_id.eq(project),
        quotas::resource.eq(resource.as_str()),
        quotas::hard_limit.eq(hard_limit),
    );
    let stored = on_conn!(conn, |c| diesel::insert_into(quotas::table).values(row).execute(&mut **c).await).map_err(StoreError::from);
    match stored {
        Err(StoreError::Duplicate { .. }) => Err(StoreError::Duplicate { what: WHAT }),
        other => other.map(drop),
    }
}

/// Sets the limit of a row.
pub async fn record(conn: &mut Conn, row: &Quota, hard_limit: i32) -> Result<(), StoreError> {
    let rows = on_conn!(conn, |c| {
        diesel::update(quotas::table.filter(quotas::id.eq(row.id)))
            .set((quotas::hard_limit.eq(hard_limit), quotas::updated_at.eq(Some(whole_seconds(now())))))
            .recurring()
            .execute(&mut **c)
            .await
    })?;
    if rows == 0 { Err(StoreError::Stale { what: WHAT }) } else { Ok(()) }
}

/// Removes a row.
pub async fn delete(conn: &mut Conn, row: &Quota) -> Result<(), StoreError> {
    let rows = on_conn!(conn, |c| diesel::delete(quotas::table.filter(quotas::id.eq(row.id))).execute(&mut **c).await)?;
    if rows == 0 { Err(StoreError::Stale { what: WHAT }) } else { Ok(()) }
}
