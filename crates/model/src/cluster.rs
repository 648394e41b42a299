//! The cluster row, what is inserted and what may be changed.

pub mod status;

use chrono::NaiveDateTime;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Integer, Timestamp};
use secrecy::SecretString;

use crate::certificate::References;
use crate::id::{ClusterId, ProjectId, TemplateId, UserId};
use crate::json::Labels;
use crate::packed::packed;
use crate::schema::cluster;
use crate::seal::vault::{Column, Stored, Vault, VaultError};

use status::Status;

/// A row of upstream's `cluster` table, as stored. Text that has a meaning (status, labels) is read through the methods, so that a row
/// with an odd value can still be listed.
#[derive(Clone, Queryable, Selectable, QueryableByName)]
#[diesel(table_name = cluster)]
pub struct Cluster {
    pub created_at: Option<NaiveDateTime>,
    pub updated_at: Option<NaiveDateTime>,
    pub id: i32,
    pub uuid: String,
    pub name: Option<String>,
    pub cluster_template_id: Option<String>,
    pub api_address: Option<String>,
    pub stack_id: Option<String>,
    pub project_id: Option<String>,
    pub user_id: Option<String>,
    pub status: Option<String>,
    pub discovery_url: Option<String>,
    pub status_reason: Option<String>,
    pub ca_cert_ref: Option<String>,
    pub magnum_cert_ref: Option<String>,
    pub create_timeout: Option<i32>,
    pub trust_id: Option<String>,
    pub trustee_username: Option<String>,
    pub trustee_user_id: Option<String>,
    pub trustee_password: Option<Stored>,
    pub coe_version: Option<String>,
    pub container_version: Option<String>,
    pub keypair: Option<String>,
    pub docker_volume_size: Option<i32>,
    pub labels: Option<String>,
    pub master_flavor_id: Option<String>,
    pub flavor_id: Option<String>,
    pub health_status: Option<String>,
    pub health_status_reason: Option<String>,
    pub fixed_network: Option<String>,
    pub fixed_subnet: Option<String>,
    pub floating_ip_enabled: Option<bool>,
    pub master_lb_enabled: Option<bool>,
    pub etcd_ca_cert_ref: Option<String>,
    pub front_proxy_ca_cert_ref: Option<String>,
}

/// The part of an id that ends the name of a stack.
pub fn stack_mark(uuid: &str) -> String {
    uuid.chars().filter(char::is_ascii_alphanumeric).take(12).collect::<String>().to_ascii_lowercase()
}

impl Cluster {
    /// The public id.
    pub fn cluster_id(&self) -> ClusterId {
        ClusterId::new(self.uuid.clone())
    }

    /// The trustee's password in the clear.
    ///
    /// # Errors
    /// [`VaultError`] when it is sealed and cannot be opened.
    pub fn trustee_password(&self, vault: &Vault) -> Result<Option<SecretString>, VaultError> {
        self.trustee_password.as_ref().map(|stored| vault.open(Column::TrusteePassword, &self.uuid, stored)).transpose()
    }

    /// The status, or none when the column holds no word of the enumeration.
    pub fn status(&self) -> Option<Status> {
        self.status.as_deref().and_then(Status::parse)
    }

    /// The end of the names of the stacks that this program makes for the cluster: a part of its id, in letters that a host name may have.
    pub fn stack_mark(&self) -> String {
        stack_mark(&self.uuid)
    }

    /// The labels in force (copied from the template when the cluster was made).
    pub fn labels(&self) -> Labels {
        Labels::read(self.labels.as_deref())
    }

    /// The owner project; empty text for a row that has none.
    pub fn project(&self) -> ProjectId {
        ProjectId(self.project_id.clone().unwrap_or_default())
    }

    /// The creator.
    pub fn user(&self) -> UserId {
        UserId(self.user_id.clone().unwrap_or_default())
    }

    /// The name, or the uuid for a row without a name.
    pub fn display_name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.uuid)
    }

    /// NULL reads as true (upstream's rule).
    pub fn floating_ip_enabled(&self) -> bool {
        self.floating_ip_enabled.unwrap_or(true)
    }

    /// NULL reads as false (upstream's rule).
    pub fn master_lb_enabled(&self) -> bool {
        self.master_lb_enabled.unwrap_or(false)
    }

    /// Its key pairs: the authorities that sign for it, and the service's client certificate.
    pub fn references(&self) -> References {
        References {
            kubernetes: self.ca_cert_ref.clone(),
            etcd: self.etcd_ca_cert_ref.clone(),
            front_proxy: self.front_proxy_ca_cert_ref.clone(),
            client: self.magnum_cert_ref.clone(),
        }
    }
}

impl std::fmt::Debug for Cluster {
    // The row holds the trustee's password: print only what identifies it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("uuid", &self.uuid).field("name", &self.name).field("status", &self.status).finish_non_exhaustive()
    }
}

