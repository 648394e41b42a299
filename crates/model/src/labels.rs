//! What labels each driver knows: their types, defaults and meaning, so that a wrong value is refused when it is given and not when a
//! cluster fails with it (heat-driver.md 5).
//!
//! Labels that a driver does not know are kept as they are: users mark things with them, and other programs read them.

mod capi;
mod heat;
pub mod options;

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::driver::DriverName;
use crate::json::{Labels, truth};

/// Names at most in a sentence about labels.
const NAMES_SHOWN: usize = 10;

/// A label that a driver knows.
#[derive(Debug)]
pub struct Label {
    pub name: &'static str,
    pub kind: Kind,
    /// What holds without it; none: nothing, or what `about` says.
    pub default: Option<&'static str>,
    pub about: &'static str,
    /// The release of this program that knows it first.
    pub since: &'static str,
    pub effect: Effect,
}

/// What a label may hold. Empty text counts as no label, unless the kind is a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// Any of the words that oslo takes for true or false.
    Boolean,
    /// A whole number from 0 on.
    Count,
    /// An IPv4 network without host bits.
    Network,
    /// Such networks, separated by commas.
    Networks,
    /// An IPv6 network without host bits, unique local or global, with a prefix of so many bits at least and at most.
    NetworkV6(u8, u8),
    /// A domain name of two parts or more; the dot at its end may be left out.
    Domain,
    /// An http or https address.
    Url,
    /// 64 hexadecimal digits.
    Sha256,
    /// The beginning of image names, up to a slash.
    ImagePrefix,
    /// Some of these words, separated by commas.
    SomeOf(&'static [&'static str]),
    /// Options of a program; those named here are not the user's to give.
    Options(&'static [&'static str]),
    /// One of these words.
    OneOf(&'static [&'static str]),
}

/// What a change of a label's value does to a cluster that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: it counts when the cluster is made.
    AtCreation,
    /// What it says when the cluster is deleted counts.
    AtDeletion,
    /// Nodes that are made afterwards have it, those that are there do not.
    NewNodes,
    /// It is kept and shown, and nothing reads it in this release.
    Unused,
}

impl Effect {
    /// The word of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AtCreation => "at_creation",
            Self::AtDeletion => "at_deletion",
            Self::NewNodes => "new_nodes",
            Self::Unused => "unused",
        }
    }
}

impl Kind {
    /// The word of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Boolean => "boolean",
            Self::Count => "integer",
            Self::Network => "cidr",
            Self::Networks => "cidr_list",
            Self::NetworkV6(..) => "cidr_v6",
            Self::Domain => "domain",
            Self::Url => "url",
            Self::Sha256 => "sha256",
            Self::ImagePrefix => "image_prefix",
            Self::SomeOf(_) => "enum_list",
            Self::Options(_) => "options",
            Self::OneOf(_) => "enum",
        }
    }

    /// Whether it may hold this text; the error is the rule.
    ///
    /// # Errors
    /// The rule that the text breaks.
    pub fn check(self, text: &str) -> Result<(), String> {
        let text = text.trim();
        if text.is_empty() && self != Self::Count {
            return Ok(());
        }
        let (fits, rule) = match self {
            Self::Text => (true, String::new()),
            Self::Boolean => (truth(text).is_some(), "It must be true or false".into()),
            Self::Count => (text.parse::<u32>().is_ok(), "It must be an integer from 0 on".into()),
            Self::Network => (is_network(text), "It must be an IPv4 network such as 10.0.0.0/24".into()),
            Self::Networks => {
                let fits = text.split(',').map(str::trim).filter(|part| !part.is_empty()).all(is_network);
                (fits, "It must be IPv4 networks such as 10.0.0.0/24, separated by commas".into())
            }
            Self::NetworkV6(least, most) => {
                let lengths = if least == most { format!("of /{least}") } else { format!("from /{least} to /{most}") };
                (is_network_v6(text, least, most), format!("It must be a unique local or global IPv6 network {lengths}"))
            }
            Self::Domain => (is_domain(text), "It must be a domain name such as clusters.example.org".into()),
            Self::Url => (is_url(text), "It must be an http or https address".into()),
            Self::Sha256 => (text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()), "It must be 64 hexadecimal digits".into()),
            Self::ImagePrefix => (text.ends_with('/'), "It must end with a slash".into()),
            Self::SomeOf(words) => {
                let odd = text.split(',').map(str::trim).find(|word| !words.contains(word));
                let named =
                    odd.map(|word| format!("; {} is none", if word.is_empty() { "an empty name" } else { word })).unwrap_or_default();
                (odd.is_none(), format!("It must be some of {}, separated by commas{named}", words.join(", ")))
            }
            Self::Options(own) => return options::read(text, own).map(drop),
            Self::OneOf(words) => (words.contains(&text), format!("It must be one of {}", words.join(", "))),
        };
        if fits { Ok(()) } else { Err(rule) }
    }
}

