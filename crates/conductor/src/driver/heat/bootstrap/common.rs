//! What every node gets: settings of the kernel, the container runtime, kubelet, and the unit that runs the bootstrap script.

use super::{Link, NodeConfig};
use crate::driver::heat::catalogue::CILIUM_CLI;
use crate::driver::heat::parameters::choices::{CALICO, Choices, FLANNEL, NODE_PODS_LENGTH};
use crate::driver::heat::parameters::{calico, wait_seconds};
use crate::driver::heat::proxies;
use crate::driver::heat::stack_input::{Distro, StackInput, cilium_name};

/// Where the scripts and what they read are kept.
pub(in crate::driver::heat) const BASE: &str = "/etc/kubernetes-bootstrap";

/// The place of a file there.
pub(in crate::driver::heat) fn path(file: &str) -> String {
    format!("{BASE}/{file}")
}

/// How long the pods of a node that is replaced have to leave; then it goes all the same.
const DRAIN_SECONDS: &str = "600";
/// Seconds after the script's own time in which it tells why it did not end, before it is stopped.
const TO_TELL: u32 = 120;
/// Seconds that are counted with at the least, of a time that a quarter is taken off.
const SHORTEST: u32 = 60;

/// Flatcar has Docker and its containerd in images that are laid over its `/usr`, from release 3794.0.0 on, and keeps starting them. A node has a
/// containerd of its own; these links leave those out (flatcar.org/docs/latest/provisioning/sysext: for nodes of Kubernetes, too).
const NO_RUNTIME_OF_FLATCAR: [Link; 2] = [
    Link { path: "/etc/extensions/docker-flatcar.raw", target: "/dev/null" },
    Link { path: "/etc/extensions/containerd-flatcar.raw", target: "/dev/null" },
];

/// It waits for the volumes, which the system does not: a folder in their place would be a new, empty etcd. Pods do not reach the metadata
/// service, which tells whoever asks what a node is made with; those of the host's network have a node's address, and do. networkd takes away
/// rules that it does not know whenever it starts, but for those of the kernel (github.com/systemd/systemd/issues/19106).
const KUBELET: &str = "\
[Unit]
Description=kubelet
Wants=network-online.target
After=network-online.target containerd.service
RequiresMountsFor=/var/lib/etcd-volume /var/lib/containerd
StartLimitIntervalSec=0

[Service]
ExecStartPre=-/bin/sh -c 'ip rule show | grep -q \"to 169.254.169.254 prohibit\" || ip rule add pref 50 protocol kernel from POD_CIDR to 169.254.169.254 prohibit'
Environment=\"KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf\"
Environment=\"KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml\"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
ExecStart=PROGRAMS/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS
Restart=always
RestartSec=10

[Install]
WantedBy=multi-user.target
";

const CONTAINERD: &str = "\
[Unit]
Description=containerd
After=network-online.target local-fs.target
RequiresMountsFor=/var/lib/containerd

[Service]
EnvironmentFile=-/etc/kubernetes-bootstrap/proxy.env
Environment=PATH=PROGRAMS:/usr/bin:/usr/sbin:/bin:/sbin
ExecStartPre=-/sbin/modprobe overlay
ExecStart=PROGRAMS/containerd
Type=notify
Delegate=yes
KillMode=process
Restart=always
RestartSec=5
LimitNPROC=infinity
LimitCORE=infinity
TasksMax=infinity
OOMScoreAdjust=-999

[Install]
WantedBy=multi-user.target
";