packed! {
    /// What a list in detail shows of a cluster: all columns but credentials and certificates, and the nodes of its groups.
    DetailedCluster of cluster {
        always uuid;
        text name, cluster_template_id, api_address, stack_id, project_id, user_id, status, discovery_url, status_reason, coe_version,
            container_version, keypair, labels, master_flavor_id, flavor_id, health_status, health_status_reason, fixed_network, fixed_subnet;
        nodegroups Groups::NODES;
        other id: i32 as Integer,
            created_at: Option<NaiveDateTime> as Nullable<Timestamp>,
            updated_at: Option<NaiveDateTime> as Nullable<Timestamp>,
            create_timeout: Option<i32> as Nullable<Integer>,
            docker_volume_size: Option<i32> as Nullable<Integer>,
            floating_ip_enabled: Option<bool> as Nullable<Bool>,
            master_lb_enabled: Option<bool> as Nullable<Bool>;
    }
}

packed! {
    /// What a plain list shows of a cluster: a third of the columns, for the others would be most of what such a list costs, and how large its
    /// groups are.
    ListedCluster of cluster {
        always uuid;
        text name, cluster_template_id, stack_id, status, keypair, labels, master_flavor_id, flavor_id, health_status;
        nodegroups Groups::SIZES;
        other create_timeout: Option<i32> as Nullable<Integer>,
            docker_volume_size: Option<i32> as Nullable<Integer>;
    }
}

/// What the API hands to the store for a new cluster: checked values only.
#[derive(Clone, Debug)]
pub struct CreateSpec {
    pub id: ClusterId,
    pub name: String,
    pub template: TemplateId,
    pub project: ProjectId,
    pub user: UserId,
    pub keypair: Option<String>,
    pub docker_volume_size: Option<i32>,
    pub labels: Labels,
    pub master_flavor: Option<String>,
    pub flavor: Option<String>,
    /// Minutes; none or 0 means the configured default.
    pub create_timeout: Option<i32>,
    pub discovery_url: Option<String>,
    pub fixed_network: Option<String>,
    pub fixed_subnet: Option<String>,
    pub floating_ip_enabled: bool,
    pub master_lb_enabled: bool,
    pub health_status: Option<String>,
    pub health_status_reason: Labels,
    /// What its owner is to be told of the request: the first `status_reason`.
    pub note: Option<String>,
}

/// Columns that change after creation; an absent field leaves its column alone, `Some(None)` writes NULL.
#[derive(Clone, Default, AsChangeset)]
#[diesel(table_name = cluster)]
pub struct ClusterChange {
    pub status: Option<String>,
    pub cluster_template_id: Option<Option<String>>,
    /// As [`Labels::column`] writes them.
    pub labels: Option<Option<String>>,
    pub status_reason: Option<Option<String>>,
    pub user_id: Option<Option<String>>,
    pub stack_id: Option<Option<String>>,
    pub api_address: Option<Option<String>>,
    pub coe_version: Option<Option<String>>,
    pub container_version: Option<Option<String>>,
    pub ca_cert_ref: Option<Option<String>>,
    pub magnum_cert_ref: Option<Option<String>>,
    pub etcd_ca_cert_ref: Option<Option<String>>,
    pub front_proxy_ca_cert_ref: Option<Option<String>>,
    pub trust_id: Option<Option<String>>,
    pub trustee_username: Option<Option<String>>,
    pub trustee_user_id: Option<Option<String>>,
    pub trustee_password: Option<Option<Stored>>,
    pub health_status: Option<Option<String>>,
    pub health_status_reason: Option<Option<String>>,
}

impl ClusterChange {
    /// Another set of key pairs.
    pub fn references(set: &References) -> Self {
        Self {
            ca_cert_ref: Some(set.kubernetes.clone()),
            etcd_ca_cert_ref: Some(set.etcd.clone()),
            front_proxy_ca_cert_ref: Some(set.front_proxy.clone()),
            magnum_cert_ref: Some(set.client.clone()),
            ..Self::default()
        }
    }

    /// Another password of the trustee, as the vault has it stored in the row of a cluster.
    ///
    /// # Errors
    /// [`VaultError::TooLong`].
    pub fn trustee_password(vault: &Vault, cluster: &ClusterId, password: &SecretString) -> Result<Self, VaultError> {
        let stored = vault.store(Column::TrusteePassword, cluster.as_str(), password)?;
        Ok(Self { trustee_password: Some(Some(stored)), ..Self::default() })
    }

    /// A change of status with its reason (none clears the reason).
    pub fn status(status: Status, reason: Option<String>) -> Self {
        Self { status: Some(status.as_str().into()), status_reason: Some(reason), ..Self::default() }
    }
}
