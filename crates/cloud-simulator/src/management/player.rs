//! The player in the place of Cluster API's controllers: it moves every object one step towards what its spec says, whenever a step's time
//! has passed since the last.

mod authorities;
mod machines;
mod objects;

use std::{
    collections::{HashMap, HashSet},
    mem,
};

use chrono::TimeDelta;
use serde_json::{Value, json};

use self::authorities::Held;
use self::machines::{Rollout, status_of};
use self::objects::{change, find, is_leaving, machines_of, own, report};
use crate::{
    clock::Moment,
    management::{
        Trouble, Troubles,
        apply::merge,
        store::{Key, Store},
    },
    state::seeded,
};

const CLUSTER: &str = "cluster.x-k8s.io";
const DELETE_FIRST: &str = "cluster.x-k8s.io/delete-machine";
/// Which template a machine was made from.
const TEMPLATE: &str = "player/template";

/// The player.
pub(crate) struct Player {
    step: TimeDelta,
    /// Since when an object has been as it is, by its key and what is waited for.
    since: HashMap<(Key, String), Moment>,
    troubles: Troubles,
    /// Whether clusters stand still but for those that were let go.
    is_held: bool,
    let_go: HashSet<String>,
    machines: u64,
    /// Whether all clusters are to be looked at, not those alone of which something has changed.
    is_stale: bool,
    /// Clusters that were let go since the last pass.
    woken: Vec<String>,
    /// Whom nodes that join are told to trust, by namespace and name of their cluster.
    told: HashMap<(String, String), String>,
    /// What the controllers know of clusters.
    held: HashMap<(String, String), Held>,
}

impl Player {
    pub(crate) fn new(step: TimeDelta) -> Self {
        Self {
            step,
            since: HashMap::new(),
            troubles: HashMap::new(),
            is_held: false,
            let_go: HashSet::new(),
            machines: 0,
            is_stale: true,
            woken: Vec::new(),
            told: HashMap::new(),
            held: HashMap::new(),
        }
    }

    /// A trouble of the objects of a kind whose name ends so, or no more.
    pub(crate) fn set_trouble(&mut self, kind: &str, end: &str, trouble: Option<Trouble>) {
        let key = (kind.to_owned(), end.to_owned());
        match trouble {
            Some(trouble) => self.troubles.insert(key, trouble),
            None => self.troubles.remove(&key),
        };
        self.is_stale = true;
    }

