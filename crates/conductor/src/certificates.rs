//! The certificates of a cluster: made once, stored with their references in one transaction, or with a keeper outside the database.

mod outside;

use model::certificate::{Authority, CertificateError, NewKeypair, StoredKeypair, Terms, new_authority, new_client, service_account};
use model::cluster::{Cluster, ClusterChange};
use model::id::KeypairId;
use model::operation::Progress;
use model::store::{Conn, certificate, cluster as clusters, operation};

use secrecy::SecretString;

use crate::context::Context;
use crate::outcome::Failure;
use crate::worker::Work;

pub(crate) use outside::{remove, remove_from_keeper};

/// Makes what the cluster lacks. True when something was made: the row has changed.
pub(crate) async fn ensure(cx: &Context, work: &Work, cluster: &Cluster) -> Result<bool, Failure> {
    let missing = Missing::of(cluster);
    if !missing.any() {
        return Ok(false);
    }
    if let Some(keeper) = cx.keepers.outside() {
        outside::ensure(cx, work, cluster, keeper.as_ref(), &missing).await?;
        return Ok(true);
    }
    let progress = Progress { step: "certificates", waiting_for: Some("certificates".into()), ..Progress::default() };
    work.guard(cx, &progress).await?;
    let (name, terms) = (cluster.display_name().to_owned(), cx.settings.terms);
    let signer = match cluster.ca_cert_ref.clone().filter(|_| missing.client && !missing.kubernetes) {
        Some(reference) => Some(load(cx, &KeypairId::new(reference)).await?),
        None => None,
    };
    // RSA keys are seconds of CPU work on a busy machine: not on the runtime's threads.
    let made = model::blocking::run(move || make(&missing, &name, terms, signer.as_ref()))
        .await
        .map_err(|e| Failure::retry(format!("the making of certificates broke off: {e}")))??;
    let (project, user, id) = (cluster.project(), cluster.user(), cluster.cluster_id());
    let (made, project, user, id) = (&made, &project, &user, &id);
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, &work.claim, &Progress { step: "certificates", ..Progress::default() }).await?;
            let mut change = ClusterChange::default();
            for (role, pair) in made {
                let reference = KeypairId::generate();
                certificate::insert(conn, &reference, project, user, pair).await?;
                *column(&mut change, *role) = Some(Some(reference.as_str().to_owned()));
            }
            clusters::record(conn, id, &change).await
        })
        .await?;
    Ok(true)
}

/// The stored key pair of a reference.
pub(crate) async fn load(cx: &Context, reference: &KeypairId) -> Result<StoredKeypair, Failure> {
    Ok(cx.keepers.fetch(&cx.store, reference).await?)
}

/// What the nodes of a cluster need, opened. Never stored, never printed.
pub(crate) struct Material {
    pub kubernetes: Pair,
    pub etcd: Pair,
    pub front_proxy: Pair,
    /// SHA-256 of the Kubernetes authority's public key, hex.
    pub ca_public_key_hash: String,
    /// The service account key pair, which hangs on the Kubernetes authority's key.
    pub service_account_key: SecretString,
    pub service_account_public_key: String,
}

/// A certificate and its key, PEM.
pub(crate) struct Pair {
    pub certificate: String,
    pub key: SecretString,
}

/// Opens the authorities of a cluster.
pub(crate) async fn material(cx: &Context, cluster: &Cluster) -> Result<Material, Failure> {
    let fetch = async |reference: &Option<String>| load(cx, &KeypairId::new(reference.clone().unwrap_or_default())).await;
    let stored =
        [fetch(&cluster.ca_cert_ref).await?, fetch(&cluster.etcd_ca_cert_ref).await?, fetch(&cluster.front_proxy_ca_cert_ref).await?];
    model::blocking::run(move || open(&stored))
        .await
        .map_err(|e| Failure::retry(format!("the opening of certificates broke off: {e}")))?
        .map_err(Failure::from)
}

