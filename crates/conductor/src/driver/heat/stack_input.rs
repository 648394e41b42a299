//! Everything a stack is rendered from, as plain values that were looked up before.
//!
//! Holds key material by reference only and has no `Debug`, so that none of it reaches a log.

use super::access::CloudProvider;
use super::dual_stack::DualStack;
use super::keystone_auth::Keystone;
use super::parameters::choices::Cidr;
use super::templates::HeatTemplates;
use model::json::Labels;
use model::nodegroup::Nodes;

/// What the nodes' image is: what reads their first boot there, and what of the image can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distro {
    /// Ignition.
    FedoraCoreos,
    /// Ignition.
    Flatcar,
    /// cloud-init.
    Ubuntu,
}

impl Distro {
    /// That of a template, by its image's `os_distro`.
    pub fn of(cluster_distro: Option<&str>) -> Self {
        match cluster_distro {
            Some("ubuntu") => Self::Ubuntu,
            Some("flatcar") => Self::Flatcar,
            _ => Self::FedoraCoreos,
        }
    }

    /// The folder of programs that no image brings. Flatcar's `/usr`, with all that is in it, cannot be written; its own manual puts those of
    /// Kubernetes here (flatcar.org/docs/latest/container-runtimes/getting-started-with-kubernetes).
    pub fn programs(self) -> &'static str {
        match self {
            Self::FedoraCoreos | Self::Ubuntu => "/usr/local/bin",
            Self::Flatcar => "/opt/bin",
        }
    }
}

/// A cluster, as far as its stack is concerned.
pub(crate) struct StackInput<'a> {
    pub templates: &'a HeatTemplates,
    pub cluster_uuid: &'a str,
    pub cluster_name: &'a str,
    pub project_id: &'a str,
    pub distro: Distro,
    pub ssh_key_name: Option<&'a str>,
    pub external_network: &'a str,
    /// An existing network; it needs its subnet too. Ids, where a stack is made of them.
    pub fixed_network: Option<&'a str>,
    pub fixed_subnet: Option<&'a str>,
    /// Of that subnet, where it was looked up.
    pub fixed_range: Option<Cidr>,
    pub dns_nameservers: Vec<String>,
    pub master_image: &'a str,
    pub worker_image: &'a str,
    pub master_flavor: &'a str,
    pub worker_flavor: &'a str,
    pub masters: u32,
    pub workers: u32,
    pub worker_group: WorkerGroup<'a>,
    pub master_lb_enabled: bool,
    pub floating_ip_enabled: bool,
    pub docker_volume_size: Option<u32>,
    pub http_proxy: Option<&'a str>,
    pub https_proxy: Option<&'a str>,
    pub no_proxy: Option<&'a str>,
    pub insecure_registry: Option<&'a str>,
    pub network_driver: &'a str,
    pub tls_disabled: bool,
    pub cloud: &'a CloudProvider,
    /// What masters are told of Keystone, where users log in with it.
    pub keystone: Option<&'a Keystone>,
    /// Whether Heat gives masters a key for what is secret in etcd.
    pub has_secrets_key: bool,
    /// Whether it is watched from inside; the labels say how.
    pub has_monitoring: bool,
    /// Where nodes have addresses of both versions of IP.
    pub dual_stack: Option<&'a DualStack>,
    /// The name of the API in DNS, with a dot at the end.
    pub api_name: Option<&'a str>,
    /// Where a manifest of the operator's is, that every cluster gets.
    pub post_install_manifest: Option<&'a str>,
    /// What stands before host and path of what nodes download, in the place of `https://`.
    pub downloads: Option<&'a str>,
    pub volume_driver: Option<&'a str>,
    pub labels: &'a Labels,
    pub nodes_affinity_policy: &'a str,
    /// PEM certificates of who signed those of OpenStack's services, beside what an image trusts; may be empty.
    pub openstack_ca: &'a str,
    /// Whether nodes check the certificates of OpenStack's services.
    pub verify_ca: bool,
    pub timeout_minutes: u32,
    /// How long tokens of Keystone live, in seconds, where it is known.
    pub token_seconds: Option<u32>,
    pub kubernetes: Pki<'a>,
}

impl StackInput<'_> {
    /// Where nodes find what a project has at this address.
    pub fn download(&self, address: &str) -> String {
        match self.downloads.zip(address.strip_prefix("https://")) {
            Some((mirror, place)) => format!("{mirror}{place}"),
            None => address.to_owned(),
        }
    }
}

/// The group that the workers of a stack are in, as they tell Kubernetes.
pub(crate) struct WorkerGroup<'a> {
    pub name: &'a str,
    pub role: &'a str,
    pub nodes: &'a Nodes,
}

/// What the cluster's stack made and a group of workers in a stack of its own joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Joint {
    /// Where nodes reach the API, from inside.
    pub api_address: String,
    pub network: String,
    pub subnet: String,
    /// The subnet of IPv6, in a cluster that has both.
    pub subnet_v6: Option<String>,
    pub security_groups: Vec<String>,
}

/// What the control plane signs and is known by; PEM unless said otherwise. Of each authority, the first certificate is the key's own, and
/// those that are trusted beside it follow.
#[derive(Default)]
pub(crate) struct Pki<'a> {
    pub ca_cert: &'a str,
    pub ca_key: &'a str,
    pub etcd_ca_cert: &'a str,
    pub etcd_ca_key: &'a str,
    pub front_proxy_ca_cert: &'a str,
    pub front_proxy_ca_key: &'a str,
    pub sa_key_pem: &'a str,
    /// The key's own first.
    pub sa_pub_pem: &'a str,
    /// The Kubernetes authorities that nodes may join by; the first is the one that signs.
    pub authorities: Vec<KnownAuthority<'a>>,
}

