use super::objects::*;
use super::*;
use crate::certificates::Pair;
use crate::driver::capi_helm::tests::cluster;

const CERTIFICATES: &str =
    "-----BEGIN CERTIFICATE-----\nMQ==\n-----END CERTIFICATE-----\n-----BEGIN CERTIFICATE-----\nMg==\n-----END CERTIFICATE-----";

fn marker(document: &Option<Value>, of: &str) -> Value {
    document.as_ref().map_or(Value::Null, |d| d[of]["kubeadmConfigSpec"]["files"][0]["content"].clone())
}

/// Each pass makes those anew that it is about and nobody else, and the last one leaves nothing behind.
#[test]
fn in_each_phase_some_are_configured_otherwise_than_before() {
    let phases = [Phase::Trust, Phase::Spread, Phase::Sign, Phase::Leave, Phase::Retire];
    let documents: Vec<Option<Value>> = std::iter::once(None).chain(phases.map(|phase| document("g", phase))).collect();
    let changes = |of: &str| documents.windows(2).map(|two| marker(&two[0], of) != marker(&two[1], of)).collect::<Vec<_>>();
    assert_eq!(changes("controlPlane"), [true, false, true, false, true]);
    assert_eq!(changes("nodeGroupDefaults"), [false, true, false, true, false]);
    assert_eq!(documents.last(), Some(&None));
}

/// kubeadm refuses kubeconfigs of more than it would make itself, and masters of two authorities need such.
#[test]
fn a_master_among_others_makes_its_kubeconfigs_before_kubeadm_would() {
    let of = |phase| document("g", phase).expect("a document")["controlPlane"]["kubeadmConfigSpec"].take();
    let (trust, sign) = (of(Phase::Trust), of(Phase::Sign));
    assert!(trust["joinConfiguration"]["skipPhases"].is_null() && trust["preKubeadmCommands"].as_array().is_some_and(|all| all.len() == 1));
    assert_eq!(sign["joinConfiguration"]["skipPhases"], json!(["control-plane-prepare/kubeconfig"]));
    assert_eq!(sign["preKubeadmCommands"][0], trust["preKubeadmCommands"][0]);
    let script = sign["files"][2]["path"].as_str().expect("a path");
    assert_eq!(sign["preKubeadmCommands"][1], format!("bash {script}"));
    // Cluster API has cloud-init fill in names of the machine.
    let text = sign["files"][2]["content"].as_str().expect("a script");
    assert!(["{{", "{%", "{#"].iter().all(|word| !text.contains(word)), "{text}");
}

/// `extraArgs` are a map in one version of Cluster API and a list in the other; what is said here is read alike by both.
#[test]
fn the_controller_manager_signs_with_a_certificate_that_stands_alone_in_whichever_version_the_chart_writes() {
    for phase in [Phase::Trust, Phase::Spread, Phase::Sign, Phase::Leave] {
        let spec = document("g", phase).expect("a document")["controlPlane"]["kubeadmConfigSpec"].take();
        assert!(!spec.to_string().contains("extraArgs") && spec["clusterConfiguration"].is_null(), "{spec}");
        let patch = &spec["files"][1];
        let (directory, name) = patch["path"].as_str().and_then(|path| path.rsplit_once('/')).expect("a path");
        // kubeadm reads the target before the first sign that is none of a name, the kind after the `+`.
        assert!(name.starts_with("kube-controller-manager") && name.ends_with("+json.json"), "{name}");
        for of in ["initConfiguration", "joinConfiguration"] {
            assert_eq!(spec[of]["patches"]["directory"], directory, "{of}");
        }
        let steps: Value = serde_json::from_str(patch["content"].as_str().expect("a patch")).expect("JSON");
        assert_eq!((&steps[0]["op"], &steps[0]["path"]), (&json!("add"), &json!("/spec/containers/0/command/-")));
        let signing = steps[0]["value"].as_str().and_then(|value| value.strip_prefix("--cluster-signing-cert-file=")).expect("the option");
        assert!(spec["preKubeadmCommands"][0].as_str().is_some_and(|command| command.ends_with(signing)));
    }
}

