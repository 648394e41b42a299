//! The scan of the table: finds the work that no bell announced, and what a dead conductor left.

use std::sync::Arc;
use std::time::Duration;

use model::planted::{self, Bug};
use model::store::{Conn, operation};
use model::time::{millis, now};

use crate::context::Context;
use crate::metrics::FoundBy;
use crate::worker::{self, Room};

/// Operations taken from one scan at most.
const BATCH: i64 = 64;

/// Scans until the conductor stops, with jitter so that conductors do not scan in step.
pub(crate) async fn run(cx: Arc<Context>) {
    let mut failing = false;
    loop {
        let interval = cx.settings.timing.scan.mul_f64(model::random::range(0.5..1.0));
        tokio::select! {
            biased;
            () = tokio::time::sleep(interval) => {}
            () = cx.stop.cancelled() => return,
        }
        match scan(&cx).await {
            Ok(()) => failing = false,
            Err(error) if failing => tracing::debug!(%error, "failed to scan for operations"),
            Err(error) => {
                failing = true;
                tracing::warn!(%error, "failed to scan for operations; trying again until the database is back");
            }
        }
    }
}

async fn scan(cx: &Arc<Context>) -> Result<(), model::store::StoreError> {
    if planted::has(Bug::AckBeforeClaim) {
        return Ok(());
    }
    // As long as something is found to do: what a conductor that died has left are thousands.
    while scan_once(cx).await? > 0 {}
    Ok(())
}

/// How many were claimed.
async fn scan_once(cx: &Arc<Context>) -> Result<usize, model::store::StoreError> {
    if cx.places.available_permits() == 0 || cx.permits.available_permits() == 0 {
        return Ok(0);
    }
    let at = millis(now());
    // More than there are permits: some of what is due cannot be claimed (it waits behind another), and must not hide the rest.
    let due = cx.store.read(async |conn: &mut Conn| operation::due(conn, at, BATCH).await).await?;
    let mut claimed = 0;
    for id in due {
        if cx.stop.is_cancelled() {
            return Ok(0);
        }
        let Some(room) = Room::find(cx) else { return Ok(0) };
        // A claim that fails for good is met again at the next scan.
        match tokio::time::timeout(Duration::from_secs(10), worker::take(cx, &id, room, FoundBy::Scan)).await {
            Ok(is_ours) => claimed += usize::from(is_ours),
            Err(_) => tracing::warn!(operation.id = %id, "no answer from the database while claiming"),
        }
    }
    Ok(claimed)
}
