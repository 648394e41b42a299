//! Throws away what is old: finished operations with their events after `[operations] retention_days`, kept answers, and where clusters were
//! that are gone.
//!
//! Every conductor does it, each at its own times: what one has removed the others do not find.

use std::sync::Arc;
use std::time::Duration;

use model::store::{Conn, StoreError, housekeeping, idempotency, placement};
use model::time::{millis, now};

use crate::context::Context;

/// Rows removed by one transaction at most.
const BATCH: i64 = 50;
/// Rows removed in a row, more or less: the rest waits for the next time.
const MOST: usize = 10_000;

/// Cleans up until the conductor stops, with jitter so that conductors do not do it in step.
pub(crate) async fn run(cx: Arc<Context>) {
    loop {
        let pause = cx.settings.timing.housekeeping.mul_f64(model::random::range(0.5..1.0));
        tokio::select! {
            biased;
            () = tokio::time::sleep(pause) => {}
            () = cx.stop.cancelled() => return,
        }
        match clean(&cx).await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, "old rows were removed"),
            Err(error) => tracing::warn!(%error, "failed to remove old operations; trying again later"),
        }
    }
}

async fn clean(cx: &Context) -> Result<usize, StoreError> {
    let before = |age: Duration| millis(now()).saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
    let (operations, keys) = (before(cx.settings.retention), before(idempotency::KEPT));
    let mut removed = 0;
    let mut place = Some(housekeeping::Place::default());
    while removed < MOST && !cx.stop.is_cancelled() {
        // Each in a transaction of its own: none holds the rows of another while it looks for its own.
        let mut batch = 0;
        if let Some(from) = place {
            let old = cx.store.write(async |conn: &mut Conn| housekeeping::remove_operations(conn, operations, from, BATCH).await).await?;
            batch += old.count;
            place = old.next;
        }
        batch += cx.store.write(async |conn: &mut Conn| housekeeping::remove_keys(conn, keys, BATCH).await).await?;
        batch += cx.store.write(async |conn: &mut Conn| placement::remove_ownerless(conn, BATCH).await).await?;
        removed += batch;
        if batch == 0 && place.is_none() {
            break;
        }
    }
    Ok(removed)
}
