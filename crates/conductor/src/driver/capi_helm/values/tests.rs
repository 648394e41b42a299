//! The documents that upstream's driver was seen to send.

use std::collections::{BTreeMap, HashMap};

use model::json::Labels;
use model::nodegroup::{Nodes, Taint};
use serde_json::{Value, json};

use super::*;
use crate::driver::capi_helm::tests::{cluster, group, settings, template};

const RELEASE: &str = "my-cluster-1-pwh4u2hzpwnw";
const EXTERNAL: &str = "952f9e45-2d65-4f36-852a-4267d5679813";
const IMAGE: &str = "11111111-1111-1111-1111-111111111111";

fn found() -> Found {
    Found {
        image_id: IMAGE.into(),
        kube_version: kube_version("v1.33.4"),
        os_distro: "ubuntu".into(),
        external_network_id: Some(EXTERNAL.into()),
        volume_types: vec!["lvmdriver-1".into(), "SSD Fast".into()],
        auth_url: "https://keystone.example/v3".into(),
        project_id: "p".into(),
        ..Found::default()
    }
}

/// The document of a cluster with these labels.
fn document(labels: &[(&str, &str)], nodes: &HashMap<String, Nodes>, chart: &str) -> Result<Value, String> {
    document_after(&HashMap::new(), labels, nodes, chart)
}

/// Of one for which such sizes were asked for last.
fn document_after(
    asked_last: &HashMap<String, i64>,
    labels: &[(&str, &str)],
    nodes: &HashMap<String, Nodes>,
    chart: &str,
) -> Result<Value, String> {
    let settings = CapiSettings { default_volume_type: Some("lvmdriver-1".into()), chart_version: chart.into(), ..settings() };
    let labels = Labels(labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect());
    let template = ClusterTemplate {
        network_driver: Some("calico".into()),
        dns_nameserver: Some("8.8.8.8,8.8.4.4".into()),
        image_id: Some(IMAGE.into()),
        ..template()
    };
    let groups = [group("default-master", "master", 1, true), group("default-worker", "worker", 2, true)];
    let choices = Choices::new(template.labels(), labels, &settings.labels);
    values(&Input {
        settings: &settings,
        cluster: &cluster(),
        template: &template,
        groups: &groups,
        asked_last,
        nodes,
        release: RELEASE,
        found: &found(),
        choices: &choices,
        default_boot_volume_type: None,
        default_boot_volume_size: 0,
        authorities: None,
    })
}

fn class(name: &str, kind: &str) -> Value {
    json!({"name": name, "volumeType": kind, "enabled": true, "reclaimPolicy": "Retain", "allowVolumeExpansion": true,
        "availabilityZone": "nova", "volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": [], "fstype": "ext4"})
}

#[test]
fn a_cluster_with_defaults_has_upstreams_document() {
    let wanted = json!({
        "kubernetesVersion": "1.33.4",
        "machineImageId": IMAGE,
        "machineSSHKeyName": null,
        "cloudCredentialsSecretName": "my-cluster-1-pwh4u2hzpwnw-cloud-credentials",
        "etcd": {},
        "apiServer": {"associateFloatingIP": true, "enableLoadBalancer": true, "loadBalancerProvider": "amphora"},
        "clusterNetworking": {
            "dnsNameservers": ["8.8.8.8", "8.8.4.4"],
            "externalNetworkId": EXTERNAL,
            "internalNetwork": {"networkFilter": null, "subnetFilter": null, "nodeCidr": "10.0.0.0/24"}},
        "osDistro": "ubuntu",
        "controlPlane": {"machineFlavor": "m1.medium", "machineCount": 1, "healthCheck": {"enabled": true}},
        "nodeGroupDefaults": {"healthCheck": {"enabled": true}},
        "nodeGroups": [{"name": "default-worker", "machineFlavor": "m1.medium", "machineCount": 2}],
        "addons": {
            "cni": {"type": "calico"},
            "openstack": {
                "csiCinder": {
                    "defaultStorageClass": class("lvmdriver-1", "lvmdriver-1"),
                    "additionalStorageClasses": [class("ssd-fast", "SSD Fast")]},
                "cloudConfig": {"LoadBalancer": {"lb-provider": "amphora", "lb-method": "ROUND_ROBIN", "create-monitor": true}}},
            "monitoring": {"enabled": false},
            "kubernetesDashboard": {"enabled": true},
            "ingress": {"enabled": false}}});
    assert_eq!(document(&[], &HashMap::new(), "0.10.1"), Ok(wanted));
}

