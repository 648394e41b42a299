//! Who trusts whom: what machines are made of, what a cluster tells the nodes that join, what the controllers know of it.
//!
//! A machine is made of the secrets as they are, as Cluster API's is; one that could not join, or whom others would not trust, stays as it
//! is and says so. The controllers read the kubeconfig of a cluster when they connect, and keep what they made of the secrets then: until they are
//! begun anew they go on with it, and do nothing while a master is there that it is of no use with.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    Player,
    machines::Rollout,
    objects::{change, find, is_leaving, machines_of, own, report},
};
use crate::{
    clock::Moment,
    management::{
        discovery,
        store::{CLUSTER_NAME, Key, Store},
    },
};

/// What a machine was made of, as JSON: the texts of certificates. Tests read it.
pub(super) const AUTHORITIES: &str = "player/authorities";
/// Why a machine does not become a node.
pub(super) const FAULT: &str = "player/fault";

/// The names of the secrets that a master is made of, after the cluster's.
const PARTS: [&str; 4] = ["ca", "etcd", "proxy", "sa"];
/// The step of kubeadm that has kubeconfigs trust one authority.
const KUBECONFIG: &str = "control-plane-prepare/kubeconfig";
const END: &str = "-----END CERTIFICATE-----";

/// What controllers know of a cluster.
pub(super) struct Held {
    /// Whom they trust.
    authorities: Vec<String>,
    /// Who signed what they show to etcd.
    etcd: Option<String>,
}

fn certificates(text: &str) -> Vec<String> {
    text.split_inclusive(END).map(|one| one.trim().to_owned()).filter(|one| one.ends_with(END)).collect()
}

fn decoded(value: &Value) -> String {
    let bytes = value.as_str().and_then(|text| BASE64_STANDARD.decode(text).ok()).unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}

fn secret<'a>(store: &'a Store, namespace: &str, name: &str) -> Option<&'a Value> {
    store.get(&find(store, "Secret", namespace, name)?)
}

/// What a machine was made of.
fn made_of(store: &Store, machine: &Key) -> Value {
    let text = store.get(machine).and_then(|object| object["metadata"]["annotations"][AUTHORITIES].as_str()).unwrap_or("null");
    serde_json::from_str(text).unwrap_or_default()
}

fn of(made: &Value, part: &str) -> Vec<String> {
    certificates(made[part].as_str().unwrap_or_default())
}

/// Whether each trusts what the other shows first; who shows nothing is trusted.
fn trust_each_other(one: &[String], other: &[String]) -> bool {
    let trusts = |this: &[String], that: &[String]| that.first().is_none_or(|shown| this.contains(shown));
    trusts(one, other) && trusts(other, one)
}

/// Whether kubeadm has the controller manager of a master sign with a file of its own: a patch in the directory that it is told to look in.
fn signs_alone(spec: &Value) -> bool {
    let directory = &spec["joinConfiguration"]["patches"]["directory"];
    let Some(directory) = directory.as_str().filter(|_| spec["initConfiguration"]["patches"]["directory"] == *directory) else {
        return false;
    };
    let is_patch = |file: &&Value| {
        let name = file["path"].as_str().and_then(|path| path.strip_prefix(directory)).unwrap_or_default();
        name.starts_with("/kube-controller-manager") && name.ends_with("+json.json")
    };
    let files = spec["files"].as_array().into_iter().flatten().filter(is_patch);
    files.filter_map(|file| serde_json::from_str::<Value>(file["content"].as_str()?).ok()).any(|steps| {
        let added = steps[0]["value"].as_str().filter(|_| steps[0]["path"] == "/spec/containers/0/command/-");
        added.is_some_and(|option| option.starts_with("--cluster-signing-cert-file="))
    })
}

