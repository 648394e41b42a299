//! One step of the removal of what the inventory knows as made for a cluster that is gone. Each says whether there is no such thing any more.

use model::resource::{CloudResource, ResourceKind};
use provider_clients::Session;

use super::{OUT_OF_REACH, REMOVED, Sweep};
use crate::certificates;
use crate::credentials;
use crate::driver::{self, Handle};
use crate::outcome::Failure;
use crate::plan::{self, Observed, RemovalStep};

impl Sweep<'_> {
    pub(super) async fn remove_user(&mut self, kind: ResourceKind, row: &CloudResource) -> Result<bool, Failure> {
        let keystone = self.cx.trustee_admin.keystone();
        let domain = credentials::trustee_domain(self.cx).await?;
        if let Some(user) = keystone.find_user(&row.name, &domain).await? {
            self.found(kind, row, REMOVED);
            if kind == ResourceKind::StackOwner {
                self.remove_key_pairs_of(&user.id, row).await?;
            }
            keystone.delete_user(&user.id).await?;
            self.gone(kind);
        }
        Ok(true)
    }

    pub(super) async fn remove_certificate(&mut self, row: &CloudResource) -> Result<bool, Failure> {
        if certificates::remove_from_keeper(self.cx, &row.name, row.resource_id.clone()).await? {
            self.found(ResourceKind::Certificate, row, REMOVED);
            self.gone(ResourceKind::Certificate);
        }
        Ok(true)
    }

    /// True when there is no such thing any more.
    pub(super) async fn remove_thing(&mut self, kind: ResourceKind, row: &CloudResource, admin: &Session) -> Result<bool, Failure> {
        if kind == ResourceKind::Stack {
            return self.remove_stack(row, admin).await;
        }
        let Some(id) = row.resource_id.as_deref() else {
            // It was asked for and the answer was lost: which user's it would be, among whose it could be looked for, nobody knows any more.
            let may_be_there = kind == ResourceKind::ApplicationCredential;
            if may_be_there {
                self.found(kind, row, OUT_OF_REACH);
            }
            return Ok(!may_be_there);
        };
        let step = match kind {
            ResourceKind::LoadBalancer => match admin.octavia().load_balancer(id).await? {
                Some(balancer) => plan::balancer(&balancer.provisioning_status, 0),
                None => RemovalStep::Gone,
            },
            ResourceKind::Volume => match admin.cinder().volume(id).await? {
                Some(volume) => plan::volume(&volume.status, 0),
                None => RemovalStep::Gone,
            },
            ResourceKind::FloatingIp
            | ResourceKind::Stack
            | ResourceKind::Trust
            | ResourceKind::Trustee
            | ResourceKind::StackOwner
            | ResourceKind::KeyPair
            | ResourceKind::Certificate
            | ResourceKind::HelmRelease
            | ResourceKind::ApplicationCredential => RemovalStep::Remove,
        };
        if step == RemovalStep::Gone {
            return Ok(true);
        }
        self.found(kind, row, REMOVED);
        if step != RemovalStep::Remove {
            return Ok(false);
        }
        let was_there = match kind {
            ResourceKind::LoadBalancer => admin.octavia().delete_load_balancer(id, true).await?,
            ResourceKind::Volume => admin.cinder().delete_volume(id).await?,
            ResourceKind::FloatingIp => admin.neutron().delete_floating_ip(id).await?,
            ResourceKind::ApplicationCredential => match id.split_once('/') {
                Some((user, id)) => admin.keystone().delete_application_credential(user, id).await?,
                None => false,
            },
            ResourceKind::Stack
            | ResourceKind::Trust
            | ResourceKind::Trustee
            | ResourceKind::StackOwner
            | ResourceKind::KeyPair
            | ResourceKind::Certificate
            | ResourceKind::HelmRelease => false,
        };
        if was_there {
            self.gone(kind);
        }
        Ok(!was_there || matches!(kind, ResourceKind::FloatingIp | ResourceKind::ApplicationCredential))
    }

    async fn remove_stack(&mut self, row: &CloudResource, admin: &Session) -> Result<bool, Failure> {
        let mut handle = Handle { name: row.name.clone(), id: row.resource_id.clone(), cluster: row.cluster_uuid.clone() };
        if handle.id.is_none() {
            // By its name an administrator finds a stack of another project only where Heat lets him list all of them.
            handle.id = match driver::find_anywhere(&handle, admin).await {
                Ok(id) => id,
                Err(error) if error.status() == Some(403) => {
                    self.found(ResourceKind::Stack, row, OUT_OF_REACH);
                    return Ok(false);
                }
                Err(error) => return Err(error.into()),
            };
        }
        if handle.id.is_none() {
            return Ok(true);
        }
        match driver::observe(&handle, admin).await? {
            Observed::Absent | Observed::Foreign { .. } => Ok(true),
            Observed::Leaving(_) => {
                self.found(ResourceKind::Stack, row, REMOVED);
                Ok(false)
            }
            Observed::Building(seen)
            | Observed::Ready(seen)
            | Observed::RolledBack { seen, .. }
            | Observed::Broken { seen, .. }
            | Observed::Stuck { seen, .. } => {
                self.found(ResourceKind::Stack, row, REMOVED);
                driver::remove(admin, &seen).await?;
                self.gone(ResourceKind::Stack);
                Ok(false)
            }
        }
    }
}
