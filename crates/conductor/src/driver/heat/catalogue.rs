//! Which version of what goes with which version of Kubernetes, on nodes and inside clusters, where no label says otherwise.
//!
//! One row a minor version: whatever it does not name is as of the one before it. Masters that replace others apply pod network and add-ons
//! anew, so what a row says of these stays once clusters were made by it: a cluster takes other versions when it comes to another version of
//! Kubernetes, and not when this program does. What nodes run containers with follows what its projects mend.
//!
//! Sources, as far as they went in October 2026:
//! - Kubernetes: `kubernetes.io/releases`: 1.36 until 2027-06-28, 1.35 until 2027-02-28; of 1.37, of 2026-08-26, there is no cloud provider yet.
//! - containerd: `RELEASES.md` (2.3 is the one that is supported for long, until April 2028); 2.1.5 mends CVE-2024-25621 and CVE-2025-64329.
//! - runc: 1.3.3 mends CVE-2025-31133, CVE-2025-52565 and CVE-2025-52881.
//! - the sandbox's image: `kubeadm config images list` of 1.36.5, which names CoreDNS 1.14.2 and etcd 3.6.8 beside it: these are kubeadm's choice.
//! - calico: `getting-started/kubernetes/requirements`: 3.32 is tested with 1.34 to 1.36; 3.30 in its project's nightly tests with 1.35.
//! - cilium: `Documentation/network/kubernetes/compatibility.rst`: 1.18 is tested with 1.30 to 1.33, 1.19 with 1.32 to 1.35, 1.20 with 1.33 to
//!   1.36. It is upgraded by one minor version at a time (`operations/upgrade`), and so goes one further with each of Kubernetes.
//! - flannel: its releases; they are bound to no version of Kubernetes.
//! - cloud-provider-openstack, autoscaler: the releases that are called as Kubernetes' are.
//! - metrics-server: `README.md`: 0.8 from 1.31 on, 0.9 from 1.34 on. kube-state-metrics: `data.yaml`.
//! - ingress-nginx, the dashboard: their projects make no more releases, and have said nothing of 1.36.

use model::kubernetes::Version;

/// The version of Kubernetes when no label names one.
pub(super) const KUBE_VERSION: &str = "v1.36.5";

/// What installs cilium, of 1.16 and newer (`README.md` of cilium-cli).
pub(super) const CILIUM_CLI: &str = "v0.19.7";

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
const V34: Release = Release {
    minor: 34,
    pause: "3.10.1",
    cilium: "v1.18.14",
    cloud_provider: "v1.34.1",
    autoscaler: "v1.34.0",
    kube_state_metrics: "v2.18.0",
    ..V33
};
const V35: Release =
    Release { minor: 35, cilium: "v1.19.8", cloud_provider: "v1.35.0", autoscaler: "v1.35.1", kube_state_metrics: "v2.19.1", ..V34 };
const V36: Release = Release {
    minor: 36,
    containerd: "2.3.5",
    runc: "1.4.3",
    cni_plugins: "1.9.1",
    pause: "3.10.2",
    flannel: "v0.28.8",
    calico: "v3.32.2",
    cilium: "v1.20.2",
    cloud_provider: "v1.36.0",
    autoscaler: "v1.36.1",
    metrics_server: "v0.9.0",
    kube_state_metrics: "v2.20.0",
    ..V35
};

static RELEASES: [Release; 6] = [V31, V32, V33, V34, V35, V36];

/// The first and the last minor version that are known.
pub(super) const OLDEST: u32 = V31.minor;
pub(super) const NEWEST: u32 = V36.minor;

/// What goes with a minor version: with one that is newer than is known, what goes with the newest.
pub(super) fn of(minor: u32) -> &'static Release {
    RELEASES.iter().rev().find(|release| release.minor <= minor).unwrap_or(&RELEASES[0])
}

/// What the owner of a cluster is to be told of its version; none where all is known.
pub(crate) fn note(version: Option<&str>) -> Option<String> {
    let minor = version.and_then(Version::parse)?.minor;
    let text = format!("Kubernetes v1.{minor} is newer than is known here (v1.{NEWEST}): what no label names goes with v1.{NEWEST}");
    (minor > NEWEST).then_some(text)
}

