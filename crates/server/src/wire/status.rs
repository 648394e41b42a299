//! What `magnum-status upgrade check` looks at: everything that a start or a first request would trip over, each with its cure.
//!
//! Looking changes nothing. Texts name options and hosts, never the value of a secret.

mod services;

use std::path::Path;
use std::time::Duration;

use chrono::TimeDelta;
use model::driver::DriverName;
use model::queue::amqp;
use model::store::migrate::{self, Fitness};
use model::store::{Conn, Store, adoption, clock, service};
use model::time;
use provider_clients::Watchers;

use super::{capi, deadlines, policy, reach};
use crate::config::{CertManager, Config, Reason};
use crate::sealing;
use crate::upgrade_check::{Check, Trouble};

/// Longest time of one check.
const DEADLINE: Duration = Duration::from_secs(30);

/// Network drivers that there are.
const NETWORK_DRIVERS: [&str; 3] = ["flannel", "calico", "cilium"];

/// Runs all checks, upstream's first.
pub async fn status(config: &Config) -> Vec<Check> {
    let database = within("Database", database(config));
    let clock = within("Clock", clock(config));
    let broker = within("Message broker", broker(config));
    let cloud = within_all(services::checks(config));
    let management = within("Management clusters", management(config));
    let (database, clock, broker, cloud, management) = futures::join!(database, clock, broker, cloud, management);
    let mut checks = vec![
        Check::of("Policy File JSON to YAML Migration", policy_format(config)),
        Check::of("Policy", policy_rules(config)),
        Check::of("Configuration", options(config)),
        database,
        broker,
    ];
    checks.extend(cloud);
    checks.push(Check::of("Drivers", drivers(config)));
    if capi::sources(config).is_ok_and(|sources| !sources.is_empty()) {
        checks.push(management);
    }
    checks.push(Check::of("Certificates", certificates(config)));
    checks.push(clock);
    checks
}

/// The one check that is left when the configuration itself cannot be read.
pub fn unreadable(error: &anyhow::Error) -> Check {
    Check::of("Configuration", vec![Trouble::failure(format!("{error:#}"), "correct the option or the file that is named")])
}

async fn within(name: &'static str, work: impl Future<Output = Vec<Trouble>>) -> Check {
    let found = tokio::time::timeout(DEADLINE, work).await.unwrap_or_else(|_| vec![late()]);
    Check::of(name, found)
}

async fn within_all(work: impl Future<Output = Vec<Check>>) -> Vec<Check> {
    tokio::time::timeout(DEADLINE, work).await.unwrap_or_else(|_| vec![Check::of("Keystone", vec![late()])])
}

fn late() -> Trouble {
    let problem = format!("there was no answer within {} s", DEADLINE.as_secs());
    Trouble::failure(problem, "see whether a firewall drops the packets, and whether the address is the right one")
}

/// Upstream's own check.
fn policy_format(config: &Config) -> Vec<Trouble> {
    let cure = "convert the file with oslopolicy-convert-json-to-yaml, and name it in [oslo_policy] policy_file";
    policy::main_file(config)
        .filter(|path| std::fs::read_to_string(path).is_ok_and(|text| serde_json::from_str::<serde_json::Value>(&text).is_ok()))
        .map(|path| Trouble::failure(format!("the policy file {} is JSON", path.display()), cure))
        .into_iter()
        .collect()
}

fn policy_rules(config: &Config) -> Vec<Trouble> {
    match policy::policy(config) {
        Ok(_) => Vec::new(),
        Err(error) => {
            vec![Trouble::failure(format!("{error:#}"), "correct the rule or the file that is named: the API does not start with it")]
        }
    }
}

fn options(config: &Config) -> Vec<Trouble> {
    let unknown: Vec<String> = config
        .unknown
        .iter()
        .filter(|finding| finding.reason == Reason::Unknown)
        .map(|finding| format!("[{}] {} ({})", finding.section, finding.key, finding.place))
        .collect();
    let mut found = Vec::new();
    if !unknown.is_empty() {
        let cure = "correct the spelling (docs/configuration.md has all options), or remove it";
        found.push(Trouble::warning(format!("nobody knows {}", unknown.join(", ")), cure));
    }
    let cure = "lengthen [operations] force_delete_seconds, or shorten settle_seconds";
    found.extend(deadlines::too_short(config).map(|problem| Trouble::warning(problem, cure)));
    found
}

