//! What labels and template attributes ask for, checked.
//!
//! Values that end up in configuration files and scripts of nodes are held to narrow alphabets here, so that nothing needs quoting there.

pub(crate) mod audit;
mod cidr;
mod ipv6;
mod pod_network;
mod ranges;

pub(crate) use cidr::Cidr;
pub(crate) use ipv6::{Ipv6, MASK_SIZES, NODE_PODS_LENGTH, Subnet, told_after};
use model::driver::DriverName;
use model::json::Labels;
use model::kubernetes::Version;
use model::labels::Kind;
use model::labels::options::{self, Argument};
pub(crate) use ranges::Ranges;

use crate::driver::heat::addons::{self, Chosen};
use crate::driver::heat::catalogue::{self, KUBE_VERSION, OLDEST, Release};
use crate::driver::heat::ingress::{self, Ingress};
use crate::driver::heat::render::RenderError;
use crate::driver::heat::stack_input::StackInput;

const PODS_CIDR: &str = "10.100.0.0/16";
const SERVICES_CIDR: &str = "10.254.0.0/16";
const SUBNET_CIDR: &str = "10.0.0.0/24";
const LB_ALGORITHMS: [&str; 4] = ["ROUND_ROBIN", "LEAST_CONNECTIONS", "SOURCE_IP", "SOURCE_IP_PORT"];
/// The provider that knows one algorithm only.
pub(crate) const OVN: (&str, &str) = ("ovn", "SOURCE_IP_PORT");
const AFFINITY: [&str; 4] = ["affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"];

/// The label of the prefix length of what flannel has for the pods of one node.
const FLANNEL_NODE_PODS: &str = "flannel_network_subnetlen";

/// The label of the services' range.
const SERVICES: &str = "service_cluster_ip_range";

pub(crate) const FLANNEL: &str = "flannel";
/// Where a template names none.
pub(crate) const DEFAULT_NETWORK_DRIVER: &str = FLANNEL;
pub(crate) const CALICO: &str = "calico";
pub(crate) const CILIUM: &str = "cilium";
const NODE_RESTRICTION: &str = "NodeRestriction";

/// Everything that is chosen by the user or by a default of ours.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    /// With a leading `v`.
    pub kube_version: String,
    pub pods_cidr: Cidr,
    pub services_cidr: Cidr,
    /// Of the subnet that is made; meaningless with an existing one.
    pub subnet_cidr: Cidr,
    /// Where there is IPv6 beside IPv4.
    pub ipv6: Option<Ipv6>,
    /// Empty, or a prefix of image names that ends with a slash.
    pub image_prefix: String,
    /// Where the first master finds the pod network; empty for one that has an installer of its own.
    pub cni_manifest: String,
    /// What that must be; empty where nobody knows.
    pub cni_sha256: &'static str,
    /// Of that installer; empty for others.
    pub cilium_tag: String,
    pub addons: Vec<Chosen>,
    /// The role of the nodes where an ingress controller runs; empty: any worker.
    pub ingress_role: String,
    pub etcd_volume_size: u32,
    pub etcd_volume_type: String,
    pub flannel_backend: String,
    /// Prefix length of the pods of one node; none where the pod network divides its range itself.
    pub node_pods_length: Option<u8>,
    /// Admission plugins of the API server beside its own, separated by commas.
    pub admission_plugins: Option<String>,
    pub api_server_options: Vec<Argument>,
    pub controller_manager_options: Vec<Argument>,
    pub scheduler_options: Vec<Argument>,
    pub kubelet_options: Vec<Argument>,
    /// Without a leading `v`, as the two below.
    pub containerd_version: String,
    pub containerd_url: String,
    pub containerd_sha256: String,
    pub runc_version: String,
    pub cni_plugins_version: String,
    /// Of the image that holds a pod's namespaces.
    pub pause: &'static str,
    pub availability_zone: String,
    /// Beside the cluster's own, of workers; names or ids.
    pub extra_networks: Vec<String>,
    pub boot_volume_size: u32,
    pub boot_volume_type: String,
    pub docker_volume_type: String,
    pub lb_floating_ip: bool,
    pub lb_allowed_cidrs: Vec<Cidr>,
    pub lb_provider: String,
    pub lb_algorithm: String,
    pub lb_healthcheck: bool,
}

