//! The values document of the chart: everything that a release is made of, as upstream's driver writes it. Pure.
//!
//! It is sent whole each time, so that what it says follows from the rows and the cloud alone and never from what was sent before.

use std::collections::HashMap;

use model::capi::cleaned;
use model::cluster::Cluster;
use model::kubernetes::check_label;
use model::nodegroup::{Nodegroup, Nodes};
use model::template::ClusterTemplate;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::labels::Choices;
use super::scaling::{self, Scale};
use super::settings::CapiSettings;

/// What was looked up in the cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub image_id: String,
    /// Images of groups that have one of their own, by the group's uuid.
    pub group_images: HashMap<String, String>,
    /// Without `v`.
    pub kube_version: String,
    pub os_distro: String,
    pub external_network_id: Option<String>,
    pub network_id: Option<String>,
    pub subnet_id: Option<String>,
    /// Names of Cinder's volume types, in its order.
    pub volume_types: Vec<String>,
    /// Keystone, for the login to Kubernetes with it.
    pub auth_url: String,
    pub project_id: String,
}

/// What a document is made of.
pub(super) struct Input<'a> {
    pub settings: &'a CapiSettings,
    pub cluster: &'a Cluster,
    pub template: &'a ClusterTemplate,
    /// All groups that the release is to have, masters as well, with the sizes they are to have.
    pub groups: &'a [Nodegroup],
    /// Sizes that were asked for last, by the groups' uuids, of those that are scaled by load and for which none is asked now.
    pub asked_last: &'a HashMap<String, i64>,
    pub nodes: &'a HashMap<String, Nodes>,
    pub release: &'a str,
    pub found: &'a Found,
    pub choices: &'a Choices<'a>,
    pub default_boot_volume_type: Option<&'a str>,
    pub default_boot_volume_size: i64,
    /// What a rotation of authorities says more.
    pub authorities: Option<Value>,
}