fn is_network(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let (Ok(address), Ok(length)) = (address.parse::<Ipv4Addr>(), length.parse::<u32>()) else { return false };
    length <= 32 && u32::from(address) & u32::MAX.checked_shr(length).unwrap_or(0) == 0
}

/// Whether nodes, pods and services may have their addresses there.
fn is_network_v6(text: &str, least: u8, most: u8) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let (Ok(address), Ok(length)) = (address.parse::<Ipv6Addr>(), length.parse::<u8>()) else { return false };
    // fc00::/7 and 2000::/3.
    let is_of_hosts = matches!(address.segments()[0], 0xfc00..=0xfdff | 0x2000..=0x3fff);
    let has_host_bits = u128::from(address) & u128::MAX.checked_shr(length.into()).unwrap_or(0) != 0;
    (least..=most).contains(&length) && is_of_hosts && !has_host_bits
}

fn is_domain(text: &str) -> bool {
    let name = text.strip_suffix('.').unwrap_or(text);
    name.len() <= 253 && name.contains('.') && name.split('.').all(is_host_label)
}

/// Whether a text can be one part of a host name.
pub fn is_host_label(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    (1..=63).contains(&text.len()) && text.bytes().all(fits) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(char::is_whitespace))
}

impl DriverName {
    /// Every label that it knows, by name.
    pub fn labels(self) -> &'static [Label] {
        match self {
            Self::K8sFedoraCoreosV1 => heat::LABELS,
            Self::K8sCapiHelmV1 => capi::LABELS,
        }
    }

    /// A label that it knows.
    pub fn label(self, name: &str) -> Option<&'static Label> {
        self.labels().iter().find(|label| label.name == name)
    }
}

/// A label whose value breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    pub name: &'static str,
    pub value: String,
    pub rule: String,
}

/// Whether a label says which version of a program nodes have, or where it comes from: an upgrade takes these from the new template.
pub fn is_version(name: &str) -> bool {
    const ENDS: [&str; 4] = ["_tag", "_version", "_url", "_sha256"];
    const NAMES: [&str; 2] = ["container_infra_prefix", "kube_image_digest"];
    ENDS.iter().any(|end| name.ends_with(end)) || NAMES.contains(&name)
}

/// The labels of a cluster after an upgrade from one template to another: versions are those of the new template. What the new one does not
/// say stays as it is where the user gave it, and goes where it came from the old template.
pub fn upgraded(current: &Labels, from: &Labels, to: &Labels) -> Labels {
    let mut labels = current.clone();
    labels.0.retain(|name, value| !is_version(name) || to.0.contains_key(name) || from.0.get(name) != Some(value));
    for (name, value) in to.0.iter().filter(|(name, _)| is_version(name)) {
        labels.0.insert(name.clone(), value.clone());
    }
    labels
}

/// The label that says whether the volumes that Kubernetes made go with their cluster.
pub const DELETE_VOLUMES: &str = "delete_volumes";

