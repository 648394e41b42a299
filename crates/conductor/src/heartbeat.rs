//! The service row that tells operators that this host's conductor is alive.

use std::sync::Arc;

use model::store::{Conn, service};

use crate::context::Context;

/// Beats at once and then at the configured interval, until the conductor stops.
pub(crate) async fn run(cx: Arc<Context>) {
    let mut ticks = tokio::time::interval(cx.settings.timing.service_beat);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = cx.stop.cancelled() => return,
        }
        let host = &cx.settings.host;
        if let Err(error) = cx.store.write(async |conn: &mut Conn| service::beat(conn, host).await).await {
            tracing::warn!(%error, "failed to record the service heartbeat");
        }
    }
}
