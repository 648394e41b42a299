//! The objects: versions, generations, finalizers, owner references.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque, hash_map::Entry},
    iter, mem,
};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use crate::{
    clock::{self, Moment},
    management::{
        apply::Owners,
        discovery::{self, KINDS, Kind},
        labels::{Fewest, Labels, is_selected},
    },
    state::dashed_id,
};

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    /// Index into [`KINDS`].
    pub(crate) kind: usize,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn kind(&self) -> &'static Kind {
        &KINDS[self.kind]
    }
}

/// Everything there is.
#[derive(Default)]
pub(crate) struct Store {
    objects: BTreeMap<Key, Value>,
    owners: HashMap<Key, Owners>,
    version: u64,
    /// What has happened, in order, for who watches; the oldest is forgotten.
    log: VecDeque<Happened>,
    /// The last version of what was forgotten.
    forgotten: u64,
    /// When the status of anything of a cluster last changed, by the cluster's name.
    moved: HashMap<String, Moment>,
    /// The objects that say which cluster they are of, by the cluster's name.
    members: HashMap<String, BTreeSet<Key>>,
    labels: Labels,
    changed: Changed,
}

/// What has changed since somebody last asked.
#[derive(Default)]
pub(crate) struct Changed {
    /// Clusters of which something has.
    pub(crate) clusters: BTreeSet<String>,
    /// Something that may be of any cluster.
    pub(crate) is_unknown: bool,
    /// Something is gone.
    pub(crate) is_less: bool,
}

