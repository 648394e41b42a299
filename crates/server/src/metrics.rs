//! The numbers of a process, shown to Prometheus.
//!
//! One registry for a process. The roles count in structs of their own crates ([`api::Metrics`], [`conductor::Metrics`]); what other parts
//! know of themselves (pool, doorbell, calls to the cloud) is read here, so that these parts know nothing of Prometheus.

mod cloud;
mod listener;
mod snapshots;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use model::queue::Doorbell;
use model::store::Store;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use provider_clients::Observer;

use self::cloud::CloudCalls;

pub use listener::serve;

/// The numbers of this process.
pub struct Metrics {
    registry: Mutex<Registry>,
    cloud: Arc<CloudCalls>,
    /// The conductor's numbers, of which some stand in the table.
    conductor: OnceLock<(conductor::Metrics, Store)>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let cloud = Arc::new(CloudCalls::registered(&mut registry));
        Self { registry: Mutex::new(registry), cloud, conductor: OnceLock::new() }
    }
}

impl Metrics {
    /// The API's numbers; call it once.
    pub fn api(&self) -> api::Metrics {
        api::Metrics::registered(&mut self.registry())
    }

    /// The conductor's numbers; call it once.
    pub fn conductor(&self, store: &Store) -> conductor::Metrics {
        let (metrics, _) = self.conductor.get_or_init(|| (conductor::Metrics::registered(&mut self.registry()), store.clone()));
        metrics.clone()
    }

    /// Shows how the pool of a store is used; call it once.
    pub fn show_pool(&self, store: &Store) {
        self.registry().register_collector(Box::new(snapshots::Pool(store.clone())));
    }

    /// Shows what became of rings; call it once.
    pub fn show_doorbell(&self, doorbell: &Doorbell) {
        self.registry().register_collector(Box::new(snapshots::Rings(doorbell.clone())));
    }

    /// Counts calls to the cloud.
    pub fn observer(&self) -> Arc<dyn Observer> {
        self.cloud.clone()
    }

    /// All numbers as they are now, in the text format of OpenMetrics.
    async fn text(&self) -> Result<String, std::fmt::Error> {
        if let Some((metrics, store)) = self.conductor.get() {
            metrics.refresh(store).await;
        }
        let mut shown = String::new();
        text::encode(&mut shown, &self.registry())?;
        Ok(shown)
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        // Nothing that can panic happens under the lock but encoding, which only reads.
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
