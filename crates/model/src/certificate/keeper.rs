//! Where key pairs are kept: in the table `x509keypair`, or with a keeper outside the database (Barbican, a folder of files).
//!
//! A reference in a cluster's row says by its form who holds the pair, so that pairs of every kind are opened whatever the configuration says
//! now; the configuration decides where new ones go. A pair in the table is written in the transaction that stores its reference. A keeper
//! outside is asked under a name derived from the cluster, and looks for what an earlier attempt left before it stores anything.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::{NewKeypair, StoredKeypair};
use crate::id::KeypairId;
use crate::operation::CloudFault;
use crate::seal::vault::VaultError;
use crate::store::{Conn, Store, StoreError, certificate};

/// Keeps key pairs outside the database.
pub trait Keeper: Send + Sync {
    /// The reference of the pair that was stored under a name, if it was stored as a whole.
    fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<String>, KeeperError>>;

    /// Stores a pair under a name, in place of parts that an attempt which broke off has left there; its reference.
    fn store<'a>(&'a self, name: &'a str, pair: &'a NewKeypair) -> BoxFuture<'a, Result<String, KeeperError>>;

    /// The pair of a reference.
    fn fetch<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Result<StoredKeypair, KeeperError>>;

    /// Removes the pair of a reference, all of it; false when nothing of it was there.
    fn delete<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Result<bool, KeeperError>>;

    /// Removes whatever was stored under a name, whole or in parts; false when there was nothing.
    fn delete_named<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<bool, KeeperError>>;
}

/// Why a keeper did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum KeeperError {
    /// There is no such pair, or a part of it is missing.
    #[error("no key pair {0}")]
    NotFound(String),
    /// It may go better next time; what the cloud said, if it was the cloud.
    #[error("{reason}")]
    Unavailable { reason: String, fault: Option<Box<CloudFault>> },
    /// It will not.
    #[error("{reason}")]
    Refused { reason: String, fault: Option<Box<CloudFault>> },
    /// The reference names a keeper that this process was not given.
    #[error("the key pair {reference} is kept by {keeper}, which is not configured")]
    NoKeeper { keeper: &'static str, reference: String },
    /// A secret of the pair is sealed, and cannot be opened.
    #[error(transparent)]
    Sealed(VaultError),
    /// The database.
    #[error(transparent)]
    Store(Arc<StoreError>),
}

impl From<StoreError> for KeeperError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound { key, .. } => Self::NotFound(key),
            StoreError::Sealed(error) => Self::Sealed(error),
            other => Self::Store(Arc::new(other)),
        }
    }
}

/// Where new pairs go (`[certificates] cert_manager_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The table `x509keypair`: the reference is a row's uuid.
    Database,
    /// Barbican: the reference is the URL of a container.
    Barbican,
    /// A folder: the reference is the stem of the files' names, a uuid as well.
    Local,
}

/// Where pairs are kept, and where new ones go.
#[derive(Clone)]
pub struct Keepers {
    pub new: Held,
    pub barbican: Option<Arc<dyn Keeper>>,
    pub local: Option<Arc<dyn Keeper>>,
}

impl Default for Keepers {
    fn default() -> Self {
        Self { new: Held::Database, barbican: None, local: None }
    }
}

impl Keepers {
    /// The keeper of new pairs; none when they go into the database.
    pub fn outside(&self) -> Option<&Arc<dyn Keeper>> {
        match self.new {
            Held::Database => None,
            Held::Barbican => self.barbican.as_ref(),
            Held::Local => self.local.as_ref(),
        }
    }

    /// Whether there may be something of a pair outside the database. References to files look like those to rows: where new pairs go into
    /// files no longer, it is the files that tell.
    pub async fn may_be_outside(&self, reference: &KeypairId) -> bool {
        if is_url(reference.as_str()) || self.new == Held::Local {
            return true;
        }
        let Some(local) = &self.local else { return false };
        match local.fetch(reference.as_str()).await {
            Ok(_) => true,
            Err(KeeperError::NotFound(_)) => false,
            // Files that cannot be read do not stand in the way of a cluster whose pairs are in the database.
            Err(error) => {
                tracing::warn!(%error, %reference, "it cannot be seen whether there are files of this key pair");
                false
            }
        }
    }

    /// The pair of a reference, whoever holds it.
    ///
    /// # Errors
    /// [`KeeperError`].
    pub async fn fetch(&self, store: &Store, reference: &KeypairId) -> Result<StoredKeypair, KeeperError> {
        if is_url(reference.as_str()) {
            return self.barbican(reference)?.fetch(reference.as_str()).await;
        }
        let found = store.read(async |conn: &mut Conn| certificate::fetch(conn, store.vault(), reference).await).await;
        match (found, &self.local) {
            (Err(StoreError::NotFound { .. }), Some(local)) => local.fetch(reference.as_str()).await,
            (found, _) => Ok(found?),
        }
    }

    /// Removes a pair that is not in the database; false when there is none.
    ///
    /// # Errors
    /// [`KeeperError`].
    pub async fn delete_outside(&self, reference: &KeypairId) -> Result<bool, KeeperError> {
        if is_url(reference.as_str()) {
            return self.barbican(reference)?.delete(reference.as_str()).await;
        }
        match &self.local {
            Some(local) => local.delete(reference.as_str()).await,
            None => Ok(false),
        }
    }

    fn barbican(&self, reference: &KeypairId) -> Result<&Arc<dyn Keeper>, KeeperError> {
        self.barbican.as_ref().ok_or_else(|| KeeperError::NoKeeper { keeper: "Barbican", reference: reference.to_string() })
    }
}

/// Whether a reference is of Barbican.
pub(crate) fn is_url(reference: &str) -> bool {
    reference.contains("://")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_reference_says_whether_barbican_holds_the_pair() {
        let none = Keepers::default();
        for (text, wanted) in [
            ("http://barbican:9311/v1/containers/5f8e", true),
            ("https://h/key-manager/v1/containers/5f8e", true),
            ("0dd7f2f7-4c48-4f0c-8b0b-9a7a3f0f4f6d", false),
            ("", false),
        ] {
            let reference = KeypairId::new(text);
            assert_eq!(none.may_be_outside(&reference).await, wanted, "{text}");
            assert!(none.barbican(&reference).is_err(), "no Barbican was given");
        }
        let files = Keepers { new: Held::Local, ..Keepers::default() };
        assert!(files.may_be_outside(&KeypairId::new("0dd7f2f7-4c48-4f0c-8b0b-9a7a3f0f4f6d")).await);
    }
}
