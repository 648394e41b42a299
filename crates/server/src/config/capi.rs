//! Clusters of the Cluster API driver: the management cluster, helm and its chart, defaults of labels. Names are upstream's.

use super::options::section;
use super::value::{Positive, words};

words! {
    /// Which of Keystone's endpoints a cluster's credential names.
    InterfaceWord {
        /// The public one.
        Public = "public" | "publicURL",
        /// The internal one.
        Internal = "internal" | "internalURL",
        /// The admin one.
        Admin = "admin" | "adminURL",
    }
}

section! {
    /// The Cluster API driver.
    CapiHelm {
        /// Kubeconfig of the management cluster; read again when it changes. Unset: the variable KUBECONFIG, then ~/.kube/config.
        kubeconfig_file: Option<String>,
        /// Names of further management clusters, separated by commas; each has a section [capi_management:NAME] with its kubeconfig. Where some are
        /// named, KUBECONFIG and ~/.kube/config do not count; the one that kubeconfig_file names is called default.
        management_clusters: Vec<String> = "",
        /// First part of the name of each project's namespace; change it where two Magnums share a management cluster.
        namespace_prefix: String = "magnum",
        /// Repository of the chart; empty when the chart's name is an oci:// reference or a path.
        helm_chart_repo: String = "https://azimuth-cloud.github.io/capi-helm-charts",
        /// Name of the chart, an oci:// reference or a path.
        helm_chart_name: String = "openstack-cluster",
        /// Version of the chart, unless the template's label capi_helm_chart_version says another. Upstream's default cannot be used with a
        /// current Cluster API provider.
        default_helm_chart_version: String = "0.10.1",
        /// MiB of memory that the flavor of every node must have.
        minimum_flavor_ram: u64 = "2048",
        /// CPUs that the flavor of every node must have.
        minimum_flavor_vcpus: u64 = "2",
        /// Volume type of the default storage class. Unset: the first one Cinder lists.
        csi_cinder_default_volume_type: Option<String>,
        /// allowedTopologies of every storage class: JSON objects, one for each repetition.
        csi_cinder_allowed_topologies: Vec<String>,
        /// Interface of the clouds.yaml that clusters are given.
        app_cred_interface_type: InterfaceWord = "public",
        /// API versions of Cluster API's kinds where they are others than usual: a JSON object such as
        /// {"Machine": {"api_version": "cluster.x-k8s.io/v1beta1"}}.
        api_resources: String = "{}",
        /// Conditions of a control plane that must all be true before it counts as ready.
        k8s_control_plane_resource_conditions: Vec<String> = "MachinesReady,Ready,EtcdClusterHealthy,ControlPlaneComponentsHealthy",
        /// Deployments of the management cluster whose programs connect to clusters, each as NAMESPACE/NAME, separated by commas: those of Cluster
        /// API itself, of its kubeadm bootstrap and of its kubeadm control plane provider. Each is restarted once in a rotation of certificate
        /// authorities, and not more often than every ten minutes. Empty: the authorities of clusters cannot be rotated.
        controller_deployments: Vec<String> = "",
        /// Seconds at least between the fourth and the fifth step of a rotation of certificate authorities, in which pods of masters change their
        /// tokens for such as the new key signed; Kubernetes has them last an hour.
        ca_rotation_pause_seconds: u32 = "3600",
        /// The helm program, 3.x or 4.x.
        helm_program: String = "helm",
        /// Runs of helm at once in one conductor, for each management cluster.
        helm_processes: Positive = "4",
        /// Seconds after which a run of helm is killed.
        helm_deadline_seconds: Positive = "330",
        /// Seconds after which a watch of the management cluster that has said nothing is begun anew.
        watch_silence_seconds: Positive = "90",
        /// Seconds after which a cluster is looked at although no watch has told of a change.
        resync_seconds: Positive = "600",
        /// Folder for what helm keeps: charts, indexes. Unset: helm, in state_path.
        helm_home: Option<String>,
    }
}

section! {
    /// A management cluster; NAME is its name in [capi_helm] management_clusters. The section [capi_management:default] is about the one of
    /// [capi_helm] kubeconfig_file. What is said here counts for new clusters: those that are there stay where they are.
    CapiManagement {
        /// Its kubeconfig, needed; read again when it or a file that it names changes.
        kubeconfig_file: Option<String>,
        /// Ids of the projects whose clusters it has, separated by commas: these go to no other unless the label capi_management_cluster says so,
        /// and those of other projects do not go there. Empty: of all projects that no other management cluster names.
        projects: Vec<String>,
        /// How many clusters it is to have for each one of a management cluster of weight 1.
        weight: Positive = "1",
        /// Clusters that it may have; 0: as many as there are. Where all have as many as they may, a new cluster fails and says so.
        max_clusters: u32 = "0",
    }
}

