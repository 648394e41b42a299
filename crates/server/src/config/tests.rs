//! The configuration as a whole: layers, environment, fallbacks, what kolla-ansible writes.

use std::fs;

use secrecy::ExposeSecret;

use super::*;

/// As kolla-ansible writes it for a conductor, with everything it may add.
const KOLLA: &str = include_str!("tests/kolla.conf");

fn parse(text: &str) -> Config {
    Config::parse_for_test(text).unwrap_or_else(|error| panic!("{error:#}"))
}

fn error(text: &str) -> String {
    format!("{:#}", Config::parse_for_test(text).expect_err(text))
}

#[test]
fn an_empty_file_gives_the_defaults_of_upstream() {
    let config = parse("");
    assert_eq!(config.api.host.to_string(), "127.0.0.1");
    assert_eq!((config.api.port, config.api.max_limit), (9511, Positive(1000)));
    assert_eq!(config.service.service_down_time, 180);
    assert_eq!(config.service.graceful_shutdown_timeout, 60);
    assert!(config.service.periodic_enable && !config.service.debug);
    assert!(config.service.host.is_some_and(|host| !host.is_empty()));
    assert_eq!(config.certificates.cert_manager_type, CertManager::Barbican);
    assert_eq!(config.certificates.storage_path.to_str(), Some("/var/lib/magnum/certificates/"));
    assert_eq!(config.x509.term_of_validity, Positive(1825));
    assert_eq!(config.x509.allowed_key_usage.len(), 3);
    assert_eq!(config.cluster_heat.create_timeout, Positive(60));
    assert_eq!(config.quotas.max_clusters_per_project, 20);
    assert_eq!(config.heat_client.endpoint_type, Interface::Public);
    assert_eq!(config.keystone_authtoken.interface, Interface::Internal);
    assert_eq!(config.keystone_authtoken.token_cache_time, 300);
    assert_eq!(config.oslo_policy.policy_dirs, Repeated(vec!["policy.d".to_owned()]));
    assert_eq!(config.operations.lease_seconds, 8);
    assert_eq!(config.operations.max_running, Positive(256));
    assert_eq!(config.service.transport_url.hosts[0].host, "localhost");
    assert_eq!(config.unknown, []);
    assert_eq!(
        parse("").database_url().expect_err("no database").to_string(),
        "[database] connection is not set: the service keeps everything in a database"
    );
}

#[test]
fn what_kolla_writes_is_read() {
    let config = parse(KOLLA);
    assert_eq!(config.certificates.cert_manager_type, CertManager::Barbican);
    assert_eq!(parse(&KOLLA.replace("barbican\n", "x509keypair\n")).certificates.cert_manager_type, CertManager::X509Keypair);
    assert_eq!(config.service.host.as_deref(), Some("192.0.2.10"));
    assert_eq!(config.service.transport_url.hosts.len(), 3);
    assert_eq!(config.service.transport_url.virtual_host, "/");
    assert_eq!(config.conductor.workers, 5);
    let DatabaseUrl::Mysql(database) = config.database_url().expect("database") else {
        panic!("not MySQL");
    };
    assert_eq!((&*database.host, &*database.database), ("192.0.2.1", "magnum"));
    assert_eq!((config.database.max_pool_size, config.database.max_retries), (1, -1));
    assert_eq!(config.cinder.default_docker_volume_type, None);
    assert_eq!(config.heat_client.endpoint_type, Interface::Internal);
    assert_eq!(config.heat_client.region_name.as_deref(), Some("RegionOne"));
    assert_eq!(config.keystone_auth.auth_url.as_deref(), Some("http://192.0.2.1:5000"));
    assert_eq!(config.trust.trustee_domain_name.as_deref(), Some("magnum"));
    assert_eq!(config.drivers.disabled_drivers.len(), 4);
    assert!(config.oslo_messaging_rabbit.rabbit_quorum_queue);
    assert!(config.oslo_middleware.enable_proxy_headers_parsing);
    let unknown: Vec<_> = config.unknown.iter().filter(|finding| finding.reason == Reason::Unknown).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    assert!(!config.unknown.is_empty());
}

#[test]
fn no_secret_is_printed() {
    let printed = format!("{:?}", parse(&KOLLA.replace("barbican\n", "x509keypair\n")));
    assert!(!printed.contains("hunter"), "{printed}");
    for text in [
        "[DEFAULT]\ntransport_url = rabbit:hunter2",
        "[database]\nconnection = hunter2",
        "[trust]\ntrustee_domain_admin_password = $hunter2_",
        "[database]\nconnection = mysql://m:ab$hunter2@db/magnum",
        "[trust]\ntrustee_domain_admin_password = ${trust.trustee_domain_admin_password}hunter2",
        "[keystone_auth\npassword = hunter2",
        "[keystone_auth]\nhunter2",
    ] {
        let message = error(text);
        assert!(!message.contains("hunter2"), "{message}");
    }
}