async fn database(config: &Config) -> Vec<Trouble> {
    let cure = "see [database] connection: host, port, user, password and the name of the database";
    let store = match super::store(config) {
        Ok(store) => store,
        Err(error) => return vec![Trouble::failure(format!("{error:#}"), cure)],
    };
    let look = match adoption::look(&store).await {
        Ok(look) => look,
        Err(error) => return vec![Trouble::failure(error.to_string(), cure)],
    };
    if let Some(refusal) = look.refusal {
        return vec![Trouble::failure(refusal, "do what is said there; magnum-db-manage check shows more")];
    }
    match migrate::fitness(&store).await {
        Ok(Fitness::Fit) => {}
        Ok(Fitness::Incomplete) => {
            return vec![Trouble::failure("the database has not this program's schema", "run magnum-db-manage upgrade")];
        }
        Ok(Fitness::NotAdopted) => return vec![Trouble::failure("the database was given back to upstream", "run magnum-db-manage adopt")],
        Err(error) => return vec![Trouble::failure(error.to_string(), cure)],
    }
    let mut found = Vec::new();
    match adoption::audit(&store, look.has_driver).await {
        Ok(audit) if audit.findings.is_empty() => {}
        Ok(audit) => {
            let problem = format!("{} things about its rows are odd", audit.findings.len() + audit.more);
            found.push(Trouble::warning(problem, "magnum-db-manage check names each row and what it means"));
        }
        Err(error) => found.push(Trouble::failure(error.to_string(), cure)),
    }
    if let Err(error) = sealing::check(&store).await {
        found.push(Trouble::failure(format!("{error:#}"), "put these keys into the file, after the one that seals"));
    }
    found
}

async fn broker(config: &Config) -> Vec<Trouble> {
    let cure = "see [DEFAULT] transport_url (host, port, user, password, virtual host) and the ssl options of [oslo_messaging_rabbit]";
    let reach = match reach(config, &config.service.transport_url) {
        Ok(reach) => reach,
        Err(error) => return vec![Trouble::failure(format!("{error:#}"), cure)],
    };
    let seen = amqp::probe(&reach).await;
    let count = seen.len();
    let away: Vec<String> = seen.into_iter().filter_map(|(broker, result)| Some(format!("{broker}: {}", result.err()?))).collect();
    match away.len() {
        0 => Vec::new(),
        some if some < count => vec![Trouble::warning(format!("{some} of {count} brokers cannot be used: {}", away.join("; ")), cure)],
        _ => vec![Trouble::failure(away.join("; "), cure)],
    }
}

fn drivers(config: &Config) -> Vec<Trouble> {
    let mut found = Vec::new();
    let drivers = &config.drivers;
    let names = || DriverName::ALL.iter().map(|driver| driver.as_str()).collect::<Vec<_>>().join(", ");
    let is_disabled = |driver: &DriverName| drivers.disabled_drivers.iter().any(|name| name == driver.as_str());
    if DriverName::ALL.iter().all(is_disabled) {
        found.push(Trouble::failure("[drivers] disabled_drivers disables every driver", format!("leave one of {}", names())));
    }
    if let Some(name) = drivers.default_driver.as_deref() {
        match DriverName::parse(name) {
            None => {
                found.push(Trouble::failure(format!("[drivers] default_driver = {name} is no driver"), format!("name one of {}", names())))
            }
            Some(driver) if is_disabled(&driver) => {
                found.push(Trouble::failure(
                    format!("[drivers] default_driver = {name} is disabled by disabled_drivers"),
                    "remove it from one of the two",
                ));
            }
            Some(_) => {}
        }
    }
    let template = &config.cluster_template;
    let allowed = &template.kubernetes_allowed_network_drivers;
    for odd in allowed.iter().filter(|name| *name != "all" && !NETWORK_DRIVERS.contains(&name.as_str())) {
        let cure = format!("name all, or some of {}", NETWORK_DRIVERS.join(", "));
        found.push(Trouble::warning(format!("[cluster_template] kubernetes_allowed_network_drivers: {odd} is no network driver"), cure));
    }
    let default = &template.kubernetes_default_network_driver;
    if !allowed.iter().any(|name| name == "all" || name == default) {
        found.push(Trouble::failure(
            format!("[cluster_template] kubernetes_default_network_driver = {default} is not among the allowed ones"),
            "add it to kubernetes_allowed_network_drivers, or take another default",
        ));
    }
    found.extend(capi_driver(config));
    found
}