#[test]
fn labels_change_it_as_upstream_does() {
    let labels = [
        ("auto_scaling_enabled", "true"),
        ("min_node_count", "1"),
        ("max_node_count", "5"),
        ("keystone_auth_enabled", "true"),
        ("api_master_lb_allowed_cidrs", "10.0.0.0/8, 192.0.2.0/24"),
        ("boot_volume_size", "40"),
        ("boot_volume_type", "SSD Fast"),
        ("extra_network_names", "net-a net_b"),
        ("etcd_blockdevice_size", "20"),
        ("octavia_provider", "ovn"),
    ];
    let document = document(&labels, &HashMap::new(), "0.10.1").expect("a document");
    let volume = json!({"diskSize": 40, "volumeType": "SSD Fast"});
    let wanted = [
        ("/etcd", json!({"blockDevice": {"size": 20, "type": "Volume"}})),
        ("/authWebhook", json!("k8s-keystone-auth")),
        (
            "/apiServer",
            json!({"allowedCidrs": ["10.0.0.0/8", "192.0.2.0/24"], "associateFloatingIP": true, "enableLoadBalancer": true,
                "loadBalancerProvider": "ovn"}),
        ),
        (
            "/controlPlane",
            json!({"healthCheck": {"enabled": true}, "machineCount": 1, "machineFlavor": "m1.medium", "machineRootVolume": volume}),
        ),
        (
            "/nodeGroupDefaults",
            json!({"healthCheck": {"enabled": true}, "machineRootVolume": volume, "machineNetworking": {"ports": [
                {}, {"network": {"name": "net-a"}, "securityGroups": []}, {"network": {"name": "net_b"}, "securityGroups": []}]}}),
        ),
        (
            "/nodeGroups",
            json!([{"name": "default-worker", "machineFlavor": "m1.medium", "machineCount": 2, "autoscale": "true",
                "machineCountMin": 1, "machineCountMax": 5}]),
        ),
        (
            "/addons/openstack/k8sKeystoneAuth",
            json!({"enabled": true, "values": {"openstackAuthUrl": "https://keystone.example/v3", "projectId": "p"}}),
        ),
        (
            "/addons/openstack/cloudConfig",
            json!({"LoadBalancer": {"lb-provider": "ovn", "lb-method": "SOURCE_IP_PORT", "create-monitor": true}}),
        ),
    ];
    for (at, value) in wanted {
        assert_eq!(document.pointer(at), Some(&value), "{at}");
    }
}

#[test]
fn a_scaled_group_keeps_the_lower_bound_that_was_asked_for_last() {
    let labels = [("auto_scaling_enabled", "true"), ("max_node_count", "5")];
    let bounds = |asked_last: &HashMap<String, i64>| {
        let document = document_after(asked_last, &labels, &HashMap::new(), "0.10.1").expect("a document");
        let group = &document["nodeGroups"][0];
        (group["machineCountMin"].clone(), group["machineCountMax"].clone())
    };
    assert_eq!(bounds(&HashMap::new()), (json!(2), json!(5)));
    assert_eq!(bounds(&HashMap::from([("uuid-of-default-worker".to_owned(), 1)])), (json!(1), json!(5)));
    assert_eq!(bounds(&HashMap::from([("uuid-of-another".to_owned(), 1)])), (json!(2), json!(5)));
}