impl Choices {
    /// Reads and checks everything.
    pub(crate) fn read(input: &StackInput<'_>) -> Result<Self, RenderError> {
        Self::with_ranges(input).map(|(choices, _)| choices)
    }

    fn with_ranges(input: &StackInput<'_>) -> Result<(Self, Ranges), RenderError> {
        attributes(input)?;
        let label = |name: &str| input.labels.get(name).map(str::trim).unwrap_or_default().to_owned();
        let bare = |name: &str, default: &str| -> Result<String, RenderError> {
            Ok(version(input, name, default)?.trim_start_matches('v').to_owned())
        };
        let kube_version = kube_version(input.labels.get("kube_tag"))?;
        let release = release(&kube_version);
        let cni_manifest = pod_network::network(input, release)?;
        let ranges = Ranges::read(input.network_driver, input.labels, input.fixed_network.is_some(), input.dual_stack.is_some())?;
        let choices = Self {
            addons: addons::choose(input, release)?,
            ingress_role: ingress_role(input)?,
            cilium_tag: if input.network_driver == CILIUM { version(input, "cilium_tag", release.cilium)? } else { String::new() },
            etcd_volume_size: number(input, "etcd_volume_size")?,
            etcd_volume_type: label("etcd_volume_type"),
            kube_version,
            pods_cidr: ranges.pods.1,
            services_cidr: ranges.services.1,
            subnet_cidr: ranges.subnet.1,
            ipv6: Ipv6::read(input, &ranges.subnet.1)?,
            image_prefix: image_prefix(&label("container_infra_prefix"))?,
            cni_sha256: catalogue::sum(&cni_manifest).unwrap_or_default(),
            cni_manifest: input.download(&cni_manifest),
            flannel_backend: one_of(input, pod_network::BACKEND, &pod_network::EVER)?,
            node_pods_length: pod_network::node_pods_length(input)?,
            admission_plugins: admission_plugins(input)?,
            api_server_options: options(input.labels, "kubeapi_options")?,
            controller_manager_options: options(input.labels, "kubecontroller_options")?,
            scheduler_options: options(input.labels, "kubescheduler_options")?,
            kubelet_options: options(input.labels, "kubelet_options")?,
            containerd_version: bare("containerd_version", release.containerd)?,
            containerd_url: url("containerd_tarball_url", label("containerd_tarball_url"))?,
            containerd_sha256: sha256("containerd_tarball_sha256", label("containerd_tarball_sha256"))?,
            runc_version: bare("runc_version", release.runc)?,
            cni_plugins_version: bare("cni_plugins_version", release.cni_plugins)?,
            pause: release.pause,
            availability_zone: label("availability_zone"),
            extra_networks: extra_networks(&label("extra_network_names"))?,
            boot_volume_size: number(input, "boot_volume_size")?,
            boot_volume_type: label("boot_volume_type"),
            docker_volume_type: label("docker_volume_type"),
            lb_floating_ip: flag(input, "master_lb_floating_ip_enabled")?.unwrap_or(input.floating_ip_enabled),
            lb_allowed_cidrs: cidrs("master_lb_allowed_cidrs", &label("master_lb_allowed_cidrs"))?,
            lb_provider: Some(label("octavia_provider")).filter(|p| !p.is_empty()).unwrap_or_else(|| "amphora".to_owned()),
            lb_algorithm: lb_algorithm(input)?,
            lb_healthcheck: flag(input, "octavia_lb_healthcheck")?.unwrap_or(true),
        };
        ranges.apart(ranges.made().as_ref())?;
        Ok((choices, ranges))
    }

