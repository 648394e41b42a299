//! kubeadm's configuration (v1beta4), as JSON documents, which kubeadm reads as YAML. `@WORDS@` are filled in on the node.

use model::labels::options::Argument;
use serde_json::{Value, json};

use super::api_server;
pub(super) use super::registration::Registration;
use super::token::bootstrap_token;
use crate::driver::heat::api_name;
use crate::driver::heat::parameters::choices::{Choices, Cidr, MASK_SIZES, NODE_PODS_LENGTH};
use crate::driver::heat::stack_input::{KnownAuthority, StackInput};

const API: &str = "kubeadm.k8s.io/v1beta4";
/// `/usr` cannot be written on Fedora CoreOS and Flatcar, and kubelet's default is there. Up to Kubernetes 1.35 kubeadm mounts what the controller
/// manager is told of; from 1.36 on nothing, and that one looks into a folder of its own (`CHANGELOG-1.36.md`, kubernetes/kubernetes#136423).
const VOLUME_PLUGINS: &str = "/var/lib/kubelet/volumeplugins";

/// The certificate of the authority that signs, alone: the controller manager refuses a file with another beside it. Made by
/// `scripts/master.sh`.
const SIGNING_CERTIFICATE: &str = "/etc/kubernetes/pki/signing-ca.crt";

/// As long as a cluster's authorities are valid by default, five years: kubeadm's own year would end a control plane that nobody has upgraded.
const VALIDITY: &str = "43800h0m0s";

/// Where etcd keeps its data on a volume (mounted by `scripts/master.sh`).
const ETCD_DATA: &str = "/var/lib/etcd-volume/data";

/// How the first master begins the cluster.
pub(super) fn init(input: &StackInput<'_>, choices: &Choices) -> String {
    let token = |authority: &KnownAuthority<'_>| {
        json!({
            "token": bootstrap_token(authority.key, input.cluster_uuid),
            "description": "nodes of this cluster",
            "ttl": "0s",
            "usages": ["signing", "authentication"],
            "groups": ["system:bootstrappers:kubeadm:default-node-token"],
        })
    };
    let init = json!({
        "apiVersion": API,
        "kind": "InitConfiguration",
        // They never expire: workers of a later day join with the user data of the first. They let a node in, nothing more.
        "bootstrapTokens": input.kubernetes.authorities.iter().map(token).collect::<Vec<_>>(),
        "localAPIEndpoint": {"advertiseAddress": "@NODE_ADDRESS@", "bindPort": 6443},
        "nodeRegistration": Registration::of_masters(input.cloud).document(choices),
    });
    let names = ["@SANS@"].into_iter().chain(input.api_name.map(api_name::in_certificates)).collect::<Vec<_>>();
    let mut cluster = json!({
        "apiVersion": API,
        "kind": "ClusterConfiguration",
        "clusterName": input.cluster_name,
        "kubernetesVersion": choices.kube_version,
        "certificateValidityPeriod": VALIDITY,
        "controlPlaneEndpoint": "@API_ADDRESS@:6443",
        "networking": {
            "podSubnet": of_both(&choices.pods_cidr, choices.ipv6.as_ref().map(|ipv6| &ipv6.pods_cidr)),
            "serviceSubnet": of_both(&choices.services_cidr, choices.ipv6.as_ref().map(|ipv6| &ipv6.services_cidr)),
            "dnsDomain": "cluster.local",
        },
        "apiServer": {
            "certSANs": names,
            "extraArgs": api_server::options(input, choices),
            "extraVolumes": api_server::volumes(input, choices),
        },
        "controllerManager": {"extraArgs": controller_manager(choices)},
    });
    if !choices.scheduler_options.is_empty() {
        cluster["scheduler"] = json!({"extraArgs": arguments(&choices.scheduler_options).collect::<Vec<_>>()});
    }
    if !choices.image_prefix.is_empty() {
        cluster["imageRepository"] = json!(choices.image_prefix.trim_end_matches('/'));
    }
    if choices.etcd_volume_size > 0 {
        // Not the file system itself: a fresh one is not empty, and kubeadm asks for an empty folder.
        cluster["etcd"] = json!({"local": {"dataDir": ETCD_DATA}});
    }
    let kubelet = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "systemd",
        "rotateCertificates": true,
        "volumePluginDir": VOLUME_PLUGINS,
    });
    documents(&[init, cluster, kubelet])
}

/// Ranges of both versions of IP, where there are both. The first is what a service gets that asks for neither.
fn of_both(range: &Cidr, range_v6: Option<&Cidr>) -> String {
    [Some(range), range_v6].into_iter().flatten().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

pub(super) fn argument(name: &str, value: &str) -> Value {
    json!({"name": name, "value": value})
}

/// Options as kubeadm takes them; one that is named twice is given twice.
pub(super) fn arguments(all: &[Argument]) -> impl Iterator<Item = Value> {
    all.iter().map(|one| argument(&one.name, &one.value))
}

fn controller_manager(choices: &Choices) -> Vec<Value> {
    let ours = [argument("cluster-signing-cert-file", SIGNING_CERTIFICATE), argument("flex-volume-plugin-dir", VOLUME_PLUGINS)];
    // Each version of IP has a length of its own: the option that names none is refused where there are both, and kubeadm does not look at it.
    let [of_v4, of_v6] = MASK_SIZES;
    let length = choices.node_pods_length.map(|length| (of_v4, length));
    let length_v6 = choices.ipv6.as_ref().map(|_| (of_v6, NODE_PODS_LENGTH));
    let lengths = length.into_iter().chain(length_v6).map(|(name, length)| argument(name, &length.to_string()));
    ours.into_iter().chain(lengths).chain(arguments(&choices.controller_manager_options)).collect()
}

/// How a node joins.
pub(super) fn join(input: &StackInput<'_>, choices: &Choices, registration: &Registration) -> String {
    let authorities = &input.kubernetes.authorities;
    let mut join = json!({
        "apiVersion": API,
        "kind": "JoinConfiguration",
        "discovery": {"bootstrapToken": {
            "apiServerEndpoint": "@API_ADDRESS@:6443",
            "token": bootstrap_token(input.kubernetes.ca_key, input.cluster_uuid),
            // One of them must be among the cluster's.
            "caCertHashes": authorities.iter().map(|known| format!("sha256:{}", known.public_key_hash)).collect::<Vec<_>>(),
        }},
        "nodeRegistration": registration.document(choices),
    });
    if registration.is_master {
        join["controlPlane"] = json!({"localAPIEndpoint": {"advertiseAddress": "@NODE_ADDRESS@", "bindPort": 6443}});
    }
    documents(&[join])
}

fn documents(all: &[Value]) -> String {
    all.iter().map(|d| format!("{d:#}\n")).collect::<Vec<_>>().join("---\n")
}
