//! What is thrown away once it is old: finished operations with their events, and the answers to requests that carried a key.
//!
//! In small pieces, each a transaction of its own: any number of conductors may do it at once, and none holds up the work.

use std::collections::{BTreeSet, HashMap};

use diesel::dsl::{exists, not};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::collation::AsUpstreams;
use super::connection::{Conn, on_conn};
use super::error::StoreError;
use super::exit;
use crate::cluster::status::Status;
use crate::id::ClusterId;
use crate::schema::{cluster, event_guard, idempotency_key, operation, operation_event};
use crate::time::{millis, now};

/// How far a round has come through what is old, which it takes in the order in which it ended: what has to stay is passed by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    finished_ms: i64,
    id: i64,
}

/// What one piece of a round came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    pub count: usize,
    /// Where the round goes on; none: it is through.
    pub next: Option<Place>,
}

#[derive(Queryable)]
struct Old {
    id: i64,
    uuid: String,
    cluster_uuid: String,
    finished_ms: Option<i64>,
}

/// Removes operations that ended before the given time, with their events: of those behind `place`, the first `limit`, but for what stays.
///
/// Of a cluster that is still there the newest stays, for what is told of a cluster at rest is told as an event of that one. So does what may
/// be done again, with all that came after it: that tells whether its work has been done since, and what of it was changed. One that gave way
/// to another and is still held stays, too: the other must not begin before its holder has let go, or his lease is over.
pub async fn remove_operations(conn: &mut Conn, ended_before_ms: i64, place: Place, limit: i64) -> Result<Removed, StoreError> {
    let newer = diesel::alias!(operation as newer);
    let has_newer = exists(
        newer.filter(newer.field(operation::cluster_uuid).eq(operation::cluster_uuid)).filter(newer.field(operation::id).gt(operation::id)),
    );
    let is_there = exists(cluster::table.filter(cluster::uuid.eq(AsUpstreams(operation::cluster_uuid))));
    let old: Vec<Old> = on_conn!(conn, |c| {
        operation::table
            .select((operation::id, operation::uuid, operation::cluster_uuid, operation::finished_ms))
            .filter(operation::finished_ms.ge(place.finished_ms))
            .filter(operation::finished_ms.lt(ended_before_ms))
            .filter(operation::id.gt(place.id).or(operation::finished_ms.gt(place.finished_ms)))
            .filter(operation::owner.is_null().or(operation::lease_ms.lt(millis(now()))))
            .filter(not(is_there).or(has_newer))
            .order((operation::finished_ms.asc(), operation::id.asc()))
            .limit(limit)
            .load(&mut **c)
            .await
    })?;
    let is_full = usize::try_from(limit).is_ok_and(|limit| old.len() >= limit);
    let next = old.last().filter(|_| is_full).map(|last| Place { finished_ms: last.finished_ms.unwrap_or_default(), id: last.id });
    let kept = kept_from(conn, &old).await?;
    let goes = |o: &&Old| kept.get(&o.cluster_uuid).is_none_or(|first| o.id < *first);
    let (ids, clusters): (Vec<&str>, Vec<&str>) = old.iter().filter(goes).map(|o| (o.uuid.as_str(), o.cluster_uuid.as_str())).unzip();
    if ids.is_empty() {
        return Ok(Removed { count: 0, next });
    }
    on_conn!(conn, |c| {
        diesel::delete(operation_event::table.filter(operation_event::operation_uuid.eq_any(&ids))).execute(&mut **c).await?;
        diesel::delete(operation::table.filter(operation::uuid.eq_any(&ids))).execute(&mut **c).await?;
        // Of clusters of which nothing more is told. One that appends an event at this moment makes its row anew.
        let told: Vec<String> = operation::table
            .select(operation::cluster_uuid)
            .filter(operation::cluster_uuid.eq_any(&clusters))
            .distinct()
            .load(&mut **c)
            .await?;
        let forgotten: Vec<&str> = clusters.iter().copied().filter(|id| !told.iter().any(|t| t == id)).collect();
        diesel::delete(event_guard::table.filter(event_guard::cluster_uuid.eq_any(&forgotten))).execute(&mut **c).await?;
    });
    Ok(Removed { count: ids.len(), next })
}

/// From which operation on, by its number, all of a cluster's stay, by the uuids of those clusters of these of which there is something that may
/// be done again.
async fn kept_from(conn: &mut Conn, old: &[Old]) -> Result<HashMap<String, i64>, StoreError> {
    let ids: BTreeSet<&str> = old.iter().map(|o| o.cluster_uuid.as_str()).collect();
    let ids: Vec<&str> = ids.into_iter().collect();
    let mut kept = HashMap::new();
    if ids.is_empty() {
        return Ok(kept);
    }
    let there: Vec<(String, Option<String>)> = on_conn!(conn, |c| {
        cluster::table.select((cluster::uuid, cluster::status)).filter(cluster::uuid.eq_any(&ids)).load(&mut **c).await
    })?;
    for (uuid, status) in there {
        let status = status.as_deref().and_then(Status::parse);
        if let Some(first) = exit::first_to_retry(conn, &ClusterId::new(uuid.clone()), status).await? {
            kept.insert(uuid, first);
        }
    }
    Ok(kept)
}

/// Removes up to `limit` answers that were kept before the given time; how many it was.
pub async fn remove_keys(conn: &mut Conn, made_before_ms: i64, limit: i64) -> Result<usize, StoreError> {
    Ok(on_conn!(conn, |c| {
        let old: Vec<i64> = idempotency_key::table
            .select(idempotency_key::id)
            .filter(idempotency_key::created_ms.lt(made_before_ms))
            .order(idempotency_key::created_ms.asc())
            .limit(limit)
            .load(&mut **c)
            .await?;
        if old.is_empty() {
            return Ok(0);
        }
        // Somebody may have taken one over meanwhile: his answer is kept as long as any.
        let still_old =
            idempotency_key::table.filter(idempotency_key::id.eq_any(old)).filter(idempotency_key::created_ms.lt(made_before_ms));
        diesel::delete(still_old).execute(&mut **c).await?
    }))
}
