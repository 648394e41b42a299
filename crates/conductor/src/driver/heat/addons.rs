//! What runs in every cluster beside Kubernetes itself: manifests of their projects, each at a version.
//!
//! The first master applies them, and the first of each generation that replaces it. One that cannot be applied fails the master, so that no
//! cluster is called complete which lacks what was asked for.

use std::fmt::Write as _;

use super::parameters::choices;
use super::render::RenderError;
use super::stack_input::StackInput;

/// An add-on.
struct Addon {
    name: &'static str,
    /// The label that says whether it is wanted, and what holds without it.
    wanted: (&'static str, bool),
    /// The label that says which version.
    tag: &'static str,
    /// Versions from a minor version of Kubernetes on; the last that fits holds.
    versions: &'static [(u32, &'static str)],
    /// Where its manifests are, in the order in which they are applied; `TAG` is the version.
    manifests: &'static [&'static str],
}

const CATALOGUE: [Addon; 3] = [
    Addon {
        name: "metrics-server",
        wanted: ("metrics_server_enabled", true),
        tag: "metrics_server_tag",
        versions: &[(31, "v0.8.0")],
        manifests: &["https://github.com/kubernetes-sigs/metrics-server/releases/download/TAG/components.yaml"],
    },
    Addon {
        name: "node-problem-detector",
        wanted: ("npd_enabled", true),
        tag: "node_problem_detector_tag",
        versions: &[(31, "v0.8.20")],
        manifests: &[
            "https://raw.githubusercontent.com/kubernetes/node-problem-detector/TAG/deployment/rbac.yaml",
            "https://raw.githubusercontent.com/kubernetes/node-problem-detector/TAG/deployment/node-problem-detector-config.yaml",
            "https://raw.githubusercontent.com/kubernetes/node-problem-detector/TAG/deployment/node-problem-detector.yaml",
        ],
    },
    Addon {
        name: "dashboard",
        wanted: ("kube_dashboard_enabled", false),
        tag: "kube_dashboard_version",
        versions: &[(31, "v2.7.0")],
        manifests: &["https://raw.githubusercontent.com/kubernetes/dashboard/TAG/aio/deploy/recommended.yaml"],
    },
];

/// A line for each manifest: the add-on and where it is.
pub(super) fn list(input: &StackInput<'_>, minor: u32) -> Result<String, RenderError> {
    let mut lines = String::new();
    for addon in &CATALOGUE {
        if !choices::flag(input, addon.wanted.0)?.unwrap_or(addon.wanted.1) {
            continue;
        }
        let default = addon.versions.iter().rev().find(|(from, _)| *from <= minor).map_or(addon.versions[0].1, |(_, tag)| *tag);
        let tag = choices::version(input, addon.tag, default)?;
        for manifest in addon.manifests {
            writeln!(lines, "{} {}", addon.name, manifest.replace("TAG", &tag)).expect("a text takes it");
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use model::driver::DriverName;

    use super::*;

    #[test]
    fn users_are_told_the_defaults_that_hold() {
        let default = |name: &str| DriverName::K8sFedoraCoreosV1.label(name).and_then(|label| label.default);
        for addon in &CATALOGUE {
            assert_eq!(default(addon.wanted.0), Some(if addon.wanted.1 { "true" } else { "false" }), "{}", addon.name);
            assert_eq!(default(addon.tag), addon.versions.last().map(|(_, tag)| *tag), "{}", addon.name);
        }
    }
}
