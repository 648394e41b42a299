//! How the credentials and certificates of clusters stand. What was seen of them is in the table, so that all conductors show the same; it is
//! read when somebody asks.

use model::store::{Conn, Store, StoreError, credential_health};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Seen {
    seen: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Standing {
    state: &'static str,
}

/// The numbers of credentials and certificates.
#[derive(Clone, Debug, Default)]
pub(super) struct OfCredentials {
    looks: Family<Seen, Counter>,
    clusters: Family<Standing, Gauge>,
    first_end: Gauge,
}

impl OfCredentials {
    pub(super) fn register_all(&self, registry: &mut Registry) {
        let help = "Looks of this conductor at the credentials of clusters, by what was seen: working, refused, none, or unknown where Keystone \
                    or the management cluster could not be asked";
        registry.register("credential_looks", help, self.looks.clone());
        let help = "Clusters by what the last look at their credentials saw (working, broken, unseen); all conductors show the same";
        registry.register("cluster_credentials", help, self.clusters.clone());
        let help = "When the first certificate of a cluster ends, seconds since the epoch, of all clusters as they were seen last; all \
                    conductors show the same; 0: nobody has looked, or the table cannot be read";
        registry.register("certificate_expiry_timestamp_seconds", help, self.first_end.clone());
    }

    /// The credentials of a cluster were looked at.
    pub(super) fn looked(&self, seen: &'static str) {
        self.looks.get_or_create(&Seen { seen }).inc();
    }

    /// Reads everything anew.
    pub(super) async fn refresh(&self, store: &Store) -> Result<(), StoreError> {
        let summary = store.read(async |conn: &mut Conn| credential_health::summary(conn).await).await?;
        for (state, count) in [("working", summary.working), ("broken", summary.broken), ("unseen", summary.unseen)] {
            self.clusters.get_or_create(&Standing { state }).set(count);
        }
        self.first_end.set(summary.end_ms.map_or(0, |end| end / 1000));
        Ok(())
    }

    /// Of what cannot be read nothing is shown: an old number would be taken for the present.
    pub(super) fn are_unknown(&self) {
        self.clusters.clear();
        self.first_end.set(0);
    }
}
