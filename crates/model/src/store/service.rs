//! Queries on `magnum_service`, the heartbeats: which services there are, and how many conductors.

use chrono::TimeDelta;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::connection::{Conn, on_conn};
use super::error::StoreError;
use super::recurring::Recur;
use crate::operation::OperationState;
use crate::schema::{magnum_service, operation};
use crate::service::{CONDUCTOR, Service};
use crate::time::{millis, now, whole_seconds};

/// Services at most in a list; far more hosts than any deployment has.
const LIST_LIMIT: i64 = 10_000;

/// Says that the conductor on `host` is alive.
pub async fn beat(conn: &mut Conn, host: &str) -> Result<(), StoreError> {
    let at = whole_seconds(now());
    on_conn!(conn, |c| {
        let rows = diesel::update(magnum_service::table.filter(magnum_service::host.eq(host)).filter(magnum_service::binary.eq(CONDUCTOR)))
            .set((
                magnum_service::report_count.eq(magnum_service::report_count + 1),
                magnum_service::last_seen_up.eq(Some(at)),
                magnum_service::updated_at.eq(Some(at)),
            ))
            .recurring()
            .execute(&mut **c)
            .await?;
        if rows == 0 {
            diesel::insert_into(magnum_service::table)
                .values((
                    magnum_service::created_at.eq(Some(at)),
                    magnum_service::report_count.eq(1),
                    magnum_service::host.eq(host),
                    magnum_service::binary.eq(CONDUCTOR),
                    magnum_service::disabled.eq(false),
                    magnum_service::forced_down.eq(false),
                    magnum_service::last_seen_up.eq(Some(at)),
                ))
                .execute(&mut **c)
                .await?;
        }
    });
    Ok(())
}

/// All services.
pub async fn list(conn: &mut Conn) -> Result<Vec<Service>, StoreError> {
    Ok(on_conn!(conn, |c| {
        magnum_service::table.select(Service::as_select()).order(magnum_service::id.asc()).limit(LIST_LIMIT).load(&mut **c).await
    })?)
}

/// How many conductors there are: hosts of which one said within the last `seconds` that it is alive, or owners of operations whose leases have
/// not run out, whichever are more. Several on hosts of one name have one row, which says no more than that one of them is alive; those that
/// have work are told apart.
pub async fn count_live(conn: &mut Conn, seconds: i64) -> Result<i64, StoreError> {
    let since = whole_seconds(now() - TimeDelta::seconds(seconds));
    let hosts: i64 = on_conn!(conn, |c| {
        magnum_service::table
            .filter(magnum_service::binary.eq(CONDUCTOR))
            .filter(magnum_service::last_seen_up.ge(since))
            .count()
            .get_result(&mut **c)
            .await
    })?;
    let owners: Vec<Option<String>> = on_conn!(conn, |c| {
        operation::table
            .select(operation::owner)
            .filter(operation::state.eq(OperationState::Running.as_str()))
            .filter(operation::owner.is_not_null())
            .filter(operation::lease_ms.ge(millis(now())))
            .distinct()
            .load(&mut **c)
            .await
    })?;
    Ok(hosts.max(i64::try_from(owners.len()).unwrap_or(i64::MAX)))
}
