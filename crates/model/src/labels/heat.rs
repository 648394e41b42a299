//! The labels of the Heat driver: all that upstream's 20.0.2 has. Values and defaults are those of this program.

use super::Effect;
use super::Kind::{self, Boolean, Count, ImagePrefix, Names, Network, Networks, OneOf, Options, Sha256, Text, Url};
use super::Label;

const FIRST: &str = "0.1.0";

const fn at_creation(name: &'static str, kind: Kind, default: Option<&'static str>, about: &'static str) -> Label {
    Label { name, kind, default, about, since: FIRST, effect: Effect::AtCreation }
}

const fn new_nodes(name: &'static str, kind: Kind, default: Option<&'static str>, about: &'static str) -> Label {
    Label { name, kind, default, about, since: FIRST, effect: Effect::NewNodes }
}

const fn at_deletion(name: &'static str, kind: Kind, default: Option<&'static str>, about: &'static str) -> Label {
    Label { name, kind, default, about, since: FIRST, effect: Effect::AtDeletion }
}

const fn unused(name: &'static str, kind: Kind, about: &'static str) -> Label {
    Label { name, kind, default: None, about, since: FIRST, effect: Effect::Unused }
}

/// Where the API is found, and whom it believes.
const OF_API_SERVER: &[&str] =
    &["advertise-address", "client-ca-file", "secure-port", "service-cluster-ip-range", "tls-cert-file", "tls-private-key-file"];
/// Ranges, and what certificates are signed with, which changes when authorities do.
const OF_CONTROLLER_MANAGER: &[&str] =
    &["cluster-cidr", "cluster-signing-cert-file", "cluster-signing-key-file", "flex-volume-plugin-dir", "service-cluster-ip-range"];
/// By which nodes are known; labels and taints are the nodegroup's (`node_labels`, `node_taints`).
const OF_KUBELET: &[&str] =
    &["bootstrap-kubeconfig", "cloud-provider", "config", "kubeconfig", "node-ip", "node-labels", "register-with-taints"];

