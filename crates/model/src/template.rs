//! The cluster template row.

use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::driver::DriverName;
use crate::id::{self, TemplateId};
use crate::json::Labels;
use crate::schema::cluster_template;

/// A row of upstream's `cluster_template` table, as stored.
#[derive(Clone, Debug, Default, PartialEq, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = cluster_template)]
#[diesel(treat_none_as_null = true, treat_none_as_default_value = false)]
pub struct ClusterTemplate {
    pub created_at: Option<NaiveDateTime>,
    pub updated_at: Option<NaiveDateTime>,
    #[diesel(skip_insertion, skip_update)]
    pub id: i32,
    pub uuid: String,
    pub name: Option<String>,
    pub flavor_id: Option<String>,
    pub keypair_id: Option<String>,
    pub image_id: Option<String>,
    pub external_network_id: Option<String>,
    pub dns_nameserver: Option<String>,
    pub apiserver_port: Option<i32>,
    pub project_id: Option<String>,
    pub user_id: Option<String>,
    pub docker_volume_size: Option<i32>,
    pub fixed_network: Option<String>,
    pub master_flavor_id: Option<String>,
    pub cluster_distro: Option<String>,
    pub coe: Option<String>,
    pub http_proxy: Option<String>,
    pub https_proxy: Option<String>,
    pub no_proxy: Option<String>,
    pub registry_enabled: Option<bool>,
    pub network_driver: Option<String>,
    pub labels: Option<String>,
    pub tls_disabled: Option<bool>,
    pub public: Option<bool>,
    pub server_type: Option<String>,
    pub volume_driver: Option<String>,
    pub insecure_registry: Option<String>,
    pub docker_storage_driver: Option<String>,
    pub master_lb_enabled: Option<bool>,
    pub fixed_subnet: Option<String>,
    pub floating_ip_enabled: Option<bool>,
    pub hidden: Option<bool>,
    pub tags: Option<String>,
    pub driver: Option<String>,
}

impl ClusterTemplate {
    /// The public id.
    pub fn template_id(&self) -> TemplateId {
        TemplateId::new(self.uuid.clone())
    }

    /// The driver of its clusters: the one it names, else the one that serves its triple with upstream.
    pub fn driver_name(&self) -> Option<DriverName> {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        match &self.driver {
            Some(name) => DriverName::parse(name),
            None => DriverName::of_nameless(self.server_type.as_deref().unwrap_or("vm"), &text(&self.cluster_distro), &text(&self.coe)),
        }
    }

    /// Names what nodes are made of by it: the same text as long as nothing is changed but who sees it and what it is called. Of another release of this
    /// program it may be another text.
    pub fn fingerprint(&self) -> String {
        let bare = Self {
            created_at: None,
            updated_at: None,
            id: 0,
            name: None,
            project_id: None,
            user_id: None,
            public: None,
            hidden: None,
            tags: None,
            ..self.clone()
        };
        id::of_words(&["template", &format!("{bare:?}")])
    }

    /// The labels.
    pub fn labels(&self) -> Labels {
        Labels::read(self.labels.as_deref())
    }

    /// Visible to all projects (NULL reads as false).
    pub fn is_public(&self) -> bool {
        self.public.unwrap_or(false)
    }

    /// Kept out of lists and out of use by others (NULL reads as false).
    pub fn is_hidden(&self) -> bool {
        self.hidden.unwrap_or(false)
    }

    /// Whether Kubernetes' API is served without TLS (NULL reads as false).
    pub fn is_tls_disabled(&self) -> bool {
        self.tls_disabled.unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_that_is_called_or_shown_otherwise_makes_the_same_nodes() {
        let row = ClusterTemplate { uuid: "t".into(), image_id: Some("a".into()), labels: Some("{}".into()), ..ClusterTemplate::default() };
        let at = chrono::DateTime::from_timestamp_millis(1).map(|at| at.naive_utc());
        let shown =
            ClusterTemplate { id: 7, name: Some("n".into()), updated_at: at, public: Some(true), hidden: Some(true), ..row.clone() };
        assert_eq!(shown.fingerprint(), row.fingerprint());
        for other in [
            ClusterTemplate { image_id: Some("b".into()), ..row.clone() },
            ClusterTemplate { labels: Some("{'kube_tag': 'v1.36.9'}".into()), ..row.clone() },
            ClusterTemplate { no_proxy: Some("10.0.0.1".into()), ..row.clone() },
        ] {
            assert_ne!(other.fingerprint(), row.fingerprint(), "{other:?}");
        }
    }
}
