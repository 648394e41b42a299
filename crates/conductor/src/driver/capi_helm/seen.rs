//! Looking: what the management cluster says of one cluster, and the judgement whether that is what was wanted. The second is pure.

use model::capi::{cleaned, derived};
use provider_clients::Management;
use serde_json::Value;

use super::settings::Kinds;
use crate::outcome::Failure;

mod judge;

pub(super) use judge::{Extent, Judged, Wanted, WantedGroup, is_provisioned, judge};

/// Labels by which the chart marks all that belongs to a release.
pub(super) const RELEASE: &str = "capi.stackhpc.com/cluster";
const GROUP: &str = "capi.stackhpc.com/node-group";
/// The annotation of a deployment by which the cluster's autoscaler knows its lower bound.
const LEAST: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";

/// What there is of a cluster. Absent objects are null.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub release: String,
    pub cluster: Value,
    pub infrastructure: Value,
    pub control_plane: Value,
    pub deployments: Vec<Value>,
    pub machines: Vec<Value>,
    /// HelmReleases and Manifests.
    pub addons: Vec<Value>,
}

impl Seen {
    /// Whether the network is there, and nothing that would ever remove it: helm was refused the Cluster, which all else would be under,
    /// and what it made beside stays when the release goes (the chart says keep).
    pub fn is_orphaned(&self) -> bool {
        let network = &self.infrastructure["metadata"];
        let owners = network["ownerReferences"].as_array();
        self.cluster.is_null()
            && !self.infrastructure.is_null()
            && network["deletionTimestamp"].is_null()
            && !owners.is_some_and(|owners| owners.iter().any(|owner| owner["kind"] == "Cluster"))
    }

    /// Whether nothing at all was found.
    pub fn is_nothing(&self) -> bool {
        let Self { release: _, cluster, infrastructure, control_plane, deployments, machines, addons } = self;
        cluster.is_null()
            && infrastructure.is_null()
            && control_plane.is_null()
            && deployments.is_empty()
            && machines.is_empty()
            && addons.is_empty()
    }

    /// Whether nothing is there that the deletion of the cluster waits for.
    pub fn is_gone(&self) -> bool {
        self.cluster.is_null() && self.machines.is_empty() && self.infrastructure.is_null()
    }

    /// The deployment of a group, by the group's name.
    pub fn deployment(&self, group: &str) -> Option<&Value> {
        let name = derived(&self.release, group);
        self.deployments.iter().find(|deployment| name_of(deployment) == name)
    }

    /// The lower bound that the release gives its autoscaler for a group, by the group's name; none where it is not scaled.
    pub fn least(&self, group: &str) -> Option<i64> {
        self.deployment(group)?["metadata"]["annotations"][LEAST].as_str()?.parse().ok()
    }

    /// The machines of a worker group, by the group's name.
    pub fn machines_of<'a>(&'a self, group: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
        let group = cleaned(group);
        self.machines.iter().filter(move |machine| machine["metadata"]["labels"][GROUP] == group.as_str())
    }

    /// The machines of the control plane.
    pub fn masters(&self) -> impl Iterator<Item = &Value> {
        self.machines.iter().filter(|machine| {
            let labels = &machine["metadata"]["labels"];
            !labels["cluster.x-k8s.io/control-plane"].is_null() || labels["capi.stackhpc.com/component"] == "control-plane"
        })
    }

    /// `https://HOST:PORT` of the cluster's API, once it is known.
    pub fn api_address(&self) -> Option<String> {
        let endpoint = &self.cluster["spec"]["controlPlaneEndpoint"];
        let host = endpoint["host"].as_str().filter(|host| !host.is_empty())?;
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        Some(format!("https://{host}:{}", endpoint["port"].as_u64()?))
    }

    /// The version that the control plane runs, else the one it is to run.
    pub fn version(&self) -> Option<String> {
        let text = |at: &Value| at["version"].as_str().map(str::to_owned);
        text(&self.control_plane["status"]).or_else(|| text(&self.control_plane["spec"]))
    }
}

/// The name of an object.
pub(super) fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// The address of a machine that others reach it by: outside where it has one, else inside.
pub(super) fn address(machine: &Value) -> Option<String> {
    let all = machine["status"]["addresses"].as_array()?;
    let of = |kind: &str| all.iter().find(|a| a["type"] == kind).and_then(|a| a["address"].as_str()).map(str::to_owned);
    of("ExternalIP").or_else(|| of("InternalIP"))
}

/// Whether a machine can be what the user calls by this name: its own, its node's, its server's or one of its addresses.
pub(super) fn is_called(machine: &Value, name: &str) -> bool {
    let server = machine["spec"]["providerID"].as_str().and_then(|id| id.rsplit('/').next());
    let addresses = machine["status"]["addresses"].as_array();
    name_of(machine) == name
        || machine["status"]["nodeRef"]["name"] == name
        || server.is_some_and(|server| server.eq_ignore_ascii_case(name))
        || addresses.is_some_and(|all| all.iter().any(|a| a["address"] == name))
}

/// Looks at everything that belongs to a release.
///
/// # Errors
/// Also where the management cluster lacks one of the kinds that every cluster is made of: it would seem as if nothing were there.
pub(super) async fn look(management: &Management, kinds: &Kinds, namespace: &str, release: &str) -> Result<Seen, Failure> {
    let labels = format!("{RELEASE}={release}");
    let (control_plane, within) = (derived(release, "control-plane"), Some(namespace));
    let (cluster, infrastructure, control_plane, deployments, machines, releases, manifests) = futures::try_join!(
        management.get("cluster_get", &kinds.cluster, within, release),
        management.get("openstackcluster_get", &kinds.openstack_cluster, within, release),
        management.get("controlplane_get", &kinds.control_plane, within, &control_plane),
        management.list_served("machinedeployment_list", &kinds.machine_deployment, within, &labels),
        management.list_served("machine_list", &kinds.machine, within, &labels),
        management.list("helmrelease_list", &kinds.helm_release, within, &labels),
        management.list("manifests_list", &kinds.manifests, within, &labels),
    )?;
    // A management cluster without the addon provider has neither kind of addons.
    let mut addons = releases.unwrap_or_default();
    addons.extend(manifests.unwrap_or_default());
    Ok(Seen {
        release: release.to_owned(),
        cluster: cluster.unwrap_or_default(),
        infrastructure: infrastructure.unwrap_or_default(),
        control_plane: control_plane.unwrap_or_default(),
        deployments,
        machines,
        addons,
    })
}
