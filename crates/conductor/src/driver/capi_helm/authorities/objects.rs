//! What a rotation of authorities writes: additions to the chart's document, objects that carry the word to nodes, a kubeconfig. Pure.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use model::capi::derived;
use model::certificate::Phase;
use model::cluster::Cluster;
use provider_clients::KubeKind;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::certificates::Pair;
use crate::driver::capi_helm::objects::{Place, secret, secrets_of};
use crate::driver::capi_helm::seen::RELEASE;

/// The name of what carries the word, after the release's.
pub(super) const PART: &str = "authorities";
/// Tells it from the cluster's other secrets.
const FOR: &str = "magnum.openstack.org/for";

/// A file of each node that a pass makes: nodes without it, or with another one, are not of the pass.
const MARKER: &str = "/etc/kubernetes/authorities";
/// The certificate of the authority that signs, alone: the controller manager refuses a file with another beside it.
const SIGNING: &str = "/etc/kubernetes/pki/signing-ca.crt";
/// Where kubeadm looks for patches of what it makes: the chart's own are in the same directory, for there can be but one.
const PATCHES: &str = "/etc/kubernetes/patches";
/// That of the controller manager. Its name says to kubeadm what it is for, and of which kind it is.
const PATCH: &str = "/etc/kubernetes/patches/kube-controller-manager0+json.json";
const SCRIPT: &str = "/etc/kubernetes/join-among-authorities.sh";
const JOIN: &str = include_str!("join-among-authorities.sh");

const END: &str = "-----END CERTIFICATE-----";

/// The first certificate of a bundle.
pub(super) fn first(bundle: &str) -> &str {
    bundle.find(END).map_or(bundle, |at| &bundle[..at + END.len()])
}

/// Whether two texts are one certificate.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    words(one) == words(other)
}

pub(super) fn encoded(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}

/// What the chart's document says more in a phase. Whoever is to be made anew has another configuration than before; in the last phase, and
/// afterwards, nobody has one that is out of the ordinary.
pub(super) fn document(generation: &str, phase: Phase) -> Option<Value> {
    let mark = |step: Phase| file(MARKER, &format!("{generation}-{}\n", step.as_str()), "0644");
    let masters = |step: Phase| {
        let patches = json!({"patches": {"directory": PATCHES}});
        json!({
            "initConfiguration": patches,
            "joinConfiguration": patches,
            "files": [mark(step), file(PATCH, &signing_patch(), "0644")],
            "preKubeadmCommands": [format!("sed '/END CERTIFICATE/q' /etc/kubernetes/pki/ca.crt > {SIGNING}")],
        })
    };
    let signed = || {
        let mut spec = masters(Phase::Sign);
        spec["joinConfiguration"]["skipPhases"] = json!(["control-plane-prepare/kubeconfig"]);
        spec["files"] = json!([mark(Phase::Sign), spec["files"][1], file(SCRIPT, JOIN, "0700")]);
        spec["preKubeadmCommands"] = json!([spec["preKubeadmCommands"][0], format!("bash {SCRIPT}")]);
        spec
    };
    let masters = match phase {
        Phase::Trust | Phase::Spread => masters(Phase::Trust),
        Phase::Sign | Phase::Leave => signed(),
        Phase::Retire => return None,
    };
    let mut document = json!({"controlPlane": {"kubeadmConfigSpec": masters}});
    if matches!(phase, Phase::Spread | Phase::Sign) {
        document["nodeGroupDefaults"] = json!({"kubeadmConfigSpec": {"files": [mark(Phase::Trust)]}});
    }
    Some(document)
}

/// Has the controller manager sign with a file of its own. Not by `extraArgs`: these are a map in Cluster API's v1beta1 and a list in v1beta2, and
/// which of both a chart writes cannot be told from here; patches are the same in both. kubeadm names the option as well: the last one counts.
fn signing_patch() -> String {
    let value = format!("--cluster-signing-cert-file={SIGNING}");
    json!([{"op": "add", "path": "/spec/containers/0/command/-", "value": value}]).to_string()
}

fn file(path: &str, content: &str, permissions: &str) -> Value {
    json!({"path": path, "content": content, "owner": "root:root", "permissions": permissions})
}