/// Asks each management cluster for its version.
async fn management(config: &Config) -> Vec<Trouble> {
    // What is wrong with the options is told with the drivers.
    let sources = capi::sources(config).unwrap_or_default();
    let asked = futures::future::join_all(sources.iter().map(async |source| {
        let name = &source.cluster.name;
        let client = capi::client(&source.kubeconfig, Watchers::default()).map_err(|reason| (name, reason))?;
        let server = client.server().to_owned();
        client.probe().await.map_err(|error| (name, format!("its API at {server}: {error}")))
    }));
    let away: Vec<_> = asked.await.into_iter().filter_map(Result::err).collect();
    // The clusters on the others do not notice.
    let is_any_left = away.len() < sources.len();
    let troubles = away.into_iter().map(|(name, reason)| {
        let problem = format!("management cluster {name} cannot be asked: {reason}");
        let cure = "see the kubeconfig that its kubeconfig_file names (address, authority, token or client certificate), and the management cluster";
        if is_any_left { Trouble::warning(problem, cure) } else { Trouble::failure(problem, cure) }
    });
    troubles.collect()
}

fn capi_driver(config: &Config) -> Option<Trouble> {
    match capi::sources(config) {
        Ok(sources) if sources.is_empty() => return None,
        Ok(_) => {}
        Err(error) => {
            return Some(Trouble::failure(format!("{error:#}"), "correct the option that is named: neither service starts with it"));
        }
    }
    if let Some(path) = config.capi_helm.kubeconfig_file.as_deref().filter(|path| !path.is_empty() && std::fs::read(path).is_err()) {
        return Some(Trouble::failure(
            format!("[capi_helm] kubeconfig_file = {path} cannot be read"),
            "put the management cluster's kubeconfig there, readable for the service's user, or unset the option",
        ));
    }
    let program = Path::new(&config.capi_helm.helm_program);
    let is_there = if program.components().count() > 1 {
        program.is_file()
    } else {
        std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()))
    };
    (!is_there).then(|| {
        Trouble::failure(
            format!("[capi_helm] helm_program = {} is not there, and the Cluster API driver is configured", program.display()),
            "install helm 3 or 4, or name the program",
        )
    })
}

fn certificates(config: &Config) -> Vec<Trouble> {
    if config.certificates.cert_manager_type != CertManager::Local {
        return Vec::new();
    }
    let folder = &config.certificates.storage_path;
    match tempfile::NamedTempFile::new_in(folder) {
        Ok(_) => Vec::new(),
        Err(error) => vec![Trouble::failure(
            format!("[certificates] storage_path = {} cannot be written to: {error}", folder.display()),
            "make the folder, owned by the service's user; every host must see the same one",
        )],
    }
}

/// Leases count by the conductors' clocks, which must agree to within a quarter of one.
async fn clock(config: &Config) -> Vec<Trouble> {
    let cure = "run NTP (chrony) on all hosts: conductors' clocks must agree to within a quarter of [operations] lease_seconds";
    // Who cannot reach the database is told so by its own check.
    let Ok(store) = super::store(config) else { return Vec::new() };
    let allowed = TimeDelta::milliseconds(i64::try_from(config.operations.lease_seconds.saturating_mul(250)).unwrap_or(i64::MAX));
    let mut found = Vec::new();
    if let Some((ahead, _)) = database_ahead(&store).await.filter(|(ahead, inexact)| ahead.abs() - *inexact > allowed) {
        let ahead = ahead.as_seconds_f64();
        found.push(Trouble::failure(format!("the database's clock is {ahead:.1} s ahead of this host's"), cure));
    }
    // Upstream's columns hold whole seconds.
    let allowed = allowed.num_seconds().saturating_add(1);
    let services = store.read(async |conn: &mut Conn| service::list(conn).await).await.unwrap_or_default();
    let now = time::whole_seconds(time::now());
    for beat in services {
        let Some(ahead) = beat.last_seen_up.map(|at| (at - now).num_seconds()).filter(|ahead| *ahead > allowed) else { continue };
        let host = beat.host.as_deref().unwrap_or("without a name");
        found.push(Trouble::failure(format!("the conductor on {host} was last heard of {ahead} s in the future"), cure));
    }
    found
}

/// By how much, and how far from that it may be, for nobody knows when in between the answer was made. None when the database cannot be asked.
async fn database_ahead(store: &Store) -> Option<(TimeDelta, TimeDelta)> {
    let asked = time::now();
    let theirs = store.read(async |conn: &mut Conn| clock::database(conn).await).await.ok()??;
    let inexact = (time::now() - asked) / 2;
    Some((theirs - (asked + inexact), inexact))
}