    /// Whether clusters stand still but for those that are let go.
    pub(crate) fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
        self.is_stale = true;
    }

    /// Lets a cluster go on that is held.
    pub(crate) fn let_go(&mut self, cluster: &str) {
        self.let_go.insert(cluster.to_owned());
        self.woken.push(cluster.to_owned());
    }

    /// One pass over everything that something may have to be done for: what has changed, and what time changes.
    pub(crate) fn pass(&mut self, store: &mut Store, now: Moment) {
        self.deployments(store, now);
        let mut changed = store.take_changed();
        if changed.is_less {
            self.since.retain(|(key, _), _| store.get(key).is_some());
        }
        if mem::take(&mut self.is_stale) || changed.is_unknown || !self.step.is_zero() {
            changed.clusters = store.clusters().map(str::to_owned).collect();
        }
        changed.clusters.extend(self.woken.drain(..));
        for name in changed.clusters {
            self.family(store, &name, now);
        }
    }

    /// A pass over all that is of the clusters of a name.
    fn family(&mut self, store: &mut Store, name: &str, now: Moment) {
        let of_kind =
            |store: &Store, kind: &str| -> Vec<Key> { store.members(name).filter(|key| key.kind().kind == kind).cloned().collect() };
        let deployments = of_kind(store, "MachineDeployment");
        let mut held = Vec::new();
        for key in of_kind(store, "Cluster") {
            if self.is_held && !self.let_go.contains(name) && !is_leaving(store, &key) {
                held.push(key.namespace);
                continue;
            }
            let own: Vec<Key> = deployments.iter().filter(|deployment| deployment.namespace == key.namespace).cloned().collect();
            self.cluster(store, &key, &own, now);
        }
        // Deployments that are deleted by themselves, as a group is that goes.
        for key in deployments {
            if is_leaving(store, &key) {
                self.see_off(store, &key, now);
            }
        }
        for key in of_kind(store, "Machine") {
            self.machine(store, &key, now);
        }
        for key in of_kind(store, "ClusterResourceSet") {
            self.resource_set(store, &key, name, now);
        }
        for kind in ["HelmRelease", "Manifests"] {
            for key in of_kind(store, kind).into_iter().filter(|key| !held.contains(&key.namespace)) {
                self.addon(store, &key, now);
            }
        }
    }

    fn trouble(&self, key: &Key) -> Option<&Trouble> {
        let kind = key.kind().kind;
        self.troubles.iter().find(|((of, end), _)| of == kind && key.name.ends_with(end.as_str())).map(|(_, trouble)| trouble)
    }

    /// Whether a step's time has passed since this was first asked.
    fn waited(&mut self, key: &Key, what: impl Into<String>, now: Moment) -> bool {
        let since = *self.since.entry((key.clone(), what.into())).or_insert(now);
        now - since >= self.step
    }

    fn cluster(&mut self, store: &mut Store, key: &Key, deployments: &[Key], now: Moment) {
        let Some(cluster) = store.get(key).cloned() else { return };
        let named = |field: &str, kind: &str| {
            let name = cluster["spec"][field]["name"].as_str().unwrap_or(&key.name).to_owned();
            find(store, kind, &key.namespace, &name)
        };
        let infrastructure = named("infrastructureRef", "OpenStackCluster");
        let plane = named("controlPlaneRef", "KubeadmControlPlane");
        if is_leaving(store, key) {
            return self.cluster_leaves(store, key, infrastructure, plane, deployments, now);
        }
        own(store, key, None, "cluster.cluster.x-k8s.io", &key.name);
        for part in infrastructure.iter().chain(&plane).chain(deployments) {
            let finalizer = format!("{}.player", part.kind().plural);
            own(store, part, Some(&cluster), &finalizer, &key.name);
        }
        match self.trouble(key).cloned() {
            Some(Trouble::Stall) => return,
            Some(Trouble::Fail(message)) => {
                let status = json!({"phase": "Failed", "failureReason": "CreateError", "failureMessage": message});
                return report(store, key, status);
            }
            Some(Trouble::Keep) | None => {}
        }
        let has_network = infrastructure.as_ref().is_some_and(|i| self.network(store, i, now));
        let has_plane = has_network && plane.as_ref().is_some_and(|p| self.control_plane(store, p, &key.name, now));
        for deployment in deployments {
            self.deployment(store, deployment, &key.name, has_plane, now);
        }
        if has_network && cluster["spec"]["controlPlaneEndpoint"]["host"].as_str().unwrap_or_default().is_empty() {
            let last = seeded("endpoint", &key.name).as_bytes()[0] % 250 + 1;
            change(store, key, &json!({"spec": {"controlPlaneEndpoint": {"host": format!("203.0.113.{last}"), "port": 6443}}}));
        }
        let word = |good: bool| if good { "True" } else { "False" };
        let conditions = json!([
            {"type": "Ready", "status": word(has_network && has_plane)},
            {"type": "ControlPlaneReady", "status": word(has_plane)},
            {"type": "InfrastructureReady", "status": word(has_network)},
        ]);
        let phase = if has_network { "Provisioned" } else { "Provisioning" };
        let generation = store.get(key).map(|c| c["metadata"]["generation"].clone());
        report(store, key, json!({"phase": phase, "conditions": conditions, "observedGeneration": generation}));
    }

    /// From the workers to the network, each only when what rests on it is gone.
    fn cluster_leaves(
        &mut self,
        store: &mut Store,
        key: &Key,
        infrastructure: Option<Key>,
        plane: Option<Key>,
        deployments: &[Key],
        now: Moment,
    ) {
        if let Some(deployment) = deployments.first() {
            for deployment in deployments {
                store.delete(deployment, now);
            }
            self.see_off(store, deployment, now);
        } else if let Some(plane) = plane {
            store.delete(&plane, now);
            self.see_off(store, &plane, now);
        } else if let Some(network) = infrastructure {
            store.delete(&network, now);
            if self.waited(&network, "leaving", now) && self.trouble(&network) != Some(&Trouble::Keep) {
                change(store, &network, &json!({"metadata": {"finalizers": null}}));
            }
        } else if self.trouble(key) != Some(&Trouble::Keep) {
            // Addons are the cluster's and go with it.
            change(store, key, &json!({"metadata": {"finalizers": null}}));
        }
    }

    /// Machines first, one step each; then their owner.
    fn see_off(&mut self, store: &mut Store, owner: &Key, now: Moment) {
        let machines = machines_of(store, owner);
        for machine in &machines {
            store.delete(machine, now);
        }
        if machines.is_empty() && self.trouble(owner) != Some(&Trouble::Keep) {
            change(store, owner, &json!({"metadata": {"finalizers": null}}));
        }
    }

    fn network(&mut self, store: &mut Store, key: &Key, now: Moment) -> bool {
        match self.trouble(key).cloned() {
            Some(Trouble::Fail(message)) => {
                report(store, key, json!({"ready": false, "failureReason": "CreateError", "failureMessage": message}));
                return false;
            }
            Some(Trouble::Stall) => return store.get(key).is_some_and(|o| o["status"]["ready"] == true),
            Some(Trouble::Keep) | None => {}
        }
        if !self.waited(key, "network", now) {
            return false;
        }
        report(store, key, json!({"ready": true, "failureReason": null, "failureMessage": null}));
        true
    }

    fn control_plane(&mut self, store: &mut Store, key: &Key, cluster: &str, now: Moment) -> bool {
        let Some(object) = store.get(key).cloned() else { return false };
        let trouble = self.trouble(key).cloned();
        if trouble == Some(Trouble::Stall) {
            return false;
        }
        let spec = &object["spec"];
        let mut labels = spec["machineTemplate"]["metadata"]["labels"].clone();
        merge(&mut labels, &json!({"cluster.x-k8s.io/control-plane": ""}));
        let status = &object["status"];
        let is_at_rest = status["observedGeneration"] == object["metadata"]["generation"]
            && ["replicas", "updatedReplicas", "readyReplicas"].iter().all(|counter| status[*counter] == spec["replicas"]);
        let may_move = is_at_rest || self.reaches(store, key, cluster);
        let image = spec["machineTemplate"]["infrastructureRef"]["name"].as_str().unwrap_or_default();
        let rollout = Rollout {
            owner: key,
            object: &object,
            wanted: spec["replicas"].as_i64().unwrap_or(1),
            may_move,
            version: spec["version"].as_str().unwrap_or_default(),
            template: if spec["kubeadmConfigSpec"].is_null() { image.to_owned() } else { format!("{image} {}", spec["kubeadmConfigSpec"]) },
            labels,
            cluster,
        };
        let counts = self.roll(store, &rollout, now);
        let message = match &trouble {
            Some(Trouble::Fail(message)) => Some(message.clone()),
            _ if !may_move => Some("certificate signed by unknown authority".to_owned()),
            _ => None,
        };
        if counts.is_done {
            Self::kubeconfig(store, key, cluster, now);
        }
        let is_good = counts.is_done && message.is_none();
        let conditions: Vec<Value> = ["MachinesReady", "Ready", "EtcdClusterHealthy", "ControlPlaneComponentsHealthy", "Available"]
            .iter()
            .map(|kind| match &message {
                Some(message) => json!({"type": kind, "status": "False", "message": message}),
                None => json!({"type": kind, "status": if is_good { "True" } else { "False" }}),
            })
            .collect();
        let mut status = status_of(&object, &counts);
        status["conditions"] = conditions.into();
        if counts.is_done || object["status"]["version"].is_null() {
            status["version"] = spec["version"].clone();
        }
        report(store, key, status);
        is_good
    }

    fn deployment(&mut self, store: &mut Store, key: &Key, cluster: &str, may_run: bool, now: Moment) {
        let Some(mut object) = store.get(key).cloned() else { return };
        if is_leaving(store, key) {
            return;
        }
        let trouble = self.trouble(key).cloned();
        match trouble {
            Some(Trouble::Stall) => return,
            Some(Trouble::Fail(message)) => {
                let conditions = json!([{"type": "Ready", "status": "False", "message": message}]);
                let generation = object["metadata"]["generation"].clone();
                return report(store, key, json!({"phase": "Failed", "conditions": conditions, "observedGeneration": generation}));
            }
            Some(Trouble::Keep) | None => {}
        }
        if object["spec"]["replicas"].is_null() {
            // The webhook's default: the lower bound where the group is scaled.
            let least = &object["metadata"]["annotations"]["cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"];
            let least: i64 = least.as_str().and_then(|text| text.parse().ok()).unwrap_or(1);
            change(store, key, &json!({"spec": {"replicas": least}}));
            object = store.get(key).cloned().unwrap_or_default();
        }
        let machine = object["spec"]["template"]["spec"].clone();
        let rollout = Rollout {
            owner: key,
            object: &object,
            wanted: object["spec"]["replicas"].as_i64().unwrap_or(1),
            may_move: may_run,
            version: machine["version"].as_str().unwrap_or_default(),
            template: format!("{}/{}", machine["infrastructureRef"]["name"], machine["bootstrap"]["configRef"]["name"]),
            labels: object["spec"]["template"]["metadata"]["labels"].clone(),
            cluster,
        };
        let counts = self.roll(store, &rollout, now);
        let wanted = object["spec"]["replicas"].as_i64().unwrap_or(1);
        let phase = match counts.all {
            all if may_run && counts.is_done && all == wanted => "Running",
            all if all > wanted => "ScalingDown",
            _ => "ScalingUp",
        };
        let mut status = status_of(&object, &counts);
        status["phase"] = phase.into();
        report(store, key, status);
    }

    fn addon(&mut self, store: &mut Store, key: &Key, now: Moment) {
        let Some(object) = store.get(key).cloned() else { return };
        let Some(cluster) = find(store, "Cluster", &key.namespace, object["spec"]["clusterName"].as_str().unwrap_or_default()) else {
            return;
        };
        let Some(cluster) = store.get(&cluster).cloned() else { return };
        own(store, key, Some(&cluster), "", "");
        let is_ready =
            cluster["status"]["conditions"].as_array().into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True");
        match self.trouble(key).cloned() {
            Some(Trouble::Stall) => {}
            Some(Trouble::Fail(message)) => report(store, key, json!({"phase": "Failed", "failureMessage": message})),
            Some(Trouble::Keep) | None if is_ready && self.waited(key, "deploy", now) => {
                report(store, key, json!({"phase": "Deployed", "failureMessage": null}));
            }
            Some(Trouble::Keep) | None if object["status"]["phase"].is_null() => report(store, key, json!({"phase": "Pending"})),
            Some(Trouble::Keep) | None => {}
        }
    }
}
