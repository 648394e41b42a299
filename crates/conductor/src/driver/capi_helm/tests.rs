//! Rows and settings that tests share.

use std::collections::BTreeMap;
use std::time::Duration;

use model::cluster::Cluster;
use model::nodegroup::Nodegroup;
use model::template::ClusterTemplate;

use super::{CapiSettings, Kinds};

/// As an operator has it who sets nothing.
pub(super) fn settings() -> CapiSettings {
    let labels = model::driver::DriverName::K8sCapiHelmV1.labels().iter();
    CapiSettings {
        namespace_prefix: "magnum".into(),
        chart_name: "openstack-cluster".into(),
        chart_repo: None,
        chart_version: "0.10.1".into(),
        minimum_flavor_ram: 2048,
        minimum_flavor_vcpus: 2,
        default_volume_type: None,
        allowed_topologies: Vec::new(),
        interface: "public".into(),
        region: None,
        verify_ca: true,
        ca: String::new(),
        control_plane_conditions: Vec::new(),
        kinds: Kinds::read("").expect("defaults"),
        controllers: Vec::new(),
        rotation_pause: Duration::from_secs(3600),
        labels: labels.filter_map(|label| Some((label.name, label.default?.to_owned()))).collect::<BTreeMap<_, _>>(),
    }
}

/// A row with nothing in it but its name.
pub(crate) fn cluster() -> Cluster {
    Cluster {
        created_at: None,
        updated_at: None,
        id: 1,
        uuid: "7d1b2c3e-4f50-4617-8283-94a5b6c7d8e9".into(),
        name: Some("My Cluster_1".into()),
        cluster_template_id: None,
        api_address: None,
        stack_id: None,
        project_id: Some("p".into()),
        user_id: Some("u".into()),
        status: None,
        discovery_url: None,
        status_reason: None,
        ca_cert_ref: None,
        magnum_cert_ref: None,
        create_timeout: None,
        trust_id: None,
        trustee_username: None,
        trustee_user_id: None,
        trustee_password: None,
        coe_version: None,
        container_version: None,
        keypair: None,
        docker_volume_size: None,
        labels: None,
        master_flavor_id: Some("m1.medium".into()),
        flavor_id: Some("m1.medium".into()),
        health_status: None,
        health_status_reason: None,
        fixed_network: None,
        fixed_subnet: None,
        floating_ip_enabled: None,
        master_lb_enabled: None,
        etcd_ca_cert_ref: None,
        front_proxy_ca_cert_ref: None,
    }
}

pub(crate) fn group(name: &str, role: &str, count: i32, is_default: bool) -> Nodegroup {
    Nodegroup {
        created_at: None,
        updated_at: None,
        id: 1,
        uuid: format!("uuid-of-{name}"),
        name: name.into(),
        cluster_id: "c".into(),
        project_id: "p".into(),
        docker_volume_size: None,
        labels: None,
        flavor_id: Some("m1.medium".into()),
        image_id: None,
        node_addresses: None,
        node_count: Some(count),
        max_node_count: None,
        min_node_count: None,
        role: Some(role.into()),
        is_default: Some(is_default),
        stack_id: None,
        status: None,
        status_reason: None,
        version: None,
    }
}

/// A template of an Ubuntu image.
pub(crate) fn template() -> ClusterTemplate {
    ClusterTemplate {
        created_at: None,
        updated_at: None,
        id: 1,
        uuid: "t".into(),
        name: None,
        flavor_id: None,
        keypair_id: None,
        image_id: None,
        external_network_id: None,
        dns_nameserver: None,
        apiserver_port: None,
        project_id: None,
        user_id: None,
        docker_volume_size: None,
        fixed_network: None,
        master_flavor_id: None,
        cluster_distro: Some("ubuntu".into()),
        coe: Some("kubernetes".into()),
        http_proxy: None,
        https_proxy: None,
        no_proxy: None,
        registry_enabled: None,
        network_driver: None,
        labels: None,
        tls_disabled: None,
        public: None,
        server_type: Some("vm".into()),
        volume_driver: None,
        insecure_registry: None,
        docker_storage_driver: None,
        master_lb_enabled: None,
        fixed_subnet: None,
        floating_ip_enabled: None,
        hidden: None,
        tags: None,
        driver: None,
    }
}