    /// As [`Choices::read`], of a cluster that is to be made: the ranges of pods and services are apart from a network that is given, too, are as
    /// kubeadm takes them, and hold all nodes; what is written down is kept. A cluster that is there may have been made before this was asked, and its nodes go on being made.
    pub(crate) fn of_new(input: &StackInput<'_>) -> Result<Self, RenderError> {
        let (choices, ranges) = Self::with_ranges(input)?;
        ranges.apart(choices.nodes(input).as_ref())?;
        audit::check(&choices.api_server_options)?;
        one_of(input, pod_network::BACKEND, &pod_network::BACKENDS)?;
        ranges.check()?;
        ranges.hold(u64::from(input.masters) + u64::from(input.workers))?;
        Ok(choices)
    }

    /// Who may reach the API, each once; empty: everybody. Nodes reach it through the load balancer too, so where anybody is named so are they.
    pub(crate) fn sources(&self, input: &StackInput<'_>) -> Vec<Cidr> {
        let own = self.nodes(input).filter(|_| !self.lb_allowed_cidrs.is_empty());
        let mut sources: Vec<Cidr> = Vec::new();
        for network in self.lb_allowed_cidrs.iter().copied().chain(own) {
            // Neutron and Octavia refuse one that is named twice.
            if !sources.contains(&network) {
                sources.push(network);
            }
        }
        sources
    }

    /// The range of the nodes' subnet, where it is known.
    pub(crate) fn nodes(&self, input: &StackInput<'_>) -> Option<Cidr> {
        if input.fixed_network.is_some() { input.fixed_range } else { Some(self.subnet_cidr) }
    }
}

/// Names that are separated by blanks, as the Cluster API driver's label has them. Heat separates by commas what it keeps.
fn extra_networks(text: &str) -> Result<Vec<String>, RenderError> {
    match text.contains(',') {
        true => Err(RenderError::new("extra_network_names", "the names of networks are separated by blanks, and hold no comma".to_owned())),
        false => Ok(text.split_whitespace().map(str::to_owned).collect()),
    }
}

fn attributes(input: &StackInput<'_>) -> Result<(), RenderError> {
    if input.tls_disabled {
        return Err(RenderError::new("tls_disabled", "must be false: the Kubernetes API is served over TLS only"));
    }
    if input.masters == 0 {
        return Err(RenderError::new("master_count", "must be at least 1"));
    }
    if input.masters > 1 && !input.master_lb_enabled {
        return Err(RenderError::new("master_lb_enabled", "must be true with more than one master"));
    }
    if input.fixed_network.is_some() != input.fixed_subnet.is_some() {
        return Err(RenderError::new("fixed_subnet", "fixed_network and fixed_subnet must be given together"));
    }
    if !AFFINITY.contains(&input.nodes_affinity_policy) {
        return Err(RenderError::new("nodes_affinity_policy", format!("must be one of {}", AFFINITY.join(", "))));
    }
    for (field, value) in [("http_proxy", input.http_proxy), ("https_proxy", input.https_proxy), ("no_proxy", input.no_proxy)] {
        plain(field, value.unwrap_or_default())?;
    }
    let registry = input.insecure_registry.unwrap_or_default();
    if !registry.chars().all(|c| c.is_ascii_alphanumeric() || ".:-".contains(c)) {
        return Err(RenderError::new("insecure_registry", "must be HOST or HOST:PORT"));
    }
    Ok(())
}

/// The value of a label that its table says the rule of; none when it is empty or not there.
fn ruled<'a>(labels: &'a Labels, name: &str) -> Result<Option<(&'a str, Kind)>, RenderError> {
    let value = labels.get(name).map(str::trim).filter(|value| !value.is_empty());
    let label = DriverName::K8sFedoraCoreosV1.label(name);
    let Some((value, label)) = value.zip(label) else { return Ok(None) };
    label.kind.check(value).map_err(|rule| RenderError::new(name, rule))?;
    Ok(Some((value, label.kind)))
}

fn options(labels: &Labels, name: &str) -> Result<Vec<Argument>, RenderError> {
    let read = |(value, kind)| match kind {
        Kind::Options(own) => options::read(value, own).map_err(|rule| RenderError::new(name, rule)),
        _ => Err(RenderError::new(name, "is no label of options")),
    };
    ruled(labels, name)?.map_or(Ok(Vec::new()), read)
}