/// SHA-256 of manifests, by their addresses. Their projects publish none: these are what others have found there, at least two of them each,
/// who had nothing to do with each other.
const SUMS: [(&str, &str); 3] = [
    (
        "https://github.com/flannel-io/flannel/releases/download/v0.28.8/kube-flannel.yml",
        "4148e659a834b51fc9aadc429281c6e80c97e0e25475faacd4cc857dbd16f21b",
    ),
    (
        "https://raw.githubusercontent.com/projectcalico/calico/v3.32.2/manifests/calico.yaml",
        "a8c828a06a87c629a282ebbc424895b77f3a030251993e41ea400a743675bb02",
    ),
    (
        "https://github.com/kubernetes-sigs/metrics-server/releases/download/v0.9.0/components.yaml",
        "1cec29a5267809306a2c6ec74a3e449abbb705b4a8beed0c8a1963910f72c79b",
    ),
];

/// What a manifest must be, where that is known.
pub(super) fn sum(address: &str) -> Option<&'static str> {
    SUMS.iter().find(|(known, _)| *known == address).map(|(_, sum)| *sum)
}

#[cfg(test)]
mod tests {
    use model::driver::DriverName;

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
        assert_eq!((RELEASES[0].minor, RELEASES[RELEASES.len() - 1].minor), (OLDEST, NEWEST));
    }

    #[test]
    fn what_runs_containers_is_mended() {
        for release in &RELEASES {
            assert!(numbers(release.containerd) >= vec![2, 1, 5] && numbers(release.runc) >= vec![1, 3, 3], "{release:?}");
        }
    }

    #[test]
    fn what_bears_the_name_of_a_version_goes_with_it() {
        for release in &RELEASES {
            for version in [release.cloud_provider, release.autoscaler] {
                assert_eq!(numbers(version)[..2], [1, release.minor]);
            }
        }
    }

    #[test]
    fn a_version_that_is_newer_than_is_known_is_told_and_gets_the_newest() {
        let minor = |asked| of(asked).minor;
        assert_eq!([0, OLDEST, 33, NEWEST, NEWEST + 4].map(minor), [OLDEST, OLDEST, 33, NEWEST, NEWEST]);
        let default = Version::parse(KUBE_VERSION).expect("a version");
        assert!((OLDEST..=NEWEST).contains(&default.minor));
        for known in [None, Some(KUBE_VERSION), Some("v1.31.0"), Some("latest")] {
            assert_eq!(note(known), None, "{known:?}");
        }
        let told = note(Some(&format!("v1.{}.0", NEWEST + 1))).expect("a note");
        assert!(told.starts_with(&format!("Kubernetes v1.{} is newer", NEWEST + 1)), "{told}");
        // Users are told before they ask for it.
        let about = DriverName::K8sFedoraCoreosV1.label("kube_tag").map_or("", |label| label.about);
        assert!(about.contains(&format!("v1.{NEWEST}")) && about.contains(&format!("v1.{OLDEST}.0")), "{about}");
    }

    #[test]
    fn sums_are_of_manifests_that_some_version_has() {
        for (address, sum) in SUMS {
            let is_known = |release: &Release| {
                [release.flannel, release.calico, release.metrics_server].iter().any(|tag| address.contains(&format!("/{tag}/")))
            };
            assert!(RELEASES.iter().any(is_known), "{address}");
            assert!(sum.len() == 64 && sum.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)), "{sum}");
        }
    }

    #[test]
    fn the_document_for_reading_has_every_version() {
        let document = include_str!("../../../../../docs/labels.md");
        let section = document.split("\n## Versions\n").nth(1).expect("the section");
        let rows: Vec<&str> = section.lines().take_while(|line| !line.starts_with("## ")).filter(|line| line.starts_with("| 1.")).collect();
        let row = |of: &Release| {
            let minor = format!("1.{}", of.minor);
            let all = [
                minor.as_str(),
                of.containerd,
                of.runc,
                of.cni_plugins,
                of.pause,
                of.flannel,
                of.calico,
                of.cilium,
                of.cloud_provider,
                of.autoscaler,
                of.metrics_server,
                of.kube_state_metrics,
            ];
            format!("| {} |", all.join(" | "))
        };
        assert_eq!(rows, RELEASES.iter().map(row).collect::<Vec<_>>());
    }
}