#[test]
fn networks_that_may_reach_the_api_go_to_the_key_that_the_chart_reads_or_are_refused() {
    let label = [("api_master_lb_allowed_cidrs", "10.0.0.0/8")];
    let at = |chart: &str| document(&label, &HashMap::new(), chart);
    assert_eq!(at("0.27.0").expect("good")["apiServer"]["allowedCIDRs"], json!(["10.0.0.0/8"]));
    assert_eq!(at("1.0.0").expect("good")["apiServer"]["allowedCIDRs"], json!(["10.0.0.0/8"]));
    for chart in ["0.11.0", "0.23.0"] {
        assert!(at(chart).is_err_and(|text| text.contains("api_master_lb_allowed_cidrs") && text.contains(chart)), "{chart}");
    }
    assert!(document(&[], &HashMap::new(), "0.23.0").is_ok());
}

#[test]
fn labels_and_taints_of_a_groups_nodes_are_in_it() {
    let taint = Taint { key: "k".into(), value: Some("v".into()), effect: "NoSchedule".into() };
    let labels = Labels([("a".to_owned(), "b".to_owned())].into_iter().collect());
    let nodes = HashMap::from([("uuid-of-default-worker".to_owned(), Nodes { labels, taints: vec![taint] })]);
    let document = document(&[], &nodes, "0.10.1").expect("a document");
    assert_eq!(document["nodeGroups"][0]["nodeLabels"], json!({"a": "b"}));
    let taints = &document["nodeGroups"][0]["kubeadmConfigSpec"]["joinConfiguration"]["nodeRegistration"]["taints"];
    assert_eq!(*taints, json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]));
}

#[test]
fn storage_classes_have_names_of_their_own_and_an_unknown_default_is_named() {
    let defaults = BTreeMap::new();
    let choices = Choices::new(Labels::default(), Labels::default(), &defaults);
    let types = ["SSD Fast", "ssd-fast"].map(str::to_owned);
    let classes = storage_classes(&settings(), &choices, &types).expect("classes");
    assert_eq!(classes["defaultStorageClass"]["name"], "ssd-fast");
    let other = classes["additionalStorageClasses"][0]["name"].as_str().expect("a name").to_owned();
    assert!(other.starts_with("ssd-fast-") && other.len() == "ssd-fast-".len() + 6, "{other}");
    let none = storage_classes(&settings(), &choices, &[]).expect("none");
    assert_eq!(none["defaultStorageClass"], json!({"enabled": false}));
    let unknown = CapiSettings { default_volume_type: Some("gold".into()), ..settings() };
    assert!(storage_classes(&unknown, &choices, &types).is_err_and(|text| text.contains("gold")));
}

#[test]
fn versions_are_cleaned() {
    assert_eq!(kube_version("v1.33.4"), "1.33.4");
    assert_eq!(kube_version("1.33.4-rc1+x"), "1.33.41");
    let labelled = ClusterTemplate { labels: Some(r#"{"capi_helm_chart_version": "0.27.0 ;X"}"#.into()), ..template() };
    assert_eq!(chart_version(&settings(), &labelled).as_deref(), Some("0.27.0"));
    assert_eq!(chart_version(&settings(), &template()).as_deref(), Some("0.10.1"));
}

#[test]
fn nodes_are_not_replaced_by_ones_that_would_not_start() {
    let document = |labels: Value, taints: Value| {
        let spec = json!({"joinConfiguration": {"nodeRegistration": {"taints": taints}}});
        json!({"nodeGroups": [{"name": "default-worker"}, {"name": "gpu", "nodeLabels": labels, "kubeadmConfigSpec": spec}]})
    };
    let fits = document(json!({"team": "blue"}), json!([{"key": "gpu", "effect": "NoSchedule"}]));
    assert_eq!(check_nodes(&fits, &Value::Null), Ok(()));
    let wrong_label = document(json!({"team": "a b"}), json!([]));
    let wrong_taint = document(json!({}), json!([{"key": "a b", "value": "c", "effect": "NoExecute"}]));
    for (wrong, field) in [(&wrong_label, "node_labels"), (&wrong_taint, "node_taints")] {
        for released in [&Value::Null, &fits] {
            let refused = check_nodes(wrong, released).expect_err(field);
            assert!(refused.starts_with(&format!("nodegroup gpu: {field}: ")), "{refused}");
        }
        // The nodes are of it already, or have come to nothing by it.
        assert_eq!(check_nodes(wrong, wrong), Ok(()));
    }
}
