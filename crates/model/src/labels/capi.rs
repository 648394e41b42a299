//! The labels of the Cluster API driver: upstream's names and meanings. What holds without a label is the operator's to say, in
//! `[capi_helm_cluster_labels]`; the defaults here are those of that section.

use super::Effect;
use super::Kind::{self, Boolean, Count, Networks, OneOf, Text};
use super::Label;

const FIRST: &str = "0.1.0";

const fn label(name: &'static str, kind: Kind, default: Option<&'static str>, effect: Effect, about: &'static str) -> Label {
    Label { name, kind, default, about, since: FIRST, effect }
}

const fn new_nodes(name: &'static str, kind: Kind, default: Option<&'static str>, about: &'static str) -> Label {
    label(name, kind, default, Effect::NewNodes, about)
}

const fn at_creation(name: &'static str, kind: Kind, default: Option<&'static str>, about: &'static str) -> Label {
    label(name, kind, default, Effect::AtCreation, about)
}

/// What a truth value may be; upstream reads any other word as the default.
const YES: Option<&str> = Some("true");
const NO: Option<&str> = Some("false");

#[rustfmt::skip]
pub(super) static LABELS: &[Label] = &[
    at_creation("api_master_lb_allowed_cidrs", Networks, None, "Networks that may reach the Kubernetes API; charts below 0.11.0 and from 0.24.0 on."),
    at_creation("auto_healing_enabled", Boolean, YES, "Nodes that stay unhealthy are replaced."),
    at_creation("auto_scaling_enabled", Boolean, NO, "Groups of workers are scaled within their bounds."),
    new_nodes("boot_volume_size", Count, None, "Above 0: nodes boot from a volume of so many GiB; default [cinder] default_boot_volume_size."),
    new_nodes("boot_volume_type", Text, None, "Type of that volume; default [cinder] default_boot_volume_type."),
    at_creation("capi_helm_chart_version", Text, None, "Version of the chart, of templates only; default [capi_helm] default_helm_chart_version."),
    at_creation("capi_management_cluster", Text, None, "Management cluster that the cluster is on, by its name in the configuration; default: the operator's choice for the project, by room."),
    at_creation("csi_cinder_allow_volume_expansion", Boolean, YES, "Volumes of the storage classes can grow."),
    at_creation("csi_cinder_availability_zone", Text, Some("nova"), "Zone of the volumes of the storage classes."),
    at_creation("csi_cinder_fstype", Text, Some("ext4"), "File system of these volumes."),
    at_creation("csi_cinder_reclaim_policy", OneOf(&["Retain", "Delete"]), Some("Retain"), "What becomes of a volume whose claim goes."),
    at_creation("csi_cinder_volume_binding_mode", OneOf(&["WaitForFirstConsumer", "Immediate"]), Some("WaitForFirstConsumer"), "When a volume is made."),
    label("delete_volumes", Boolean, None, Effect::AtDeletion, "Whether volumes that Kubernetes made go with the cluster; default: as the management cluster's janitor is set up."),
    at_creation("etcd_blockdevice_size", Count, Some("0"), "Above 0: GiB of a device of etcd's own."),
    at_creation("etcd_blockdevice_type", OneOf(&["volume", "local"]), Some("volume"), "Kind of that device."),
    at_creation("etcd_blockdevice_volume_az", Text, None, "Its zone."),
    at_creation("etcd_blockdevice_volume_type", Text, None, "Its volume type."),
    at_creation("etcd_volume_size", Count, None, "Older name of etcd_blockdevice_size."),
    at_creation("etcd_volume_type", Text, None, "Older name of etcd_blockdevice_volume_type."),
    new_nodes("extra_network_name", Text, None, "Older name of extra_network_names."),
    new_nodes("extra_network_names", Text, None, "Networks that workers have a port on as well, separated by blanks."),
    at_creation("fixed_subnet_cidr", Kind::Network, Some("10.0.0.0/24"), "Network of the nodes, where none is named."),
    at_creation("keystone_auth_enabled", Boolean, NO, "Users log in to Kubernetes with Keystone."),
    at_creation("kube_dashboard_enabled", Boolean, YES, "The dashboard; without effect from chart 0.20.0 on."),
    at_creation("master_lb_floating_ip_enabled", Boolean, YES, "A floating IP for the API's load balancer."),
    at_creation("max_node_count", Count, None, "Most workers of the default group, where it is scaled."),
    at_creation("min_node_count", Count, None, "Fewest workers of the default group, where it is scaled."),
    at_creation("monitoring_enabled", Boolean, NO, "The monitoring addon."),
    at_creation("octavia_lb_algorithm", Text, None, "How load balancers of Services choose; default SOURCE_IP_PORT with the provider ovn, else ROUND_ROBIN."),
    at_creation("octavia_lb_healthcheck", Boolean, YES, "Load balancers of Services look whether their members live."),
    at_creation("octavia_provider", Text, Some("amphora"), "Provider of all load balancers."),
];