/// Adds what masters and workers share. `script` is the role's own; `values` name what Heat fills in for each node.
pub(super) fn add(config: &mut NodeConfig, input: &StackInput<'_>, choices: &Choices, script: &str, values: &[&str]) {
    config.script("node.sh", &in_one(script, input, choices));
    config.file(format!("{BASE}/node.env"), 0o600, node_env(input, choices));
    config.file(format!("{BASE}/proxy.env"), 0o600, proxy_env(input, choices));
    if !input.openstack_ca.is_empty() {
        config.file(format!("{BASE}/cloud-ca.crt"), 0o644, pem(input.openstack_ca));
    }
    config.file("/etc/modules-load.d/kubernetes.conf", 0o644, "overlay\nbr_netfilter\n");
    let mut sysctl =
        "net.ipv4.ip_forward = 1\nnet.bridge.bridge-nf-call-iptables = 1\nnet.bridge.bridge-nf-call-ip6tables = 1\n".to_owned();
    let mut values = values.to_vec();
    if choices.ipv6.is_some() {
        sysctl.push_str("net.ipv6.conf.all.forwarding = 1\n");
        config.script("dual-stack.sh", include_str!("../scripts/dual-stack.sh"));
        values.push("NODE_ADDRESS_V6");
    }
    if !choices.extra_networks.is_empty() {
        config.script("extra-networks.sh", include_str!("../scripts/extra-networks.sh"));
    }
    config.file("/etc/sysctl.d/99-kubernetes.conf", 0o644, sysctl);
    config.file("/etc/containerd/config.toml", 0o644, containerd(choices));
    if let Some(registry) = input.insecure_registry.filter(|r| !r.is_empty()) {
        let hosts = format!(
            "[host.\"https://{registry}\"]\n  capabilities = [\"pull\", \"resolve\"]\n  skip_verify = true\n\n\
             [host.\"http://{registry}\"]\n  capabilities = [\"pull\", \"resolve\"]\n"
        );
        config.file(format!("/etc/containerd/certs.d/{registry}/hosts.toml"), 0o644, hosts);
    }
    // Nodes do not update themselves, nor restart for it, and the pod network's interfaces are nobody else's.
    match input.distro {
        Distro::FedoraCoreos => {
            let of_ipv6 = if choices.ipv6.is_some() { "interface-name:vxlan-v6.calico;" } else { "" };
            let unmanaged = format!(
                "[keyfile]\nunmanaged-devices=interface-name:cali*;interface-name:tunl*;interface-name:vxlan.calico;{of_ipv6}\
                 interface-name:flannel*;interface-name:cni*\n"
            );
            config.file("/etc/NetworkManager/conf.d/90-pod-network.conf", 0o644, unmanaged);
            config.file("/etc/zincati/config.d/90-no-automatic-updates.toml", 0o644, "[updates]\nenabled = false\n");
        }
        // Its networkd leaves bridges, tunnels and the interfaces of pods alone, and the routes and rules of others (`systemd/network` and
        // `systemd/networkd.conf.d` of github.com/flatcar/init). Updates: flatcar.org/docs/latest/setup/releases/update-strategies.
        Distro::Flatcar => {
            config.file("/etc/flatcar/update.conf", 0o644, "SERVER=disabled\nREBOOT_STRATEGY=off\n");
            config.links.extend(NO_RUNTIME_OF_FLATCAR);
        }
        // Its networkd would take the pod network's routes and rules away whenever a newer package of it starts it anew.
        Distro::Ubuntu => {
            let foreign = "[Network]\nManageForeignRoutes=no\nManageForeignRoutingPolicyRules=no\n";
            config.file("/etc/systemd/networkd.conf.d/90-pod-network.conf", 0o644, foreign);
            config.file("/etc/apt/apt.conf.d/90-no-automatic-updates", 0o644, "APT::Periodic::Enable \"0\";\n");
        }
    }
    let programs = input.distro.programs();
    config.unit("containerd.service", false, CONTAINERD.replace("PROGRAMS", programs));
    let kubelet = KUBELET.replace("PROGRAMS", programs).replace("POD_CIDR", &choices.pods_cidr.to_string());
    config.unit("kubelet.service", false, kubelet);
    config.unit("kubernetes-bootstrap.service", true, bootstrap_unit(script_seconds(input), &values));
}

/// A script with those that it sources in their places: packed together they take a tenth less room. What its cluster has no use for is left out.
fn in_one(script: &str, input: &StackInput<'_>, choices: &Choices) -> String {
    let calico = if input.network_driver == CALICO { include_str!("../scripts/calico.sh") } else { "" };
    let cilium = if choices.cilium_tag.is_empty() { "" } else { include_str!("../scripts/cilium.sh") };
    let flannel = if input.network_driver == FLANNEL { include_str!("../scripts/flannel.sh") } else { "" };
    let (common, install) = (include_str!("../scripts/common.sh"), include_str!("../scripts/install.sh"));
    let sourced = [("common.sh", common), ("install.sh", install), ("calico.sh", calico), ("cilium.sh", cilium), ("flannel.sh", flannel)];
    sourced.iter().fold(script.to_owned(), |script, (name, text)| script.replace(&format!(". {BASE}/{name}\n"), text))
}

/// systemd skips sections named `X-` and expands nothing in them, so any text may stand there; the script reads it.
fn bootstrap_unit(seconds: u32, values: &[&str]) -> String {
    let filled: String = values.iter().map(|v| format!("{v}=__{v}__\n")).collect();
    format!(
        "[Unit]\nDescription=Makes this machine a node of a Kubernetes cluster\nWants=network-online.target\nAfter=network-online.target\n\
         ConditionPathExists=!/var/lib/kubernetes-bootstrap/done\n\n\
         [Service]\nType=oneshot\nRemainAfterExit=yes\nEnvironment=HOME=/root\nExecStart=/bin/bash {BASE}/node.sh\n\
         StandardOutput=append:/var/log/kubernetes-bootstrap.log\nStandardError=append:/var/log/kubernetes-bootstrap.log\n\
         TimeoutStartSec={}\n\n\
         [Install]\nWantedBy=multi-user.target\n\n[X-Node]\n{filled}",
        seconds + TO_TELL
    )
}

