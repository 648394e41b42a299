//! What each driver allows: data only, so that the API can refuse early. What a driver does is in the conductor.

/// A driver of clusters, by the name upstream's entry points have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DriverName {
    /// Heat stacks of Fedora CoreOS nodes (or Flatcar's, or Ubuntu's).
    K8sFedoraCoreosV1,
    /// Helm releases of Cluster API objects on a management cluster.
    K8sCapiHelmV1,
}

/// What a template must say for a driver to serve it without being named: `(server_type, cluster_distro, coe)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triple {
    pub server_type: &'static str,
    pub distro: &'static str,
    pub coe: &'static str,
}

impl DriverName {
    /// Every driver.
    pub const ALL: &'static [DriverName] = &[DriverName::K8sFedoraCoreosV1, DriverName::K8sCapiHelmV1];

    /// The name in templates, configuration and `magnum-driver-manage`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::K8sFedoraCoreosV1 => "k8s_fedora_coreos_v1",
            Self::K8sCapiHelmV1 => "k8s_capi_helm_v1",
        }
    }

    /// The driver of a name; none when there is no such driver.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|d| d.as_str() == name)
    }

    /// The triples it serves.
    pub fn provides(self) -> &'static [Triple] {
        match self {
            Self::K8sFedoraCoreosV1 => &[
                Triple { server_type: "vm", distro: "fedora-coreos", coe: "kubernetes" },
                Triple { server_type: "vm", distro: "flatcar", coe: "kubernetes" },
                Triple { server_type: "vm", distro: "ubuntu", coe: "kubernetes" },
            ],
            Self::K8sCapiHelmV1 => &[
                Triple { server_type: "vm", distro: "ubuntu", coe: "kubernetes" },
                Triple { server_type: "vm", distro: "flatcar", coe: "kubernetes" },
            ],
        }
    }

    /// Whether a control plane of this size can be made: odd, at least one (etcd's majority).
    pub fn allows_masters(self, count: i32) -> bool {
        match self {
            Self::K8sFedoraCoreosV1 | Self::K8sCapiHelmV1 => count >= 1 && count % 2 == 1,
        }
    }

    /// Whether the control plane of a cluster that is there can be brought to this size. Etcd has to be told of each member that
    /// leaves, which the Heat driver does not do yet.
    pub fn allows_master_resize(self, count: i32) -> bool {
        match self {
            Self::K8sFedoraCoreosV1 => false,
            // Cluster API's control plane provider sees to etcd.
            Self::K8sCapiHelmV1 => self.allows_masters(count),
        }
    }

    /// Whether a cluster can be brought to another template (U-09); upstream's Heat driver cannot.
    pub fn supports_upgrade(self) -> bool {
        match self {
            Self::K8sFedoraCoreosV1 => true,
            Self::K8sCapiHelmV1 => true,
        }
    }

    /// Whether the nodes of a cluster can take new certificate authorities (K-11); with Cluster API only where the operator says which
    /// controllers are to be told.
    pub fn supports_ca_rotation(self) -> bool {
        match self {
            Self::K8sFedoraCoreosV1 => true,
            Self::K8sCapiHelmV1 => true,
        }
    }

    /// Whether the credentials that were delegated for a cluster can be made anew (K-16).
    pub fn supports_credential_rotation(self) -> bool {
        match self {
            Self::K8sFedoraCoreosV1 => true,
            Self::K8sCapiHelmV1 => true,
        }
    }

    /// The value of `container_version` that its clusters show.
    pub fn container_version(self) -> Option<&'static str> {
        match self {
            Self::K8sFedoraCoreosV1 | Self::K8sCapiHelmV1 => None,
        }
    }

    /// The network drivers that its clusters can have; none: those that the operator allows.
    pub fn network_drivers(self) -> Option<&'static [&'static str]> {
        match self {
            Self::K8sFedoraCoreosV1 => None,
            Self::K8sCapiHelmV1 => Some(&["calico", "cilium"]),
        }
    }

    /// The driver of a template whose row names none: upstream wrote it, whose Heat driver serves Fedora CoreOS only.
    pub fn of_nameless(server_type: &str, distro: &str, coe: &str) -> Option<Self> {
        let serves = |d: &Self| d.provides().iter().any(|t| t.server_type == server_type && t.distro == distro && t.coe == coe);
        Self::ALL.iter().copied().rfind(serves)
    }

    /// The driver for a triple, leaving out those that the operator disabled.
    pub fn for_triple(server_type: &str, distro: &str, coe: &str, disabled: &[String]) -> Option<Self> {
        Self::ALL.iter().copied().find(|d| {
            !disabled.iter().any(|x| x == d.as_str())
                && d.provides().iter().any(|t| t.server_type == server_type && t.distro == distro && t.coe == coe)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_drivers_serve_is_upstreams_where_nobody_says_and_the_other_ones_where_that_is_disabled() {
        let (heat, cluster_api) = (DriverName::K8sFedoraCoreosV1, DriverName::K8sCapiHelmV1);
        for (distro, nameless, without_heat) in [
            ("fedora-coreos", Some(heat), None),
            ("flatcar", Some(cluster_api), Some(cluster_api)),
            ("ubuntu", Some(cluster_api), Some(cluster_api)),
        ] {
            assert_eq!(DriverName::for_triple("vm", distro, "kubernetes", &[]), Some(heat), "{distro}");
            assert_eq!(DriverName::for_triple("vm", distro, "kubernetes", &[heat.as_str().to_owned()]), without_heat, "{distro}");
            assert_eq!(DriverName::of_nameless("vm", distro, "kubernetes"), nameless, "{distro}");
            assert_eq!(DriverName::for_triple("bm", distro, "kubernetes", &[]), None, "{distro}");
        }
    }
}
