//! Queries on `task_lease`: who does a standing task that one conductor at a time does.

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::connection::{Conn, on_conn};
use super::error::StoreError;
use super::recurring::Recur;
use crate::schema::task_lease;

/// Takes a task for `owner` until `lease_ms`, or lengthens the lease that he has; false when another holds it.
pub async fn take(conn: &mut Conn, name: &str, owner: &str, at_ms: i64, lease_ms: i64) -> Result<bool, StoreError> {
    let free = task_lease::table.filter(task_lease::name.eq(name)).filter(task_lease::owner.eq(owner).or(task_lease::lease_ms.lt(at_ms)));
    let rows = on_conn!(conn, |c| {
        diesel::update(free).set((task_lease::owner.eq(owner), task_lease::lease_ms.eq(lease_ms))).recurring().execute(&mut **c).await
    })?;
    if rows > 0 {
        return Ok(true);
    }
    let held: Option<String> = on_conn!(conn, |c| {
        task_lease::table.select(task_lease::owner).filter(task_lease::name.eq(name)).first(&mut **c).await.optional()
    })?;
    if held.is_some() {
        return Ok(false);
    }
    // The first who ever does it. Of two at once the second finds the row taken.
    let row = (task_lease::name.eq(name), task_lease::owner.eq(owner), task_lease::lease_ms.eq(lease_ms));
    match on_conn!(conn, |c| diesel::insert_into(task_lease::table).values(row).execute(&mut **c).await).map_err(StoreError::from) {
        Ok(_) => Ok(true),
        Err(StoreError::Duplicate { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Lengthens the lease of who has a task; false when anybody else has had it since he took it.
pub async fn lengthen(conn: &mut Conn, name: &str, owner: &str, lease_ms: i64) -> Result<bool, StoreError> {
    let ours = task_lease::table.filter(task_lease::name.eq(name)).filter(task_lease::owner.eq(owner));
    let rows = on_conn!(conn, |c| diesel::update(ours).set(task_lease::lease_ms.eq(lease_ms)).recurring().execute(&mut **c).await)?;
    Ok(rows > 0)
}

/// Lets somebody else have it at once.
pub async fn leave(conn: &mut Conn, name: &str, owner: &str) -> Result<(), StoreError> {
    let ours = task_lease::table.filter(task_lease::name.eq(name)).filter(task_lease::owner.eq(owner));
    on_conn!(conn, |c| diesel::update(ours).set(task_lease::lease_ms.eq(0)).recurring().execute(&mut **c).await)?;
    Ok(())
}
