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

/// Text of a whole row, whose columns are fields.
macro_rules! field {
    ($row:ident.uuid) => {
        &$row.uuid
    };
    ($row:ident.$column:ident) => {
        $row.$column.as_deref()
    };
}

/// Text of a packed row.
macro_rules! method {
    ($row:ident.$column:ident) => {
        $row.$column()
    };
}

macro_rules! summary_of {
    ($row:ty, $text:ident) => {
        impl<'a> From<&'a $row> for Summary<'a> {
            fn from(row: &'a $row) -> Self {
                Self {
                    uuid: $text!(row.uuid),
                    name: $text!(row.name),
                    cluster_template_id: $text!(row.cluster_template_id),
                    keypair: $text!(row.keypair),
                    docker_volume_size: row.docker_volume_size,
                    labels: $text!(row.labels),
                    master_flavor_id: $text!(row.master_flavor_id),
                    flavor_id: $text!(row.flavor_id),
                    create_timeout: row.create_timeout,
                    stack_id: $text!(row.stack_id),
                    status: $text!(row.status),
                    health_status: $text!(row.health_status),
                }
            }
        }
    };
}
summary_of!(Cluster, field);
summary_of!(DetailedCluster, method);
summary_of!(ListedCluster, method);

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
    ($row:ty, $text:ident) => {
        impl<'a> From<&'a $row> for Detail<'a> {
            fn from(row: &'a $row) -> Self {
                Self {
                    summary: row.into(),
                    status_reason: $text!(row.status_reason),
                    health_status_reason: $text!(row.health_status_reason),
                    discovery_url: $text!(row.discovery_url),
                    api_address: $text!(row.api_address),
                    coe_version: $text!(row.coe_version),
                    container_version: $text!(row.container_version),
                    project_id: $text!(row.project_id),
                    user_id: $text!(row.user_id),
                    fixed_network: $text!(row.fixed_network),
                    fixed_subnet: $text!(row.fixed_subnet),
                    floating_ip_enabled: row.floating_ip_enabled,
                    master_lb_enabled: row.master_lb_enabled,
                    created_at: row.created_at,
                    updated_at: row.updated_at,
                }
            }
        }
    };
}
detail_of!(Cluster, field);
detail_of!(DetailedCluster, method);