/// The first label with a value that it may not have. What nothing reads may hold anything, as upstream's templates do.
///
/// # Errors
/// Which one, and why.
pub fn check(driver: DriverName, labels: &Labels) -> Result<(), Wrong> {
    for (name, value) in &labels.0 {
        if let Some(label) = driver.label(name)
            && label.effect != Effect::Unused
            && let Err(rule) = label.kind.check(value)
        {
            return Err(Wrong { name: label.name, value: value.clone(), rule });
        }
    }
    Ok(())
}

/// The labels that a driver does not know, in order; none when it knows all.
pub fn unknown(driver: DriverName, labels: &Labels) -> Vec<&str> {
    labels.0.keys().map(String::as_str).filter(|name| driver.label(name).is_none()).collect()
}

/// What a cluster's `status_reason` says of labels that its driver does not know; none when it knows all.
pub fn note(driver: DriverName, labels: &Labels) -> Option<String> {
    let shown = listed(&unknown(driver, labels))?;
    Some(format!("Labels without effect: the driver {} does not know {shown}", driver.as_str()))
}

/// Labels of the Heat driver that say what a group's nodes are made of: each group has its own. All others are the cluster's.
pub const OF_NODES: [&str; 5] = ["availability_zone", "boot_volume_size", "boot_volume_type", "docker_volume_type", "kubelet_options"];

