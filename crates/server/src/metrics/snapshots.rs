//! What other parts know of themselves, read when somebody asks.

use std::fmt;

use model::queue::Doorbell;
use model::store::Store;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// The pool of connections to the database.
pub(super) struct Pool(pub(super) Store);

/// The doorbell.
pub(super) struct Rings(pub(super) Doorbell);

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pool")
    }
}

impl fmt::Debug for Rings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rings")
    }
}

impl Collector for Pool {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let used = self.0.pool_use();
        for (name, help, value) in [
            ("magnum_database_connections_open", "Connections to the database that exist, idle or lent", used.open),
            ("magnum_database_connections_lent", "Connections to the database that are lent", used.lent),
            ("magnum_database_connections_max", "Connections to the database that may be lent at the same time", used.max),
        ] {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}

impl Collector for Rings {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counts = self.0.counts();
        for (name, help, value) in [
            ("magnum_doorbell_rings", "Rings of the doorbell that the queue has taken", counts.rung),
            ("magnum_doorbell_rings_failed", "Rings of the doorbell that were given up; the scan finds the operation", counts.failed),
        ] {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
        }
        Ok(())
    }
}
