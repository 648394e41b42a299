//! The service row that tells operators that this host's conductor is alive, and how many conductors there are.

use std::sync::Arc;
use std::time::Duration;

use model::store::{Conn, service};

use crate::context::Context;

/// How often the others are counted: the budget of requests to the cloud is shared with them.
const CENSUS: Duration = Duration::from_secs(15);

/// Beats and counts at once and then at their intervals, until the conductor stops.
pub(crate) async fn run(cx: Arc<Context>) {
    let beat = cx.settings.timing.service_beat;
    let mut beats = tokio::time::interval(beat);
    let mut counts = tokio::time::interval(CENSUS.min(beat));
    loop {
        tokio::select! {
            // In this order: who counts first counts itself.
            biased;
            () = cx.stop.cancelled() => return,
            _ = beats.tick() => {
                let host = &cx.settings.host;
                if let Err(error) = cx.store.write(async |conn: &mut Conn| service::beat(conn, host).await).await {
                    tracing::warn!(%error, "failed to record the service heartbeat");
                }
            }
            _ = counts.tick() => {
                // Two beats and a half: one may be late.
                let seconds = i64::try_from(beat.as_secs() * 5 / 2).unwrap_or(i64::MAX).max(1);
                match cx.store.read(async |conn: &mut Conn| service::count_live(conn, seconds).await).await {
                    Ok(live) => cx.follower.share_with(usize::try_from(live).unwrap_or(1)),
                    Err(error) => tracing::debug!(%error, "failed to count the conductors; the number is taken as before"),
                }
            }
        }
    }
}