#[test]
fn wrong_values_are_named_with_section_key_place_and_rule() {
    for (text, wanted) in [
        ("[api]\n\nport = http", "[api] port (magnum.conf:3): must be a whole number from 0 to 65535, not \"http\""),
        ("[api]\nhost = nowhere", "[api] host (magnum.conf:2): must be an IP address, not \"nowhere\""),
        (
            "[kubernetes]\nhealth_denied_networks = fd00::/8, 10.0.0.0/33",
            "[kubernetes] health_denied_networks (magnum.conf:2): must be a list of networks such as 10.0.0.0/8 and fd00::/8, \
             not \"fd00::/8, 10.0.0.0/33\"",
        ),
        (
            "[certificates]\ncert_manager_type = vault",
            "[certificates] cert_manager_type (magnum.conf:2): must be one of barbican, x509keypair, local, not \"vault\"",
        ),
        (
            "[heat_client]\nendpoint_type = secret",
            "[heat_client] endpoint_type (magnum.conf:2): must be one of public, internal, admin, not \"secret\"",
        ),
        ("[api]\nenabled_ssl = yes", "[api] ssl_cert_file is not set: enabled_ssl needs it"),
        ("[api\n", "magnum.conf:1: a section must end with ]"),
        (
            "[DEFAULT]\nhost = $log_dir\nlog_dir = ${DEFAULT.host}",
            "[DEFAULT] host (magnum.conf:2): options refer to each other in a circle: DEFAULT.host -> DEFAULT.log_dir -> \
             DEFAULT.host",
        ),
        ("[api]\nssl_key_file = $nope/x", "[api] ssl_key_file (magnum.conf:2): $nope names no option (write $$ for a dollar sign)"),
    ] {
        assert_eq!(error(text), wanted);
    }
}

#[test]
fn the_health_of_clusters_is_not_asked_on_this_machine_unless_the_operator_says_so() {
    let denied = |text: &str, address: &str| parse(text).kubernetes.health_denied_networks.contain(address.parse().expect(address));
    let here = "127.0.0.1 127.8.9.10 ::1 ::ffff:127.0.0.1 0.0.0.0 :: ::ffff:0.0.0.0";
    let beside = "169.254.169.254 ::ffff:169.254.169.254 64:ff9b::169.254.169.254 fe80::1 224.0.0.1 239.255.255.255 ff02::1";
    for address in here.split(' ').chain(beside.split(' ')) {
        assert!(denied("", address), "{address}");
        assert!(!denied("[kubernetes]\nhealth_denied_networks =\n", address), "{address}");
    }
    for address in ["10.0.0.1", "172.24.4.17", "192.168.1.1", "203.0.113.9", "2001:db8::1", "fd00::1"] {
        assert!(!denied("", address), "{address}");
    }
    let own = "[kubernetes]\nhealth_denied_networks = 10.0.0.0/8, ::1\n";
    assert!(denied(own, "10.0.0.1") && denied(own, "::1") && !denied(own, "127.0.0.1"));
}

#[test]
fn names_are_looked_for_in_their_section_and_in_default() {
    let config = parse(
        "[DEFAULT]\nstate_path = /data\nlog_dir = $state_path/log\n\
         [kubernetes]\nkeystone_auth_default_policy = $state_path/${api.port}/policy\npost_install_manifest_url = $$x\n\
         [api]\nssl_key_file = ${ssl_cert_file}.key\nssl_cert_file = a$pybasedir",
    );
    assert_eq!(config.service.log_dir, Some("/data/log".into()));
    assert_eq!(config.kubernetes.keystone_auth_default_policy, Path::new("/data/9511/policy"));
    assert_eq!(config.kubernetes.post_install_manifest_url.as_deref(), Some("$x"));
    assert_eq!(config.api.ssl_cert_file, Some("a".into()));
    assert_eq!(config.api.ssl_key_file, Some("a.key".into()));
}

#[test]
fn an_empty_text_counts_as_unset_where_there_is_something_to_unset() {
    let config = parse("[api]\nworkers =\nport = \n[cinder]\ndefault_boot_volume_type =\n[drivers]\ndisabled_drivers =");
    assert_eq!((config.api.workers, config.api.port), (0, 9511));
    assert_eq!(config.cinder.default_boot_volume_type, None);
    assert!(config.drivers.disabled_drivers.is_empty());
}

