//! How the API takes requests, from the configuration.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::config::{Config, Positive};

/// Seconds of the shutdown's grace that are left for what comes before and after the drain: work whose clients have left, rings of the doorbell, traces,
/// and the end of the runtime.
const AFTER_DRAIN: u64 = 8;
/// For the first of these.
pub(super) const LATER: Duration = Duration::from_secs(2);

pub(super) fn limits(config: &Config) -> api::Limits {
    let requests = &config.requests;
    let seconds = |n: Positive| Duration::from_secs(n.0.into());
    let grace = config.service.graceful_shutdown_timeout;
    api::Limits {
        body_bytes: config.oslo_middleware.max_request_body_size.0 as usize,
        body: seconds(requests.body_timeout),
        head: seconds(requests.head_timeout),
        idle: seconds(requests.idle_timeout),
        send: seconds(requests.send_timeout),
        answer: seconds(requests.answer_timeout),
        drain: Duration::from_secs(grace.saturating_sub(AFTER_DRAIN).saturating_sub(delay(config).as_secs()).max(1)),
        connections: requests.max_connections.0 as usize,
        streams: requests.max_event_streams.0 as usize,
    }
}

/// From the signal to the end of serving. What the grace has room for beside the end of the last requests.
pub(super) fn delay(config: &Config) -> Duration {
    let most = config.service.graceful_shutdown_timeout.saturating_sub(AFTER_DRAIN + 1);
    Duration::from_secs(config.requests.drain_delay.min(most))
}

pub(super) fn rate(config: &Config) -> Option<api::Rate> {
    let (per_second, burst) = (config.requests.project_rate, config.requests.project_burst.0);
    (per_second > 0.0).then_some(api::Rate { per_second, burst: NonZeroU32::new(burst)? })
}

pub(super) fn cors(config: &Config) -> api::Cors {
    let cors = &config.cors;
    api::Cors {
        allowed_origins: cors.allowed_origin.clone(),
        allow_credentials: cors.allow_credentials,
        expose_headers: cors.expose_headers.clone(),
        max_age: cors.max_age,
        allow_methods: cors.allow_methods.clone(),
        allow_headers: cors.allow_headers.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Config {
        Config::parse_for_test(text).expect("a configuration")
    }

    #[test]
    fn without_a_word_of_the_operator_the_limits_are_the_defaults() {
        let config = parse("");
        assert_eq!(limits(&config), api::Limits { drain: Duration::from_secs(52), ..api::Limits::default() });
        assert_eq!(rate(&config), None);
        assert_eq!(cors(&config).allowed_origins, Vec::<String>::new());
        assert_eq!(cors(&config).allow_methods, ["GET", "PUT", "POST", "DELETE", "PATCH"]);
        assert!(cors(&config).expose_headers.contains(&"X-OpenStack-Request-ID".to_owned()));
    }

    #[test]
    fn the_delay_before_the_end_is_part_of_the_grace() {
        for (grace, wanted, delay_wanted, drain) in [(60, 12, 12, 40), (60, 200, 51, 1), (3, 5, 0, 1), (60, 0, 0, 52)] {
            let config = parse(&format!("[DEFAULT]\ngraceful_shutdown_timeout = {grace}\n[requests]\ndrain_delay = {wanted}\n"));
            let seen = (delay(&config).as_secs(), limits(&config).drain.as_secs());
            assert_eq!(seen, (delay_wanted, drain), "grace {grace}, wanted {wanted}");
        }
    }

    #[test]
    fn what_the_operator_says_counts() {
        let config = parse(
            "[DEFAULT]\ngraceful_shutdown_timeout = 3\nosapi_max_request_body_size = 5\n[requests]\nhead_timeout = 1\nproject_rate = 0.5\n\
             project_burst = 7\n[cors]\nallowed_origin = https://a.example.org, https://b.example.org\nallow_credentials = no\nmax_age = 0\n",
        );
        let limits = limits(&config);
        assert_eq!((limits.body_bytes, limits.head, limits.drain), (5, Duration::from_secs(1), Duration::from_secs(1)));
        assert_eq!(rate(&config), Some(api::Rate { per_second: 0.5, burst: NonZeroU32::new(7).expect("seven") }));
        let cors = cors(&config);
        assert_eq!(cors.allowed_origins, ["https://a.example.org", "https://b.example.org"]);
        assert!(!cors.allow_credentials && cors.max_age == 0);
    }
}
