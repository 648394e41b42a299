//! Options of upstream that are accepted and have no effect here, so that an operator can tell them from a misspelling.

/// Section, the names of its options (`*` stands for any name, a trailing `*` for any ending), and why they do nothing.
pub(super) const KNOWN: &[(&str, &str, &str)] = &[
    (
        "DEFAULT",
        "pybasedir bindir rootwrap_config tempdir max_manifest_size api_paste_config",
        "of Python programs; dead in upstream too, or nearly so",
    ),
    ("DEFAULT", "password_symbols", "passwords of trustees are made of the same kinds of characters, always"),
    (
        "DEFAULT",
        "log_config_append log_config use_syslog use_journal syslog_log_facility use_eventlog watch_log_file log_date_format log_color \
         log_rotate_* log_rotation_type max_logfile_* logging_* default_log_levels publish_errors instance_format instance_uuid_format \
         rate_limit_* fatal_deprecations verbose log_options",
        "lines have oslo.log's default form, or JSON with `use_json`; `debug` and the variable MAGNUM_LOG say how much is logged; files are \
         rotated from outside",
    ),
    (
        "DEFAULT",
        "rpc_response_timeout rpc_ping_enabled rpc_backend executor_thread_pool_size executor_max_workers",
        "there are no calls from the API to a conductor; `[operations] max_running` bounds the work",
    ),
    ("DEFAULT", "notification_driver notification_topics", "old names; `[oslo_messaging_notifications]` has them"),
    (
        "DEFAULT",
        "config_source backdoor_port backdoor_socket run_external_periodic_tasks wsgi_* tcp_keepidle client_socket_timeout",
        "of Python libraries; `[requests]` bounds connections",
    ),
    ("api", "api_paste_config", "the pipeline is built in; `[cors]`, `[oslo_middleware]` and `[requests]` say what it does"),
    (
        "database",
        "mysql_engine mysql_sql_mode mysql_enable_ndb",
        "tables are InnoDB, and the SQL mode is upstream's default, TRADITIONAL, on every connection",
    ),
    (
        "database",
        "slave_connection mysql_wsrep_sync_wait synchronous_reader",
        "everything is read where it is written: a conductor that acts on old rows would do work twice",
    ),
    (
        "database",
        "min_pool_size idle_timeout use_db_reconnect db_retry_interval db_inc_retry_interval db_max_retry_interval db_max_retries use_tpool \
         connection_debug connection_trace backend asyncio_* sqlite_synchronous sqlite_db",
        "of SQLAlchemy; the pool replaces lost connections by itself",
    ),
    ("capi_helm_cluster_labels", "capi_helm_chart_version", "`[capi_helm] default_helm_chart_version` says it"),
    ("trust", "trustee_keystone_insecure", "`[drivers] verify_ca` says how nodes verify"),
    ("cluster", "temp_cache_dir", "client certificates are never written to disk"),
    ("bay", "temp_cache_dir", "client certificates are never written to disk"),
    ("cluster_heat", "max_attempts wait_interval", "dead in upstream too"),
    ("docker_registry", "swift_region swift_registry_container", "nodes run no registry of their own"),
    ("docker", "docker_remote_api_version default_timeout api_insecure ca_file cert_file key_file", "dead in upstream too (of Swarm)"),
    ("heat_client", "api_version", "the clients speak one version"),
    ("glance_client", "api_version", "the clients speak one version"),
    ("nova_client", "api_version", "the clients speak one version"),
    ("cinder_client", "api_version", "the clients speak one version"),
    (
        "magnum_client",
        "region_name endpoint_type api_version",
        "upstream looks up by them the address of this service that it hands to nodes; here nodes are handed none: what asks this service from \
         within a cluster finds it in the catalogue, by its public address",
    ),
    ("keystone_auth", "collect_timing split_loggers", "every call is measured (`[metrics]`) and logged"),
    ("keystone_auth", "trust_id domain_id domain_name", "the service user's token is for a project"),
    (
        "keystone_authtoken",
        "memcache_pool_maxsize memcache_pool_unused_timeout memcache_pool_conn_get_timeout memcache_use_advanced_pool memcache_tls_cafile \
         memcache_tls_certfile memcache_tls_keyfile memcache_tls_allowed_ciphers memcache_sasl_username memcache_sasl_password memcache_username \
         memcache_password",
        "of pymemcache's pool, and of its TLS and login, which are not spoken",
    ),
    (
        "keystone_authtoken",
        "cache revocation_cache_time check_revocations_for_cached hash_algorithms",
        "each process has a cache of its own, bounded, keyed by hashes",
    ),
    (
        "keystone_authtoken",
        "auth_version delay_auth_decision include_service_catalog enforce_token_bind signing_dir auth_plugin auth_protocol auth_host auth_port \
         auth_admin_prefix identity_uri admin_token domain_id domain_name trust_id collect_timing split_loggers",
        "of older Keystones, or of the middleware's insides",
    ),
    (
        "oslo_messaging_rabbit",
        "amqp_auto_delete rabbit_transient_quorum_queue rabbit_transient_queues_ttl rabbit_ha_queues rabbit_stream_fanout use_queue_manager \
         hostname processname direct_mandatory_flag rpc_*",
        "there is one durable quorum queue, and no queues for answers",
    ),
    (
        "oslo_messaging_rabbit",
        "ssl_version ssl_enforce_fips_mode ssl_enforce_hostname_verification rabbit_login_method kombu_* rabbit_qos_prefetch_count \
         rabbit_max_retries rpc_conn_pool_size conn_pool_* heartbeat_in_pthread enable_cancel_on_failover",
        "of kombu and its threads; TLS is 1.2 or newer, and names are verified",
    ),
    (
        "oslo_messaging_rabbit",
        "rabbit_host rabbit_hosts rabbit_port rabbit_userid rabbit_password rabbit_virtual_host",
        "old names; `[DEFAULT] transport_url` has them",
    ),
    ("oslo_messaging_notifications", "retry", "what the broker has not confirmed is sent again, for `[operations] notification_hours`"),
    ("oslo_messaging_kafka", "*", "no other transport than RabbitMQ"),
    ("oslo_messaging_amqp", "*", "no other transport than RabbitMQ"),
    ("oslo_messaging_metrics", "*", "`[metrics]` has them"),
    ("oslo_policy", "remote_*", "rules that ask another server (`http:`) are refused"),
    ("oslo_middleware", "secure_proxy_ssl_header http_basic_auth_user_file", "of layers that upstream's pipeline has not either"),
    ("oslo_concurrency", "lock_path disable_process_locking", "nothing is locked by files"),
    ("oslo_reports", "*", "metrics and traces tell what a report would"),
    ("oslo_limit", "*", "upstream does not use it either"),
    ("oslo_versionedobjects", "*", "no objects travel between the processes"),
    ("healthcheck", "*", "`/healthcheck` is built in, with upstream's file that disables it"),
    ("profiler", "*", "`[tracing]` has traces"),
    ("profiler_jaeger", "*", "`[tracing]` has traces"),
    ("profiler_otlp", "*", "`[tracing]` has traces"),
    ("DEFAULT", "shell_completion", "of the command line of Python programs"),
    ("keystone_auth", "tls_ciphers tls_min_version", "TLS is 1.2 or newer"),
    ("cluster", "enabled_definitions", "of releases before 18.x"),
    ("cluster_template", "mesos_* swarm_*", "of releases before 18.x"),
    ("conductor", "conductor_life_check_timeout", "of releases before 18.x; nobody waits for a conductor"),
    ("drivers", "send_cluster_metrics", "of releases before 18.x; `[metrics]` has them"),
    ("cache", "*", "each process has a cache of its own"),
    ("oslo_messaging_tracing", "*", "`[tracing]` has traces"),
    ("oslo_middleware_tracing", "*", "`[tracing]` has traces"),
    ("capi_client", "*", "of a driver that is not here"),
    ("auto_scaling", "*", "of a driver that is not here"),
    ("auto_healing", "*", "of a driver that is not here"),
    ("manila_client", "*", "of a driver that is not here"),
    ("ssl", "*", "of oslo.service; `[api] enabled_ssl` and its files say it"),
];

