//! Key pairs of users whom the stacks of a cluster belonged to.

use model::resource::{CloudResource, ResourceKind};
use provider_clients::{CloudError, Nova};

use super::{OUT_OF_REACH, REMOVED, Sweep};
use crate::credentials::{self, lent_key};
use crate::outcome::Failure;

impl Sweep<'_> {
    /// Removes the key pair that a row tells of, whether its user is there or not; true when there is none any more.
    pub(super) async fn remove_key_pair(&mut self, row: &CloudResource) -> Result<bool, Failure> {
        let Some(user) = lent_key::user_of(&row.name) else { return Ok(true) };
        let Some(admin) = credentials::service(self.cx).await? else {
            self.found(ResourceKind::KeyPair, row, OUT_OF_REACH);
            return Ok(false);
        };
        match self.take_key_pairs(&admin.nova(), user, row, Some(&row.name)).await {
            Ok(()) => Ok(true),
            Err(error) if error.status() == Some(403) => {
                self.found(ResourceKind::KeyPair, row, OUT_OF_REACH);
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Removes all key pairs of an owner of stacks who is about to be removed, by the row that tells of him: what an older program lent him no row
    /// of its own tells of.
    pub(super) async fn remove_key_pairs_of(&mut self, user: &str, row: &CloudResource) -> Result<(), Failure> {
        let Some(admin) = credentials::service(self.cx).await? else {
            tracing::warn!(user.id = user, "the service is no administrator any more: the public key of a cluster's stacks stays in Nova");
            return Ok(());
        };
        match self.take_key_pairs(&admin.nova(), user, row, None).await {
            Err(error) if !error.repeating_may_mend() => {
                tracing::warn!(%error, "the public key of a cluster's stacks stays in Nova, where nobody can use it");
                Ok(())
            }
            taken => Ok(taken?),
        }
    }

    /// Removes the key pairs of a user of a row's cluster: all, or the one of this name in the inventory.
    async fn take_key_pairs(&mut self, nova: &Nova, user: &str, row: &CloudResource, only: Option<&str>) -> Result<(), CloudError> {
        for pair in nova.keypairs_of(user).await? {
            let name = lent_key::reference(user, &pair.name);
            if only.is_some_and(|only| only != name) {
                continue;
            }
            let was_there = nova.delete_keypair_of(user, &pair.name).await?;
            if was_there {
                let found = CloudResource { resource_id: Some(name.clone()), name, ..row.clone() };
                self.found(ResourceKind::KeyPair, &found, REMOVED);
                self.gone(ResourceKind::KeyPair);
            }
        }
        Ok(())
    }
}