#[test]
fn old_names_count_but_the_new_one_is_stronger() {
    let config = parse(
        "[bay]\nnodes_affinity_policy = old\n[DEFAULT]\nlogdir = /old\nlog_dir = /new\n\
         [keystone_auth]\nuser-name = magnum\nuser-domain-name = Default\ntenant_name = service\npassword = x",
    );
    assert_eq!(config.cluster.nodes_affinity_policy, "old");
    assert_eq!(config.service.log_dir, Some("/new".into()));
    assert_eq!(config.keystone_auth.username.as_deref(), Some("magnum"));
    assert_eq!(config.keystone_auth.user_domain_name.as_deref(), Some("Default"));
    assert_eq!(config.keystone_auth.project_name.as_deref(), Some("service"));
    assert_eq!(config.unknown, []);
}

#[test]
fn a_missing_login_is_taken_from_the_token_section_as_a_whole() {
    let authtoken = "[keystone_authtoken]\nauth_url = http://k\nusername = a\npassword = p\nuser_domain_name = d\ncafile = /ca\n";
    let login = |text: &str| parse(&format!("{authtoken}{text}")).keystone_auth;

    let missing = login("");
    assert_eq!(missing.username.as_deref(), Some("a"));
    assert_eq!(missing.cafile, Some("/ca".into()));

    let own = login("[keystone_auth]\nusername = b\npassword = q\ncafile = /own\n");
    assert_eq!(own.username.as_deref(), Some("b"));
    assert_eq!(own.password.expect("password").expose_secret(), "q");
    assert_eq!(own.user_domain_name, None);
    assert_eq!(own.auth_url.as_deref(), Some("http://k"));
    assert_eq!(own.cafile, Some("/own".into()));

    let elsewhere = parse("[keystone_auth]\nauth_section = Mine\n[mine]\nusername = c\npassword = r\nusernam = x");
    assert_eq!(elsewhere.keystone_auth.username.as_deref(), Some("c"));
    assert_eq!(elsewhere.unknown.len(), 1, "{:?}", elsewhere.unknown);
}

#[test]
fn whom_to_believe_is_taken_from_one_section() {
    let trust = |auth: &str, authtoken: &str| {
        let config = parse(&format!("[keystone_auth]\n{auth}\n[keystone_authtoken]\n{authtoken}\n[mine]\ninsecure = true\n"));
        let login = config.keystone_auth;
        (login.cafile.map(|file| file.display().to_string()), login.insecure, config.trust_section)
    };
    let said = |cafile: Option<&str>, insecure: Option<bool>, section: &str| (cafile.map(str::to_owned), insecure, section.to_owned());
    for (auth, authtoken, wanted) in [
        ("", "cafile = /ca\ninsecure = true", said(Some("/ca"), Some(true), "keystone_authtoken")),
        // Who names authorities wants them asked.
        ("cafile = /own", "insecure = true", said(Some("/own"), None, "keystone_auth")),
        ("cafile = /own\ninsecure = true", "", said(Some("/own"), Some(true), "keystone_auth")),
        ("insecure = true", "cafile = /ca", said(None, Some(true), "keystone_auth")),
        // Who wants certificates verified and names nobody is served by those that the other section names.
        ("insecure = false", "cafile = /ca\ninsecure = true", said(Some("/ca"), Some(false), "keystone_authtoken")),
        ("auth_section = Mine", "cafile = /ca", said(None, Some(true), "mine")),
        ("cafile = /own", "auth_section = mine", said(Some("/own"), None, "keystone_auth")),
        ("", "auth_section = mine", said(None, Some(true), "mine")),
    ] {
        assert_eq!(trust(auth, authtoken), wanted, "{auth:?} {authtoken:?}");
    }
}

#[test]
fn keys_without_effect_are_collected_with_their_place() {
    let config = parse("[api]\napi_paste_config = x\nprot = 1\n[nova_client]\napi_version = 2\n[ap]\nport = 1");
    let seen: Vec<_> = config.unknown.iter().map(|f| (&*f.section, &*f.key, f.place.to_string(), f.reason)).collect();
    let at = |line: u32| format!("magnum.conf:{line}");
    assert_eq!(
        seen,
        [
            ("ap", "port", at(7), Reason::Unknown),
            ("api", "api_paste_config", at(2), Reason::NoEffect),
            ("api", "prot", at(3), Reason::Unknown),
            ("nova_client", "api_version", at(5), Reason::NoEffect),
        ]
    );
}

