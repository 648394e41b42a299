//! The parameters of `kubecluster.yaml`. Every one that has no default is given, so that a stack does not depend on defaults of ours that
//! change with the release.

pub(super) mod calico;
pub(crate) mod choices;

use serde_json::{Map, Value, json};

use super::stack_input::{Joint, StackInput};
use super::{api_name, dual_stack, monitoring};
use choices::{Choices, Ipv6, Subnet};

/// Whether masters are given a key for what is secret in etcd.
pub(super) const ENCRYPTED: &str = "secrets_encrypted";

/// What templates hide, and no error of Heat may show, of those of ours and of upstream's.
pub(super) const SECRETS: &[&str] = &[
    "master_user_data",
    "worker_user_data",
    "secrets_key",
    "trustee_password",
    "kube_service_account_key",
    "kube_service_account_private_key",
    "grafana_admin_passwd",
];

/// Networks that workers have a port on beside that of the cluster.
pub(super) const EXTRA_NETWORKS: &str = "extra_networks";

/// Heat's upper bound of a wait condition, seconds.
const WAIT_LIMIT: u32 = 43_200;

/// Seconds that a node has for its signal.
pub(crate) fn wait_seconds(input: &StackInput<'_>) -> u32 {
    input.timeout_minutes.saturating_mul(60).clamp(60, WAIT_LIMIT)
}

/// All parameters, by name.
pub(crate) fn of(input: &StackInput<'_>, choices: &Choices, master_user_data: String, worker_user_data: String) -> Map<String, Value> {
    let all = json!({
        "cluster_uuid": input.cluster_uuid,
        "project_id": input.project_id,
        "kube_version": choices.kube_version,
        "number_of_masters": input.masters,
        "number_of_minions": input.workers,
        "master_image": input.master_image,
        "minion_image": input.worker_image,
        "master_flavor": input.master_flavor,
        "minion_flavor": input.worker_flavor,
        "ssh_key_name": input.ssh_key_name.unwrap_or_default(),
        "availability_zone": choices.availability_zone,
        "nodes_affinity_policy": input.nodes_affinity_policy,
        "external_network": input.external_network,
        "fixed_network": input.fixed_network.unwrap_or_default(),
        "fixed_subnet": input.fixed_subnet.unwrap_or_default(),
        "fixed_network_name": input.cluster_name,
        "fixed_subnet_cidr": choices.subnet_cidr.to_string(),
        "dns_nameservers": input.dns_nameservers,
        "floating_ip_enabled": input.floating_ip_enabled,
        "master_lb_enabled": input.master_lb_enabled,
        "master_lb_floating_ip_enabled": choices.lb_floating_ip,
        "master_lb_allowed_cidrs": choices.sources(input).iter().map(ToString::to_string).collect::<Vec<_>>(),
        "octavia_provider": choices.lb_provider,
        "octavia_lb_algorithm": choices.lb_algorithm,
        "octavia_lb_healthcheck": choices.lb_healthcheck,
        "boot_volume_size": choices.boot_volume_size,
        "boot_volume_type": choices.boot_volume_type,
        "docker_volume_size": input.docker_volume_size.unwrap_or(0),
        "docker_volume_type": choices.docker_volume_type,
        "etcd_volume_size": choices.etcd_volume_size,
        "etcd_volume_type": choices.etcd_volume_type,
        "cloud_provider_enabled": input.cloud.is_there(),
        "keystone_auth_enabled": input.keystone.is_some(),
        ENCRYPTED: input.has_secrets_key,
        (monitoring::PARAMETER): input.has_monitoring,
        "wait_condition_timeout": wait_seconds(input),
        "master_user_data": master_user_data,
        "worker_user_data": worker_user_data,
    });
    let ipv6 = choices.ipv6.iter().flat_map(|ipv6| {
        let (range, pool) = match &ipv6.subnet {
            Subnet::Made(range) => (range.to_string(), String::new()),
            Subnet::FromPool(pool) => (String::new(), pool.clone()),
            Subnet::Given => (String::new(), String::new()),
        };
        let given =
            input.dual_stack.and_then(|dual_stack| dual_stack.given_subnet.as_ref()).map(|subnet| subnet.id.clone()).unwrap_or_default();
        let made = object(json!({"fixed_subnet_cidr_v6": range, "fixed_subnetpool_v6": pool}));
        of_ipv6(ipv6, given).into_iter().chain(made)
    });
    let name = api_name::parameters(input.api_name).map(|(name, value)| (name.to_owned(), value.into()));
    object(all).into_iter().chain(of_pod_network(input, choices)).chain(ipv6).chain(name).chain(of_extra_networks(choices)).collect()
}

/// What of the pod network security groups and ports depend on.
fn of_pod_network(input: &StackInput<'_>, choices: &Choices) -> Map<String, Value> {
    object(json!({
        "pods_network_cidr": choices.pods_cidr.to_string(),
        "network_driver": input.network_driver,
        "calico_ipv4pool_ipip": calico::ipip(input).unwrap_or("Always"),
        "flannel_backend": choices.flannel_backend,
    }))
}

/// Most clusters have none, and say nothing of it.
fn of_extra_networks(choices: &Choices) -> Option<(String, Value)> {
    (!choices.extra_networks.is_empty()).then(|| (EXTRA_NETWORKS.to_owned(), json!(choices.extra_networks)))
}

/// What a stack is given of which the nodes have both versions of IP; the templates' defaults are those of IPv4 alone.
fn of_ipv6(ipv6: &Ipv6, subnet: String) -> Map<String, Value> {
    object(json!({
        (dual_stack::PARAMETER): true,
        "fixed_subnet_v6": subnet,
        "pods_network_cidr_v6": ipv6.pods_cidr.to_string(),
    }))
}

/// All parameters of `nodegroup.yaml`, by name.
pub(crate) fn of_group(
    input: &StackInput<'_>,
    choices: &Choices,
    joint: &Joint,
    group_uuid: &str,
    worker_user_data: String,
) -> Map<String, Value> {
    let all = json!({
        "cluster_uuid": input.cluster_uuid,
        "nodegroup_uuid": group_uuid,
        "project_id": input.project_id,
        "kube_version": choices.kube_version,
        "number_of_minions": input.workers,
        "minion_image": input.worker_image,
        "minion_flavor": input.worker_flavor,
        "ssh_key_name": input.ssh_key_name.unwrap_or_default(),
        "availability_zone": choices.availability_zone,
        "nodes_affinity_policy": input.nodes_affinity_policy,
        "external_network": input.external_network,
        "fixed_network": joint.network,
        "fixed_subnet": joint.subnet,
        "security_groups": joint.security_groups,
        "api_address": joint.api_address,
        "pods_network_cidr": choices.pods_cidr.to_string(),
        "floating_ip_enabled": input.floating_ip_enabled,
        "boot_volume_size": choices.boot_volume_size,
        "boot_volume_type": choices.boot_volume_type,
        "docker_volume_size": input.docker_volume_size.unwrap_or(0),
        "docker_volume_type": choices.docker_volume_type,
        "cloud_provider_enabled": input.cloud.is_there(),
        "wait_condition_timeout": wait_seconds(input),
        "worker_user_data": worker_user_data,
    });
    let ipv6 = choices.ipv6.iter().flat_map(|ipv6| of_ipv6(ipv6, joint.subnet_v6.clone().unwrap_or_default()));
    object(all).into_iter().chain(ipv6).chain(of_extra_networks(choices)).collect()
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => unreachable!("an object was written by the caller"),
    }
}
