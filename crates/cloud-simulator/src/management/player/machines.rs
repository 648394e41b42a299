//! Machines: made, replaced and removed one at a time, for a control plane and for deployments alike.

use serde_json::{Value, json};

use super::{
    CLUSTER, DELETE_FIRST, Player, TEMPLATE,
    authorities::{AUTHORITIES, FAULT},
    objects::{change, is_leaving, machines_of, report},
};
use crate::{
    clock::Moment,
    management::{
        Trouble,
        apply::merge,
        discovery,
        store::{CLUSTER_NAME, Key, Store},
    },
    state::seeded,
};

/// Machines of an owner, as they are to be.
pub(super) struct Rollout<'a> {
    pub(super) owner: &'a Key,
    pub(super) object: &'a Value,
    pub(super) wanted: i64,
    /// Workers wait for the control plane.
    pub(super) may_move: bool,
    pub(super) version: &'a str,
    pub(super) template: String,
    pub(super) labels: Value,
    pub(super) cluster: &'a str,
}

/// How many machines there are: in all, of the present template, ready.
pub(super) struct Counts {
    pub(super) all: i64,
    pub(super) updated: i64,
    pub(super) ready: i64,
    pub(super) is_done: bool,
}

impl Player {
    /// Moves machines one step towards what is wanted.
    pub(super) fn roll(&mut self, store: &mut Store, rollout: &Rollout<'_>, now: Moment) -> Counts {
        let Rollout { owner, wanted, .. } = *rollout;
        let template = format!("{}@{}", rollout.template, rollout.version);
        let all: Vec<Key> = machines_of(store, owner).into_iter().filter(|m| !is_leaving(store, m)).collect();
        let is_new = |m: &Key| store.get(m).is_some_and(|o| o["metadata"]["annotations"][TEMPLATE] == template.as_str());
        let (new, old): (Vec<Key>, Vec<Key>) = all.iter().cloned().partition(is_new);
        let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let phase = |m: &Key| store.get(m).map(|o| o["status"]["phase"].clone()).unwrap_or_default();
        let ready = count(all.iter().filter(|m| phase(m) == "Running").count());
        let new_ready = count(new.iter().filter(|m| phase(m) == "Running").count());
        let is_done = count(new.len()) == wanted && old.is_empty() && new_ready == wanted;
        let what = format!("roll {} {} {wanted} {template}", new.len(), old.len());
        if rollout.may_move && (count(new.len()) != wanted || !old.is_empty()) && self.waited(owner, what, now) {
            if count(new.len()) < wanted {
                self.make_machine(store, rollout, &template, now);
            }
            let is_marked = |m: &&Key| store.get(m).is_some_and(|o| !o["metadata"]["annotations"][DELETE_FIRST].is_null());
            let surplus = if count(new.len()) > wanted { new.iter().find(is_marked).or(new.last()) } else { None };
            if let Some(machine) = old.first().or(surplus).cloned() {
                store.delete(&machine, now);
            }
        }
        Counts { all: count(all.len()), updated: count(new.len()), ready, is_done }
    }

    fn make_machine(&mut self, store: &mut Store, rollout: &Rollout<'_>, template: &str, now: Moment) {
        self.machines += 1;
        let owner = rollout.owner;
        let name = format!("{}-{:05x}", owner.name, self.machines);
        let Some(kind) = discovery::find(CLUSTER, "v1beta1", "machines") else { return };
        let key = Key { kind, namespace: owner.namespace.clone(), name: name.clone() };
        let mut labels = rollout.labels.clone();
        merge(&mut labels, &json!({CLUSTER_NAME: rollout.cluster}));
        let reference = json!({"apiVersion": owner.kind().api_version(), "kind": owner.kind().kind, "name": owner.name,
            "uid": rollout.object["metadata"]["uid"], "controller": true});
        let (made_of, fault) = self.ingredients(store, rollout);
        let annotations = json!({TEMPLATE: template, AUTHORITIES: made_of.to_string(), FAULT: fault});
        let machine = json!({
            "metadata": {"labels": labels, "annotations": annotations, "finalizers": ["machine.cluster.x-k8s.io"],
                "ownerReferences": [reference]},
            "spec": {"clusterName": rollout.cluster, "version": rollout.version,
                "providerID": format!("openstack:///{}", seeded("machine", &name))},
        });
        store.insert(key, machine, now);
    }

    pub(super) fn machine(&mut self, store: &mut Store, key: &Key, now: Moment) {
        let trouble = self.trouble(key).cloned();
        if is_leaving(store, key) {
            if trouble != Some(Trouble::Keep) && self.waited(key, "leaving", now) {
                change(store, key, &json!({"metadata": {"finalizers": null}}));
            }
            return;
        }
        let fault = store.get(key).and_then(|o| o["metadata"]["annotations"][FAULT].as_str().map(str::to_owned));
        match trouble.or(fault.map(Trouble::Fail)) {
            Some(Trouble::Stall) => {}
            Some(Trouble::Fail(message)) => {
                let conditions = json!([{"type": "InfrastructureReady", "status": "False", "message": message}]);
                report(store, key, json!({"phase": "Provisioning", "conditions": conditions}));
            }
            Some(Trouble::Keep) | None if self.waited(key, "boot", now) => {
                let bytes = seeded("address", &key.name);
                let [a, b, ..] = bytes.as_bytes();
                let addresses = json!([{"type": "InternalIP", "address": format!("10.0.{a}.{b}")}]);
                let status =
                    json!({"phase": "Running", "addresses": addresses, "nodeRef": {"kind": "Node", "name": key.name}, "conditions": []});
                report(store, key, status);
            }
            Some(Trouble::Keep) | None => report(store, key, json!({"phase": "Provisioning"})),
        }
    }
}

pub(super) fn status_of(object: &Value, counts: &Counts) -> Value {
    json!({
        "observedGeneration": object["metadata"]["generation"],
        "replicas": counts.all,
        "updatedReplicas": counts.updated,
        "readyReplicas": counts.ready,
    })
}