#[test]
fn what_cluster_api_says_of_other_words_counts_for_nothing() {
    let contents = contents("https://192.0.2.7:6443", CERTIFICATES, false);
    let hash = hash(&contents);
    let cluster = cluster();
    let place = Place { namespace: "magnum-p", release: "blue-x", cluster: &cluster, user_id: "u" };
    let made = resources(&place, &contents);
    assert_eq!(
        (made["metadata"]["name"].as_str(), made["type"].as_str()),
        (Some("blue-x-authorities"), Some("addons.cluster.x-k8s.io/resource-set"))
    );
    // By the first Cluster API moves it with the cluster, by the second the driver deletes it with the cluster.
    let labels = &made["metadata"]["labels"];
    assert_eq!(
        (&labels["cluster.x-k8s.io/cluster-name"], &labels["magnum.openstack.org/cluster-uuid"]),
        (&json!("blue-x"), &json!(cluster.uuid))
    );
    assert!(made["stringData"].is_null() && made["data"]["1-nodes.json"] == encoded(&contents["1-nodes.json"]), "{made}");
    let binding = |of: &str, is_applied: bool| {
        let resources = json!([{"kind": "Secret", "name": "blue-x-authorities", "hash": of, "applied": is_applied}]);
        json!({"spec": {"bindings": [{"clusterResourceSetName": "blue-x-authorities", "resources": resources}]}})
    };
    assert!(is_applied(&binding(&hash, true), "blue-x-authorities", &hash));
    assert!(!is_applied(&binding(&hash, false), "blue-x-authorities", &hash));
    let others = objects::hash(&objects::contents("https://192.0.2.7:6443", first(CERTIFICATES), false));
    assert!(!is_applied(&binding(&others, true), "blue-x-authorities", &hash));
    assert!(!is_applied(&Value::Null, "blue-x-authorities", &hash));
    // Told once more with what extensions are to forget.
    assert_ne!(objects::hash(&objects::contents("https://192.0.2.7:6443", CERTIFICATES, true)), hash);
    let node: Value = serde_json::from_str(&contents["1-nodes.json"]).expect("JSON");
    let kubeconfig: Value = serde_json::from_str(node["data"]["kubeconfig"].as_str().expect("text")).expect("JSON");
    // Where it has no name kubeadm takes it for its own.
    assert_eq!((kubeconfig["clusters"][0]["name"].as_str(), node["metadata"]["name"].as_str()), (Some(""), Some("cluster-info")));
    let kind = KubeKind::new("addons.cluster.x-k8s.io/v1beta1", "ClusterResourceSet", "clusterresourcesets");
    let of = json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "metadata": {"name": "blue-x", "uid": "1"}});
    let set = resource_set(&place, &kind, &of);
    assert_eq!(set["metadata"]["ownerReferences"][0]["uid"], "1");
    assert_eq!(set["spec"]["resources"][0]["name"], made["metadata"]["name"]);
}

#[test]
fn a_kubeconfig_keeps_its_names_and_is_written_once() {
    let text = "apiVersion: v1\nkind: Config\nclusters:\n- name: blue-x\n  cluster:\n    server: https://192.0.2.7:6443\n    \
                certificate-authority-data: b2xk\nusers:\n- name: blue-x-admin\n  user:\n    client-certificate-data: b2xk\n    \
                client-key-data: b2xk\n";
    let client = Pair { certificate: "CERT".into(), key: "KEY".into() };
    let (new, is_another) = trusting(text, CERTIFICATES, &client).expect("a kubeconfig");
    assert!(is_another);
    let read: Value = serde_json::from_str(&new).expect("JSON");
    assert_eq!((read["clusters"][0]["name"].as_str(), read["users"][0]["name"].as_str()), (Some("blue-x"), Some("blue-x-admin")));
    assert_eq!(read["clusters"][0]["cluster"]["server"], "https://192.0.2.7:6443");
    assert_eq!(read["clusters"][0]["cluster"]["certificate-authority-data"], encoded(CERTIFICATES));
    assert_eq!(trusting(&new, CERTIFICATES, &client), Some((new.clone(), false)));
    assert!(trusting("words", CERTIFICATES, &client).is_none() && trusting("", CERTIFICATES, &client).is_none());
}

#[test]
fn certificates_are_told_from_each_other_whatever_stands_between_them() {
    assert!(first(CERTIFICATES).ends_with("-----END CERTIFICATE-----") && first(CERTIFICATES).contains("MQ==") && first("no") == "no");
    assert!(is_same("a\n b ", "a b") && !is_same("a", "b"));
}