#[test]
fn an_option_that_is_only_checked_is_told_where_it_is_not_the_default() {
    let told = |text: &str| -> Vec<String> {
        let findings = parse(text).unknown;
        assert!(findings.iter().all(|finding| finding.reason == Reason::NoEffect), "{findings:?}");
        findings.into_iter().map(|finding| finding.key).collect()
    };
    let defaults = "[database]\nmax_retries = 10\n[trust]\ntrustee_keystone_interface = public\ntrustee_keystone_region_name =\n";
    assert!(told(defaults).is_empty());
    assert_eq!(told("[database]\nmax_retries = -1\n[drivers]\nenabled_beta_drivers = x\n"), ["max_retries", "enabled_beta_drivers"]);
    assert_eq!(told("[magnum_client]\nregion_name = RegionOne\nendpoint_type = internal\n"), ["endpoint_type", "region_name"]);
    // An old name of an option that counts, although all others that begin so are ignored.
    assert!(told("[oslo_messaging_rabbit]\nkombu_ssl_ca_certs = /ca\n").is_empty());
}

#[test]
fn a_system_scope_of_the_service_user_is_told_wherever_it_stands() {
    let login = "username = m\npassword = p\nproject_name = service\n";
    let told = |auth: &str, authtoken: &str| {
        let config = parse(&format!("[keystone_auth]\n{login}{auth}[keystone_authtoken]\n{login}{authtoken}"));
        config.scope_without_effect().map(str::to_owned)
    };
    assert_eq!(told("", ""), None);
    assert_eq!(told("system_scope = all\n", "").as_deref(), Some("all"));
    assert_eq!(told("", "system_scope = all\n").as_deref(), Some("all"));
}

#[test]
fn later_files_and_directories_and_the_environment_win() {
    let directory = tempfile::tempdir().expect("directory");
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().expect("parent")).expect("directory");
        fs::write(&path, text).expect("file");
        path
    };
    let first = write("a.conf", "[api]\nport = 1\nmax_limit = 1\n[oslo_policy]\npolicy_dirs = 1\npolicy_dirs = 2");
    let second = write("b.conf", "[api]\nport = 2\nworkers = 2\n[oslo_policy]\npolicy_dirs = 3");
    write("d/2.conf", "[api]\nport = 4\n");
    write("d/1.conf", "[api]\nport = 3\nworkers = 3");
    write("d/x.conf.orig", "[api]\nport = 5");
    write("d/.hidden.conf", "[api]\nport = 6");
    write("d/policy.yaml", "");
    let cli = Cli { config_file: vec![first, second], config_dir: vec![directory.path().join("d")] };
    let load = |variables: &[(&str, &str)]| {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Config::load_from(&cli, "magnum-none", None, variables)
    };
    let config = load(&[]).expect("config");
    assert_eq!((config.api.port, config.api.workers), (4, 3));
    assert_eq!(config.api.max_limit, Positive(1));
    assert_eq!(config.oslo_policy.policy_dirs.0, ["1", "2", "3"]);
    assert_eq!(config.find_file(Path::new("policy.yaml")), Some(directory.path().join("d/policy.yaml")));
    assert_eq!(config.find_file(Path::new("absent.yaml")), None);

    let config = load(&[("OS_API__PORT", "7"), ("OS_DEFAULT__HOST", "h"), ("OS_OSLO_MESSAGING_RABBIT__SSL", "on"), ("OS_AUTH_URL", "x")])
        .expect("config");
    assert_eq!(config.api.port, 7);
    assert_eq!(config.service.host.as_deref(), Some("h"));
    assert!(config.oslo_messaging_rabbit.ssl);

    let message = load(&[("OS_API__PORT", "x")]).expect_err("wrong value").to_string();
    assert!(message.starts_with("[api] port (environment variable OS_API__PORT): must be"), "{message}");
}

#[test]
fn without_a_command_line_the_usual_places_are_searched() {
    let home = tempfile::tempdir().expect("directory");
    let write = |name: &str, text: &str| {
        let path = home.path().join(name);
        fs::create_dir_all(path.parent().expect("parent")).expect("directory");
        fs::write(path, text).expect("file");
    };
    write(".magnum/magnum.conf", "[api]\nport = 1\nmax_limit = 1\n");
    write("magnum.conf", "[api]\nport = 2\n");
    write("magnum-api.conf", "[api]\nport = 3\n");
    write("magnum.conf.d/x.conf", "[api]\nworkers = 4\n");
    let load = |cli: &Cli| Config::load_from(cli, "magnum-api", Some(home.path()), []).expect("config");
    let config = load(&Cli::default());
    assert_eq!((config.api.port, config.api.max_limit, config.api.workers), (3, Positive(1), 4));

    let named = load(&Cli { config_file: vec!["~/magnum.conf".into()], config_dir: vec![] });
    assert_eq!((named.api.port, named.api.workers), (2, 4));
}

#[test]
fn a_file_that_is_not_there_is_an_error() {
    let cli = Cli { config_file: vec!["/nonexistent/magnum.conf".into()], config_dir: vec![] };
    let message = Config::load_from(&cli, "magnum-none", None, []).expect_err("no file").to_string();
    assert_eq!(message, "read configuration /nonexistent/magnum.conf");
}