impl Player {
    /// What a machine is made of that is made now, and why it will not become a node.
    pub(super) fn ingredients(&mut self, store: &Store, rollout: &Rollout<'_>) -> (Value, Option<String>) {
        let (namespace, cluster) = (&rollout.owner.namespace, rollout.cluster);
        let text = |part: &str| {
            let held = secret(store, namespace, &format!("{cluster}-{part}"));
            held.map(|secret| decoded(&secret["data"]["tls.crt"])).unwrap_or_default()
        };
        let plane = find(store, "KubeadmControlPlane", namespace, &format!("{cluster}-control-plane"));
        let masters: Vec<Value> =
            plane.iter().flat_map(|plane| machines_of(store, plane)).map(|machine| made_of(store, &machine)).collect();
        let told = self.told.entry((namespace.clone(), cluster.to_owned())).or_insert_with(|| {
            // kubeadm begins a cluster by it.
            certificates(&text("ca")).first().cloned().unwrap_or_default()
        });
        let nodes = certificates(told);
        let cannot_join = masters.iter().flat_map(|master| of(master, "ca").first().cloned()).any(|shown| !nodes.contains(&shown));
        let unknown = || "kubeadm join: certificate signed by unknown authority".to_owned();
        if rollout.owner.kind().kind != "KubeadmControlPlane" {
            let shown = masters.last().map(|master| of(master, "ca")).and_then(|all| all.first().cloned()).unwrap_or_default();
            let is_refused = !shown.is_empty() && masters.iter().any(|master| !of(master, "ca").contains(&shown));
            let fault = (cannot_join || is_refused).then(unknown);
            return (json!({"ca": told, "shown": shown}), fault);
        }
        let made: Value = PARTS.iter().map(|part| ((*part).to_owned(), Value::from(text(part)))).collect::<serde_json::Map<_, _>>().into();
        let spec = &rollout.object["spec"]["kubeadmConfigSpec"];
        let own = of(&made, "ca");
        let is_alone = masters.iter().all(|master| of(master, "ca").first() == own.first());
        let has_own_kubeconfigs = spec["joinConfiguration"]["skipPhases"].as_array().is_some_and(|all| all.iter().any(|p| p == KUBECONFIG));
        let fault = if own.len() > 1 && !signs_alone(spec) {
            Some(format!("kube-controller-manager: expected 1 certificate, found {}", own.len()))
        } else if cannot_join || (!is_alone && !has_own_kubeconfigs) {
            Some(unknown())
        } else {
            let is_strange = |part: &&&str| masters.iter().any(|master| !trust_each_other(&of(master, part), &of(&made, part)));
            PARTS.iter().find(is_strange).map(|part| format!("masters do not trust each other: {part}"))
        };
        (made, fault)
    }