/// The version of the chart: the template's label only, else the operator's; none when neither says one.
pub(super) fn chart_version(settings: &CapiSettings, template: &ClusterTemplate) -> Option<String> {
    let labels = template.labels();
    let text = labels.get("capi_helm_chart_version").unwrap_or(&settings.chart_version);
    let version: String = text.chars().filter(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-+".contains(*c)).collect();
    Some(version).filter(|version| !version.is_empty())
}

/// `kube_version` of an image as the chart wants it.
pub(super) fn kube_version(property: &str) -> String {
    property.trim_start_matches('v').chars().filter(|c| c.is_ascii_digit() || *c == '.').collect()
}

/// Puts the document together.
///
/// # Errors
/// A wish that the chart cannot fulfil.
pub(super) fn values(input: &Input<'_>) -> Result<Value, String> {
    let Input { settings, cluster, template, found, choices, .. } = input;
    let mut document = json!({
        "kubernetesVersion": found.kube_version,
        "machineImageId": found.image_id,
        "machineSSHKeyName": cluster.keypair,
        "cloudCredentialsSecretName": model::capi::derived(input.release, "cloud-credentials"),
        "etcd": etcd(choices),
        "apiServer": {
            "associateFloatingIP": choices.flag("master_lb_floating_ip_enabled"),
            "enableLoadBalancer": true,
            "loadBalancerProvider": choices.text("octavia_provider"),
        },
        "clusterNetworking": {
            "dnsNameservers": name_servers(template.dns_nameserver.as_deref()),
            "externalNetworkId": found.external_network_id,
            "internalNetwork": {
                "networkFilter": found.network_id.as_ref().map(|id| json!({"id": id})),
                "subnetFilter": found.subnet_id.as_ref().map(|id| json!({"id": id})),
                "nodeCidr": choices.text("fixed_subnet_cidr"),
            },
        },
        "osDistro": found.os_distro,
        "controlPlane": control_plane(input),
        "nodeGroupDefaults": {"healthCheck": {"enabled": choices.flag("auto_healing_enabled")}},
        "nodeGroups": node_groups(input)?,
        "addons": {
            "openstack": {
                "csiCinder": storage_classes(settings, choices, &found.volume_types)?,
                "cloudConfig": {"LoadBalancer": {
                    "lb-provider": choices.text("octavia_provider"),
                    "lb-method": balancing(choices),
                    "create-monitor": choices.flag("octavia_lb_healthcheck"),
                }},
            },
            "monitoring": {"enabled": choices.flag("monitoring_enabled")},
            "kubernetesDashboard": {"enabled": choices.flag("kube_dashboard_enabled")},
            "ingress": {"enabled": false},
        },
    });
    for addition in additions(input)?.into_iter().chain(input.authorities.clone()) {
        merge(&mut document, addition);
    }
    Ok(document)
}

/// What is sent only where it applies, in upstream's order.
fn additions(input: &Input<'_>) -> Result<Vec<Value>, String> {
    let Input { choices, found, template, .. } = input;
    let mut all = Vec::new();
    let both = |volume: Value| json!({"controlPlane": {"machineRootVolume": volume}, "nodeGroupDefaults": {"machineRootVolume": volume}});
    if let Some(kind) = choices.some("boot_volume_type").or_else(|| input.default_boot_volume_type.map(str::to_owned)) {
        all.push(both(json!({"volumeType": kind})));
    }
    let size = choices.number("boot_volume_size").unwrap_or(input.default_boot_volume_size);
    if size > 0 {
        all.push(both(json!({"diskSize": size})));
    }
    if let Some(names) = choices.some("extra_network_names").or_else(|| choices.some("extra_network_name")) {
        let mut ports = vec![json!({})];
        ports.extend(names.split_whitespace().map(|name| json!({"network": {"name": name}, "securityGroups": []})));
        all.push(json!({"nodeGroupDefaults": {"machineNetworking": {"ports": ports}}}));
    }
    if choices.flag("keystone_auth_enabled") {
        let values = json!({"openstackAuthUrl": found.auth_url, "projectId": found.project_id});
        all.push(json!({
            "authWebhook": "k8s-keystone-auth",
            "addons": {"openstack": {"k8sKeystoneAuth": {"enabled": true, "values": values}}},
        }));
    }
    let allowed = choices.list("api_master_lb_allowed_cidrs");
    if !allowed.is_empty() {
        all.push(json!({"apiServer": {allowed_key(chart_version(input.settings, template).as_deref())?: allowed}}));
    }
    if let Some(driver) = &template.network_driver {
        let kind: String = driver.chars().filter(|c| c.is_ascii_alphanumeric() || ".-_".contains(*c)).collect();
        all.push(json!({"addons": {"cni": {"type": kind}}}));
    }
    Ok(all)
}

/// The key under which a chart takes the networks that may reach the API.
///
/// Charts between take neither: with Helm 3 the API would be open to everybody and nobody told.
fn allowed_key(chart: Option<&str>) -> Result<&'static str, String> {
    let minor = chart.and_then(|version| {
        let mut parts = version.split('.');
        let (major, minor): (u32, u32) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(if major == 0 { minor } else { u32::MAX })
    });
    match minor {
        Some(0..11) => Ok("allowedCidrs"),
        Some(11..24) => {
            let version = chart.unwrap_or_default();
            Err(format!(
                "the label api_master_lb_allowed_cidrs has no effect with chart {version}: it needs one below 0.11.0 or from 0.24.0 on"
            ))
        }
        _ => Ok("allowedCIDRs"),
    }
}

fn name_servers(column: Option<&str>) -> Option<Vec<String>> {
    Some(column?.split(',').map(|server| server.trim().to_owned()).filter(|server| !server.is_empty()).collect())
}

fn etcd(choices: &Choices<'_>) -> Value {
    // A default of 0 must not hide the older label.
    let size = choices.number("etcd_blockdevice_size").filter(|size| *size > 0).or_else(|| choices.number("etcd_volume_size"));
    let Some(size) = size.filter(|size| *size > 0) else { return json!({}) };
    if choices.text("etcd_blockdevice_type") == "local" {
        return json!({"blockDevice": {"size": size, "type": "Local"}});
    }
    let mut device = json!({"size": size, "type": "Volume"});
    if let Some(kind) = choices.some("etcd_blockdevice_volume_type").or_else(|| choices.some("etcd_volume_type")) {
        device["volumeType"] = kind.into();
    }
    if let Some(zone) = choices.some("etcd_blockdevice_volume_az") {
        device["availabilityZone"] = zone.into();
    }
    json!({"blockDevice": device})
}

fn balancing(choices: &Choices<'_>) -> String {
    choices.some("octavia_lb_algorithm").unwrap_or_else(|| {
        let is_ovn = choices.text("octavia_provider").eq_ignore_ascii_case("ovn");
        if is_ovn { "SOURCE_IP_PORT" } else { "ROUND_ROBIN" }.to_owned()
    })
}

fn control_plane(input: &Input<'_>) -> Value {
    let masters = input.groups.iter().find(|group| group.is_master());
    let flavor = masters.and_then(|group| group.flavor_id.clone()).or_else(|| input.cluster.master_flavor_id.clone());
    json!({
        "machineFlavor": flavor,
        "machineCount": masters.map_or(1, Nodegroup::node_count),
        "healthCheck": {"enabled": input.choices.flag("auto_healing_enabled")},
    })
}