/// Version, word of a watch, which object, and the object from then on (or as it was last).
type Happened = (u64, &'static str, Key, Value);

/// The label that says which cluster an object is of.
pub(crate) const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";

/// Changes that are remembered.
const REMEMBERED: usize = 10_000;

impl Store {
    /// The version of the whole.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Value> {
        self.objects.get(key)
    }

    /// The objects of a kind in a namespace, or in all.
    pub(crate) fn list<'a>(&'a self, kind: usize, namespace: Option<&str>) -> impl Iterator<Item = (&'a Key, &'a Value)> + use<'a> {
        let from = Key { kind, namespace: namespace.unwrap_or_default().to_owned(), name: String::new() };
        let namespace = namespace.map(str::to_owned);
        self.objects.range(from..).take_while(move |(key, _)| key.kind == kind && namespace.as_ref().is_none_or(|n| *n == key.namespace))
    }

    /// As [`Self::list`], those whose labels fit a selector of equalities.
    pub(crate) fn selected<'a>(
        &'a self,
        kind: usize,
        namespace: Option<&'a str>,
        selector: &'a str,
    ) -> Box<dyn Iterator<Item = (&'a Key, &'a Value)> + 'a> {
        let fits = move |(_, object): &(&Key, &Value)| is_selected(object, selector);
        match self.labels.fewest(selector) {
            Fewest::Any => Box::new(self.list(kind, namespace).filter(fits)),
            Fewest::None => Box::new(iter::empty()),
            Fewest::Of(keys) => {
                let from = Key { kind, namespace: namespace.unwrap_or_default().to_owned(), name: String::new() };
                let is_here = move |key: &&Key| key.kind == kind && namespace.is_none_or(|n| n == key.namespace);
                Box::new(keys.range(from..).take_while(is_here).filter_map(|key| self.objects.get_key_value(key)).filter(fits))
            }
        }
    }

    /// As [`Self::list`], by the kind's name.
    pub(crate) fn of_kind(&self, kind: &str) -> impl Iterator<Item = (&Key, &Value)> {
        discovery::named(kind).flat_map(move |at| self.list(at, None))
    }

    /// The objects of a kind whose name begins like this, in a namespace.
    pub(crate) fn named_like<'a>(
        &'a self,
        kind: usize,
        namespace: &str,
        start: &str,
    ) -> impl Iterator<Item = (&'a Key, &'a Value)> + use<'a> {
        let from = Key { kind, namespace: namespace.to_owned(), name: start.to_owned() };
        let (namespace, start) = (namespace.to_owned(), start.to_owned());
        self.objects
            .range(from..)
            .take_while(move |(key, _)| key.kind == kind && key.namespace == namespace && key.name.starts_with(&start))
    }

    /// When the status of anything of each cluster last changed.
    pub(crate) fn moved(&self) -> &HashMap<String, Moment> {
        &self.moved
    }

    /// The objects that say that they are of a cluster of this name, the cluster itself too.
    pub(crate) fn members(&self, cluster: &str) -> impl Iterator<Item = &Key> {
        self.members.get(cluster).into_iter().flatten()
    }

    /// The names of all clusters that any object says it is of.
    pub(crate) fn clusters(&self) -> impl Iterator<Item = &str> {
        self.members.keys().map(String::as_str)
    }

    /// What has changed since this was asked last.
    pub(crate) fn take_changed(&mut self) -> Changed {
        mem::take(&mut self.changed)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.objects.iter().map(|(key, object)| (key.kind().kind, object))
    }

    pub(crate) fn owners(&mut self, key: &Key) -> &mut Owners {
        self.owners.entry(key.clone()).or_default()
    }

    /// A watch may begin at this version and later.
    pub(crate) fn oldest(&self) -> u64 {
        self.forgotten
    }

    /// What has happened after a version.
    pub(crate) fn since(&self, version: u64) -> impl Iterator<Item = &Happened> {
        let from = self.log.partition_point(|(happened, ..)| *happened <= version);
        self.log.range(from..)
    }

    /// Forgets what has happened.
    pub(crate) fn compact(&mut self) {
        self.log.clear();
        // Nobody who was told all that there is has missed anything, and his version is the present one: what is older is not.
        self.forgotten = self.version;
    }

    fn remember(&mut self, what: &'static str, key: &Key, object: &Value) {
        self.note(key, object);
        self.log.push_back((self.version, what, key.clone(), object.clone()));
        if self.log.len() > REMEMBERED
            && let Some((version, ..)) = self.log.pop_front()
        {
            self.forgotten = version;
        }
    }

    /// Notes which clusters are to be looked at again.
    fn note(&mut self, key: &Key, object: &Value) {
        if let Some(cluster) = cluster_of(key, object) {
            self.changed.clusters.insert(cluster.to_owned());
            return;
        }
        // What Kubernetes itself has is nothing to the controllers.
        if key.kind().group.is_empty() {
            return;
        }
        // What a chart makes bears the cluster's name, and more.
        let ends = key.name.match_indices('-').map(|(at, _)| at).chain([key.name.len()]);
        let known: Vec<&str> = ends.map(|end| &key.name[..end]).filter(|start| self.members.contains_key(*start)).collect();
        self.changed.is_unknown |= known.is_empty();
        self.changed.clusters.extend(known.into_iter().map(str::to_owned));
    }

    /// Keeps the members of clusters as the objects are.
    fn file(&mut self, key: &Key, was: Option<&str>, is: Option<&str>) {
        if was == is {
            return;
        }
        if let Some(was) = was
            && let Entry::Occupied(mut members) = self.members.entry(was.to_owned())
        {
            members.get_mut().remove(key);
            if members.get().is_empty() {
                members.remove();
            }
        }
        if let Some(is) = is {
            self.members.entry(is.to_owned()).or_default().insert(key.clone());
        }
    }

    fn next(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    /// Adds an object that is not there.
    pub(crate) fn insert(&mut self, key: Key, mut object: Value, now: Moment) -> Value {
        let kind = key.kind();
        let version = self.next();
        object["apiVersion"] = kind.api_version().into();
        object["kind"] = kind.kind.into();
        if kind.has_status {
            remove(&mut object, "status");
        }
        tidy(&mut object);
        let metadata = &mut object["metadata"];
        metadata["name"] = key.name.clone().into();
        if kind.is_namespaced {
            metadata["namespace"] = key.namespace.clone().into();
        }
        metadata["uid"] = dashed_id().into();
        metadata["creationTimestamp"] = clock::whole(now).into();
        metadata["resourceVersion"] = version.into();
        metadata["generation"] = 1.into();
        remove(metadata, "deletionTimestamp");
        self.file(&key, None, cluster_of(&key, &object));
        self.labels.keep(&key, None, Some(&object));
        self.remember("ADDED", &key, &object);
        self.objects.insert(key, object.clone());
        object
    }

    /// Puts another state in the place of an object's: all but its status, or its status alone. What it is now; none when that was its end.
    pub(crate) fn replace(&mut self, key: &Key, mut object: Value, is_status: bool) -> Option<Value> {
        let old = self.objects.get(key)?.clone();
        tidy(&mut object);
        let mut new = if is_status {
            let mut new = old.clone();
            new["status"] = object["status"].take();
            new
        } else {
            if key.kind().has_status {
                match old.get("status") {
                    Some(status) => object["status"] = status.clone(),
                    None => remove(&mut object, "status"),
                }
            }
            object
        };
        for field in ["apiVersion", "kind"] {
            new[field] = old[field].clone();
        }
        for field in ["name", "namespace", "uid", "creationTimestamp", "generation", "resourceVersion", "deletionTimestamp"] {
            match old["metadata"].get(field) {
                Some(value) => new["metadata"][field] = value.clone(),
                None => remove(&mut new["metadata"], field),
            }
        }
        if new == old {
            return Some(old);
        }
        if spec_of(&new) != spec_of(&old) {
            new["metadata"]["generation"] = json!(old["metadata"]["generation"].as_i64().unwrap_or(0) + 1);
        }
        new["metadata"]["resourceVersion"] = self.next().into();
        if is_free(&new) && !new["metadata"]["deletionTimestamp"].is_null() {
            self.remove(key);
            return None;
        }
        if is_status {
            let cluster = cluster_of(key, &new).unwrap_or(&key.name).to_owned();
            self.moved.insert(cluster, clock::now());
        }
        self.file(key, cluster_of(key, &old), cluster_of(key, &new));
        self.labels.keep(key, Some(&old), Some(&new));
        self.remember("MODIFIED", key, &new);
        self.objects.insert(key.clone(), new.clone());
        Some(new)
    }

    /// Asks for an object's end: at once, or when its last finalizer is gone.
    pub(crate) fn delete(&mut self, key: &Key, now: Moment) -> Option<Value> {
        let mut object = self.objects.get(key)?.clone();
        if is_free(&object) {
            self.remove(key);
            return Some(object);
        }
        if object["metadata"]["deletionTimestamp"].is_null() {
            object["metadata"]["deletionTimestamp"] = clock::whole(now).into();
            object["metadata"]["generation"] = json!(object["metadata"]["generation"].as_i64().unwrap_or(0) + 1);
            object["metadata"]["resourceVersion"] = self.next().into();
            self.remember("MODIFIED", key, &object);
            self.objects.insert(key.clone(), object.clone());
        }
        Some(object)
    }

    /// It is gone, and so is what has no other owner.
    fn remove(&mut self, key: &Key) {
        let Some(mut object) = self.objects.remove(key) else { return };
        self.owners.remove(key);
        self.changed.is_less = true;
        self.file(key, cluster_of(key, &object), None);
        self.labels.keep(key, Some(&object), None);
        object["metadata"]["resourceVersion"] = self.next().into();
        self.remember("DELETED", key, &object);
        let uid = object["metadata"]["uid"].clone();
        let is_only = |other: &Value| {
            let owners = other["metadata"]["ownerReferences"].as_array();
            owners.is_some_and(|owners| !owners.is_empty() && owners.iter().all(|owner| owner["uid"] == uid))
        };
        let orphans: Vec<Key> = self.objects.iter().filter(|(_, other)| is_only(other)).map(|(key, _)| key.clone()).collect();
        for orphan in orphans {
            self.delete(&orphan, clock::now());
        }
    }
}

