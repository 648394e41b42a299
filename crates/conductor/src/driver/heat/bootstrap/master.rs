//! A master: the authorities' certificates and keys, from which kubeadm signs the rest on the node, and both of kubeadm's configurations.

use super::common::{self, BASE};
use super::{NodeConfig, kubeadm};
use crate::driver::heat::parameters::choices::Choices;
use crate::driver::heat::stack_input::StackInput;

const VALUES: [&str; 9] = [
    "NODE_NAME",
    "NODE_INDEX",
    "NODE_ADDRESS",
    "NODE_PUBLIC_ADDRESS",
    "API_ADDRESS",
    "API_PUBLIC_ADDRESS",
    "DATA_VOLUME",
    "SIGNAL_ENDPOINT",
    "SIGNAL_TOKEN",
];

/// The first boot of a master.
pub(crate) fn config(input: &StackInput<'_>, choices: &Choices) -> NodeConfig {
    let mut config = NodeConfig::default();
    common::add(&mut config, input, choices, include_str!("../scripts/master.sh"), &VALUES);
    config.file(format!("{BASE}/init.yaml"), 0o600, kubeadm::init(input, choices));
    config.file(format!("{BASE}/join.yaml"), 0o600, kubeadm::join(input, &kubeadm::Registration::of_masters()));
    let pki = &input.kubernetes;
    for (name, pem) in [
        ("ca.crt", pki.ca_cert),
        ("ca.key", pki.ca_key),
        ("etcd/ca.crt", pki.etcd_ca_cert),
        ("etcd/ca.key", pki.etcd_ca_key),
        ("front-proxy-ca.crt", pki.front_proxy_ca_cert),
        ("front-proxy-ca.key", pki.front_proxy_ca_key),
        ("sa.key", pki.sa_key_pem),
        ("sa.pub", pki.sa_pub_pem),
    ] {
        config.file(format!("{BASE}/pki/{name}"), 0o600, format!("{}\n", pem.trim_end()));
    }
    config
}
