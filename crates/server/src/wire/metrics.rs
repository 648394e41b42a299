//! Where the numbers of a process are shown.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use model::store::Store;
use tokio_util::task::AbortOnDropHandle;

use crate::config::Config;
use crate::metrics::{self, Metrics};

/// The numbers of this process, shown for as long as this lives (if they are to be shown at all).
pub struct Shown {
    pub metrics: Arc<Metrics>,
    _listener: Option<AbortOnDropHandle<()>>,
}

/// Begins to count, and to show the numbers at this port if the configuration wants it. Must be called within the runtime.
pub async fn metrics(config: &Config, port: u16, store: &Store) -> anyhow::Result<Shown> {
    let metrics = Arc::new(Metrics::default());
    metrics.show_pool(store);
    if !config.metrics.enabled {
        return Ok(Shown { metrics, _listener: None });
    }
    let address = SocketAddr::new(config.metrics.host, port);
    let listener = tokio::net::TcpListener::bind(address).await.with_context(|| format!("listen on {address} ([metrics])"))?;
    tracing::info!("Metrics are at http://{address}/metrics");
    let serving = AbortOnDropHandle::new(tokio::spawn(metrics::serve(listener, metrics.clone())));
    Ok(Shown { metrics, _listener: Some(serving) })
}
