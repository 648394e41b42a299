//! A worker: it gets the bootstrap token and the hash of the CA's public key, and no key of any authority.

use super::common::{self, BASE};
use super::{NodeConfig, kubeadm};
use crate::driver::heat::parameters::choices::Choices;
use crate::driver::heat::stack_input::StackInput;

const VALUES: [&str; 6] = ["NODE_NAME", "NODE_ADDRESS", "API_ADDRESS", "DATA_VOLUME", "SIGNAL_ENDPOINT", "SIGNAL_TOKEN"];

/// The first boot of a worker.
pub(crate) fn config(input: &StackInput<'_>, choices: &Choices) -> NodeConfig {
    let mut config = NodeConfig::default();
    common::add(&mut config, input, choices, include_str!("../scripts/worker.sh"), &VALUES);
    config.file(format!("{BASE}/join.yaml"), 0o600, kubeadm::join(input, "worker"));
    config
}
