//! Queries on `federation`.

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::connection::{Conn, on_conn};
use super::error::StoreError;
use super::named::has_uuid;
use super::page::Page;
use super::scope::Scope;
use crate::federation::Federation;
use crate::schema::federation;

const WHAT: &str = "federation";

/// The project that a scope sees; federations have no user, so a caller without a project sees none.
fn project(scope: &Scope) -> Option<Option<String>> {
    match scope {
        Scope::All => Some(None),
        Scope::Project(project) => Some(Some(project.0.clone())),
        Scope::User(_) => None,
    }
}

/// The federation with this uuid.
pub async fn fetch(conn: &mut Conn, scope: &Scope, uuid: &str) -> Result<Federation, StoreError> {
    let missing = || StoreError::NotFound { what: WHAT, key: uuid.to_owned() };
    let project = project(scope).ok_or_else(missing)?;
    let row: Option<Federation> = on_conn!(conn, |c| {
        federation::table.select(Federation::as_select()).filter(federation::uuid.eq(uuid)).first(&mut **c).await.optional()
    })?;
    row.filter(|row| project.is_none() || row.project_id == project).ok_or_else(missing)
}

/// The one federation with this name.
///
/// # Errors
/// [`StoreError::NotFound`] or [`StoreError::Ambiguous`].
pub async fn fetch_by_name(conn: &mut Conn, scope: &Scope, name: &str) -> Result<Federation, StoreError> {
    let missing = || StoreError::NotFound { what: WHAT, key: name.to_owned() };
    let project = project(scope).ok_or_else(missing)?;
    let mut rows: Vec<Federation> = on_conn!(conn, |c| {
        let named = federation::table.select(Federation::as_select()).filter(federation::name.eq(name)).filter(has_uuid!(federation));
        let mut query = named.limit(2).into_boxed();
        if let Some(project) = project {
            query = query.filter(federation::project_id.eq(project));
        }
        query.load(&mut **c).await
    })?;
    match (rows.pop(), rows.is_empty()) {
        (Some(row), true) => Ok(row),
        (Some(_), false) => Err(StoreError::Ambiguous { what: WHAT, key: name.into() }),
        (None, _) => Err(missing()),
    }
}

/// The columns that a list can be sorted by.
pub const SORT_KEYS: &[&str] = &[
    "id",
    "uuid",
    "name",
    "hostcluster_id",
    "member_ids",
    "project_id",
    "status",
    "status_reason",
    "properties",
    "created_at",
    "updated_at",
];

/// One page.
///
/// # Errors
/// [`StoreError::NotFound`] for a marker outside the scope, [`StoreError::BadSortKey`].
pub async fn list(conn: &mut Conn, scope: &Scope, page: &Page) -> Result<Vec<Federation>, StoreError> {
    let marker = match &page.marker {
        Some(uuid) => Some(fetch(conn, scope, uuid).await?),
        None => None,
    };
    let order = page.order(WHAT, "federation", SORT_KEYS)?;
    let Some(project) = project(scope) else { return Ok(Vec::new()) };
    let rows: Vec<Federation> = on_conn!(conn, |c| {
        let shown = federation::table.select(Federation::as_select()).filter(has_uuid!(federation));
        let mut query = shown.limit(page.limit).order(order).into_boxed();
        if let Some(project) = project {
            query = query.filter(federation::project_id.eq(project));
        }
        if let Some(marker) = &marker {
            query = query.filter(order.behind(marker.id));
        }
        query.load(&mut **c).await?
    });
    if let (true, Some(uuid)) = (rows.is_empty(), &page.marker) {
        // Nothing is behind a row that went meanwhile.
        fetch(conn, scope, uuid).await?;
    }
    Ok(rows)
}
