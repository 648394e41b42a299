//! The Cluster API driver's doors: what the configuration says of each management cluster, and the helm program.

mod kubeconfig;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use conductor::{Capi, CapiKinds, CapiSettings, DoorParts, News};
use model::placement::{DEFAULT, ManagementCluster};
use provider_clients::{Helm, HelmOptions, Watchers};

use crate::config::{Config, Positive};

pub(super) use kubeconfig::{Reload, client};

/// Characters of the name of a management cluster.
const LONGEST_NAME: usize = 63;
/// What a system keeps its certificate authorities in, where one is there.
const SYSTEM_CA: [&str; 3] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
/// This program, also after an upgrade has replaced the file that it was started from.
const THIS_PROGRAM: &str = "/proc/self/exe";
/// What helm finds of our own environment: where programs and proxies are, and whom to trust.
const INHERITED: [&str; 9] =
    ["PATH", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"];

/// A management cluster of the configuration.
pub(super) struct Source {
    pub cluster: ManagementCluster,
    pub kubeconfig: PathBuf,
    /// Whether the configuration names the file; helm finds another by its own rules.
    is_named: bool,
}

/// The doors, and what keeps them up to date; none when there is no management cluster.
pub(super) fn capi(config: &Config, watchers: &Watchers, openstack_ca: &str) -> anyhow::Result<Option<(Capi, Vec<Reload>)>> {
    let sources = sources(config)?;
    if sources.is_empty() {
        return Ok(None);
    }
    let settings = settings(config, openstack_ca)?;
    let seconds = |given: Positive| Duration::from_secs(u64::from(given.0));
    let (mut doors, mut reloads) = (Vec::new(), Vec::new());
    for source in sources {
        let helm = Helm::new(helm_options(config, &source)?, watchers.clone());
        let news = News::new(seconds(config.capi_helm.watch_silence_seconds), seconds(config.capi_helm.resync_seconds));
        let (reload, management) = Reload::begin(&source.cluster.name, source.kubeconfig, watchers.clone());
        doors.push(DoorParts { cluster: source.cluster, management, helm, news });
        reloads.push(reload);
    }
    let max_running = config.operations.max_running.0 as usize;
    Ok(Some((Capi::new(settings, doors, max_running), reloads)))
}

/// What is said of the management clusters, for those who speak to none of them.
pub(super) fn rules(config: &Config) -> anyhow::Result<Vec<ManagementCluster>> {
    Ok(sources(config)?.into_iter().map(|source| source.cluster).collect())
}

/// The management clusters: the one that upstream knows, then the named ones in their order.
pub(super) fn sources(config: &Config) -> anyhow::Result<Vec<Source>> {
    let listed = &config.capi_helm.management_clusters;
    let mut all = Vec::new();
    if !listed.iter().any(|name| name == DEFAULT)
        && let Some((kubeconfig, is_named)) = kubeconfig(config, listed.is_empty())
    {
        all.push(Source { cluster: rule(config, DEFAULT), kubeconfig, is_named });
    }
    for (at, name) in listed.iter().enumerate() {
        if name.is_empty() || name.len() > LONGEST_NAME || model::capi::cleaned(name) != *name {
            bail!(
                "[capi_helm] management_clusters: {name:?} must have lower case letters, digits and single dashes only, {LONGEST_NAME} at most"
            );
        }
        if listed.iter().take(at).any(|other| other == name) {
            bail!("[capi_helm] management_clusters: {name} must be named once only");
        }
        let own = config.capi_management.get(name).and_then(|section| section.kubeconfig_file.clone());
        let own = own.or_else(|| config.capi_helm.kubeconfig_file.clone().filter(|_| name == DEFAULT));
        let Some(kubeconfig) = own.filter(|path| !path.is_empty()) else {
            bail!("[capi_management:{name}] kubeconfig_file is not set: [capi_helm] management_clusters names {name}");
        };
        all.push(Source { cluster: rule(config, name), kubeconfig: kubeconfig.into(), is_named: true });
    }
    Ok(all)
}

fn rule(config: &Config, name: &str) -> ManagementCluster {
    let said = config.capi_management.get(name).unwrap_or(&config.capi_management_unset);
    let projects = said.projects.iter().filter(|id| !id.is_empty()).cloned().collect();
    ManagementCluster { name: name.to_owned(), projects, weight: said.weight.0, max_clusters: said.max_clusters }
}

/// The kubeconfig of the one that upstream knows, and whether the configuration names it. Those that helm finds by its own rules count where
/// nothing else is configured.
fn kubeconfig(config: &Config, is_alone: bool) -> Option<(PathBuf, bool)> {
    let own = config.capi_management.get(DEFAULT).and_then(|section| section.kubeconfig_file.as_deref());
    if let Some(path) = own.or(config.capi_helm.kubeconfig_file.as_deref()).filter(|path| !path.is_empty()) {
        return Some((path.into(), true));
    }
    if !is_alone {
        return None;
    }
    if let Some(path) = std::env::var_os("KUBECONFIG").filter(|path| !path.is_empty()) {
        return Some((path.into(), false));
    }
    let usual = PathBuf::from(std::env::var_os("HOME")?).join(".kube/config");
    usual.is_file().then_some((usual, false))
}

fn helm_options(config: &Config, source: &Source) -> anyhow::Result<HelmOptions> {
    let Source { kubeconfig, is_named, .. } = source;
    let wanted = &config.capi_helm;
    let home = wanted.helm_home.clone().map_or_else(|| config.service.state_path.join("helm"), PathBuf::from);
    std::fs::create_dir_all(&home).with_context(|| format!("[capi_helm] helm_home: make {}", home.display()))?;
    let mut environment: Vec<(OsString, OsString)> =
        INHERITED.iter().filter_map(|name| Some(((*name).into(), std::env::var_os(name)?))).collect();
    environment.push(("HOME".into(), home.clone().into()));
    for (name, folder) in [("HELM_CACHE_HOME", "cache"), ("HELM_CONFIG_HOME", "config"), ("HELM_DATA_HOME", "data")] {
        environment.push((name.into(), home.join(folder).into()));
    }
    if !is_named {
        environment.push(("KUBECONFIG".into(), kubeconfig.into()));
    }
    Ok(HelmOptions {
        program: wanted.helm_program.clone(),
        warden: THIS_PROGRAM.into(),
        libraries: std::env::var_os("LD_LIBRARY_PATH"),
        environment,
        kubeconfig: is_named.then(|| kubeconfig.display().to_string()),
        at_once: wanted.helm_processes.0 as usize,
        deadline: Duration::from_secs(u64::from(wanted.helm_deadline_seconds.0)),
    })
}

fn settings(config: &Config, openstack_ca: &str) -> anyhow::Result<CapiSettings> {
    let wanted = &config.capi_helm;
    let kinds = CapiKinds::read(&wanted.api_resources).map_err(anyhow::Error::msg).context("[capi_helm] api_resources")?;
    let topologies = wanted.csi_cinder_allowed_topologies.iter().map(|text| {
        let read = serde_json::from_str(text);
        read.with_context(|| format!("[capi_helm] csi_cinder_allowed_topologies: {text:?} must be a JSON object"))
    });
    if wanted.namespace_prefix.is_empty() || model::capi::cleaned(&wanted.namespace_prefix) != wanted.namespace_prefix {
        bail!("[capi_helm] namespace_prefix must have lower case letters, digits and single dashes only");
    }
    Ok(CapiSettings {
        namespace_prefix: wanted.namespace_prefix.clone(),
        chart_name: wanted.helm_chart_name.clone(),
        chart_repo: Some(wanted.helm_chart_repo.clone()).filter(|repo| !repo.is_empty()),
        chart_version: wanted.default_helm_chart_version.clone(),
        minimum_flavor_ram: wanted.minimum_flavor_ram,
        minimum_flavor_vcpus: wanted.minimum_flavor_vcpus,
        default_volume_type: wanted.csi_cinder_default_volume_type.clone(),
        allowed_topologies: topologies.collect::<anyhow::Result<_>>()?,
        interface: wanted.app_cred_interface_type.as_str().to_owned(),
        region: config.cinder_client.region_name.clone().or_else(|| config.keystone_authtoken.region_name.clone()),
        verify_ca: config.drivers.verify_ca,
        ca: if openstack_ca.is_empty() { system_ca() } else { openstack_ca.to_owned() },
        control_plane_conditions: wanted.k8s_control_plane_resource_conditions.clone(),
        kinds,
        controllers: controllers(config)?,
        rotation_pause: rotation_pause(config),
        labels: labels(config),
    })
}

/// Namespaces and names of the controllers that connect to clusters.
pub(super) fn controllers(config: &Config) -> anyhow::Result<Vec<(String, String)>> {
    let named = config.capi_helm.controller_deployments.iter().map(|text| text.trim()).filter(|text| !text.is_empty());
    let read = |text: &str| match text.split_once('/') {
        Some((namespace, name)) if [namespace, name].iter().all(|part| !part.is_empty() && !part.contains('/')) => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => bail!("[capi_helm] controller_deployments: {text:?} must be a namespace and a name with a / between them"),
    };
    named.map(read).collect()
}

/// The pause in a rotation of authorities.
pub(super) fn rotation_pause(config: &Config) -> Duration {
    Duration::from_secs(config.capi_helm.ca_rotation_pause_seconds.into())
}

/// What holds without a label, by the label's name.
pub(super) fn labels(config: &Config) -> BTreeMap<&'static str, String> {
    config.capi_helm_cluster_labels.by_name().into_iter().collect()
}

