//! What is shown of the row of a cluster, whichever of its columns were read.

use chrono::NaiveDateTime;
use model::cluster::{Cluster, DetailedCluster, ListedCluster};

/// What every view of a cluster shows, borrowed from a row.
pub struct Summary<'a> {
    pub(super) uuid: &'a str,
    pub(super) name: Option<&'a str>,
    pub(super) cluster_template_id: Option<&'a str>,
    pub(super) keypair: Option<&'a str>,
    pub(super) docker_volume_size: Option<i32>,
    pub(super) labels: Option<&'a str>,
    pub(super) master_flavor_id: Option<&'a str>,
    pub(super) flavor_id: Option<&'a str>,
    pub(super) create_timeout: Option<i32>,
    pub(super) stack_id: Option<&'a str>,
    pub(super) status: Option<&'a str>,
    pub(super) health_status: Option<&'a str>,
}

macro_rules! summary_of {
    ($($row:ty),+) => {
        $(impl<'a> From<&'a $row> for Summary<'a> {
            fn from(row: &'a $row) -> Self {
                Self {
                    uuid: &row.uuid,
                    name: row.name.as_deref(),
                    cluster_template_id: row.cluster_template_id.as_deref(),
                    keypair: row.keypair.as_deref(),
                    docker_volume_size: row.docker_volume_size,
                    labels: row.labels.as_deref(),
                    master_flavor_id: row.master_flavor_id.as_deref(),
                    flavor_id: row.flavor_id.as_deref(),
                    create_timeout: row.create_timeout,
                    stack_id: row.stack_id.as_deref(),
                    status: row.status.as_deref(),
                    health_status: row.health_status.as_deref(),
                }
            }
        })+
    };
}
summary_of!(Cluster, DetailedCluster, ListedCluster);

/// What is shown of a row in detail.
pub struct Detail<'a> {
    pub(super) summary: Summary<'a>,
    pub(super) status_reason: Option<&'a str>,
    pub(super) health_status_reason: Option<&'a str>,
    pub(super) discovery_url: Option<&'a str>,
    pub(super) api_address: Option<&'a str>,
    pub(super) coe_version: Option<&'a str>,
    pub(super) container_version: Option<&'a str>,
    pub(super) project_id: Option<&'a str>,
    pub(super) user_id: Option<&'a str>,
    pub(super) fixed_network: Option<&'a str>,
    pub(super) fixed_subnet: Option<&'a str>,
    pub(super) floating_ip_enabled: Option<bool>,
    pub(super) master_lb_enabled: Option<bool>,
    pub(super) created_at: Option<NaiveDateTime>,
    pub(super) updated_at: Option<NaiveDateTime>,
}

macro_rules! detail_of {
    ($($row:ty),+) => {
        $(impl<'a> From<&'a $row> for Detail<'a> {
            fn from(row: &'a $row) -> Self {
                Self {
                    summary: row.into(),
                    status_reason: row.status_reason.as_deref(),
                    health_status_reason: row.health_status_reason.as_deref(),
                    discovery_url: row.discovery_url.as_deref(),
                    api_address: row.api_address.as_deref(),
                    coe_version: row.coe_version.as_deref(),
                    container_version: row.container_version.as_deref(),
                    project_id: row.project_id.as_deref(),
                    user_id: row.user_id.as_deref(),
                    fixed_network: row.fixed_network.as_deref(),
                    fixed_subnet: row.fixed_subnet.as_deref(),
                    floating_ip_enabled: row.floating_ip_enabled,
                    master_lb_enabled: row.master_lb_enabled,
                    created_at: row.created_at,
                    updated_at: row.updated_at,
                }
            }
        })+
    };
}
detail_of!(Cluster, DetailedCluster);