/// An authority, as far as the joining of nodes goes.
pub(crate) struct KnownAuthority<'a> {
    pub key: &'a str,
    /// SHA-256 of its subject public key info, hex.
    pub public_key_hash: &'a str,
}

/// How much of a cluster's name goes into the name of its stack; node names, which must fit into a DNS label, grow from it.
const NAME_PART: usize = 30;

/// The same for each of the two names that a group's stack is named by.
const GROUP_NAME_PART: usize = 14;

/// The name of a cluster's stack. The same for every attempt, so that a stack whose creation was answered to nobody is found again.
pub(crate) fn stack_name(cluster_name: &str, cluster_uuid: &str) -> String {
    named(&plain(cluster_name, NAME_PART), cluster_uuid)
}

/// The name of a group's stack; unique by the group.
pub(crate) fn group_stack_name(cluster_name: &str, group_name: &str, group_uuid: &str) -> String {
    let parts = [plain(cluster_name, GROUP_NAME_PART), plain(group_name, GROUP_NAME_PART)];
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|p| !p.is_empty()).collect();
    named(&parts.join("-"), group_uuid)
}

/// How much of a cluster's name goes into the one that cilium knows it by, which has 32 characters at most: with the mark.
const CILIUM_NAME_PART: usize = 19;

/// The name that cilium knows a cluster by, the same for every attempt. Its chart takes small letters, digits and hyphens between them, 32 at most,
/// from 1.16 on (cilium/cilium#32641, cilium/cilium#34006); without one, its installer takes what kubeadm was told, which is any name.
pub(crate) fn cilium_name(cluster_name: &str, cluster_uuid: &str) -> String {
    let unique = model::cluster::stack_mark(cluster_uuid);
    match plain(cluster_name, CILIUM_NAME_PART) {
        words if words.is_empty() => unique,
        words => format!("{words}-{unique}"),
    }
}

/// What of a name may stand in a host name.
fn plain(name: &str, limit: usize) -> String {
    let cut = name.chars().take(limit).filter_map(|c| match c {
        'a'..='z' | '0'..='9' | '-' => Some(c),
        'A'..='Z' => Some(c.to_ascii_lowercase()),
        '_' | '.' => Some('-'),
        _ => None,
    });
    cut.collect::<String>().trim_matches('-').to_owned()
}

fn named(words: &str, uuid: &str) -> String {
    let letter_first = words.starts_with(|c: char| c.is_ascii_lowercase());
    let unique = model::cluster::stack_mark(uuid);
    match (letter_first, words) {
        (true, words) => format!("{words}-{unique}"),
        (false, "") => format!("k8s-{unique}"),
        (false, words) => format!("k8s-{words}-{unique}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{cilium_name, group_stack_name, stack_name};

    #[test]
    fn a_stack_name_starts_with_a_letter_and_fits_into_a_host_name() {
        let uuid = "7d1B2c3e-4f50-4617-8283-94a5b6c7d8e9";
        for (name, want) in [
            ("prod", "prod-7d1b2c3e4f50"),
            ("My_Cluster.one", "my-cluster-one-7d1b2c3e4f50"),
            ("42", "k8s-42-7d1b2c3e4f50"),
            ("", "k8s-7d1b2c3e4f50"),
            ("ünï cödé", "ncd-7d1b2c3e4f50"),
            ("a-", "a-7d1b2c3e4f50"),
        ] {
            assert_eq!(stack_name(name, uuid), want, "{name}");
        }
        let long = stack_name(&"9".repeat(242), uuid);
        assert!(format!("{long}-master-999").len() <= 63, "{long}");
    }

    #[test]
    fn cilium_takes_the_name_that_it_is_told_for_any_cluster() {
        let uuid = "7d1B2c3e-4f50-4617-8283-94a5b6c7d8e9";
        for (name, want) in [
            ("prod", "prod-7d1b2c3e4f50"),
            ("Prod", "prod-7d1b2c3e4f50"),
            ("my.cluster", "my-cluster-7d1b2c3e4f50"),
            ("", "7d1b2c3e4f50"),
            ("_ü_", "7d1b2c3e4f50"),
            // What a nameless cluster is called.
            (uuid, "7d1b2c3e-4f50-4617-7d1b2c3e4f50"),
        ] {
            assert_eq!(cilium_name(name, uuid), want, "{name}");
        }
        for name in ["x".repeat(33), "9".repeat(242), format!("{}-.-{}", "a".repeat(17), "b".repeat(17)), "-".repeat(40)] {
            let told = cilium_name(&name, uuid);
            let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
            assert!(told.len() <= 32 && told.chars().all(|c| is_plain(c) || c == '-'), "{name}: {told}");
            assert!(told.starts_with(is_plain) && told.ends_with(is_plain), "{name}: {told}");
        }
    }

    #[test]
    fn a_groups_stack_is_named_by_cluster_and_group() {
        let uuid = "7d1b2c3e-4f50-4617-8283-94a5b6c7d8e9";
        for (cluster, group, want) in
            [("prod", "gpu", "prod-gpu-7d1b2c3e4f50"), ("1", "GPU nodes!", "k8s-1-gpunodes-7d1b2c3e4f50"), ("ü", "ü", "k8s-7d1b2c3e4f50")]
        {
            assert_eq!(group_stack_name(cluster, group, uuid), want);
        }
        let long = group_stack_name(&"9".repeat(242), &"x".repeat(255), uuid);
        assert!(format!("{long}-node-99999").len() <= 63, "{long}");
    }
}