/// NodeRestriction comes first, as upstream has it: without it a node could speak for others.
fn admission_plugins(input: &StackInput<'_>) -> Result<Option<String>, RenderError> {
    let given = ruled(input.labels, "admission_control_list")?;
    Ok(given.map(|(list, _)| {
        let others = list.split(',').map(str::trim).filter(|name| *name != NODE_RESTRICTION);
        [NODE_RESTRICTION].into_iter().chain(others).collect::<Vec<_>>().join(",")
    }))
}

/// What goes with a version that was read.
fn release(kube_version: &str) -> &'static Release {
    catalogue::of(Version::parse(kube_version).map_or(OLDEST, |version| version.minor))
}

fn kube_version(label: Option<&str>) -> Result<String, RenderError> {
    let Some(label) = label.map(str::trim) else { return Ok(KUBE_VERSION.to_owned()) };
    match Version::parse(label) {
        Some(version) if version.minor >= OLDEST => Ok(version.to_string()),
        Some(_) => Err(RenderError::new("kube_tag", format!("must be v1.{OLDEST}.0 or newer, not {label}"))),
        None => Err(RenderError::new("kube_tag", format!("must be a version such as {KUBE_VERSION}, not {label}"))),
    }
}

pub(crate) fn version(input: &StackInput<'_>, name: &str, default: &str) -> Result<String, RenderError> {
    let value = input.labels.get(name).map_or(default, str::trim);
    let fits = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    match !value.is_empty() && value.len() <= 64 && value.chars().all(fits) && !value.contains("..") {
        true => Ok(value.to_owned()),
        false => Err(RenderError::new(name, format!("must be a version such as {default}"))),
    }
}

fn image_prefix(value: &str) -> Result<String, RenderError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "./:_-".contains(c);
    match value.is_empty() || (value.ends_with('/') && value.chars().all(fits)) {
        true => Ok(value.to_owned()),
        false => Err(RenderError::new("container_infra_prefix", "must be a registry path that ends with /")),
    }
}

fn url(field: &str, value: String) -> Result<String, RenderError> {
    plain(field, &value)?;
    match value.is_empty() || value.starts_with("https://") || value.starts_with("http://") {
        true => Ok(value),
        false => Err(RenderError::new(field, "must be an http or https URL")),
    }
}

fn sha256(field: &str, value: String) -> Result<String, RenderError> {
    match value.is_empty() || (value.len() == 64 && value.bytes().all(|b| b.is_ascii_hexdigit())) {
        true => Ok(value.to_ascii_lowercase()),
        false => Err(RenderError::new(field, "must be 64 hexadecimal digits")),
    }
}

/// Text that may stand between single quotes in a shell file.
fn plain(field: &str, value: &str) -> Result<(), RenderError> {
    match value.chars().all(|c| c.is_ascii_graphic() && !"'\"\\`$#".contains(c)) {
        true => Ok(()),
        false => Err(RenderError::new(field, "must hold no spaces, quotes, backslashes or the signs $ ` #")),
    }
}

/// The value of a label of Kubernetes, where there is somebody who reads it.
fn ingress_role(input: &StackInput<'_>) -> Result<String, RenderError> {
    let value = match ingress::asked_for(input.labels) {
        Ok(Some(Ingress::Nginx)) => input.labels.get(ingress::ROLE).map_or("", str::trim),
        _ => "",
    };
    let is_end = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match value.len() <= 63 && value.chars().all(fits) && is_end(value.chars().next()) && is_end(value.chars().next_back()) {
        true => Ok(value.to_owned()),
        false => Err(RenderError::new(ingress::ROLE, "must be 63 letters, digits, and - _ . between them, at most")),
    }
}

fn number(input: &StackInput<'_>, name: &str) -> Result<u32, RenderError> {
    let value = input.labels.get(name).map_or("0", str::trim);
    value.parse().map_err(|_| RenderError::new(name, format!("must be a whole number, not {value}")))
}

