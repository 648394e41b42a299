//! Values that upstream could not read, or has no room for, while upstream has the database.

use chrono::NaiveDateTime;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use serde::{Deserialize, Serialize};

use crate::quota::{Quota, Resource};
use crate::schema::{cluster_template, quotas, set_aside};
use crate::store::connection::{Conn, on_conn};
use crate::store::error::StoreError;
use crate::store::named::has_uuid;
use crate::time::{millis, now};

/// A quota of nodes: upstream knows no resource but `Cluster`.
const NODE_QUOTA: &str = "node_quota";
/// The driver that a template names: upstream before 18.x has no column for it.
const TEMPLATE_DRIVER: &str = "template_driver";

/// A value that is kept for the next adoption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// What it is, in words.
    pub what: &'static str,
    /// Whose it is: a project, a template.
    pub of: String,
}

#[derive(Serialize, Deserialize)]
struct SavedQuota {
    hard_limit: i32,
    created_at: Option<NaiveDateTime>,
    updated_at: Option<NaiveDateTime>,
}

type Row = (i64, String, String, String);

/// Takes the quotas that upstream does not know out of its table.
pub(super) async fn keep_quotas(conn: &mut Conn) -> Result<(), StoreError> {
    let rows: Vec<Quota> = on_conn!(conn, |c| {
        quotas::table.select(Quota::as_select()).filter(quotas::resource.eq(Resource::Node.as_str())).load(&mut **c).await
    })?;
    for row in rows {
        let saved = SavedQuota { hard_limit: row.hard_limit, created_at: row.created_at, updated_at: row.updated_at };
        let text = serde_json::to_string(&saved).expect("a number and two times");
        keep(conn, NODE_QUOTA, row.project_id.as_deref().unwrap_or_default(), &text).await?;
        on_conn!(conn, |c| diesel::delete(quotas::table.filter(quotas::id.eq(row.id))).execute(&mut **c).await)?;
    }
    Ok(())
}

/// Notes the driver of each template that names one.
pub(super) async fn keep_drivers(conn: &mut Conn) -> Result<(), StoreError> {
    let rows: Vec<(String, Option<String>)> = on_conn!(conn, |c| {
        // What has no uuid could not be found again.
        let named = cluster_template::table.filter(cluster_template::driver.is_not_null().and(has_uuid!(cluster_template)));
        named.select((cluster_template::uuid, cluster_template::driver)).load(&mut **c).await
    })?;
    for (template, driver) in rows {
        keep(conn, TEMPLATE_DRIVER, &template, driver.as_deref().unwrap_or_default()).await?;
    }
    Ok(())
}

async fn keep(conn: &mut Conn, kind: &str, key: &str, value: &str) -> Result<(), StoreError> {
    on_conn!(conn, |c| {
        diesel::delete(set_aside::table.filter(set_aside::kind.eq(kind)).filter(set_aside::row_key.eq(key))).execute(&mut **c).await?;
        let row =
            (set_aside::kind.eq(kind), set_aside::row_key.eq(key), set_aside::value.eq(value), set_aside::created_ms.eq(millis(now())));
        diesel::insert_into(set_aside::table).values(row).execute(&mut **c).await?;
    });
    Ok(())
}

/// What is kept, in the order in which it was set aside.
pub(super) async fn list(conn: &mut Conn) -> Result<Vec<Kept>, StoreError> {
    rows(conn).await?.into_iter().map(|(_, kind, key, _)| Ok(Kept { what: what(&kind)?, of: key })).collect()
}

async fn rows(conn: &mut Conn) -> Result<Vec<Row>, StoreError> {
    Ok(on_conn!(conn, |c| {
        let columns = (set_aside::id, set_aside::kind, set_aside::row_key, set_aside::value);
        set_aside::table.select(columns).order(set_aside::id.asc()).load(&mut **c).await
    })?)
}

fn what(kind: &str) -> Result<&'static str, StoreError> {
    match kind {
        NODE_QUOTA => Ok("quota of nodes"),
        TEMPLATE_DRIVER => Ok("driver of a template"),
        other => Err(StoreError::Schema(format!("the table set_aside holds a {other:?}, which this version does not know"))),
    }
}

/// Puts everything back, where it still belongs: what upstream's tables say by now stays.
pub(super) async fn restore(conn: &mut Conn) -> Result<Vec<Kept>, StoreError> {
    let mut restored = Vec::new();
    for (id, kind, key, value) in rows(conn).await? {
        let what = what(&kind)?;
        let is_back = match kind.as_str() {
            NODE_QUOTA => restore_quota(conn, &key, &value).await?,
            _ => restore_driver(conn, &key, &value).await?,
        };
        if is_back {
            restored.push(Kept { what, of: key });
        }
        on_conn!(conn, |c| diesel::delete(set_aside::table.filter(set_aside::id.eq(id))).execute(&mut **c).await)?;
    }
    Ok(restored)
}

async fn restore_quota(conn: &mut Conn, project: &str, value: &str) -> Result<bool, StoreError> {
    let saved: SavedQuota =
        serde_json::from_str(value).map_err(|e| StoreError::Schema(format!("set_aside: the quota of nodes of project {project}: {e}")))?;
    let node = Resource::Node.as_str();
    Ok(on_conn!(conn, |c| {
        let there: i64 =
            quotas::table.filter(quotas::project_id.eq(project)).filter(quotas::resource.eq(node)).count().get_result(&mut **c).await?;
        if there == 0 {
            let row = (
                quotas::project_id.eq(project),
                quotas::resource.eq(node),
                quotas::hard_limit.eq(saved.hard_limit),
                quotas::created_at.eq(saved.created_at),
                quotas::updated_at.eq(saved.updated_at),
            );
            diesel::insert_into(quotas::table).values(row).execute(&mut **c).await?;
        }
        there == 0
    }))
}

async fn restore_driver(conn: &mut Conn, template: &str, driver: &str) -> Result<bool, StoreError> {
    let rows = on_conn!(conn, |c| {
        let nameless = cluster_template::table.filter(cluster_template::uuid.eq(template)).filter(cluster_template::driver.is_null());
        diesel::update(nameless).set(cluster_template::driver.eq(driver)).execute(&mut **c).await
    })?;
    Ok(rows > 0)
}