/// What is to be in the cluster, by keys whose order is that of the hash.
pub(super) fn contents(server: &str, authorities: &str, forgets: bool) -> BTreeMap<&'static str, String> {
    let map = |namespace: &str, name: &str, data: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": name}, "data": data}).to_string()
    };
    // JSON is YAML as well. Tokens' signatures of the text are added where they are missing.
    let cluster = json!({"server": server, "certificate-authority-data": encoded(&format!("{}\n", authorities.trim_end()))});
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "", "cluster": cluster}], "contexts": [],
        "current-context": "", "preferences": {}, "users": []});
    let mut all = BTreeMap::from([("1-nodes.json", map("kube-public", "cluster-info", json!({"kubeconfig": kubeconfig.to_string()})))]);
    if forgets {
        all.insert("2-extensions.json", map("kube-system", "extension-apiserver-authentication", json!({})));
    }
    all
}

/// As Cluster API computes it.
pub(super) fn hash(contents: &BTreeMap<&'static str, String>) -> String {
    let mut hash = Sha256::new();
    for text in contents.values() {
        hash.update(text.as_bytes());
    }
    format!("sha256:{}", hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// The selector of what carries the word.
pub(super) fn labels_of_resources(cluster: &Cluster) -> String {
    format!("{},{FOR}={PART}", secrets_of(cluster))
}

/// The secret with what is to be in the cluster. It bears the cluster's labels, by which it is moved and deleted with it. Its texts come as `data`:
/// what comes as `stringData` stays there when it is applied no more, and Cluster API would go on with it.
pub(super) fn resources(place: &Place<'_>, contents: &BTreeMap<&'static str, String>) -> Value {
    let mut made = secret(place, PART, "addons.cluster.x-k8s.io/resource-set", Value::Null);
    if let Some(fields) = made.as_object_mut() {
        fields.remove("stringData");
        let data = contents.iter().map(|(name, text)| ((*name).to_owned(), Value::from(encoded(text)))).collect();
        fields.insert("data".to_owned(), Value::Object(data));
    }
    made["metadata"]["labels"][FOR] = PART.into();
    made
}

/// Has Cluster API put it there, and again when it changes. It goes with the cluster.
pub(super) fn resource_set(place: &Place<'_>, kind: &KubeKind, cluster: &Value) -> Value {
    let mut metadata = resources(place, &BTreeMap::new())["metadata"].take();
    let of = |field: &str| cluster["metadata"][field].clone();
    metadata["ownerReferences"] =
        json!([{"apiVersion": cluster["apiVersion"], "kind": cluster["kind"], "name": of("name"), "uid": of("uid")}]);
    json!({
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": metadata,
        "spec": {
            "strategy": "Reconcile",
            "clusterSelector": {"matchLabels": {RELEASE: place.release}},
            "resources": [{"kind": "Secret", "name": derived(place.release, PART)}],
        },
    })
}

/// Whether Cluster API says that it has put this into the cluster.
pub(super) fn is_applied(binding: &Value, name: &str, hash: &str) -> bool {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let ours = list(&binding["spec"]["bindings"]).into_iter().filter(|set| set["clusterResourceSetName"] == name);
    ours.flat_map(|set| list(&set["resources"])).any(|one| one["name"] == name && one["applied"] == true && one["hash"] == hash)
}

/// A kubeconfig that trusts these authorities and shows this certificate, and whether it is another than before; none where the text is no
/// kubeconfig.
pub(super) fn trusting(text: &str, authorities: &str, client: &Pair) -> Option<(String, bool)> {
    let mut config: Value = serde_saphyr::from_str(text).ok()?;
    let before = config.clone();
    for cluster in config.get_mut("clusters")?.as_array_mut()? {
        let cluster = cluster.get_mut("cluster")?.as_object_mut()?;
        cluster.insert("certificate-authority-data".to_owned(), encoded(authorities).into());
    }
    for user in config.get_mut("users")?.as_array_mut()? {
        let identity =
            json!({"client-certificate-data": encoded(&client.certificate), "client-key-data": encoded(client.key.expose_secret())});
        user.as_object_mut()?.insert("user".to_owned(), identity);
    }
    let is_another = config != before;
    Some((config.to_string(), is_another))
}
