//! The templates that clusters are made from and brought to.

use model::id::{ProjectId, TemplateId, UserId};
use model::json::Labels;
use model::store::{Conn, Store, StoreError, template};
use model::template::ClusterTemplate;

/// The versions of Kubernetes that the templates are of: of the first one clusters are made.
pub const VERSIONS: [&str; 2] = ["v1.33.5", "v1.34.1"];

/// The label that says which version a cluster has.
pub const VERSION_LABEL: &str = "kube_tag";

/// A template, and the version of its clusters.
#[derive(Clone, Debug)]
pub struct Release {
    pub template: TemplateId,
    pub version: &'static str,
}

/// Stores a template for each version, in their order.
///
/// # Errors
/// When the store does not take them.
pub async fn insert(store: &Store, user: &UserId, project: &ProjectId) -> Result<Vec<Release>, StoreError> {
    let mut releases = Vec::new();
    for version in VERSIONS {
        let template = TemplateId::generate();
        let row = &row(&template, version, user, project);
        store.write(async |conn: &mut Conn| template::insert(conn, row).await).await?;
        releases.push(Release { template, version });
    }
    Ok(releases)
}

fn row(id: &TemplateId, version: &str, user: &UserId, project: &ProjectId) -> ClusterTemplate {
    let mut labels = Labels::default();
    labels.0.insert(VERSION_LABEL.into(), version.into());
    ClusterTemplate {
        uuid: id.as_str().into(),
        name: Some(format!("k8s-{version}")),
        flavor_id: Some("m1.small".into()),
        image_id: Some("fedora-coreos".into()),
        external_network_id: Some("public".into()),
        dns_nameserver: Some("8.8.8.8".into()),
        project_id: Some(project.0.clone()),
        user_id: Some(user.0.clone()),
        master_flavor_id: Some("m1.small".into()),
        cluster_distro: Some("fedora-coreos".into()),
        coe: Some("kubernetes".into()),
        registry_enabled: Some(false),
        network_driver: Some("flannel".into()),
        labels: Some(labels.column()),
        tls_disabled: Some(false),
        public: Some(false),
        server_type: Some("vm".into()),
        master_lb_enabled: Some(false),
        floating_ip_enabled: Some(false),
        hidden: Some(false),
        driver: Some("k8s_fedora_coreos_v1".into()),
        ..ClusterTemplate::default()
    }
}
