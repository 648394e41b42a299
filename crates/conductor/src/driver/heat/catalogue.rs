//! Which version of what goes with which version of Kubernetes, on nodes and inside clusters, where no label says otherwise.
//!
//! One row a minor version: whatever it does not name is as of the one before it. Masters that replace others apply pod network and add-ons
//! anew, so what a row says of these stays once clusters were made by it: a cluster takes other versions when it comes to another version of
//! Kubernetes, and not when this program does. What nodes run containers with follows what its projects mend.
//!
//! Sources, as far as they went in October 2026:
//! - containerd: `RELEASES.md` (2.3 is the one that is supported for long, until April 2028); 2.1.5 mends CVE-2024-25621 and CVE-2025-64329.
//! - runc: 1.3.3 mends CVE-2025-31133, CVE-2025-52565 and CVE-2025-52881.
//! - cloud-provider-openstack, autoscaler: the releases that are called as Kubernetes' are.
//! - metrics-server: `README.md`: 0.8 from 1.31 on, 0.9 from 1.34 on. kube-state-metrics: `data.yaml`.

/// The version of Kubernetes when no label names one.
pub(super) const KUBE_VERSION: &str = "v1.33.5";

/// What installs cilium.
pub(super) const CILIUM_CLI: &str = "v0.18.5";

/// A minor version of Kubernetes 1, and what goes with it.
#[derive(Debug)]
pub(super) struct Release {
    pub minor: u32,
    /// Without the `v` of its releases, as the two below.
    pub containerd: &'static str,
    pub runc: &'static str,
    pub cni_plugins: &'static str,
    /// Of the image that holds a pod's namespaces.
    pub pause: &'static str,
    pub flannel: &'static str,
    pub calico: &'static str,
    pub cilium: &'static str,
    /// All that the project cloud-provider-openstack makes.
    pub cloud_provider: &'static str,
    pub autoscaler: &'static str,
    pub ingress_nginx: &'static str,
    pub metrics_server: &'static str,
    pub node_problem_detector: &'static str,
    pub dashboard: &'static str,
    pub prometheus: &'static str,
    pub kube_state_metrics: &'static str,
    pub node_exporter: &'static str,
}

/// kubeadm's configuration v1beta4 exists from this minor version on.
const V31: Release = Release {
    minor: 31,
    containerd: "2.1.9",
    runc: "1.3.6",
    cni_plugins: "1.7.1",
    pause: "3.10",
    flannel: "v0.27.2",
    calico: "v3.30.2",
    cilium: "v1.17.6",
    cloud_provider: "v1.31.3",
    autoscaler: "v1.31.0",
    ingress_nginx: "v1.15.1",
    metrics_server: "v0.8.0",
    node_problem_detector: "v0.8.20",
    dashboard: "v2.7.0",
    prometheus: "v3.13.2",
    kube_state_metrics: "v2.14.0",
    node_exporter: "v1.11.1",
};
const V32: Release = Release { minor: 32, cloud_provider: "v1.32.0", autoscaler: "v1.32.0", kube_state_metrics: "v2.16.0", ..V31 };
const V33: Release = Release { minor: 33, cloud_provider: "v1.33.0", autoscaler: "v1.33.0", kube_state_metrics: "v2.17.0", ..V32 };
const V34: Release = Release { minor: 34, cloud_provider: "v1.34.1", autoscaler: "v1.34.0", kube_state_metrics: "v2.18.0", ..V33 };
const V35: Release = Release { minor: 35, cloud_provider: "v1.35.0", kube_state_metrics: "v2.19.1", ..V34 };

static RELEASES: [Release; 5] = [V31, V32, V33, V34, V35];

/// The first minor version that is known.
pub(super) const OLDEST: u32 = V31.minor;

/// What goes with a minor version: with one that is newer than is known, what goes with the newest.
pub(super) fn of(minor: u32) -> &'static Release {
    RELEASES.iter().rev().find(|release| release.minor <= minor).unwrap_or(&RELEASES[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [fn(&Release) -> &'static str; 11] = [
        |of| of.containerd,
        |of| of.runc,
        |of| of.cni_plugins,
        |of| of.pause,
        |of| of.flannel,
        |of| of.calico,
        |of| of.cilium,
        |of| of.cloud_provider,
        |of| of.autoscaler,
        |of| of.metrics_server,
        |of| of.kube_state_metrics,
    ];

    fn numbers(version: &str) -> Vec<u32> {
        version.trim_start_matches('v').split('.').map(|part| part.parse().expect(version)).collect()
    }

    #[test]
    fn no_minor_version_is_left_out_and_nothing_goes_back() {
        for pair in RELEASES.windows(2) {
            let [before, after] = pair else { unreachable!("two") };
            assert_eq!(before.minor + 1, after.minor);
            for of in ALL {
                assert!(numbers(of(before)) <= numbers(of(after)), "{} {}", of(before), of(after));
            }
            // Its agents understand those of the minor version before, no older ones.
            assert!(numbers(after.cilium)[1] <= numbers(before.cilium)[1] + 1, "{} {}", before.cilium, after.cilium);
        }
        assert_eq!(RELEASES[0].minor, OLDEST);
    }

    #[test]
    fn what_runs_containers_is_mended() {
        for release in &RELEASES {
            assert!(numbers(release.containerd) >= vec![2, 1, 5] && numbers(release.runc) >= vec![1, 3, 3], "{release:?}");
        }
    }
}
