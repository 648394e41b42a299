//! Calls to the cloud, by service, operation and status.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use provider_clients::{Call, Ending, HUNG, Observer};

/// Upper bounds in seconds, up to the longest that a call may take.
const BUCKETS: [f64; 10] = [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    service: &'static str,
    operation: &'static str,
    status: String,
}

/// Counts and times calls.
pub(super) struct CloudCalls {
    calls: Family<Ended, Histogram, fn() -> Histogram>,
}

impl CloudCalls {
    pub(super) fn registered(registry: &mut Registry) -> Self {
        let calls: Family<Ended, Histogram, fn() -> Histogram> = Family::new_with_constructor(|| Histogram::new(BUCKETS));
        let help = format!(
            "Time of calls to the cloud, each try counted, by service, operation and status of the answer (none: no answer; cut_off: \
             nobody waited for it any longer, within {} s)",
            HUNG.as_secs()
        );
        registry.register("magnum_cloud_call_duration_seconds", help, calls.clone());
        Self { calls }
    }
}

impl Observer for CloudCalls {
    fn ended(&self, call: &Call) {
        let status = match call.ending {
            Ending::Answered(status) => status.to_string(),
            Ending::Unanswered => "none".to_owned(),
            Ending::CutOff => "cut_off".to_owned(),
        };
        let labels = Ended { service: call.service.name(), operation: call.operation, status };
        self.calls.get_or_create(&labels).observe(call.took.as_secs_f64());
    }
}