/// Seconds that the script has: it is to end before Heat's own time does, and before the token does by which it tells how, or its reason reaches
/// nobody. Heat draws that token once, before the machine is made: of either time a quarter is for the machine and for the telling.
fn script_seconds(input: &StackInput<'_>) -> u32 {
    let wait = wait_seconds(input);
    input.token_seconds.map_or(wait, |lives| lives.clamp(SHORTEST, wait)) / 4 * 3
}

fn node_env(input: &StackInput<'_>, choices: &Choices) -> String {
    let wait = script_seconds(input).to_string();
    let pods = choices.pods_cidr.to_string();
    let name = cilium_name(input.cluster_name, input.cluster_uuid);
    let of_ipv6 = choices
        .ipv6
        .as_ref()
        .map(|ipv6| lines(&[("POD_CIDR_V6", &ipv6.pods_cidr.to_string()), ("NODE_PODS_LENGTH_V6", &NODE_PODS_LENGTH.to_string())]));
    let mut all: Vec<(&str, &str)> = vec![
        ("PROGRAMS", input.distro.programs()),
        ("KUBE_VERSION", &choices.kube_version),
        ("CONTAINERD_VERSION", &choices.containerd_version),
        ("CONTAINERD_URL", &choices.containerd_url),
        ("CONTAINERD_SHA256", &choices.containerd_sha256),
        ("RUNC_VERSION", &choices.runc_version),
        ("CNI_VERSION", &choices.cni_plugins_version),
        ("NETWORK_DRIVER", input.network_driver),
        ("CNI_MANIFEST", &choices.cni_manifest),
        ("FLANNEL_BACKEND", &choices.flannel_backend),
        ("POD_CIDR", &pods),
        ("IMAGE_PREFIX", &choices.image_prefix),
        ("POST_INSTALL_MANIFEST", input.post_install_manifest.unwrap_or_default()),
        ("CLUSTER_UUID", input.cluster_uuid),
        ("CLOUD_PROVIDER", if input.cloud.is_there() { "external" } else { "" }),
        ("CLOUD_VERIFY", if input.verify_ca { "true" } else { "false" }),
        ("WAIT_SECONDS", &wait),
        ("DRAIN_SECONDS", DRAIN_SECONDS),
    ];
    if !choices.cilium_tag.is_empty() {
        all.extend([("CILIUM_TAG", choices.cilium_tag.as_str()), ("CILIUM_CLI_VERSION", CILIUM_CLI), ("CILIUM_NAME", name.as_str())]);
    }
    // Of what a cluster has not, nothing is said.
    let mirror = input.downloads.unwrap_or_default();
    let ipip = calico::ipip(input).unwrap_or_default();
    let some =
        [("INGRESS_ROLE", choices.ingress_role.as_str()), ("CNI_SHA256", choices.cni_sha256), ("CALICO_IPIP", ipip), ("DOWNLOADS", mirror)];
    all.extend(some.into_iter().filter(|(_, value)| !value.is_empty()));
    lines(&all) + &of_ipv6.unwrap_or_default()
}

/// Both spellings, because programs differ; and what programs in the cluster get that masters do not write themselves.
fn proxy_env(input: &StackInput<'_>, choices: &Choices) -> String {
    let all = proxies::variables(input, choices);
    if all.is_empty() {
        return "# no proxy\n".to_owned();
    }
    let small: Vec<String> = all.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    let both = all.iter().zip(&small).flat_map(|((name, value), small)| [(*name, value.as_str()), (small.as_str(), value.as_str())]);
    let words = proxies::words(input, choices);
    lines(&both.chain([("POD_PROXIES", words.as_str())]).collect::<Vec<_>>())
}

/// The content of a PEM file.
pub(super) fn pem(text: &str) -> String {
    format!("{}\n", text.trim_end())
}

/// Assignments for shell and systemd alike; the values hold no quotes (see `parameters/choices.rs`).
fn lines(values: &[(&str, &str)]) -> String {
    values.iter().map(|(name, value)| format!("{name}='{value}'\n")).collect()
}

/// Configuration version 2, which containerd 1.6 and 1.7 know and 2.x translates.
fn containerd(choices: &Choices) -> String {
    let registry = if choices.image_prefix.is_empty() { "registry.k8s.io/" } else { &choices.image_prefix };
    format!(
        "version = 2\n\n[plugins.\"io.containerd.grpc.v1.cri\"]\n  sandbox_image = \"{registry}pause:{}\"\n\
         [plugins.\"io.containerd.grpc.v1.cri\".registry]\n  config_path = \"/etc/containerd/certs.d\"\n\
         [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]\n  runtime_type = \"io.containerd.runc.v2\"\n\
         [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\n  SystemdCgroup = true\n",
        choices.pause
    )
}
