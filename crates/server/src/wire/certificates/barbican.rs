//! Key pairs in Barbican, as upstream keeps them: a container of type certificate, in it the certificate and the encrypted key (bytes) and the
//! key's passphrase (text).
//!
//! Upstream gives every secret the same name; ours carry the pair's own behind it, so that parts which an attempt left behind are found and
//! removed. Readers of either kind go by the names of the parts in the container. A pair never changes, so what was read is remembered for
//! a while: looks at the health of clusters would cost seven calls each.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use model::certificate::NewKeypair;
use model::certificate::StoredKeypair;
use model::certificate::keeper::{Keeper, KeeperError};
use moka::future::Cache;
use provider_clients::{Barbican, CloudError, Container, Payload};
use secrecy::{ExposeSecret, SecretSlice};

/// Pairs remembered at most, and for how long.
const REMEMBERED: (u64, Duration) = (2_000, Duration::from_secs(300));

/// The parts of a pair: the name in the container, and what the secret's name begins with.
const CERTIFICATE: (&str, &str) = ("certificate", "Certificate");
const KEY: (&str, &str) = ("private_key", "Private Key");
const PASSPHRASE: (&str, &str) = ("private_key_passphrase", "Private Key Passphrase");
const PARTS: [(&str, &str); 3] = [CERTIFICATE, KEY, PASSPHRASE];

/// Pairs in containers of Barbican.
pub(super) struct Containers {
    barbican: Barbican,
    read: Cache<String, StoredKeypair>,
}

impl Containers {
    pub(super) fn new(barbican: Barbican) -> Self {
        Self { barbican, read: Cache::builder().max_capacity(REMEMBERED.0).time_to_live(REMEMBERED.1).build() }
    }

    async fn find(&self, name: &str) -> Result<Option<String>, CloudError> {
        let mut all = self.barbican.containers_named(name).await?.into_iter();
        Ok(all.find(|container| PARTS.iter().all(|(part, _)| container.part(part).is_some())).map(|container| container.container_ref))
    }

    async fn store(&self, name: &str, pair: &NewKeypair) -> Result<String, CloudError> {
        self.remove_secrets(name).await?;
        let certificate = self.secret(CERTIFICATE, name, Payload::Bytes(pair.certificate.as_bytes())).await?;
        let key = self.secret(KEY, name, Payload::Bytes(pair.encrypted_key.expose_secret().as_bytes())).await?;
        let passphrase = self.secret(PASSPHRASE, name, Payload::Text(pair.passphrase.expose_secret())).await?;
        let parts = [(CERTIFICATE.0, certificate.as_str()), (KEY.0, &key), (PASSPHRASE.0, &passphrase)];
        self.barbican.create_certificate(name, &parts).await
    }

    async fn secret(&self, (_, what): (&str, &str), name: &str, payload: Payload<'_>) -> Result<String, CloudError> {
        self.barbican.create_secret(&secret_name(what, name), payload).await
    }

    /// Removes what bears the names of the pair's secrets; whether there was anything.
    async fn remove_secrets(&self, name: &str) -> Result<bool, CloudError> {
        let mut any = false;
        for (_, what) in PARTS {
            for secret in self.barbican.secrets_named(&secret_name(what, name)).await? {
                any |= self.barbican.delete_secret(&secret.secret_ref).await?;
            }
        }
        Ok(any)
    }

    async fn fetch(&self, reference: &str) -> Result<StoredKeypair, KeeperError> {
        if let Some(known) = self.read.get(reference).await {
            return Ok(known);
        }
        let missing = || KeeperError::NotFound(reference.to_owned());
        let container = self.barbican.container(reference).await.map_err(said)?.ok_or_else(missing)?;
        let part = async |(name, what): (&str, &str)| match container.part(name) {
            Some(secret) => match self.barbican.payload(secret).await.map_err(said)? {
                Some(payload) => text(&payload, what).map(Some),
                None => Err(missing()),
            },
            None => Ok(None),
        };
        let certificate = part(CERTIFICATE).await?.ok_or_else(missing)?;
        let (key, passphrase) = (part(KEY).await?.unwrap_or_default(), part(PASSPHRASE).await?);
        let pair = StoredKeypair::outside(reference, certificate, key.into(), passphrase.map(Into::into));
        self.read.insert(reference.to_owned(), pair.clone()).await;
        Ok(pair)
    }

    async fn delete(&self, reference: &str) -> Result<bool, CloudError> {
        self.read.invalidate(reference).await;
        let Some(container) = self.barbican.container(reference).await? else { return Ok(false) };
        self.remove_container(&container).await?;
        // What answers that were lost have left beside it. Names that upstream gave are those of many pairs.
        if is_ours(&container.name) {
            self.delete_named(&container.name).await?;
        }
        Ok(true)
    }

    async fn delete_named(&self, name: &str) -> Result<bool, CloudError> {
        let mut any = false;
        for container in self.barbican.containers_named(name).await? {
            self.read.invalidate(&container.container_ref).await;
            self.remove_container(&container).await?;
            any = true;
        }
        Ok(self.remove_secrets(name).await? || any)
    }

    /// The secrets first: as long as the container is there, they can be found again.
    async fn remove_container(&self, container: &Container) -> Result<(), CloudError> {
        for part in &container.secret_refs {
            self.barbican.delete_secret(&part.secret_ref).await?;
        }
        self.barbican.delete_container(&container.container_ref).await?;
        Ok(())
    }
}

impl Keeper for Containers {
    fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<String>, KeeperError>> {
        async move { self.find(name).await.map_err(said) }.boxed()
    }

    fn store<'a>(&'a self, name: &'a str, pair: &'a NewKeypair) -> BoxFuture<'a, Result<String, KeeperError>> {
        async move { self.store(name, pair).await.map_err(said) }.boxed()
    }

    fn fetch<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Result<StoredKeypair, KeeperError>> {
        self.fetch(reference).boxed()
    }

    fn delete<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Result<bool, KeeperError>> {
        async move { self.delete(reference).await.map_err(said) }.boxed()
    }

    fn delete_named<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<bool, KeeperError>> {
        async move { self.delete_named(name).await.map_err(said) }.boxed()
    }
}

fn secret_name(what: &str, name: &str) -> String {
    format!("{what} {name}")
}

/// Whether a container has a name of one pair only, `magnum_CLUSTER_WHICH_OPERATION`. Upstream's are called as their clusters, of which several may be
/// called so, and `magnum_prod` too.
fn is_ours(name: &str) -> bool {
    let cluster = name.strip_prefix("magnum_").and_then(|rest| rest.split_once('_')).map(|(cluster, _)| cluster);
    cluster.is_some_and(|cluster| cluster.len() == 36 && cluster.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-'))
}

fn text(payload: &SecretSlice<u8>, what: &str) -> Result<String, KeeperError> {
    String::from_utf8(payload.expose_secret().to_vec())
        .map_err(|_| KeeperError::Refused { reason: format!("barbican: the secret {what} is no text"), fault: None })
}

/// What Barbican said, and whether it may go better next time.
fn said(error: CloudError) -> KeeperError {
    let reason = error.to_string();
    let fault = Some(Box::new(conductor::fault(&error)));
    if error.repeating_may_mend() { KeeperError::Unavailable { reason, fault } } else { KeeperError::Refused { reason, fault } }
}