section! {
    /// What holds for clusters of the Cluster API driver without a label that says otherwise.
    CapiHelmClusterLabels {
        /// Networks that may reach the Kubernetes API, separated by commas.
        api_master_lb_allowed_cidrs: String = "",
        /// Replace nodes that stay unhealthy.
        auto_healing_enabled: bool = "true",
        /// Scale groups of workers within their bounds.
        auto_scaling_enabled: bool = "false",
        /// Storage classes: volumes can grow.
        csi_cinder_allow_volume_expansion: bool = "true",
        /// Storage classes: zone of the volumes.
        csi_cinder_availability_zone: String = "nova",
        /// Storage classes: file system.
        csi_cinder_fstype: String = "ext4",
        /// Storage classes: what becomes of a volume whose claim goes.
        csi_cinder_reclaim_policy: ReclaimPolicy = "Retain",
        /// Storage classes: when a volume is made.
        csi_cinder_volume_binding_mode: BindingMode = "WaitForFirstConsumer",
        /// GiB of a device of etcd's own; 0: none.
        etcd_blockdevice_size: u32 = "0",
        /// Kind of that device.
        etcd_blockdevice_type: BlockDevice = "volume",
        /// Its zone.
        etcd_blockdevice_volume_az: String = "",
        /// Its volume type.
        etcd_blockdevice_volume_type: String = "",
        /// Networks that workers have a port on as well, separated by blanks.
        extra_network_names: String = "",
        /// Older name of extra_network_names.
        extra_network_name: String = "",
        /// Network of the nodes, where none is named.
        fixed_subnet_cidr: String = "10.0.0.0/24",
        /// Log in to Kubernetes with Keystone.
        keystone_auth_enabled: bool = "false",
        /// The dashboard; without effect from chart 0.20.0 on.
        kube_dashboard_enabled: bool = "true",
        /// A floating IP for the API's load balancer.
        master_lb_floating_ip_enabled: bool = "true",
        /// Most workers of the default group, where it is scaled.
        max_node_count: Option<u32>,
        /// Fewest workers of the default group, where it is scaled.
        min_node_count: Option<u32>,
        /// The monitoring addon.
        monitoring_enabled: bool = "false",
        /// How load balancers of Services choose. Empty: SOURCE_IP_PORT with the provider ovn, else ROUND_ROBIN.
        octavia_lb_algorithm: String = "",
        /// Load balancers of Services look whether their members live.
        octavia_lb_healthcheck: bool = "true",
        /// Provider of all load balancers.
        octavia_provider: String = "amphora",
    }
}

words! {
    /// What becomes of a volume.
    ReclaimPolicy {
        /// It stays.
        Retain = "Retain",
        /// It goes.
        Delete = "Delete",
    }
}

words! {
    /// When a volume is made.
    BindingMode {
        /// When something uses it.
        Late = "WaitForFirstConsumer",
        /// At once.
        Immediate = "Immediate",
    }
}

words! {
    /// Where etcd keeps its data.
    BlockDevice {
        /// On a volume of Cinder's.
        Volume = "volume",
        /// On the host's disk.
        Local = "local",
    }
}

impl CapiHelmClusterLabels {
    /// The defaults by the names of their labels; what is not set is not there.
    pub fn by_name(&self) -> Vec<(&'static str, String)> {
        let flag = |value: bool| value.to_string();
        let number = |value: Option<u32>| value.map(|n| n.to_string()).unwrap_or_default();
        let mut all = vec![
            ("api_master_lb_allowed_cidrs", self.api_master_lb_allowed_cidrs.clone()),
            ("auto_healing_enabled", flag(self.auto_healing_enabled)),
            ("auto_scaling_enabled", flag(self.auto_scaling_enabled)),
            ("csi_cinder_allow_volume_expansion", flag(self.csi_cinder_allow_volume_expansion)),
            ("csi_cinder_availability_zone", self.csi_cinder_availability_zone.clone()),
            ("csi_cinder_fstype", self.csi_cinder_fstype.clone()),
            ("csi_cinder_reclaim_policy", self.csi_cinder_reclaim_policy.as_str().to_owned()),
            ("csi_cinder_volume_binding_mode", self.csi_cinder_volume_binding_mode.as_str().to_owned()),
            ("etcd_blockdevice_size", self.etcd_blockdevice_size.to_string()),
            ("etcd_blockdevice_type", self.etcd_blockdevice_type.as_str().to_owned()),
            ("etcd_blockdevice_volume_az", self.etcd_blockdevice_volume_az.clone()),
            ("etcd_blockdevice_volume_type", self.etcd_blockdevice_volume_type.clone()),
            ("extra_network_names", self.extra_network_names.clone()),
            ("extra_network_name", self.extra_network_name.clone()),
            ("fixed_subnet_cidr", self.fixed_subnet_cidr.clone()),
            ("keystone_auth_enabled", flag(self.keystone_auth_enabled)),
            ("kube_dashboard_enabled", flag(self.kube_dashboard_enabled)),
            ("master_lb_floating_ip_enabled", flag(self.master_lb_floating_ip_enabled)),
            ("max_node_count", number(self.max_node_count)),
            ("min_node_count", number(self.min_node_count)),
            ("monitoring_enabled", flag(self.monitoring_enabled)),
            ("octavia_lb_algorithm", self.octavia_lb_algorithm.clone()),
            ("octavia_lb_healthcheck", flag(self.octavia_lb_healthcheck)),
            ("octavia_provider", self.octavia_provider.clone()),
        ];
        all.retain(|(_, text)| !text.is_empty());
        all
    }
}
