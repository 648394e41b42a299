//! Options of upstream that are accepted and have no effect here, so that an operator can tell them from a misspelling.

/// Section and the names of its options; `*` stands for any name, a trailing `*` for any ending.
const KNOWN: &[(&str, &str)] = &[
    (
        "DEFAULT",
        "pybasedir bindir password_symbols rootwrap_config tempdir max_manifest_size log_config_append log_config \
         use_syslog use_journal syslog_log_facility use_eventlog watch_log_file log_date_format log_color log_rotate_* \
         log_rotation_type max_logfile_* logging_* default_log_levels publish_errors instance_format \
         instance_uuid_format rate_limit_* fatal_deprecations verbose rpc_response_timeout rpc_ping_enabled rpc_backend \
         executor_thread_pool_size executor_max_workers config_source backdoor_port backdoor_socket run_external_periodic_tasks \
         log_options notification_driver notification_topics api_paste_config wsgi_* tcp_keepidle client_socket_timeout",
    ),
    ("api", "api_paste_config"),
    (
        "database",
        "mysql_engine slave_connection mysql_sql_mode mysql_wsrep_sync_wait sqlite_synchronous sqlite_db min_pool_size \
         use_db_reconnect db_retry_interval db_inc_retry_interval db_max_retry_interval db_max_retries \
         connection_debug connection_trace connection_parameters synchronous_reader backend asyncio_* \
         mysql_enable_ndb use_tpool idle_timeout",
    ),
    ("capi_helm_cluster_labels", "capi_helm_chart_version"),
    ("trust", "trustee_keystone_insecure"),
    ("cluster", "temp_cache_dir"),
    ("bay", "temp_cache_dir"),
    ("cluster_heat", "max_attempts wait_interval"),
    ("docker_registry", "swift_region swift_registry_container"),
    ("docker", "docker_remote_api_version default_timeout api_insecure ca_file cert_file key_file"),
    ("heat_client", "api_version"),
    ("glance_client", "api_version"),
    ("nova_client", "api_version"),
    ("cinder_client", "api_version"),
    ("keystone_auth", "collect_timing split_loggers trust_id domain_id domain_name"),
    (
        "keystone_authtoken",
        "auth_version delay_auth_decision include_service_catalog memcached_servers memcache_* enforce_token_bind \
         signing_dir revocation_cache_time check_revocations_for_cached hash_algorithms cache auth_plugin \
         auth_protocol auth_host auth_port auth_admin_prefix identity_uri admin_token domain_id domain_name trust_id \
         collect_timing split_loggers",
    ),
    (
        "oslo_messaging_rabbit",
        "amqp_auto_delete ssl_version ssl_enforce_fips_mode ssl_enforce_hostname_verification kombu_* \
         rabbit_login_method rabbit_transient_quorum_queue rabbit_transient_queues_ttl rabbit_ha_queues \
         rabbit_qos_prefetch_count rabbit_stream_fanout rabbit_max_retries rpc_conn_pool_size conn_pool_* \
         use_queue_manager hostname processname heartbeat_in_pthread direct_mandatory_flag \
         enable_cancel_on_failover rabbit_host rabbit_hosts rabbit_port rabbit_userid rabbit_password \
         rabbit_virtual_host rabbit_use_ssl rpc_*",
    ),
    ("oslo_messaging_notifications", "retry"),
    ("oslo_messaging_kafka", "*"),
    ("oslo_messaging_amqp", "*"),
    ("oslo_messaging_metrics", "*"),
    ("oslo_policy", "remote_*"),
    ("oslo_middleware", "secure_proxy_ssl_header http_basic_auth_user_file"),
    ("oslo_concurrency", "lock_path disable_process_locking"),
    ("oslo_reports", "*"),
    ("oslo_limit", "*"),
    ("oslo_versionedobjects", "*"),
    ("healthcheck", "*"),
    ("profiler", "*"),
    ("profiler_jaeger", "*"),
    ("profiler_otlp", "*"),
    ("magnum_client", "api_version"),
    ("capi_client", "*"),
    ("auto_scaling", "*"),
    ("auto_healing", "*"),
    ("manila_client", "*"),
];

/// Whether upstream knows an option that we do not use.
pub(super) fn is_known(section: &str, key: &str) -> bool {
    KNOWN.iter().filter(|(name, _)| *name == section).flat_map(|(_, keys)| keys.split_whitespace()).any(|known| {
        match known.strip_suffix('*') {
            Some(start) => key.starts_with(start),
            None => key == known,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{options, sections};

    #[test]
    fn an_option_is_either_honoured_or_without_effect() {
        for (section, _, options) in sections() {
            for option in *options {
                assert!(!is_known(section, option.name), "{section}.{}", option.name);
            }
        }
        for (section, keys) in KNOWN {
            for key in keys.split_whitespace() {
                assert!(!options::is_honoured(section, key), "{section}.{key}");
            }
        }
    }

    #[test]
    fn names_are_matched_exactly_unless_they_end_with_a_star() {
        for (section, key, wanted) in [
            ("oslo_messaging_rabbit", "use_queue_manager", true),
            ("oslo_messaging_rabbit", "kombu_compression", true),
            ("keystone_authtoken", "memcache_pool_maxsize", true),
            ("profiler", "enabled", true),
            ("certificates", "storage_paths", false),
            ("no_such_section", "enabled", false),
        ] {
            assert_eq!(is_known(section, key), wanted, "{section}.{key}");
        }
    }
}
