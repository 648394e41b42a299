//! How the management clusters stand, read when somebody asks. Labels are the names of the configuration.

use std::sync::{Arc, OnceLock};

use model::store::{Conn, Store, StoreError, placement};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::driver::capi_helm::Capi;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Name {
    management_cluster: String,
}

/// The numbers of the management clusters; none without the driver.
#[derive(Clone, Debug, Default)]
pub(super) struct OfManagement {
    up: Family<Name, Gauge>,
    clusters: Family<Name, Gauge>,
    max_clusters: Family<Name, Gauge>,
    watches_missing: Family<Name, Gauge>,
    capi: Arc<OnceLock<Arc<Capi>>>,
}

impl OfManagement {
    pub(super) fn register_all(&self, registry: &mut Registry) {
        let help = "Whether a management cluster has told its version when it was last asked for it: 1 or 0";
        registry.register("management_cluster_up", help, self.up.clone());
        let help = "Clusters that are recorded on a management cluster; all conductors show the same";
        registry.register("management_cluster_clusters", help, self.clusters.clone());
        let help = "Clusters that a management cluster may have; 0: as many as there are";
        registry.register("management_cluster_clusters_max", help, self.max_clusters.clone());
        let help = "Watches of a management cluster that are to be and are not up";
        registry.register("management_cluster_watches_missing", help, self.watches_missing.clone());
    }

    /// From now on these are shown.
    pub(super) fn watch_over(&self, capi: Arc<Capi>) {
        self.capi.get_or_init(|| capi);
    }

    /// Reads everything anew.
    pub(super) async fn refresh(&self, store: &Store) -> Result<(), StoreError> {
        let Some(capi) = self.capi.get() else { return Ok(()) };
        for door in &capi.doors {
            let name = Name { management_cluster: door.cluster.name.clone() };
            self.up.get_or_create(&name).set(i64::from(door.trouble().is_none()));
            self.max_clusters.get_or_create(&name).set(i64::from(door.cluster.max_clusters));
            self.watches_missing.get_or_create(&name).set(i64::try_from(door.news.missing()).unwrap_or(i64::MAX));
        }
        let placed = store.read(async |conn: &mut Conn| placement::counts(conn).await).await?;
        for door in &capi.doors {
            let name = Name { management_cluster: door.cluster.name.clone() };
            self.clusters.get_or_create(&name).set(placed.get(&door.cluster.name).copied().unwrap_or(0));
        }
        Ok(())
    }

    /// Of what cannot be read nothing is shown: an old number would be taken for the present.
    pub(super) fn placed_is_unknown(&self) {
        self.clusters.clear();
    }
}
