//! The pod network: where its files are, and how nodes of flannel are connected and divide the range of pods.

use super::{CALICO, CILIUM, FLANNEL, FLANNEL_NODE_PODS, PODS_CIDR, cidr, ruled, version};
use crate::driver::heat::catalogue::{self, Release};
use crate::driver::heat::render::RenderError;
use crate::driver::heat::stack_input::StackInput;

pub(super) const BACKEND: &str = "flannel_backend";
/// What clusters that are there may say.
pub(super) const EVER: [&str; 3] = ["vxlan", "host-gw", "udp"];
/// Not `udp`, which needs a TUN device: the project's manifest gives flannel none.
pub(super) const BACKENDS: [&str; 2] = ["vxlan", "host-gw"];
/// Where files of projects on GitHub are, by their versions.
const SOURCES: &str = "https://raw.githubusercontent.com";

/// The controller manager divides the range of flannel; it makes at most 65,536 parts.
pub(super) fn node_pods_length(input: &StackInput<'_>) -> Result<Option<u8>, RenderError> {
    if input.network_driver != FLANNEL {
        return Ok(None);
    }
    let Some((value, _)) = ruled(input.labels, FLANNEL_NODE_PODS)? else { return Ok(None) };
    let range = cidr(input.labels, "flannel_network_cidr", PODS_CIDR)?.length();
    let fits = |length: &u8| *length > range && *length <= 30 && *length - range <= 16;
    match value.parse::<u8>().ok().filter(fits) {
        Some(length) => Ok(Some(length)),
        None => {
            let (least, most) = (range + 1, (range + 16).min(30));
            Err(RenderError::new(
                FLANNEL_NODE_PODS,
                format!("must be from {least} to {most} with pods in a network of length {range}, not {value}"),
            ))
        }
    }
}

/// The address of the pod network's manifest; empty where it has an installer of its own.
pub(super) fn network(input: &StackInput<'_>, release: &Release) -> Result<String, RenderError> {
    match input.network_driver {
        FLANNEL => Ok(flannel(&version(input, "flannel_tag", release.flannel)?)),
        CALICO => {
            let tag = version(input, "calico_tag", release.calico)?;
            Ok(format!("{SOURCES}/projectcalico/calico/{tag}/manifests/calico.yaml"))
        }
        CILIUM => Ok(String::new()),
        other => Err(unknown_network_driver(other)),
    }
}

pub(super) fn unknown_network_driver(name: &str) -> RenderError {
    RenderError::new("network_driver", format!("must be {FLANNEL}, {CALICO} or {CILIUM}, not {name}"))
}

/// The manifest of a release where that is known; it is what the project tells people to apply, and others need not have one.
fn flannel(tag: &str) -> String {
    let of_release = format!("https://github.com/flannel-io/flannel/releases/download/{tag}/kube-flannel.yml");
    let of_source = || format!("{SOURCES}/flannel-io/flannel/{tag}/Documentation/kube-flannel.yml");
    if catalogue::sum(&of_release).is_some() { of_release } else { of_source() }
}
