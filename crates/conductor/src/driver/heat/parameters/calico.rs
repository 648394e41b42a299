//! How packets between pods of different nodes travel where the pod network is calico.

use super::choices::CALICO;
use crate::driver::heat::stack_input::StackInput;

const LABEL: &str = "calico_ipv4pool_ipip";

/// The mode of IP in IP, as calico calls it, where the label says one; else its manifest's own holds, which is `Always`. With another one some packets
/// leave their node as they are, with the addresses of pods.
///
/// The API refuses other words for a new cluster. One that is there may have any: it was made when nothing read them, so its mode is the manifest's.
pub(in crate::driver::heat) fn ipip(input: &StackInput<'_>) -> Option<&'static str> {
    if input.network_driver != CALICO {
        return None;
    }
    match input.labels.get(LABEL)?.trim() {
        "Always" => Some("Always"),
        "CrossSubnet" => Some("CrossSubnet"),
        "Never" | "Off" => Some("Never"),
        _ => None,
    }
}
