//! The inventory: everything made for a cluster, recorded before it is made, and what Kubernetes itself made for it, recorded before it is
//! removed.

use diesel::prelude::*;

use crate::schema::cloud_resource;

/// What kind of thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResourceKind {
    /// A Keystone user in the trustee domain.
    Trustee,
    /// A Keystone trust.
    Trust,
    /// A Keystone user in the trustee domain, as whom the cluster's stacks are made and changed.
    StackOwner,
    /// A public key in Nova, among those of the user as whom the cluster's stacks are made. Its name and its id are both `USER/NAME`: Nova knows
    /// it by both, and keeps it when the user is gone.
    KeyPair,
    /// A Heat stack.
    Stack,
    /// A load balancer that Kubernetes made.
    LoadBalancer,
    /// A floating IP that Kubernetes made.
    FloatingIp,
    /// A volume that Kubernetes made.
    Volume,
    /// A certificate with its key, kept outside the database.
    Certificate,
    /// A Helm release on a management cluster, with the Cluster API objects of a cluster.
    HelmRelease,
    /// A Keystone application credential.
    ApplicationCredential,
}

impl ResourceKind {
    /// The stored word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trustee => "keystone_user",
            Self::Trust => "keystone_trust",
            Self::StackOwner => "stack_owner",
            Self::KeyPair => "nova_keypair",
            Self::Stack => "heat_stack",
            Self::LoadBalancer => "octavia_load_balancer",
            Self::FloatingIp => "neutron_floating_ip",
            Self::Volume => "cinder_volume",
            Self::Certificate => "certificate",
            Self::HelmRelease => "helm_release",
            Self::ApplicationCredential => "keystone_application_credential",
        }
    }

    /// The kind with the stored word; none for a word of another program.
    pub fn parse(word: &str) -> Option<Self> {
        let by_us = [Self::Trustee, Self::Trust, Self::StackOwner, Self::KeyPair, Self::Stack, Self::Certificate];
        let of_cluster_api = [Self::HelmRelease, Self::ApplicationCredential];
        let made_inside = [Self::LoadBalancer, Self::FloatingIp, Self::Volume];
        by_us.into_iter().chain(of_cluster_api).chain(made_inside).find(|kind| kind.as_str() == word)
    }
}

/// What the deletion of the cluster does with a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDelete {
    /// Removes it.
    Remove,
    /// Leaves it where it is, and says so.
    Keep,
}

impl OnDelete {
    /// The stored word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Remove => "delete",
            Self::Keep => "keep",
        }
    }
}

/// The name in the inventory of volumes that may be left of a cluster whose stack is gone, and that no deletion has looked for since. Of what
/// was seen the name says the id.
pub const UNSEEN_VOLUMES: &str = "volumes that nobody has looked for";

/// A row of our `cloud_resource` table.
#[derive(Clone, Debug, Queryable, Selectable)]
#[diesel(table_name = cloud_resource)]
pub struct CloudResource {
    pub id: i64,
    pub cluster_uuid: String,
    pub kind: String,
    pub name: String,
    pub resource_id: Option<String>,
    pub on_delete: String,
    pub created_ms: i64,
    pub updated_ms: i64,
}

impl CloudResource {
    /// What it is; none for a row of another program.
    pub fn kind(&self) -> Option<ResourceKind> {
        ResourceKind::parse(&self.kind)
    }

    /// Whether it stands for volumes that nobody has looked for yet, and is none itself.
    pub fn is_unseen(&self) -> bool {
        self.kind() == Some(ResourceKind::Volume) && self.resource_id.is_none() && self.name == UNSEEN_VOLUMES
    }

    /// Whether the deletion of the cluster removes it.
    pub fn is_to_go(&self) -> bool {
        self.on_delete == OnDelete::Remove.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_words_of_their_own_that_fit_the_column_and_another_programs_word_is_none() {
        let kinds = [
            ResourceKind::Trustee,
            ResourceKind::Trust,
            ResourceKind::StackOwner,
            ResourceKind::KeyPair,
            ResourceKind::Stack,
            ResourceKind::LoadBalancer,
            ResourceKind::FloatingIp,
            ResourceKind::Volume,
            ResourceKind::Certificate,
            ResourceKind::HelmRelease,
            ResourceKind::ApplicationCredential,
        ];
        for kind in kinds {
            assert_eq!(ResourceKind::parse(kind.as_str()), Some(kind));
            assert!(kind.as_str().len() <= 32, "{kind:?}");
        }
        assert_eq!(ResourceKind::parse("of_a_later_release"), None);
    }
}