/// Magnum's own client certificate of a cluster, opened.
pub(crate) async fn client(cx: &Context, cluster: &Cluster) -> Result<Pair, Failure> {
    let stored = load(cx, &KeypairId::new(cluster.magnum_cert_ref.clone().unwrap_or_default())).await?;
    let open =
        move || -> Result<Pair, CertificateError> { Ok(Pair { certificate: stored.pem().to_owned(), key: stored.open()?.key_pem()? }) };
    let opened = model::blocking::run(open).await.map_err(|e| Failure::retry(format!("the opening of a certificate broke off: {e}")))?;
    opened.map_err(Failure::from)
}

fn open(stored: &[StoredKeypair; 3]) -> Result<Material, CertificateError> {
    let pair =
        |s: &StoredKeypair| -> Result<Pair, CertificateError> { Ok(Pair { certificate: s.pem().to_owned(), key: s.open()?.key_pem()? }) };
    let (kubernetes, etcd, front_proxy) = (pair(&stored[0])?, pair(&stored[1])?, pair(&stored[2])?);
    let authority = stored[0].open()?;
    let (service_account_key, service_account_public_key) = service_account(&authority)?;
    let ca_public_key_hash = authority.public_key_hash()?;
    Ok(Material { kubernetes, etcd, front_proxy, ca_public_key_hash, service_account_key, service_account_public_key })
}

#[derive(Clone, Copy)]
enum Role {
    Authority(Authority),
    Client,
}

/// Where the reference of a pair stands.
fn column(change: &mut ClusterChange, role: Role) -> &mut Option<Option<String>> {
    match role {
        Role::Authority(Authority::Kubernetes) => &mut change.ca_cert_ref,
        Role::Authority(Authority::Etcd) => &mut change.etcd_ca_cert_ref,
        Role::Authority(Authority::FrontProxy) => &mut change.front_proxy_ca_cert_ref,
        Role::Client => &mut change.magnum_cert_ref,
    }
}

struct Missing {
    kubernetes: bool,
    etcd: bool,
    front_proxy: bool,
    client: bool,
}

impl Missing {
    fn of(cluster: &Cluster) -> Self {
        Self {
            kubernetes: cluster.ca_cert_ref.is_none(),
            etcd: cluster.etcd_ca_cert_ref.is_none(),
            front_proxy: cluster.front_proxy_ca_cert_ref.is_none(),
            // A client certificate of an authority that is made anew would be of no use.
            client: cluster.magnum_cert_ref.is_none() || cluster.ca_cert_ref.is_none(),
        }
    }

    fn any(&self) -> bool {
        self.first().is_some()
    }

    /// What is made first: the client's certificate after the authority that signs it.
    fn first(&self) -> Option<Role> {
        let wanted = [
            (self.kubernetes, Role::Authority(Authority::Kubernetes)),
            (self.etcd, Role::Authority(Authority::Etcd)),
            (self.front_proxy, Role::Authority(Authority::FrontProxy)),
            (self.client, Role::Client),
        ];
        wanted.into_iter().find(|(is_missing, _)| *is_missing).map(|(_, role)| role)
    }
}

fn make(missing: &Missing, name: &str, terms: Terms, signer: Option<&StoredKeypair>) -> Result<Vec<(Role, NewKeypair)>, CertificateError> {
    let mut made = Vec::new();
    let mut issuer = signer.map(StoredKeypair::open).transpose()?;
    for (wanted, authority) in
        [(missing.kubernetes, Authority::Kubernetes), (missing.etcd, Authority::Etcd), (missing.front_proxy, Authority::FrontProxy)]
    {
        if wanted {
            let pair = new_authority(name, terms)?;
            if authority == Authority::Kubernetes {
                issuer = Some(pair.open()?);
            }
            made.push((Role::Authority(authority), pair));
        }
    }
    if let (true, Some(issuer)) = (missing.client, &issuer) {
        made.push((Role::Client, new_client(issuer, terms)?));
    }
    Ok(made)
}