/// The cluster that an object says it is of.
fn cluster_of<'a>(key: &'a Key, object: &'a Value) -> Option<&'a str> {
    let named = object["spec"]["clusterName"].as_str().or(object["metadata"]["labels"][CLUSTER_NAME].as_str());
    named.or_else(|| (key.kind().kind == "Cluster").then_some(key.name.as_str()))
}

/// All that counts for the generation.
fn spec_of(object: &Value) -> Map<String, Value> {
    let mut map = object.as_object().cloned().unwrap_or_default();
    map.shift_remove("metadata");
    map.shift_remove("status");
    map
}

fn is_free(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty)
}

fn remove(object: &mut Value, field: &str) {
    if let Value::Object(map) = object {
        map.shift_remove(field);
    }
}

/// What a server does to a document before it stores it: secrets hold base64 only, and nothing is null.
pub(crate) fn tidy(object: &mut Value) {
    if let Some(Value::Object(plain)) = object.get_mut("stringData").map(Value::take) {
        for (name, text) in plain {
            if let Some(text) = text.as_str() {
                object["data"][name] = BASE64_STANDARD.encode(text).into();
            }
        }
        remove(object, "stringData");
    }
    fn without_null(value: &mut Value) {
        if let Value::Object(map) = value {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(without_null);
        }
    }
    without_null(object);
}
