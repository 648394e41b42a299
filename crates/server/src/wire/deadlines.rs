//! How long operations may take, from the configuration.

use std::time::Duration;

use model::operation::Deadlines;
use model::operation::deadlines::least_force_delete;

use crate::config::Config;

/// What the API gives operations, and a conductor those that it takes up by itself.
pub(super) fn deadlines(config: &Config) -> Deadlines {
    let asked = Duration::from_secs(u64::from(config.operations.force_delete_seconds.0));
    let force_delete = asked.max(least(config));
    let settle = Duration::from_secs(config.operations.settle_seconds);
    Deadlines { create_minutes: config.cluster_heat.create_timeout.0, force_delete, settle, ..Deadlines::default() }
}

/// Warns of a time that is too short and not taken as it is.
pub(super) fn warn(config: &Config) {
    if let Some(text) = too_short(config) {
        tracing::warn!("{text}");
    }
}

/// What is told of it.
pub(super) fn too_short(config: &Config) -> Option<String> {
    let (asked, least) = (u64::from(config.operations.force_delete_seconds.0), least(config).as_secs());
    (asked < least).then(|| {
        format!(
            "[operations] force_delete_seconds = {asked} is taken for {least}: three quarters of it must be no less than settle_seconds and \
             lease_seconds together; what was asked of the cloud before could still appear once the deletion has ended"
        )
    })
}

fn least(config: &Config) -> Duration {
    let operations = &config.operations;
    least_force_delete(Duration::from_secs(operations.settle_seconds), Duration::from_secs(operations.lease_seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forced_deletion_lasts_until_nothing_can_appear_any_more_and_who_asks_for_less_is_told() {
        for (text, lasts, is_told) in [
            ("", 600, false),
            ("force_delete_seconds = 51", 51, false),
            ("force_delete_seconds = 50", 51, true),
            ("force_delete_seconds = 1", 51, true),
            ("force_delete_seconds = 600\nsettle_seconds = 590", 798, true),
            ("force_delete_seconds = 16\nsettle_seconds = 2\nlease_seconds = 4\nheartbeat_seconds = 1", 16, false),
        ] {
            let config = Config::parse_for_test(&format!("[operations]\n{text}\n")).expect("every option fits its type");
            assert_eq!(config.unknown, []);
            assert_eq!(deadlines(&config).force_delete, Duration::from_secs(lasts), "{text}");
            let told = too_short(&config);
            assert_eq!(told.is_some(), is_told, "{text}: {told:?}");
            let names = ["force_delete_seconds", "settle_seconds", "lease_seconds"];
            assert!(told.is_none_or(|told| names.iter().all(|name| told.contains(name))), "{text}");
        }
    }
}