pub(crate) fn flag(input: &StackInput<'_>, name: &str) -> Result<Option<bool>, RenderError> {
    truth(input.labels, name)
}

/// Whether a label is true; none without it, or when it is empty.
pub(crate) fn truth(labels: &Labels, name: &str) -> Result<Option<bool>, RenderError> {
    match (labels.get(name).filter(|text| !text.trim().is_empty()), labels.flag(name)) {
        (Some(text), None) => Err(RenderError::new(name, format!("must be true or false, not {text}"))),
        (_, flag) => Ok(flag),
    }
}

/// The first of the words is the default.
fn one_of(input: &StackInput<'_>, name: &str, words: &[&str]) -> Result<String, RenderError> {
    let value = input.labels.get(name).map_or(words[0], str::trim);
    match words.contains(&value) {
        true => Ok(value.to_owned()),
        false => Err(RenderError::new(name, format!("must be one of {}, not {value}", words.join(", ")))),
    }
}

fn lb_algorithm(input: &StackInput<'_>) -> Result<String, RenderError> {
    let name = "octavia_lb_algorithm";
    let chosen = one_of(input, name, &LB_ALGORITHMS)?;
    match input.labels.get("octavia_provider").is_some_and(|provider| provider.trim() == OVN.0) {
        true if input.labels.get(name).is_none() => Ok(OVN.1.to_owned()),
        true if chosen != OVN.1 => Err(RenderError::new(name, format!("must be {} with the provider {}, not {chosen}", OVN.1, OVN.0))),
        _ => Ok(chosen),
    }
}

fn cidr(labels: &Labels, name: &str, default: &str) -> Result<Cidr, RenderError> {
    parse_cidr(name, labels.get(name).map_or(default, str::trim))
}

fn cidrs(name: &str, list: &str) -> Result<Vec<Cidr>, RenderError> {
    list.split(',').map(str::trim).filter(|c| !c.is_empty()).map(|c| parse_cidr(name, c)).collect()
}

fn parse_cidr(name: &str, text: &str) -> Result<Cidr, RenderError> {
    Cidr::parse(text).ok_or_else(|| RenderError::new(name, format!("must be an IPv4 network such as 10.0.0.0/24, not {text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_told_the_defaults_that_hold() {
        let release = catalogue::of(Version::parse(KUBE_VERSION).expect("a version").minor);
        for (name, default) in [
            ("kube_tag", KUBE_VERSION),
            ("containerd_version", release.containerd),
            ("runc_version", release.runc),
            ("cni_plugins_version", release.cni_plugins),
            ("flannel_tag", release.flannel),
            ("calico_tag", release.calico),
            ("cilium_tag", release.cilium),
            ("cilium_ipv4pool", PODS_CIDR),
            ("flannel_network_cidr", PODS_CIDR),
            ("calico_ipv4pool", PODS_CIDR),
            ("service_cluster_ip_range", SERVICES_CIDR),
            ("fixed_subnet_cidr", SUBNET_CIDR),
            ("flannel_backend", pod_network::BACKENDS[0]),
            ("octavia_lb_algorithm", LB_ALGORITHMS[0]),
        ] {
            assert_eq!(DriverName::K8sFedoraCoreosV1.label(name).and_then(|label| label.default), Some(default), "{name}");
        }
    }

    #[test]
    fn kube_tags_are_read_as_users_write_them() {
        assert_eq!(kube_version(None).as_deref(), Ok(KUBE_VERSION));
        for (tag, want) in [("v1.34.1", "v1.34.1"), ("1.32.0", "v1.32.0"), ("v1.33.5-rancher1", "v1.33.5")] {
            assert_eq!(kube_version(Some(tag)).as_deref(), Ok(want));
        }
        for tag in ["v1.28.9-rancher1", "v1.33", "latest", "v2.0.0", "v1.33.5; reboot", "1.33.+5"] {
            assert_eq!(kube_version(Some(tag)).expect_err(tag).field, "kube_tag");
        }
    }
}