    /// Whether the controllers can speak to all masters, and to etcd; they connect where they can.
    pub(super) fn reaches(&mut self, store: &Store, plane: &Key, cluster: &str) -> bool {
        let id = (plane.namespace.clone(), cluster.to_owned());
        if !self.held.contains_key(&id) {
            let Some(kubeconfig) = secret(store, &plane.namespace, &format!("{cluster}-kubeconfig")) else { return true };
            let kubeconfig: Value = serde_json::from_str(&decoded(&kubeconfig["data"]["value"])).unwrap_or_default();
            let authorities = certificates(&decoded(&kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"]));
            let etcd = secret(store, &plane.namespace, &format!("{cluster}-etcd"));
            let etcd = etcd.and_then(|etcd| certificates(&decoded(&etcd["data"]["tls.crt"])).first().cloned());
            self.held.insert(id.clone(), Held { authorities, etcd });
        }
        let Some(held) = self.held.get(&id) else { return true };
        machines_of(store, plane).iter().map(|machine| made_of(store, machine)).all(|master| {
            let is_trusted = of(&master, "ca").first().is_none_or(|shown| held.authorities.contains(shown));
            let (etcd, shown) = (of(&master, "etcd"), held.etcd.as_ref());
            is_trusted && (etcd.is_empty() || shown.is_none_or(|shown| etcd.contains(shown)))
        })
    }

    /// The kubeconfig of a cluster whose control plane is there; what there is stays as it is.
    pub(super) fn kubeconfig(store: &mut Store, plane: &Key, cluster: &str, now: Moment) {
        let name = format!("{cluster}-kubeconfig");
        if find(store, "Secret", &plane.namespace, &name).is_some() {
            return;
        }
        let Some(ca) = secret(store, &plane.namespace, &format!("{cluster}-ca")).map(|ca| decoded(&ca["data"]["tls.crt"])) else { return };
        let (Some(kind), Some(owner)) = (discovery::find("", "v1", "secrets"), store.get(plane).cloned()) else { return };
        let authority = BASE64_STANDARD.encode(certificates(&ca).first().cloned().unwrap_or_default());
        let user = format!("{cluster}-admin");
        let kubeconfig = json!({"apiVersion": "v1", "kind": "Config",
            "clusters": [{"name": cluster, "cluster": {"server": "https://203.0.113.1:6443", "certificate-authority-data": authority}}],
            "users": [{"name": user, "user": {"client-certificate-data": "", "client-key-data": ""}}]});
        let reference = json!({"apiVersion": plane.kind().api_version(), "kind": plane.kind().kind, "name": plane.name,
            "uid": owner["metadata"]["uid"], "controller": true});
        let object = json!({"type": "cluster.x-k8s.io/secret",
            "metadata": {"labels": {CLUSTER_NAME: cluster}, "ownerReferences": [reference]},
            "data": {"value": BASE64_STANDARD.encode(kubeconfig.to_string())}});
        store.insert(Key { kind, namespace: plane.namespace.clone(), name }, object, now);
    }

    /// Puts into a cluster what its resource sets say, and says so.
    pub(super) fn resource_set(&mut self, store: &mut Store, key: &Key, cluster: &str, now: Moment) {
        let Some(set) = store.get(key).cloned().filter(|_| !is_leaving(store, key)) else { return };
        let Some(name) = set["spec"]["resources"][0]["name"].as_str() else { return };
        let Some(source) = find(store, "Secret", &key.namespace, name) else { return };
        own(store, &source, Some(&set), "", "");
        let Some(data) = store.get(&source).map(|source| source["data"].clone()) else { return };
        let texts: BTreeMap<String, String> =
            data.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), decoded(value))).collect();
        let mut hash = Sha256::new();
        for text in texts.values() {
            hash.update(text.as_bytes());
        }
        let hash = format!("sha256:{}", hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        let resources = json!([{"kind": "Secret", "name": name, "hash": hash, "applied": true}]);
        let bindings = json!([{"clusterResourceSetName": key.name, "resources": resources}]);
        let binding = find(store, "ClusterResourceSetBinding", &key.namespace, cluster);
        if binding.as_ref().and_then(|binding| store.get(binding)).is_some_and(|binding| binding["spec"]["bindings"] == bindings) {
            return;
        }
        if self.trouble(key).is_some() || !self.waited(key, hash.as_str(), now) {
            return;
        }
        for text in texts.values() {
            let object: Value = serde_json::from_str(text).unwrap_or_default();
            if object["metadata"]["name"] == "cluster-info" {
                let kubeconfig: Value = serde_json::from_str(object["data"]["kubeconfig"].as_str().unwrap_or_default()).unwrap_or_default();
                let authorities = decoded(&kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"]);
                self.told.insert((key.namespace.clone(), cluster.to_owned()), authorities);
            }
        }
        if let Some(binding) = binding {
            change(store, &binding, &json!({"spec": {"bindings": bindings}}));
            return;
        }
        let Some(kind) = discovery::find("addons.cluster.x-k8s.io", "v1beta1", "clusterresourcesetbindings") else { return };
        let reference = json!({"apiVersion": set["apiVersion"], "kind": set["kind"], "name": key.name, "uid": set["metadata"]["uid"]});
        let object = json!({"metadata": {"ownerReferences": [reference]}, "spec": {"clusterName": cluster, "bindings": bindings}});
        store.insert(Key { kind, namespace: key.namespace.clone(), name: cluster.to_owned() }, object, now);
    }

    /// Brings deployments to their templates. A controller that begins anew has forgotten what it knew of clusters.
    pub(super) fn deployments(&mut self, store: &mut Store, now: Moment) {
        let all: Vec<Key> = store.of_kind("Deployment").map(|(key, _)| key.clone()).collect();
        for key in all {
            let Some(object) = store.get(&key).cloned() else { continue };
            let generation = &object["metadata"]["generation"];
            if object["status"]["observedGeneration"] == *generation || !self.waited(&key, format!("generation {generation}"), now) {
                continue;
            }
            let count = object["spec"]["replicas"].as_i64().unwrap_or(1);
            let status = json!({"observedGeneration": generation, "replicas": count, "updatedReplicas": count, "availableReplicas": count});
            report(store, &key, status);
            if key.name.ends_with("controller-manager") {
                self.held.clear();
                self.is_stale = true;
            }
        }
    }
}