/// Options that are read, so that a wrong value is told, and do nothing else: section, names, why.
pub(super) const INERT: &[(&str, &str, &str)] = &[
    ("DEFAULT", "periodic_interval_max", "nothing is due by ticks"),
    ("database", "connection_recycle_time max_retries retry_interval", "the pool replaces lost connections by itself, for ever"),
    ("cluster", "etcd_discovery_service_endpoint_format", "control planes join by kubeadm: no discovery service is asked"),
    ("trust", "trustee_keystone_interface trustee_keystone_region_name", "nodes are given the public address of Keystone"),
    ("drivers", "enabled_beta_drivers", "no driver here is beta"),
    (
        "keystone_authtoken",
        "http_request_max_retries service_type",
        "while Keystone is away, requests are answered with 503 and Retry-After; tokens that are limited by access rules are refused by Keystone",
    ),
    (
        "oslo_messaging_rabbit",
        "heartbeat_rate rabbit_retry_interval rabbit_retry_backoff rabbit_interval_max",
        "a lost connection is made anew within 5 s, again and again",
    ),
];

/// Whether upstream knows an option that we do not use.
pub(super) fn is_known(section: &str, key: &str) -> bool {
    KNOWN.iter().filter(|(name, ..)| *name == section).flat_map(|(_, keys, _)| keys.split_whitespace()).any(|known| {
        match known.strip_suffix('*') {
            Some(start) => key.starts_with(start),
            None => key == known,
        }
    })
}

/// Whether an option is read only so that a wrong value is told.
pub(super) fn is_inert(section: &str, key: &str) -> bool {
    INERT.iter().any(|(name, keys, _)| *name == section && keys.split_whitespace().any(|known| known == key))
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
        for (section, keys, _) in KNOWN {
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