#[rustfmt::skip]
pub(super) static LABELS: &[Label] = &[
    at_creation("admission_control_list", Names, None, "Admission plugins that the API server has beside those that it has by itself; NodeRestriction is always there."),
    unused("auto_healing_controller", OneOf(&["draino", "magnum-auto-healer"]), "Who repairs nodes."),
    unused("auto_healing_enabled", Boolean, "Repair of broken nodes."),
    at_creation("auto_scaling_enabled", Boolean, Some("false"), "Whether the cluster autoscaler runs, which resizes worker groups (roles worker and autoscaling) between their min_node_count and max_node_count; the cloud controller manager must run."),
    at_creation("autoscaler_tag", Text, Some("v1.33.0"), "Version of the cluster autoscaler; without it, the one that fits the version of Kubernetes."),
    new_nodes("availability_zone", Text, None, "Zone of all nodes and volumes."),
    new_nodes("boot_volume_size", Count, None, "Above 0: nodes boot from a volume of so many GiB; default [cinder] default_boot_volume_size."),
    new_nodes("boot_volume_type", Text, None, "Type of that volume; default [cinder] default_boot_volume_type, else the first that Cinder lists."),
    at_creation("calico_ipv4pool", Network, Some("10.100.0.0/16"), "Range of pods with calico."),
    unused("calico_ipv4pool_ipip", OneOf(&["Always", "CrossSubnet", "Never", "Off"]), "IP-in-IP mode of calico."),
    at_creation("calico_tag", Text, Some("v3.30.2"), "Version of calico."),
    unused("cert_manager_api", Boolean, "Signing of certificates by the control plane."),
    unused("cgroup_driver", Text, "Control group driver of kubelet."),
    at_creation("cilium_ipv4pool", Network, Some("10.100.0.0/16"), "Range of pods with cilium."),
    at_creation("cilium_tag", Text, Some("v1.17.6"), "Version of cilium."),
    at_creation("cinder_csi_enabled", Boolean, Some("true"), "Whether volumes of Cinder can be had in Kubernetes, where the volume driver of the template is cinder; the cloud controller manager must run. There is no storage class: the users make theirs."),
    at_creation("cinder_csi_plugin_tag", Text, Some("v1.33.0"), "Version of the Cinder plugin; without it, the one that fits the version of Kubernetes."),
    at_creation("cloud_provider_enabled", Boolean, None, "Whether the OpenStack cloud controller manager runs, which makes load balancers of services and tells nodes their addresses; default [trust] cluster_user_trust, without which it must not be true."),
    at_creation("cloud_provider_tag", Text, Some("v1.33.0"), "Its version; without it, the one that fits the version of Kubernetes."),
    unused("cluster_basic_auth_secret", Text, "Secret for the ingress of monitoring."),
    unused("cluster_root_domain_name", Text, "Host name of the ingress of monitoring."),
    new_nodes("container_infra_prefix", ImagePrefix, None, "Registry path that all images of the cluster come from; ends with a slash."),
    unused("container_runtime", Text, "Container runtime; always containerd here."),
    new_nodes("containerd_tarball_sha256", Sha256, None, "Checksum of that download."),
    new_nodes("containerd_tarball_url", Url, None, "Where containerd is downloaded from, instead of its project."),
    new_nodes("containerd_version", Text, Some("2.1.4"), "Version of containerd."),
    unused("coredns_tag", Text, "Version of CoreDNS."),
    at_creation("csi_attacher_tag", Text, None, "Version of the CSI attacher, where it shall not be the one that the Cinder plugin comes with."),
    at_creation("csi_liveness_probe_tag", Text, None, "Version of the CSI liveness probe, where it shall not be the one that the Cinder plugin comes with."),
    at_creation("csi_node_driver_registrar_tag", Text, None, "Version of the CSI registrar, where it shall not be the one that the Cinder plugin comes with."),
    at_creation("csi_provisioner_tag", Text, None, "Version of the CSI provisioner, where it shall not be the one that the Cinder plugin comes with."),
    at_creation("csi_resizer_tag", Text, None, "Version of the CSI resizer, where it shall not be the one that the Cinder plugin comes with."),
    at_creation("csi_snapshotter_tag", Text, None, "Version of the CSI snapshotter, where it shall not be the one that the Cinder plugin comes with."),
    at_deletion("delete_volumes", Boolean, Some("false"), "The deletion of the cluster also deletes the volumes that Kubernetes made, with all data on them; they are known by the uuid of the cluster in their metadata (the Cinder plugin runs with --cluster=<uuid>)."),
    new_nodes("docker_volume_type", Text, None, "Type of the volume for container images, where docker_volume_size asks for one."),
    unused("draino_tag", Text, "Version of draino."),
    unused("etcd_tag", Text, "Version of etcd; kubeadm chooses it here."),
    new_nodes("etcd_volume_size", Count, Some("0"), "Above 0: etcd of each master is on a volume of so many GiB."),
    new_nodes("etcd_volume_type", Text, None, "Type of that volume."),
    at_creation("fixed_subnet_cidr", Network, Some("10.0.0.0/24"), "Range of the subnet that is made when the cluster names none."),
    at_creation("flannel_backend", OneOf(&["vxlan", "host-gw", "udp"]), Some("vxlan"), "How flannel connects nodes."),
    unused("flannel_cni_tag", Text, "Version of the CNI plugin of flannel."),
    at_creation("flannel_network_cidr", Network, Some("10.100.0.0/16"), "Range of pods with flannel."),
    at_creation("flannel_network_subnetlen", Count, Some("24"), "Prefix length of the pods of one node, with flannel."),
    at_creation("flannel_tag", Text, Some("v0.27.2"), "Version of flannel."),
    unused("grafana_admin_passwd", Text, "Password of Grafana."),
    unused("grafana_tag", Text, "Version of Grafana."),
    unused("heapster_enabled", Boolean, "Heapster."),
    unused("heat_container_agent_tag", Text, "Version of the agent that upstream runs on nodes; not needed here."),
    unused("helm_client_sha256", Sha256, "Checksum of helm."),
    unused("helm_client_tag", Text, "Version of helm."),
    unused("helm_client_url", Url, "Where helm is downloaded from."),
    unused("hyperkube_prefix", Text, "Registry of hyperkube images; not needed here."),
    unused("influx_grafana_dashboard_enabled", Boolean, "InfluxDB and Grafana."),
    unused("ingress_controller", OneOf(&["traefik", "nginx", "octavia"]), "Which ingress controller is installed."),
    unused("ingress_controller_role", Text, "Node label for its pods."),
    unused("k8s_keystone_auth_tag", Text, "Version of Keystone authentication."),
    unused("keystone_auth_enabled", Boolean, "Keystone authentication in Kubernetes."),
    at_creation("kube_dashboard_enabled", Boolean, Some("false"), "The dashboard, as its project left it: no newer version has manifests."),
    at_creation("kube_dashboard_version", Text, Some("v2.7.0"), "Its version."),
    unused("kube_image_digest", Text, "Digest that images must have."),
    new_nodes("kube_tag", Text, Some("v1.33.5"), "Version of Kubernetes, v1.31.0 or newer; a build number such as -rancher1 is left out."),
    at_creation("kubeapi_options", Options(OF_API_SERVER), None, "Further options of the API server."),
    at_creation("kubecontroller_options", Options(OF_CONTROLLER_MANAGER), None, "Further options of the controller manager."),
    new_nodes("kubelet_options", Options(OF_KUBELET), None, "Further options of kubelet, on masters and workers."),
    unused("kubeproxy_options", Text, "Further options of kube-proxy."),
    at_creation("kubescheduler_options", Options(&[]), None, "Further options of the scheduler."),
    unused("magnum_auto_healer_tag", Text, "Version of the auto healer."),
    at_creation("master_lb_allowed_cidrs", Networks, None, "Who reaches the load balancer of the API; default everyone."),
    at_creation("master_lb_floating_ip_enabled", Boolean, None, "Floating address of the load balancer of the API; default floating_ip_enabled."),
    at_creation("max_node_count", Count, None, "Largest size of the default worker group where auto_scaling_enabled is true; default one more than it begins with."),
    unused("metrics_scraper_tag", Text, "Version of the metrics scraper."),
    unused("metrics_server_chart_tag", Text, "Version of the chart of metrics-server."),
    at_creation("metrics_server_enabled", Boolean, Some("true"), "Whether metrics-server is installed."),
    at_creation("metrics_server_tag", Text, Some("v0.8.0"), "Version of metrics-server."),
    at_creation("min_node_count", Count, None, "Least size of the default worker group; default 0."),
    unused("monitoring_enabled", Boolean, "Prometheus and its operator."),
    unused("monitoring_ingress_enabled", Boolean, "An ingress for monitoring."),
    unused("monitoring_interval_seconds", Count, "How often monitoring looks."),
    unused("monitoring_retention_days", Count, "How many days monitoring keeps."),
    unused("monitoring_retention_size", Count, "How many GiB monitoring keeps."),
    unused("monitoring_storage_class_name", Text, "Storage class of monitoring."),
    unused("nginx_ingress_controller_chart_tag", Text, "Version of the chart of ingress-nginx."),
    unused("nginx_ingress_controller_tag", Text, "Version of ingress-nginx."),
    at_creation("node_problem_detector_tag", Text, Some("v0.8.20"), "Version of the node problem detector."),
    at_creation("npd_enabled", Boolean, Some("true"), "Whether the node problem detector is installed."),
    unused("octavia_ingress_controller_tag", Text, "Version of the Octavia ingress controller."),
    at_creation("octavia_lb_algorithm", OneOf(&["ROUND_ROBIN", "LEAST_CONNECTIONS", "SOURCE_IP", "SOURCE_IP_PORT"]), Some("ROUND_ROBIN"), "How the load balancer of the API spreads connections; the provider ovn knows SOURCE_IP_PORT only, and takes it unless told otherwise."),
    at_creation("octavia_lb_healthcheck", Boolean, Some("true"), "Whether load balancers watch the health of what is behind them."),
    at_creation("octavia_provider", Text, Some("amphora"), "Provider of load balancers."),
    unused("ostree_commit", Text, "Ignored upstream too."),
    unused("ostree_remote", Text, "Ignored upstream too."),
    unused("prometheus_adapter_chart_tag", Text, "Version of the chart of the Prometheus adapter."),
    unused("prometheus_adapter_configmap", Text, "Its rules."),
    unused("prometheus_adapter_enabled", Boolean, "The Prometheus adapter."),
    unused("prometheus_monitoring", Boolean, "Monitoring of old."),
    unused("prometheus_operator_chart_tag", Text, "Version of the chart of the Prometheus operator."),
    unused("prometheus_tag", Text, "Version of Prometheus of old."),
    unused("selinux_mode", OneOf(&["enforcing", "permissive", "disabled"]), "Mode of SELinux on nodes."),
    at_creation("service_cluster_ip_range", Network, Some("10.254.0.0/16"), "Range of services."),
    unused("system_pods_initial_delay", Count, "Delay of health checks in seconds."),
    unused("system_pods_timeout", Count, "Timeout of health checks in seconds."),
    unused("traefik_ingress_controller_tag", Text, "Version of traefik."),
    unused("use_podman", Boolean, "Always so upstream; not needed here."),
];
