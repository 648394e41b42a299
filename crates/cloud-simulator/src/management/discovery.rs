//! The kinds there are, and the documents that tell a client of them.

use serde_json::{Value, json};

/// A kind.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) is_namespaced: bool,
    /// Whether status is written apart from the rest.
    pub(crate) has_status: bool,
}

const fn kind(group: &'static str, version: &'static str, kind: &'static str, plural: &'static str, has_status: bool) -> Kind {
    Kind { group, version, kind, plural, is_namespaced: true, has_status }
}

pub(crate) static KINDS: [Kind; 19] = [
    Kind { is_namespaced: false, ..kind("", "v1", "Namespace", "namespaces", true) },
    kind("", "v1", "Secret", "secrets", false),
    kind("", "v1", "ConfigMap", "configmaps", false),
    kind("", "v1", "ServiceAccount", "serviceaccounts", false),
    kind("apps", "v1", "Deployment", "deployments", true),
    kind("rbac.authorization.k8s.io", "v1", "Role", "roles", false),
    kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", false),
    kind("cluster.x-k8s.io", "v1beta1", "Cluster", "clusters", true),
    kind("cluster.x-k8s.io", "v1beta1", "MachineDeployment", "machinedeployments", true),
    kind("cluster.x-k8s.io", "v1beta1", "Machine", "machines", true),
    kind("cluster.x-k8s.io", "v1beta1", "MachineHealthCheck", "machinehealthchecks", true),
    kind("controlplane.cluster.x-k8s.io", "v1beta1", "KubeadmControlPlane", "kubeadmcontrolplanes", true),
    kind("bootstrap.cluster.x-k8s.io", "v1beta1", "KubeadmConfigTemplate", "kubeadmconfigtemplates", false),
    kind("infrastructure.cluster.x-k8s.io", "v1beta1", "OpenStackCluster", "openstackclusters", true),
    kind("infrastructure.cluster.x-k8s.io", "v1beta1", "OpenStackMachineTemplate", "openstackmachinetemplates", false),
    kind("addons.stackhpc.com", "v1alpha1", "HelmRelease", "helmreleases", true),
    kind("addons.stackhpc.com", "v1alpha1", "Manifests", "manifests", true),
    kind("addons.cluster.x-k8s.io", "v1beta1", "ClusterResourceSet", "clusterresourcesets", true),
    kind("addons.cluster.x-k8s.io", "v1beta1", "ClusterResourceSetBinding", "clusterresourcesetbindings", false),
];

const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// The kind behind a path.
pub(crate) fn find(group: &str, version: &str, plural: &str) -> Option<usize> {
    KINDS.iter().position(|kind| kind.group == group && kind.version == version && kind.plural == plural)
}

/// The kinds of this name, of whatever group and version.
pub(crate) fn named(kind: &str) -> impl Iterator<Item = usize> + use<> {
    let kind = kind.to_owned();
    (0..KINDS.len()).filter(move |at| KINDS[*at].kind == kind)
}

impl Kind {
    /// As in `apiVersion`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// As in messages: `clusters.cluster.x-k8s.io`.
    pub(crate) fn resource(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }
}

pub(crate) fn version() -> Value {
    json!({"major": "1", "minor": "33", "gitVersion": "v1.33.4", "gitCommit": "", "gitTreeState": "clean", "buildDate": "",
        "goVersion": "", "compiler": "gc", "platform": "linux/amd64"})
}

fn groups() -> Vec<(&'static str, &'static str)> {
    let mut all: Vec<_> = KINDS.iter().filter(|kind| !kind.group.is_empty()).map(|kind| (kind.group, kind.version)).collect();
    all.dedup();
    all.sort_unstable();
    all.dedup();
    all
}

/// All groups but the core's.
pub(crate) fn api_groups() -> Value {
    let groups: Vec<Value> = groups()
        .into_iter()
        .map(|(group, version)| {
            let version = json!({"groupVersion": format!("{group}/{version}"), "version": version});
            json!({"name": group, "versions": [version], "preferredVersion": version})
        })
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// The kinds of a group, in the older form.
pub(crate) fn resources(group: &str, version: &str) -> Option<Value> {
    let of = KINDS.iter().filter(|kind| kind.group == group && kind.version == version);
    let list: Vec<Value> = of
        .map(|kind| {
            json!({"name": kind.plural, "singularName": kind.kind.to_lowercase(), "namespaced": kind.is_namespaced, "kind": kind.kind, "verbs": VERBS})
        })
        .collect();
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    (!list.is_empty()).then(|| json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": list}))
}

/// All kinds at once: those of the core, or all others.
pub(crate) fn aggregated(is_core: bool) -> Value {
    let groups = if is_core { vec![("", "v1")] } else { groups() };
    let items: Vec<Value> = groups
        .into_iter()
        .map(|(group, version)| {
            let of = KINDS.iter().filter(|kind| kind.group == group && kind.version == version);
            let resources: Vec<Value> = of
                .map(|kind| {
                    json!({
                        "resource": kind.plural,
                        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
                        "scope": if kind.is_namespaced { "Namespaced" } else { "Cluster" },
                        "singularResource": kind.kind.to_lowercase(),
                        "verbs": VERBS,
                    })
                })
                .collect();
            let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
            json!({"metadata": metadata, "versions": [{"version": version, "resources": resources, "freshness": "Current"}]})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

/// Where the description of each group is.
pub(crate) fn openapi_index() -> Value {
    let all = std::iter::once("api/v1".to_owned()).chain(groups().into_iter().map(|(group, version)| format!("apis/{group}/{version}")));
    let paths: serde_json::Map<String, Value> =
        all.map(|path| (path.clone(), json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash=1")}))).collect();
    json!({"paths": paths})
}

/// The description of a group, as far as clients look whether the server itself validates fields: no schemas.
pub(crate) fn openapi(group: &str, version: &str) -> Option<Value> {
    let of = KINDS.iter().filter(|kind| kind.group == group && kind.version == version);
    let paths: serde_json::Map<String, Value> = of
        .map(|kind| {
            let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
            let within = if kind.is_namespaced { "/namespaces/{namespace}" } else { "" };
            let parameter = json!({"name": "fieldValidation", "in": "query", "schema": {"type": "string"}});
            let patch = json!({
                "operationId": format!("patch{}", kind.kind),
                "parameters": [parameter],
                "responses": {"200": {"description": "OK"}},
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind.kind},
            });
            (format!("{root}{within}/{}/{{name}}", kind.plural), json!({"patch": patch}))
        })
        .collect();
    let info = json!({"title": "Kubernetes", "version": "v1.33.4"});
    (!paths.is_empty()).then(|| json!({"openapi": "3.0.0", "info": info, "paths": paths}))
}