fn node_groups(input: &Input<'_>) -> Result<Vec<Value>, String> {
    input.groups.iter().filter(|group| !group.is_master()).map(|group| node_group(input, group)).collect()
}

fn node_group(input: &Input<'_>, group: &Nodegroup) -> Result<Value, String> {
    let mut out = json!({"name": cleaned(&group.name), "machineFlavor": group.flavor_id, "machineCount": group.node_count()});
    if let Scale::Between { least, most } = scaling::of(input.choices, group, input.asked_last.get(&group.uuid).copied())? {
        out["autoscale"] = "true".into();
        out["machineCountMin"] = least.into();
        out["machineCountMax"] = most.into();
    }
    if let Some(image) = input.found.group_images.get(&group.uuid) {
        out["machineImageId"] = json!(image);
    }
    if let Some(nodes) = input.nodes.get(&group.uuid) {
        if !nodes.labels.0.is_empty() {
            out["nodeLabels"] = json!(nodes.labels.0);
        }
        if !nodes.taints.is_empty() {
            let taints = json!({"joinConfiguration": {"nodeRegistration": {"taints": nodes.taints}}});
            out["kubeadmConfigSpec"] = taints;
        }
    }
    Ok(out)
}

/// Refuses labels and taints of nodes that Kubernetes does not take, from rows of a time when the API took any: Cluster API would replace the nodes by
/// ones that do not start. What a group was given by the last document already changes nothing of its nodes.
pub(super) fn check_nodes(document: &Value, released: &Value) -> Result<(), String> {
    let groups = |document: &Value| document["nodeGroups"].as_array().cloned().unwrap_or_default();
    let taints_of = |group: &Value| group["kubeadmConfigSpec"]["joinConfiguration"]["nodeRegistration"]["taints"].clone();
    let given = groups(released);
    for group in groups(document) {
        let name = group["name"].as_str().unwrap_or_default();
        let before = given.iter().find(|one| one["name"] == name).unwrap_or(&Value::Null);
        let check = |field: &str, key: &str, value: &Value| {
            check_label(key, value.as_str().unwrap_or_default()).map_err(|rule| format!("nodegroup {name}: {field}: {rule}"))
        };
        if group["nodeLabels"] != before["nodeLabels"] {
            for (key, value) in group["nodeLabels"].as_object().into_iter().flatten() {
                check("node_labels", key, value)?;
            }
        }
        let taints = taints_of(&group);
        if taints != taints_of(before) {
            for taint in taints.as_array().into_iter().flatten() {
                check("node_taints", taint["key"].as_str().unwrap_or_default(), &taint["value"])?;
            }
        }
    }
    Ok(())
}

fn storage_classes(settings: &CapiSettings, choices: &Choices<'_>, types: &[String]) -> Result<Value, String> {
    let default = match &settings.default_volume_type {
        Some(name) if types.contains(name) => Some(name),
        Some(name) => return Err(format!("cinder offers no volume type {name}, which [capi_helm] csi_cinder_default_volume_type names")),
        None => types.first(),
    };
    let Some(default) = default else {
        // A cloud without volumes has no storage classes.
        return Ok(json!({"defaultStorageClass": {"enabled": false}, "additionalStorageClasses": []}));
    };
    let class = |kind: &String| {
        json!({
            "name": class_name(kind, types),
            "volumeType": kind,
            "enabled": true,
            "reclaimPolicy": choices.text("csi_cinder_reclaim_policy"),
            "allowVolumeExpansion": choices.flag("csi_cinder_allow_volume_expansion"),
            "availabilityZone": choices.text("csi_cinder_availability_zone"),
            "volumeBindingMode": choices.text("csi_cinder_volume_binding_mode"),
            "allowedTopologies": settings.allowed_topologies,
            "fstype": choices.text("csi_cinder_fstype"),
        })
    };
    let others: Vec<Value> = types.iter().filter(|kind| *kind != default).map(class).collect();
    Ok(json!({"defaultStorageClass": class(default), "additionalStorageClasses": others}))
}

/// Two types whose cleaned names are the same would be one class: all but the first by name get a mark of their own.
fn class_name(kind: &str, types: &[String]) -> String {
    let name = cleaned(kind);
    let first = types.iter().filter(|other| cleaned(other) == name).min();
    if first.is_some_and(|first| first != kind) {
        let digest = Sha256::digest(kind.as_bytes());
        return format!("{name}-{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2]);
    }
    name
}

/// Maps merge deeply, lists are joined, all else is replaced.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(into), Value::Array(from)) => into.extend(from),
        (into, from) => *into = from,
    }
}

#[cfg(test)]
mod tests;