/// The controllers' images carry no certificate authorities.
fn system_ca() -> String {
    let found = SYSTEM_CA.iter().find_map(|path| std::fs::read_to_string(path).ok());
    found.unwrap_or_else(|| {
        tracing::warn!("No certificate authorities for clusters of the Cluster API driver: set [drivers] openstack_ca_file");
        String::new()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Result<Vec<(String, String)>, String> {
        let config = Config::parse_for_test(text).expect("every option fits its type");
        assert_eq!(config.unknown, []);
        let all = sources(&config).map_err(|error| error.to_string())?;
        Ok(all.into_iter().map(|source| (source.cluster.name, source.kubeconfig.display().to_string())).collect())
    }

    #[test]
    fn upstreams_management_cluster_comes_first_and_each_named_one_has_a_section() {
        let text = "[capi_helm]\nkubeconfig_file = /d\nmanagement_clusters = blue, green\n[capi_management:blue]\nkubeconfig_file = /b\n\
                    projects = p1, p2,\nweight = 3\n[capi_management:GREEN]\nkubeconfig_file = /g\nmax_clusters = 5\n\
                    [capi_management:default]\nmax_clusters = 7\n";
        let names = |all: &[(&str, &str)]| all.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>();
        assert_eq!(told(text), Ok(names(&[("default", "/d"), ("blue", "/b"), ("green", "/g")])));
        let rules = rules(&Config::parse_for_test(text).expect("good")).expect("good");
        assert_eq!((rules[0].max_clusters, rules[0].weight, rules[1].weight, rules[2].max_clusters), (7, 1, 3, 5));
        assert_eq!(rules[1].projects, ["p1", "p2"]);
        // Where some are named nothing else is found by helm's rules, and upstream's can be one of those that are named.
        assert_eq!(
            told("[capi_helm]\nmanagement_clusters = blue\n[capi_management:blue]\nkubeconfig_file = /b"),
            Ok(names(&[("blue", "/b")]))
        );
        let text = "[capi_helm]\nkubeconfig_file = /d\nmanagement_clusters = blue,default\n[capi_management:blue]\nkubeconfig_file = /b";
        assert_eq!(told(text), Ok(names(&[("blue", "/b"), ("default", "/d")])));
    }

    #[test]
    fn controllers_are_named_with_their_namespaces() {
        let read = |text: &str| {
            let config = Config::parse_for_test(&format!("[capi_helm]\ncontroller_deployments = {text}\n")).expect("good");
            controllers(&config).map_err(|error| error.to_string())
        };
        let named = |all: &[(&str, &str)]| all.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>();
        assert_eq!(read("a/b, c/d,"), Ok(named(&[("a", "b"), ("c", "d")])));
        assert_eq!(read(""), Ok(Vec::new()));
        for wrong in ["a", "/b", "a/", "a/b/c"] {
            assert!(read(wrong).is_err_and(|error| error.contains(wrong)), "{wrong}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (listed, says) in [
            ("blue", "[capi_management:blue] kubeconfig_file is not set"),
            ("Blue", "\"Blue\" must have lower case letters"),
            ("b_", "\"b_\" must have lower case letters"),
        ] {
            let error = told(&format!("[capi_helm]\nmanagement_clusters = {listed}")).expect_err(listed);
            assert!(error.contains(says), "{error}");
        }
        let twice = "[capi_helm]\nmanagement_clusters = a,a\n[capi_management:a]\nkubeconfig_file = /a";
        assert!(told(twice).is_err_and(|error| error.ends_with("a must be named once only")));
        // A section of one that nobody names is a misspelling.
        let config = Config::parse_for_test("[capi_management:bleu]\nkubeconfig_file = /b").expect("good");
        assert_eq!(config.unknown.len(), 1);
    }
}
