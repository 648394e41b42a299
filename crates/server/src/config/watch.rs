//! What operators see of the processes: `[metrics]`, `[tracing]`. Not known to upstream.

use std::net::IpAddr;

use super::options::section;

section! {
    /// Metrics for Prometheus: GET /metrics on a listener of its own, without login. Not known to upstream.
    Metrics {
        /// Serve metrics.
        enabled: bool = "false",
        /// Address to listen on; the default is for a scraper on the same machine.
        host: IpAddr = "127.0.0.1",
        /// Port of magnum-api, and of magnum-standalone.
        api_port: u16 = "9512",
        /// Port of magnum-conductor.
        conductor_port: u16 = "9513",
    }
}

section! {
    /// Traces of requests, sent by OTLP over HTTP. Not known to upstream. The usual OTEL_ environment variables are respected.
    Tracing {
        /// Base address of the collector, for instance http://127.0.0.1:4318. Unset: OTEL_EXPORTER_OTLP_ENDPOINT, and without that no traces.
        otlp_endpoint: Option<String>,
        /// The share of requests that are traced, from 0 to 1; a request that is part of somebody else's trace follows that one's decision.
        sample_ratio: f64 = "1",
    }
}
