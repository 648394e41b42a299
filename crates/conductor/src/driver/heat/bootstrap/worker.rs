//! A worker: it gets the bootstrap token and the hash of the CA's public key, and no key of any authority.

use super::common::{self, BASE};
use super::kubeadm::Registration;
use super::{NodeConfig, kubeadm, order};
use crate::driver::Succession;
use crate::driver::heat::parameters::choices::Choices;
use crate::driver::heat::render::RenderError;
use crate::driver::heat::stack_input::StackInput;

const VALUES: [&str; 9] =
    ["NODE_NAME", "GENERATION", "REPLACES", "NEWCOMERS", "NODE_ADDRESS", "API_ADDRESS", "DATA_VOLUME", "SIGNAL_ENDPOINT", "SIGNAL_TOKEN"];

/// The first boot of a worker, and what it tells masters where it is to replace others.
pub(crate) fn config(input: &StackInput<'_>, choices: &Choices, succession: Option<&Succession<'_>>) -> Result<NodeConfig, RenderError> {
    let registration = Registration::of_workers(&input.worker_group, input.cloud)?;
    let mut config = NodeConfig::default();
    common::add(&mut config, input, choices, include_str!("../scripts/worker.sh"), &VALUES);
    config.file(format!("{BASE}/join.yaml"), 0o600, kubeadm::join(input, choices, &registration));
    config.file(format!("{BASE}/pki/ca.crt"), 0o600, common::pem(input.kubernetes.ca_cert));
    if let Some(succession) = succession {
        config.file(format!("{BASE}/order"), 0o600, order::order(succession, &input.kubernetes.authorities));
    }
    Ok(config)
}
