//! What the Cluster API driver is told by the configuration.

use std::collections::BTreeMap;
use std::time::Duration;

use provider_clients::KubeKind;
use serde_json::Value;

/// `[capi_helm]` and what belongs to it.
#[derive(Clone, Debug)]
pub struct CapiSettings {
    /// First part of the names of projects' namespaces.
    pub namespace_prefix: String,
    /// Name, `oci://` reference or path.
    pub chart_name: String,
    /// None: the name says all.
    pub chart_repo: Option<String>,
    /// Of clusters whose template has no label that says another.
    pub chart_version: String,
    /// MiB that every node's flavor must have.
    pub minimum_flavor_ram: u64,
    pub minimum_flavor_vcpus: u64,
    /// The volume type of the default storage class; none: the first that Cinder lists.
    pub default_volume_type: Option<String>,
    pub allowed_topologies: Vec<Value>,
    /// `interface` of `clouds.yaml`.
    pub interface: String,
    pub region: Option<String>,
    /// Whether what runs in the cluster checks the certificates of OpenStack's services.
    pub verify_ca: bool,
    /// PEM certificates of who signed those.
    pub ca: String,
    /// Conditions of a control plane that must be true.
    pub control_plane_conditions: Vec<String>,
    pub kinds: Kinds,
    /// Deployments of a management cluster whose programs connect to clusters: namespaces and names. None: authorities cannot be replaced.
    pub controllers: Vec<(String, String)>,
    /// How long at least masters that trust a former authority stay after the last masters that it signed for have gone: as long as pods use
    /// tokens of its time.
    pub rotation_pause: Duration,
    /// What holds without a label, by the label's name.
    pub labels: BTreeMap<&'static str, String>,
}

/// Cluster API's own kinds of addons.
const ADDONS: &str = "addons.cluster.x-k8s.io/v1beta1";

/// The kinds that are asked for; the operator may name other versions.
#[derive(Clone, Debug)]
pub struct Kinds {
    pub cluster: KubeKind,
    pub openstack_cluster: KubeKind,
    pub machine_deployment: KubeKind,
    pub control_plane: KubeKind,
    pub machine: KubeKind,
    pub manifests: KubeKind,
    pub helm_release: KubeKind,
    pub resource_set: KubeKind,
    pub resource_set_binding: KubeKind,
}

impl Kinds {
    /// All that a look looks at: one watch each.
    pub fn all(&self) -> [&KubeKind; 7] {
        let Self { cluster, openstack_cluster, machine_deployment, control_plane, machine, manifests, helm_release, .. } = self;
        [cluster, openstack_cluster, control_plane, machine_deployment, machine, helm_release, manifests]
    }

    /// Upstream's defaults with what `[capi_helm] api_resources` (a JSON object) says otherwise.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn read(api_resources: &str) -> Result<Self, String> {
        let text = if api_resources.trim().is_empty() { "{}" } else { api_resources };
        let given: Value = serde_json::from_str(text).map_err(|error| format!("must be a JSON object: {error}"))?;
        let given = given.as_object().ok_or("must be a JSON object")?;
        const KNOWN: [&str; 10] = [
            "Cluster",
            "OpenstackCluster",
            "MachineDeployment",
            "K8sControlPlane",
            "Machine",
            "Manifests",
            "HelmRelease",
            "HelmChartProxy",
            "ClusterResourceSet",
            "ClusterResourceSetBinding",
        ];
        if let Some(name) = given.keys().find(|name| !KNOWN.contains(&name.as_str())) {
            return Err(format!("names {name}: it must be one of {}", KNOWN.join(", ")));
        }
        let kind = |key: &str, kind: &str, api_version: &str, plural: &str| {
            let of = |field: &str| given.get(key).and_then(|k| k[field].as_str());
            let version = of("api_version").unwrap_or(api_version);
            // Upstream lets the plural of the control plane be set only.
            let plural = of("plural_name").filter(|_| key == "K8sControlPlane").unwrap_or(plural);
            KubeKind::new(version, kind, plural)
        };
        Ok(Self {
            cluster: kind("Cluster", "Cluster", "cluster.x-k8s.io/v1beta1", "clusters"),
            openstack_cluster: kind("OpenstackCluster", "OpenStackCluster", "infrastructure.cluster.x-k8s.io/v1beta1", "openstackclusters"),
            machine_deployment: kind("MachineDeployment", "MachineDeployment", "cluster.x-k8s.io/v1beta1", "machinedeployments"),
            control_plane: kind("K8sControlPlane", "KubeadmControlPlane", "controlplane.cluster.x-k8s.io/v1beta1", "kubeadmcontrolplanes"),
            machine: kind("Machine", "Machine", "cluster.x-k8s.io/v1beta1", "machines"),
            manifests: kind("Manifests", "Manifests", "addons.stackhpc.com/v1alpha1", "manifests"),
            helm_release: kind("HelmRelease", "HelmRelease", "addons.stackhpc.com/v1alpha1", "helmreleases"),
            resource_set: kind("ClusterResourceSet", "ClusterResourceSet", ADDONS, "clusterresourcesets"),
            resource_set_binding: kind("ClusterResourceSetBinding", "ClusterResourceSetBinding", ADDONS, "clusterresourcesetbindings"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_kinds_are_the_operators() {
        let kinds = Kinds::read("").expect("defaults");
        assert_eq!(kinds.cluster, KubeKind::new("cluster.x-k8s.io/v1beta1", "Cluster", "clusters"));
        let text = r#"{"K8sControlPlane": {"api_version": "x/v1", "plural_name": "planes"}, "Machine": {"api_version": "m/v2", "plural_name": "no"}}"#;
        let kinds = Kinds::read(text).expect("good");
        assert_eq!((kinds.control_plane.api_version.as_str(), kinds.control_plane.plural.as_str()), ("x/v1", "planes"));
        assert_eq!((kinds.machine.api_version.as_str(), kinds.machine.plural.as_str()), ("m/v2", "machines"));
        for bad in ["{,}", "[]", r#"{"Pod": {}}"#] {
            assert!(Kinds::read(bad).is_err(), "{bad}");
        }
    }
}
