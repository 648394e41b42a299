//! The Cluster API driver's doors: the management cluster's kubeconfig, read again when it changes, and the helm program.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use conductor::{Capi, CapiKinds, CapiSettings, News};
use provider_clients::{Helm, HelmOptions, Kubeconfig, Management, Watchers};
use tokio::sync::watch;

use crate::config::{Config, Positive};

/// How often the kubeconfig is looked at.
const LOOK: Duration = Duration::from_secs(2);
/// Of one call to the management cluster.
const CONNECT: Duration = Duration::from_secs(3);
const TIMEOUT: Duration = Duration::from_secs(20);
/// What a system keeps its certificate authorities in, where one is there.
const SYSTEM_CA: [&str; 3] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
/// What helm finds of our own environment: where programs and proxies are, and whom to trust.
const INHERITED: [&str; 9] =
    ["PATH", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"];

/// Looks at the kubeconfig as long as it is run.
pub(super) struct Reload {
    path: PathBuf,
    watchers: Watchers,
    known: Option<Vec<u8>>,
    sender: watch::Sender<Result<Management, Arc<str>>>,
}

/// The doors, and what keeps the first of them up to date; none when there is no kubeconfig.
pub(super) fn capi(config: &Config, watchers: &Watchers, openstack_ca: &str) -> anyhow::Result<Option<(Capi, Reload)>> {
    let Some((path, is_named)) = kubeconfig(config) else { return Ok(None) };
    let settings = settings(config, openstack_ca)?;
    let helm = Helm::new(helm_options(config, &path, is_named)?, watchers.clone());
    let (sender, management) = watch::channel(Err(Arc::from("its kubeconfig was not read yet")));
    let mut reload = Reload { path, watchers: watchers.clone(), known: None, sender };
    reload.look();
    let seconds = |given: Positive| Duration::from_secs(u64::from(given.0));
    let news = News::new(seconds(config.capi_helm.watch_silence_seconds), seconds(config.capi_helm.resync_seconds));
    Ok(Some((Capi { settings, management, helm, news: Arc::new(news) }, reload)))
}

/// Whether clusters of this driver can be made.
pub(super) fn is_configured(config: &Config) -> bool {
    kubeconfig(config).is_some()
}

/// The kubeconfig, and whether the configuration names it.
fn kubeconfig(config: &Config) -> Option<(PathBuf, bool)> {
    if let Some(path) = config.capi_helm.kubeconfig_file.as_deref().filter(|path| !path.is_empty()) {
        return Some((path.into(), true));
    }
    if let Some(path) = std::env::var_os("KUBECONFIG").filter(|path| !path.is_empty()) {
        return Some((path.into(), false));
    }
    let usual = PathBuf::from(std::env::var_os("HOME")?).join(".kube/config");
    usual.is_file().then_some((usual, false))
}

impl Reload {
    /// Runs until it is dropped.
    pub(super) async fn run(mut self) {
        loop {
            tokio::time::sleep(LOOK).await;
            self.look();
        }
    }

    /// Reads the file; who uses the management cluster from here on uses what it says now.
    fn look(&mut self) {
        let text = match std::fs::read(&self.path) {
            Ok(text) if self.known.as_ref() == Some(&text) => return,
            Ok(text) => text,
            Err(error) => {
                if self.known.take().is_some() || self.sender.borrow().as_ref().is_err_and(|e| !e.contains("read")) {
                    tracing::warn!(path = %self.path.display(), %error, "The kubeconfig of the management cluster cannot be read");
                }
                let reason = format!("its kubeconfig {} cannot be read: {error}", self.path.display());
                drop(self.sender.send_replace(Err(reason.into())));
                return;
            }
        };
        let folder = self.path.parent().unwrap_or(Path::new("/")).to_owned();
        let read = |name: &str| std::fs::read(folder.join(name));
        let made = Kubeconfig::parse(&String::from_utf8_lossy(&text), &read)
            .map_err(|error| error.to_string())
            .and_then(|config| Management::new(&config, CONNECT, TIMEOUT, self.watchers.clone()).map_err(|error| error.to_string()));
        match &made {
            Ok(management) => tracing::info!(server = management.server(), "The management cluster's kubeconfig was read"),
            Err(reason) => tracing::error!(path = %self.path.display(), reason, "The kubeconfig of the management cluster cannot be used"),
        }
        self.known = Some(text);
        drop(self.sender.send_replace(made.map_err(Arc::from)));
    }
}

fn helm_options(config: &Config, kubeconfig: &Path, is_named: bool) -> anyhow::Result<HelmOptions> {
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
        labels: config.capi_helm_cluster_labels.by_name().into_iter().collect::<BTreeMap<_, _>>(),
    })
}

/// The controllers' images carry no certificate authorities.
fn system_ca() -> String {
    let found = SYSTEM_CA.iter().find_map(|path| std::fs::read_to_string(path).ok());
    found.unwrap_or_else(|| {
        tracing::warn!("No certificate authorities for clusters of the Cluster API driver: set [drivers] openstack_ca_file");
        String::new()
    })
}