/// What the `status_reason` of a new group with a stack by a template of ours says of labels that it was given in vain: what nobody knows, and what counts for all
/// nodes of the cluster, where the cluster has something else. None when there are no such.
pub fn note_of_group(cluster: &Labels, group: &Labels) -> Option<String> {
    let driver = DriverName::K8sFedoraCoreosV1;
    let is_read = |name: &str| {
        driver.label(name).is_some_and(|label| matches!(label.effect, Effect::AtCreation | Effect::NewNodes)) && !OF_NODES.contains(&name)
    };
    let differing: Vec<&str> = group
        .0
        .iter()
        .filter(|(name, value)| is_read(name) && cluster.0.get(*name) != Some(value))
        .map(|(name, _)| name.as_str())
        .collect();
    let of_cluster = listed(&differing).map(|shown| format!("Labels without effect on a nodegroup: all nodes have the cluster's {shown}"));
    let notes: Vec<String> = note(driver, group).into_iter().chain(of_cluster).collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// Names for a sentence; none of none.
fn listed(names: &[&str]) -> Option<String> {
    let more = if names.len() > NAMES_SHOWN { ", and others" } else { "" };
    (!names.is_empty()).then(|| format!("{}{more}", names[..names.len().min(NAMES_SHOWN)].join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        Labels(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    #[test]
    fn an_upgrade_takes_versions_from_the_new_template_and_leaves_the_rest() {
        let from = labels(&[("kube_tag", "v1.33.5"), ("containerd_version", "2.0.0"), ("boot_volume_size", "10")]);
        let to = labels(&[("kube_tag", "v1.34.1"), ("boot_volume_size", "20")]);
        let current = labels(&[
            ("kube_tag", "v1.33.5"),
            ("containerd_version", "2.0.0"),
            ("flannel_tag", "v0.1"),
            ("boot_volume_size", "10"),
            ("mine", "x"),
        ]);
        let want = labels(&[("kube_tag", "v1.34.1"), ("flannel_tag", "v0.1"), ("boot_volume_size", "10"), ("mine", "x")]);
        assert_eq!(upgraded(&current, &from, &to), want);
        // What the user asked for against the old template stays where the new one is silent.
        let own = labels(&[("containerd_version", "1.9.9")]);
        assert_eq!(upgraded(&own, &from, &labels(&[])), own);
    }

    #[test]
    fn every_table_is_in_order_and_its_defaults_keep_its_own_rules() {
        for driver in DriverName::ALL {
            let table = driver.labels();
            for pair in table.windows(2) {
                assert!(pair[0].name < pair[1].name, "{} stands before {}", pair[0].name, pair[1].name);
            }
            for label in table {
                assert!(!label.about.is_empty(), "{} says nothing", label.name);
                assert_eq!(label.default.map_or(Ok(()), |text| label.kind.check(text)), Ok(()), "{}", label.name);
            }
        }
    }

    #[test]
    fn the_document_for_reading_has_every_label_in_its_place_and_an_answer_for_those_without_effect() {
        let document = include_str!("../../../docs/labels.md");
        let (used, unused) = document.split_once("\n## Of upstream's driver, without effect here\n").expect("two tables");
        let rows = |text: &'static str| text.lines().filter(|line| line.starts_with("| `")).collect::<Vec<_>>();
        let (mut wanted, mut odd) = (Vec::new(), rows(unused));
        for label in DriverName::K8sFedoraCoreosV1.labels() {
            let default = label.default.map(|text| format!("`{text}`")).unwrap_or_default();
            let counts = match label.effect {
                Effect::AtCreation => "when the cluster is made",
                Effect::AtDeletion => "when the cluster is deleted",
                Effect::NewNodes => "for nodes made afterwards",
                Effect::Unused => {
                    let begin = format!("| `{}` | {} | ", label.name, label.about);
                    let row = odd.iter().position(|row| row.strip_prefix(&begin).is_some_and(|rest| rest.len() > " |".len()));
                    odd.remove(row.unwrap_or_else(|| panic!("{}: no row, or no answer", label.name)));
                    continue;
                }
            };
            wanted.push(format!("| `{}` | {default} | {} | {counts} |", label.name, label.about));
        }
        assert_eq!(rows(used), wanted);
        assert_eq!(odd, Vec::<&str>::new());
    }

    #[test]
    fn values_of_the_wrong_type_are_named_with_the_rule() {
        let driver = DriverName::K8sFedoraCoreosV1;
        for (name, value) in [
            ("boot_volume_size", "ten"),
            ("boot_volume_size", ""),
            ("boot_volume_size", "-1"),
            ("etcd_volume_size", "1.5"),
            ("octavia_lb_healthcheck", "maybe"),
            ("flannel_backend", "ipsec"),
            ("fixed_subnet_cidr", "10.0.0.1/24"),
            ("fixed_subnet_cidr", "10.0.0.0/33"),
            ("service_cluster_ip_range", "10.0.0.0"),
            ("master_lb_allowed_cidrs", "10.0.0.0/8, everyone"),
            ("ipv6_enabled", "ipv4,ipv6"),
            ("fixed_subnet_cidr_v6", "10.0.0.0/24"),
            ("fixed_subnet_cidr_v6", "fd00::1/64"),
            ("fixed_subnet_cidr_v6", "fd00::/56"),
            ("fixed_subnet_cidr_v6", "fe80::/64"),
            ("pod_cidr_v6", "fd00::/47"),
            ("pod_cidr_v6", "fd00::/61"),
            ("pod_cidr_v6", "ff00::/56"),
            ("pod_cidr_v6", "::ffff:10.0.0.0/56"),
            ("service_cluster_ip_range_v6", "fd00::/107"),
            ("service_cluster_ip_range_v6", "fd00::/125"),
            ("service_cluster_ip_range_v6", "fd00::112"),
            ("containerd_tarball_url", "ftp://mirror.example/c.tgz"),
            ("containerd_tarball_sha256", "abc"),
            ("container_infra_prefix", "registry.example"),
            ("admission_control_list", "NodeRestriction,,ServiceAccount"),
            ("admission_control_list", "NodeRestriction,PodSecurityPolicy"),
            ("api_dns_zone", "org."),
            ("api_dns_zone", "-a.example.org"),
            ("api_dns_zone", "a..example.org"),
            ("api_dns_zone", "k8s example.org"),
            ("ingress_controller", "traefik"),
            ("auto_healing_enabled", "perhaps"),
            ("monitoring_enabled", "perhaps"),
            ("monitoring_retention_size", "14GiB"),
            ("kubelet_options", "max-pods=50"),
            ("kubelet_options", "--node-ip=10.0.0.1"),
            ("kubecontroller_options", "--cluster-signing-key-file=/tmp/key"),
        ] {
            let wrong = check(driver, &labels(&[("a", "b"), (name, value)])).expect_err(value);
            assert_eq!((wrong.name, wrong.value.as_str()), (name, value));
            assert!(wrong.rule.starts_with("It must"), "{}", wrong.rule);
        }
        for (name, value) in [
            ("boot_volume_size", " 20 "),
            ("octavia_lb_healthcheck", "True"),
            ("octavia_lb_healthcheck", "off"),
            ("octavia_lb_healthcheck", ""),
            ("flannel_backend", "host-gw"),
            ("fixed_subnet_cidr", "10.0.0.0/24"),
            ("fixed_subnet_cidr", "0.0.0.0/0"),
            ("fixed_subnet_cidr", "10.1.2.3/32"),
            ("fixed_subnet_cidr_v6", "2001:db8:1:2::/64"),
            ("pod_cidr_v6", "fd00::/48"),
            ("pod_cidr_v6", "fd00:0:0:10::/60"),
            ("service_cluster_ip_range_v6", "fd00::/108"),
            ("service_cluster_ip_range_v6", " 3fff::10/124 "),
            ("service_cluster_ip_range_v6", ""),
            ("master_lb_allowed_cidrs", "10.0.0.0/8,192.0.2.0/24"),
            ("containerd_tarball_url", "https://mirror.example/c.tgz"),
            ("kube_tag", "v1.28.9-rancher1"),
            ("admission_control_list", "NodeRestriction, ServiceAccount"),
            ("kubelet_options", "--max-pods=50 --v 4"),
            ("nonsense", "anything"),
            ("api_dns_zone", "clusters.example.org."),
            ("api_dns_zone", "a1.b-2.example"),
            ("ingress_controller", "octavia"),
            ("heapster_enabled", "perhaps"),
            ("system_pods_timeout", ""),
            ("monitoring_storage_class_name", ""),
        ] {
            assert_eq!(check(driver, &labels(&[(name, value)])), Ok(()), "{name}={value}");
        }
    }

    #[test]
    fn unknown_labels_are_kept_and_mentioned() {
        let driver = DriverName::K8sFedoraCoreosV1;
        assert_eq!(note(driver, &labels(&[("kube_tag", "v1.33.5")])), None);
        let text = note(driver, &labels(&[("team", "blue"), ("kube_tag", "v1.33.5"), ("cost", "7")])).expect("a note");
        assert!(text.ends_with("k8s_fedora_coreos_v1 does not know team, cost"), "{text}");
        let many: Labels = Labels((0..30).map(|n| (format!("l{n}"), String::new())).collect());
        assert!(note(driver, &many).is_some_and(|text| text.ends_with("l9, and others")));
    }

    #[test]
    fn a_group_is_told_which_labels_are_its_clusters() {
        let cluster = labels(&[("kube_tag", "v1.33.5"), ("boot_volume_size", "20"), ("team", "blue")]);
        for good in [&[][..], &[("kube_tag", "v1.33.5"), ("boot_volume_size", "30"), ("kubelet_options", "max-pods=50")]] {
            assert_eq!(note_of_group(&cluster, &labels(good)), None, "{good:?}");
        }
        let told = note_of_group(
            &cluster,
            &labels(&[("kube_tag", "v1.34.1"), ("containerd_version", "2.1.4"), ("rack", "7"), ("delete_volumes", "true")]),
        );
        let told = told.expect("a note");
        assert!(told.contains("does not know rack; ") && told.ends_with("the cluster's kube_tag, containerd_version"), "{told}");
    }
}
