//! A master: the authorities' certificates and keys, from which kubeadm signs the rest on the node, and both of kubeadm's configurations.

use super::common::{self, BASE};
use super::{NodeConfig, api_server, kubeadm};
use crate::driver::heat::addons::{self, Files};
use crate::driver::heat::parameters::choices::Choices;
use crate::driver::heat::render::RenderError;
use crate::driver::heat::stack_input::StackInput;

const SUCCESSION: &str = "\
[Unit]
Description=Sees off workers that new ones replace
ConditionPathExists=/etc/kubernetes/admin.conf

[Service]
Type=oneshot
ExecStart=/bin/bash /etc/kubernetes-bootstrap/succession.sh
TimeoutStartSec=3600
";

const SUCCESSION_TIMER: &str = "\
[Unit]
Description=Looks for workers that new ones replace

[Timer]
OnBootSec=60
OnUnitInactiveSec=15
AccuracySec=1

[Install]
WantedBy=timers.target
";

const API_ADDRESS: &str = "\
[Unit]
Description=Keeps the address of the Kubernetes API on the master that holds it
After=network-online.target

[Service]
Environment=PATH=PROGRAMS:/usr/bin:/usr/sbin:/bin:/sbin
ExecStart=/bin/bash /etc/kubernetes-bootstrap/api-address.sh
Restart=always
RestartSec=5

[Install]
WantedBy=multi-user.target
";

const VALUES: [&str; 15] = [
    "NODE_NAME",
    "GENERATION",
    "REPLACES",
    "NODE_INDEX",
    "NODE_ADDRESS",
    "NODE_PUBLIC_ADDRESS",
    "API_ADDRESS",
    "API_PUBLIC_ADDRESS",
    "API_HOLDER",
    "SUBNET_ID",
    "ETCD_VOLUME",
    "DATA_VOLUME",
    "SECRETS_KEY",
    "SIGNAL_ENDPOINT",
    "SIGNAL_TOKEN",
];

/// The first boot of a master.
///
/// # Errors
/// As [`addons::files`].
pub(crate) fn config(input: &StackInput<'_>, choices: &Choices) -> Result<NodeConfig, RenderError> {
    let mut config = NodeConfig::default();
    let values: Vec<&str> = VALUES.into_iter().filter(|name| *name != "SECRETS_KEY" || input.has_secrets_key).collect();
    common::add(&mut config, input, choices, include_str!("../scripts/master.sh"), &values);
    config.script("succession.sh", include_str!("../scripts/succession.sh"));
    config.unit("kubernetes-succession.service", false, SUCCESSION);
    config.unit("kubernetes-succession.timer", true, SUCCESSION_TIMER);
    if !input.master_lb_enabled {
        config.script("api-address.sh", include_str!("../scripts/api-address.sh"));
        config.unit("kubernetes-api-address.service", false, API_ADDRESS.replace("PROGRAMS", input.distro.programs()));
    }
    let Files { list, documents } = addons::files(input, choices)?;
    config.file(format!("{BASE}/addons.list"), 0o600, list);
    let mut documents: Vec<_> = documents.into_iter().map(|(name, text)| (format!("{}/{name}", addons::FOLDER), text)).collect();
    documents.extend(api_server::documents(input, choices));
    documents.push(("init.yaml".to_owned(), kubeadm::init(input, choices)));
    documents.push(("join.yaml".to_owned(), kubeadm::join(input, choices, &kubeadm::Registration::of_masters(input.cloud))));
    let pki = &input.kubernetes;
    let authorities = [
        ("ca.crt", pki.ca_cert),
        ("ca.key", pki.ca_key),
        ("etcd/ca.crt", pki.etcd_ca_cert),
        ("etcd/ca.key", pki.etcd_ca_key),
        ("front-proxy-ca.crt", pki.front_proxy_ca_cert),
        ("front-proxy-ca.key", pki.front_proxy_ca_key),
        ("sa.key", pki.sa_key_pem),
        ("sa.pub", pki.sa_pub_pem),
    ];
    documents.extend(authorities.map(|(name, pem)| (format!("pki/{name}"), pem.to_owned())));
    config.documents(&documents);
    Ok(config)
}
