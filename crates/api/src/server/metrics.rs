//! What is counted about requests.
//!
//! Labels come from tables of this program (routes, methods, classes of statuses), never from what a client sent: the number of series is
//! bounded whatever is asked. All workers count into the same numbers.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::routes;

/// Upper bounds in seconds: most answers take milliseconds, those that ask the cloud up to its deadline of seconds.
const BUCKETS: [f64; 12] = [0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    route: &'static str,
    method: &'static str,
    status: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Looked {
    result: &'static str,
}

/// The numbers of the API. Clones count into the same ones; those made by `default` are shown nowhere.
#[derive(Clone, Debug)]
pub struct Metrics {
    requests: Family<Answered, Histogram, fn() -> Histogram>,
    in_flight: Gauge,
    rate_limited: Counter,
    tokens: Family<Looked, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            requests: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            in_flight: Gauge::default(),
            rate_limited: Counter::default(),
            tokens: Family::default(),
        }
    }
}

impl Metrics {
    /// Numbers that the registry shows.
    pub fn registered(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let Self { requests, in_flight, rate_limited, tokens } = &metrics;
        let registry = registry.sub_registry_with_prefix("magnum_api");
        let help = "Time from the head of a request to its answer, by route, method and class of status";
        registry.register("request_duration_seconds", help, requests.clone());
        registry.register("requests_in_flight", "Requests being worked on", in_flight.clone());
        registry.register("requests_rate_limited", "Requests answered with 429", rate_limited.clone());
        let help = "Tokens looked up, by whether the answer was known (hit) or Keystone was asked (miss)";
        registry.register("token_lookups", help, tokens.clone());
        metrics
    }

    /// A request is being worked on until what is returned is dropped, also when its client leaves.
    pub(crate) fn begin(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    /// A request was answered.
    pub(crate) fn answered(&self, method: &str, path: &str, status: u16, took: Duration) {
        let labels = Answered { route: routes::name_of(path), method: known_method(method), status: class(status) };
        self.requests.get_or_create(&labels).observe(took.as_secs_f64());
        if status == 429 {
            self.rate_limited.inc();
        }
    }

    /// A token was looked up.
    pub(crate) fn token_looked_up(&self, was_known: bool) {
        self.tokens.get_or_create(&Looked { result: if was_known { "hit" } else { "miss" } }).inc();
    }
}

/// A request at work.
pub(crate) struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn known_method(method: &str) -> &'static str {
    ["GET", "POST", "PATCH", "DELETE", "PUT", "HEAD", "OPTIONS"].into_iter().find(|known| *known == method).unwrap_or("other")
}

fn class(status: u16) -> &'static str {
    match status {
        ..200 => "1xx",
        200..300 => "2xx",
        300..400 => "3xx",
        400..500 => "4xx",
        500.. => "5xx",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(registry: &Registry) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).expect("a text");
        text
    }

    #[test]
    fn labels_are_names_of_the_table_whatever_is_asked() {
        let mut registry = Registry::default();
        let metrics = Metrics::registered(&mut registry);
        let took = Duration::from_millis(3);
        metrics.answered("GET", "/v1/clusters/blue", 200, took);
        metrics.answered("GET", "/clusters/green/", 200, took);
        metrics.answered("BREW", "/v1/coffee", 404, took);
        metrics.answered("GET", "/%ff", 429, took);
        let text = shown(&registry);
        let count = "magnum_api_request_duration_seconds_count";
        assert!(text.contains(&format!("{count}{{route=\"clusters/{{cluster}}\",method=\"GET\",status=\"2xx\"}} 2")), "{text}");
        assert!(text.contains(&format!("{count}{{route=\"other\",method=\"other\",status=\"4xx\"}} 1")), "{text}");
        assert!(text.contains("magnum_api_requests_rate_limited_total 1"), "{text}");
        assert!(!text.contains("blue") && !text.contains("coffee"), "{text}");
    }

    #[test]
    fn a_request_is_in_flight_until_it_is_dropped() {
        let mut registry = Registry::default();
        let metrics = Metrics::registered(&mut registry);
        let request = metrics.begin();
        assert!(shown(&registry).contains("magnum_api_requests_in_flight 1"));
        drop(request);
        assert!(shown(&registry).contains("magnum_api_requests_in_flight 0"));
    }
}
